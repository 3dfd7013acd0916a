"""Estimate a node's coordinate from measured round trips, one sample at a time.

Intuition: every measured pair is a spring whose rest length is the round trip. A sample moves this node along its
spring, by more the less sure this node is and the surer the other one. A node moves itself only.

The order of the steps in `observe` is Serf's, since its acceptance bounds hold for that order. Two things are not:

A force is shared between point and height as Vivaldi has it [1]. Serf gives all of it to the point, and to the height
as many times as much as the two are higher than apart: where all have long access links and are in one place otherwise,
heights jump by many times the force, and errors grow from 1 to 10 ms within twenty minutes. Where a height sinks, it
gets a quarter of the force at least: in the first moments, when all are in one place, heights are taken for what will
turn out to be distances, and small ones would go away as slowly as they are small. So all of Serf's bounds hold.

A sample is left out that is far more wrong than samples are lately, unless many are, for then it is not the peer that
has changed but the network or this node. So a peer that lies about its place, or is lost itself, carries no node away.
No node is taken for a liar, though, that by its word is no farther than by way of a third: two neighbours that have
settled at opposite ends see each other so, and would stay there for ever.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import replace

from equipoise.coordinates.coordinate import Coordinate
from equipoise.coordinates.settings import CoordinateSettings
from equipoise.errors import CoordinateError

__all__ = ["Estimator"]

# No two clocks tell less apart.
_RTT_S_MIN = 1e-6
# Below this a force has no direction.
_NOWHERE = 1e-12
# How wrong the last samples were, to tell what is unusual. As many as the adjustment looks back on.
_RECENT_SAMPLES = 20
# How wrong: how many times round trip and distance are of each other. So many times the usual is out of the ordinary,
# but nothing below ten is: two nodes next to each other are that wrong while they settle, and must be let to.
_UNUSUAL_FACTOR = 5.0
_UNUSUAL_MIN = 10.0
# Nor is anything within so many of the longest ways of late that clock and word agree on. By way of a third it is one
# of them to there, and from there on, if that third is honest, at most two.
_REACH_FACTOR = 3.0
# Nor is an answer late for a node that is less sure of itself than this: it begins, and all are farther than they seem.
_SURE_ERROR = 0.25
# If more than this share of them is out of the ordinary, the ordinary has changed.
_UNUSUAL_SHARE_MAX = 0.45
# The least part of a force that a height sinks by.
_SINKING_SHARE = 0.25


class Estimator:
    """One node's view of its own place. Owned by that node; changes through `observe`."""

    def __init__(self, settings: CoordinateSettings, draw: Callable[[], float]) -> None:
        """`draw` gives random numbers between 0 and 1: two nodes in one place must not choose one direction."""
        self._settings = settings
        self._draw = draw
        self.coordinate = Coordinate.unknown(settings)
        # By peer, its last round trips; the peer asked latest comes last.
        self._samples: OrderedDict[str, deque[float]] = OrderedDict()
        # What distances were short of, the oldest replaced first; slots not used yet count as 0.
        self._shortfalls = [0.0] * settings.adjustment_samples
        self._next_shortfall = 0
        # How wrong the last samples were, those left out included; and how long those ways were at least, by the clock
        # or by where peers said they were.
        self._wrongness: deque[float] = deque(maxlen=_RECENT_SAMPLES)
        self._spans_s: deque[float] = deque(maxlen=_RECENT_SAMPLES)
        # How often everything had to be forgotten because a number was none, and samples that were left out.
        self.resets = 0
        self.outliers = 0

    def observe(self, peer: str, other: Coordinate, rtt_s: float) -> Coordinate:
        """A round trip to `peer`, which says it is at `other`, took `rtt_s`. Returns the new own coordinate.

        Raises CoordinateError for what cannot be; nothing has changed then.
        """
        settings = self._settings
        if not (math.isfinite(rtt_s) and 0 <= rtt_s <= settings.rtt_s_max):
            raise CoordinateError(f"a round trip of {rtt_s} s: from 0 to {settings.rtt_s_max:g} s can be")
        if len(other.point_s) != settings.dimensions or not other.is_finite:
            raise CoordinateError(f"{peer} is nowhere in {settings.dimensions} dimensions")
        rtt_s = max(_RTT_S_MIN, self._median(peer, rtt_s))
        if self._is_unusual(self.coordinate.distance_s(other), rtt_s):
            self.outliers += 1
            return self.coordinate
        self._spring(other, rtt_s)
        self._adjust(other, rtt_s)
        self._fall()
        if not self.coordinate.is_finite:
            self.coordinate = Coordinate.unknown(settings)
            self.resets += 1
        return self.coordinate

    def forget(self, peer: str) -> None:
        """The peer is gone: another one under its name starts afresh."""
        self._samples.pop(peer, None)

    def _median(self, peer: str, rtt_s: float) -> float:
        """One slow sample is a busy moment, not a longer way [2]."""
        samples = self._samples.setdefault(peer, deque(maxlen=self._settings.filter_samples))
        self._samples.move_to_end(peer)
        if len(self._samples) > self._settings.peers_max:
            self._samples.popitem(last=False)
        samples.append(rtt_s)
        return sorted(samples)[len(samples) // 2]

    def _is_unusual(self, distance_s: float, rtt_s: float) -> bool:
        shorter_s, longer_s = sorted((max(distance_s, self._settings.together_s), rtt_s))
        recent, wrongness = self._wrongness, longer_s / shorter_s
        recent.append(wrongness)
        self._spans_s.append(shorter_s)
        if len(recent) < _RECENT_SAMPLES:
            return False
        usual = sorted(recent)[len(recent) // 2]
        bound = max(_UNUSUAL_MIN, _UNUSUAL_FACTOR * usual)
        unusual = sum(one > bound for one in recent)
        if wrongness <= bound or unusual > _UNUSUAL_SHARE_MAX * len(recent):
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
        self.coordinate = self._pushed(replace(own, error=error), other, force_s)

    def _adjust(self, other: Coordinate, rtt_s: float) -> None:
        """Half of what raw distances were short of lately, [3]: the other half is the peers'."""
        count = self._settings.adjustment_samples
        if not count:
            return
        self._shortfalls[self._next_shortfall] = rtt_s - self.coordinate.raw_distance_s(other)
        self._next_shortfall = (self._next_shortfall + 1) % count
        adjustment_s = math.fsum(self._shortfalls) / (2.0 * count)
        self.coordinate = replace(self.coordinate, adjustment_s=adjustment_s)

    def _fall(self) -> None:
        """Towards the origin, by the square of the distance, so that all nodes together do not drift away [2]."""
        origin = Coordinate.unknown(self._settings)
        distance_s = origin.distance_s(self.coordinate)
        pull_s = -1.0 * (distance_s / self._settings.gravity_s) ** 2
        self.coordinate = self._pushed(self.coordinate, origin, pull_s)

    def _pushed(self, own: Coordinate, other: Coordinate, force_s: float) -> Coordinate:
        """Moved by a force along the line from `other`, and up or down as far as the two are above their points."""
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
        # What a height cannot take is the point's: or nodes without one would be pushed more than they are pulled.
        along_s = force_s - (height_s - own.height_s)
        point = tuple(at + part * along_s for at, part in zip(own.point_s, unit, strict=True))
        return replace(own, point_s=point, height_s=height_s)

    def _any_direction(self) -> list[float]:
        parts = [self._draw() - 0.5 for _ in range(self._settings.dimensions)]
        length = math.hypot(*parts)
        if length <= _NOWHERE:
            return [1.0, *[0.0] * (self._settings.dimensions - 1)]
        return [part / length for part in parts]
