"""Estimate a node's coordinate from measured round trips, one sample at a time.

Intuition: every measured pair is a spring whose rest length is the round trip. A sample moves this node along its
spring: the move is large if this node's error is large and the other one's small. A node moves only itself.

The order of the steps in `observe` is Serf's, since its acceptance bounds hold for that order. Two parts differ:

A force is shared between point and height as in Vivaldi [1]. Serf applies all of it to the point, and to the height as
many times more as the sum of heights exceeds the distance: where all nodes have long access links and the same point,
heights jump by many times the force, and errors grow from 1 to 10 ms within twenty minutes. A sinking height gets at
least a quarter of the force: at first, when all nodes are at one point, heights absorb what are distances, and a small
height would sink too slowly. With this minimum all of Serf's bounds hold.

A sample is rejected if it is far more wrong than recent samples, unless many are: then not the peer has changed but
the network or this node. So a peer with a false coordinate does not move other nodes. A peer is not rejected if by its
coordinate it is no farther than by way of a third node: two neighbours that have settled at opposite ends see each
other so, and would stay there for ever.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable

from equipoise.coordinates.coordinate import Coordinate
from equipoise.coordinates.settings import CoordinateSettings
from equipoise.errors import CoordinateError

__all__ = ["Estimator"]

# The resolution of clocks.
_RTT_S_MIN = 1e-6
# Below this a force has no direction.
_NOWHERE = 1e-12
# Errors of this many recent samples define what is unusual. As many as the adjustment averages.
_RECENT_SAMPLES = 20
# Error: the larger of round trip / distance and distance / round trip. A sample is unusual above this many times the
# median error, but never below ten: two nodes next to each other are that wrong while they settle, and must settle.
_UNUSUAL_FACTOR = 5.0
_UNUSUAL_MIN = 10.0
# Nor is a sample unusual within this many times the longest recent distance confirmed by clock and coordinate. By way
# of a third node the way is one of them to that node and, if its coordinate is true, at most two from there.
_REACH_FACTOR = 3.0
# Nor is a late reply unusual for a node with a larger error than this: it begins, and all distances seem too short.
_SURE_ERROR = 0.25
# If more than this share of recent samples is unusual, conditions have changed.
_UNUSUAL_SHARE_MAX = 0.45
# The least part of a force by which a height sinks.
_SINKING_SHARE = 0.25


class Estimator:
    """One node's estimate of its own coordinate. Owned by that node; changes through `observe`."""

    def __init__(self, settings: CoordinateSettings, draw: Callable[[], float]) -> None:
        """`draw` returns random numbers between 0 and 1: two nodes at one point must choose different directions."""
        self._settings = settings
        self._draw = draw
        self._origin = self.coordinate = Coordinate.unknown(settings)
        # By peer, its last round trips; the peer asked latest comes last.
        self._samples: OrderedDict[str, deque[float]] = OrderedDict()
        # Round trips minus raw distances, the oldest replaced first; unused slots count as 0.
        self._shortfalls = [0.0] * settings.adjustment_samples
        self._next_shortfall = 0
        # Errors of recent samples, including rejected ones; and the shorter of the measured and the estimated distance
        # of each.
        self._wrongness: deque[float] = deque(maxlen=_RECENT_SAMPLES)
        self._spans_s: deque[float] = deque(maxlen=_RECENT_SAMPLES)
        # Resets because of a number that was not finite, and rejected samples.
        self.resets = 0
        self.outliers = 0

    def observe(self, peer: str, other: Coordinate, rtt_s: float) -> Coordinate:
        """A round trip to `peer`, at coordinate `other`, took `rtt_s`. Returns this node's new coordinate.

        Raises CoordinateError for an invalid sample, and changes nothing then.
        """
        settings = self._settings
        if not (math.isfinite(rtt_s) and 0 <= rtt_s <= settings.rtt_s_max):
            raise CoordinateError(
                f"a round trip of {rtt_s} s: valid values are 0 to {settings.rtt_s_max:g} s"
            )
        if len(other.point_s) != settings.dimensions or not other.is_finite:
            raise CoordinateError(f"the coordinate of {peer} does not have {settings.dimensions} dimensions")
        rtt_s = max(_RTT_S_MIN, self._median(peer, rtt_s))
        if self._is_unusual(self.coordinate.distance_s(other), rtt_s):
            self.outliers += 1
            return self.coordinate
        self._spring(other, rtt_s)
        self._adjust(other, rtt_s)
        self._fall()
        if not self.coordinate.is_finite:
            self.coordinate = self._origin
            self.resets += 1
        return self.coordinate

    def forget(self, peer: str) -> None:
        """The peer is gone: a peer that reuses the name begins without samples."""
        self._samples.pop(peer, None)

    def _median(self, peer: str, rtt_s: float) -> float:
        """One slow sample means a busy moment, not a longer distance [2]."""
        samples = self._samples.setdefault(peer, deque(maxlen=self._settings.filter_samples))
        self._samples.move_to_end(peer)
        if len(self._samples) > self._settings.peers_max:
            self._samples.popitem(last=False)
        samples.append(rtt_s)
        return sorted(samples)[len(samples) // 2]

    def _is_unusual(self, distance_s: float, rtt_s: float) -> bool:
        distant_s = max(distance_s, self._settings.together_s)
        shorter_s, longer_s = (distant_s, rtt_s) if distant_s < rtt_s else (rtt_s, distant_s)
        recent, wrongness = self._wrongness, longer_s / shorter_s
        recent.append(wrongness)
        self._spans_s.append(shorter_s)
        if wrongness <= _UNUSUAL_MIN or len(recent) < _RECENT_SAMPLES:
            return False
        usual = sorted(recent)[len(recent) // 2]
        bound = max(_UNUSUAL_MIN, _UNUSUAL_FACTOR * usual)
        if wrongness <= bound or sum(one > bound for one in recent) > _UNUSUAL_SHARE_MAX * len(recent):
            return False
        if rtt_s > distance_s and self.coordinate.error > _SURE_ERROR:
            return False
        return longer_s > _REACH_FACTOR * max(self._spans_s)

    def _spring(self, other: Coordinate, rtt_s: float) -> None:
        """Vivaldi [1]: update the error, then the position."""
        settings, own = self._settings, self.coordinate
        distance_s = own.distance_s(other)
        wrongness = abs(distance_s - rtt_s) / rtt_s
        total = max(own.error + other.error, settings.together_s)
        weight = own.error / total
        gain = settings.error_gain * weight
        error = min(settings.error_max, gain * wrongness + own.error * (1 - gain))
        force_s = settings.position_gain * weight * (rtt_s - distance_s)
        self.coordinate = self._pushed(own, other, force_s, error=error)

    def _adjust(self, other: Coordinate, rtt_s: float) -> None:
        """Half of the mean shortfall of raw distances [3]: the other half is in the peers' adjustments."""
        count = self._settings.adjustment_samples
        if not count:
            return
        self._shortfalls[self._next_shortfall] = rtt_s - self.coordinate.raw_distance_s(other)
        self._next_shortfall = (self._next_shortfall + 1) % count
        adjustment_s = math.fsum(self._shortfalls) / (2.0 * count)
        own = self.coordinate
        self.coordinate = Coordinate(own.point_s, own.error, own.height_s, adjustment_s)

    def _fall(self) -> None:
        """Gravity [2]: towards the origin, by the square of the distance, so that the nodes do not drift away."""
        origin, own = self._origin, self.coordinate
        distance_s = origin.distance_s(own)
        pull_s = -1.0 * (distance_s / self._settings.gravity_s) ** 2
        self.coordinate = self._pushed(own, origin, pull_s, error=own.error)

    def _pushed(self, own: Coordinate, other: Coordinate, force_s: float, *, error: float) -> Coordinate:
        """Moved by a force along the line from `other`, and in height in proportion to the sum of both heights."""
        settings = self._settings
        delta = [mine - theirs for mine, theirs in zip(own.point_s, other.point_s, strict=True)]
        length_s = math.hypot(*delta)
        if length_s > settings.together_s:
            unit = [part / length_s for part in delta]
        else:
            unit, length_s = self._any_direction(), settings.together_s
        above_s = own.height_s + other.height_s
        height_share = above_s / (length_s + above_s)
        if force_s < 0:
            height_share = max(height_share, _SINKING_SHARE)
        wanted_s = own.height_s + height_share * force_s
        height_s = min(settings.height_s_max, max(settings.height_s_min, wanted_s))
        # The point takes the rest that the height cannot: else nodes without a height would be pushed more than pulled.
        along_s = force_s - (height_s - own.height_s)
        point = [at + part * along_s for at, part in zip(own.point_s, unit, strict=True)]
        return Coordinate(tuple(point), error, height_s, own.adjustment_s)

    def _any_direction(self) -> list[float]:
        parts = [self._draw() - 0.5 for _ in range(self._settings.dimensions)]
        length = math.hypot(*parts)
        if length <= _NOWHERE:
            return [1.0, *[0.0] * (self._settings.dimensions - 1)]
        return [part / length for part in parts]
