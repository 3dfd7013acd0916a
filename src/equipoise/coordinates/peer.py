"""The state of one probed peer, and the test whether it has moved."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field, replace

from equipoise.coordinates.coordinate import Coordinate

__all__ = ["RTTS", "Peer", "above", "much", "way_s"]

# As many as the estimator's filter takes: one slow round trip means a busy moment.
RTTS = 3
# A path has changed if its round trip has changed by half, and by more than a queue or a busy peer causes.
_ELSEWHERE = 0.5
_ELSEWHERE_S = 0.010


@dataclass(slots=True)
class Peer:
    """Owned by one finder, which changes it."""

    asked_at: float = -math.inf
    reported_at: float = -math.inf
    visited_at: float = -math.inf
    # The last report that it received; see `Finder._news`.
    news: int = -1
    is_asked: bool = False
    # Whether the pending request was sent before the client moved.
    is_stale: bool = False
    is_refusing: bool = False
    # Its latest coordinate, and the last round trips.
    at: Coordinate | None = None
    rtts_s: deque[float] = field(default_factory=lambda: deque(maxlen=RTTS))
    # The round trip and the peer's coordinate when this client's coordinate was found.
    usual_s: float | None = None
    usual_at: Coordinate | None = None

    @property
    def is_measured(self) -> bool:
        return self.at is not None and bool(self.rtts_s)

    @property
    def has_moved(self) -> bool:
        """Whether its coordinate is far from the earlier one."""
        if self.at is None or self.usual_at is None or self.usual_s is None:
            return False
        return way_s(self.usual_at, self.at) > much(self.usual_s)

    @property
    def rtt_s(self) -> float | None:
        return sorted(self.rtts_s)[len(self.rtts_s) // 2] if self.rtts_s else None


def way_s(one: Coordinate, other: Coordinate) -> float:
    """The distance between two coordinates of one node, with the difference in height."""
    return math.dist(one.point_s, other.point_s) + abs(one.height_s - other.height_s)


def much(rtt_s: float) -> float:
    """The change of a round trip above which the path has changed."""
    return max(_ELSEWHERE_S, _ELSEWHERE * rtt_s)


def above(hub: Coordinate, rtt_s: float, height_s_min: float) -> Coordinate:
    """At the hub's point, with the round trip as height: the direction is unknown."""
    height_s = max(height_s_min, rtt_s - hub.height_s - hub.adjustment_s)
    return replace(hub, height_s=height_s, adjustment_s=0.0)
