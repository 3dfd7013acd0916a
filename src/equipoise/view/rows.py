"""What the planner knows of one topic and of one hub, number by number: rows of a view.

For people, tests and small worlds: a planner of 100,000 topics reads the columns (`view_columns`), which are called as
these fields are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from equipoise.coordinates import Coordinate

__all__ = ["HubView", "TopicView"]

UNKNOWN = float("nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """One topic: totals over all hubs that carry it."""

    name: bytes
    publications_per_s: float = 0.0
    deliveries_per_s: float = 0.0
    in_bytes_per_s: float = 0.0
    out_bytes_per_s: float = 0.0
    publishers: float = 0.0
    subscribers: float = 0.0
    # The largest second of the window: what a burst needs.
    publications_per_s_max: float = 0.0
    out_bytes_per_s_max: float = 0.0
    # The largest backlog of one subscriber.
    backlog_bytes_max: float = 0.0
    # How long messages waited: for the envelope, and from publish to the last write.
    throttle_delay_s: float = 0.0
    queue_delay_s: float = 0.0
    # Change of `out_bytes_per_s` in a second.
    out_bytes_trend: float = 0.0
    # E(t) of ePulsar: one way from the farthest publisher to the farthest subscriber by way of the home, from clients'
    # coordinates and what smart clients observe. NaN: not known.
    latency_s_worst: float = UNKNOWN
    # W(t): how far publishers and subscribers are from their centroids at most, both together, one way.
    deviation_s: float = UNKNOWN
    # The centroids, and how many clients they are of. None: nobody has told.
    publishers_at: Coordinate | None = None
    subscribers_at: Coordinate | None = None
    publishers_located: float = 0.0
    subscribers_located: float = 0.0
    # Which hubs carry it, each with its share of the topic's outgoing bytes. Homes and relays.
    carried_by: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HubView:
    """One hub, as it measured itself."""

    name: str
    site: str = ""
    rack: str = ""
    # It has its `alive` node, and its records are not too old to be believed.
    is_alive: bool = True
    # It serves, but is to be given nothing more: an operator wants it back.
    is_draining: bool = False
    # Somebody stops it when the planner says that it may go; without that, emptying it saves nothing.
    is_releasable: bool = True
    # Which life of this name it is. 0: not known.
    incarnation: int = 0
    # The plan that it goes by. 0: not known.
    plan_version: int = 0
    # Of one core.
    cpu_ratio: float = 0.0
    loop_lag_s: float = 0.0
    memory_bytes: float = 0.0
    # What it may take; 0: no limit known.
    memory_bytes_max: float = 0.0
    out_bytes_per_s: float = 0.0
    # What its network can carry; 0: no limit known.
    out_bytes_per_s_max: float = 0.0
    publications_per_s: float = 0.0
    deliveries_per_s: float = 0.0
    # What it delivers in time; 0: no limit known.
    deliveries_per_s_max: float = 0.0
    connections: float = 0.0
    topics: float = 0.0
    # Change in a second.
    out_bytes_trend: float = 0.0
    cpu_trend: float = 0.0
    # Where it is in the network. None: it has not found out.
    coordinate: Coordinate | None = None
