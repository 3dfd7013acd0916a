"""Place topics by end-to-end latency: ePulsar's Algorithm 1 in parts, without a plan or a clock.

Read `estimate` (what a topic's messages would take by way of any hub), `ranking` (which hubs may have a topic, the best
first), `room` (whether one of them can), `assigning` (who gets what), `limits` (which topics have a limit, and
what may be done to them for other reasons).
"""

from equipoise.plan.latency.assignment import Assignment, place_topics
from equipoise.plan.latency.estimate import CentroidEstimate, LatencyEstimate, PairsEstimate
from equipoise.plan.latency.headroom import Room
from equipoise.plan.latency.limits import LatencyLimits, limits_of, measured_at, present_latency_s
from equipoise.plan.latency.ranking import Candidates, rank

__all__ = [
    "Assignment",
    "Candidates",
    "CentroidEstimate",
    "LatencyEstimate",
    "LatencyLimits",
    "PairsEstimate",
    "Room",
    "limits_of",
    "measured_at",
    "place_topics",
    "present_latency_s",
    "rank",
]
