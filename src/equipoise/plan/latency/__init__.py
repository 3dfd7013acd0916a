"""Place topics by end-to-end latency: ePulsar's Algorithm 1 in parts, without a plan or a clock.

Read `limits` (the latency of a topic through any hub, and which limits hold), `ranking` (the eligible hubs of a topic,
the best first), `headroom` (whether one of them has capacity), `assignment` (which topic gets which hub).
"""

from equipoise.plan.latency.assignment import Assignment, place_topics
from equipoise.plan.latency.headroom import HubHeadroom
from equipoise.plan.latency.limits import (
    CentroidEstimate,
    LatencyEstimate,
    LatencyLimits,
    PairsEstimate,
    bound_topics,
    coordinate_doubt,
    limits_of,
    measured_at,
    present_latency_s,
    specs_asking,
)
from equipoise.plan.latency.ranking import Candidates, rank

__all__ = [
    "Assignment",
    "Candidates",
    "CentroidEstimate",
    "HubHeadroom",
    "LatencyEstimate",
    "LatencyLimits",
    "PairsEstimate",
    "bound_topics",
    "coordinate_doubt",
    "limits_of",
    "measured_at",
    "place_topics",
    "present_latency_s",
    "rank",
    "specs_asking",
]
