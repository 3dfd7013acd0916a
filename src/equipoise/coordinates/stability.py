"""Pass a coordinate on only when it has really changed.

A node's coordinate trembles with every sample. Whoever uses it, to place a topic, wants to hear of it when the network
has changed and not otherwise. Ledlie et al. [2] compare the coordinates of a start window with those of the current
one by the energy distance, which is zero for two samples of one distribution and grows with what separates them. Once
it exceeds the threshold the current centroid is told, and both windows begin anew.

Not taken: a threshold on the distance moved. It is met by trembling where distances are long, and never where they are
short.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from equipoise.coordinates.centroid import centroid_of
from equipoise.coordinates.coordinate import Coordinate

__all__ = ["Stability"]

# [2] found 32 samples and a threshold of 8 (in milliseconds of energy) to suit the internet.
WINDOW_SAMPLES = 32
ENERGY_MS_MAX = 8.0


class Stability:
    """What others are told of one node. Owned by that node; changes through `consider`."""

    def __init__(self, *, window_samples: int = WINDOW_SAMPLES, energy_ms_max: float = ENERGY_MS_MAX) -> None:
        self._window_samples = window_samples
        self._energy_ms_max = energy_ms_max
        self._start: list[Coordinate] = []
        self._current: deque[Coordinate] = deque(maxlen=window_samples)
        # What was told last; None before the first.
        self.told: Coordinate | None = None

    @property
    def settled(self) -> Coordinate | None:
        """The middle of the current window: nearer to the truth than any one of its coordinates."""
        return centroid_of(self._current) if self._current else None

    def consider(self, coordinate: Coordinate) -> Coordinate | None:
        """The coordinate is this now; what to tell the others, or None if nothing has changed for them."""
        self._current.append(coordinate)
        if len(self._start) < self._window_samples:
            self._start.append(coordinate)
            # Until there is a window, every doubling of what is known is news.
            count = len(self._start)
            return self._tell(coordinate) if count & (count - 1) == 0 else None
        if energy_ms(self._start, self._current) <= self._energy_ms_max:
            return None
        told = self._tell(centroid_of(self._current))
        self._start = list(self._current)
        return told

    def jump(self, coordinate: Coordinate) -> Coordinate:
        """The node knows that it is elsewhere now, as behind another gateway: tell it at once."""
        self._start.clear()
        self._current.clear()
        return self._tell(coordinate)

    def _tell(self, coordinate: Coordinate) -> Coordinate:
        self.told = coordinate
        return coordinate


def energy_ms(one: Sequence[Coordinate], other: Sequence[Coordinate]) -> float:
    """The energy distance of two samples of places (Székely and Rizzo), points and heights in milliseconds."""
    ones, others = [_place(coordinate) for coordinate in one], [_place(coordinate) for coordinate in other]
    n, m = len(ones), len(others)
    between = math.fsum(math.dist(a, b) for a in ones for b in others) / (n * m)
    within = 2 * _half_sum(ones) / (n * n) + 2 * _half_sum(others) / (m * m)
    return 1_000 * (n * m / (n + m)) * (2 * between - within)


def _place(coordinate: Coordinate) -> tuple[float, ...]:
    return (*coordinate.point_s, coordinate.height_s)


def _half_sum(places: Sequence[tuple[float, ...]]) -> float:
    """The distances of all pairs, each once."""
    return math.fsum(math.dist(a, b) for i, a in enumerate(places) for b in places[:i])
