"""Report a coordinate only after a significant change.

A node's coordinate trembles with every sample. Its users, who place topics by it, want to hear of it when the network
has changed and not otherwise. Ledlie et al. [2] compare the coordinates of a start window with those of the current
one by the energy distance, which is zero for two samples of one distribution and grows with what separates them. Once
it exceeds the threshold the current centroid is announced, and both windows begin anew.

Not taken: a threshold on the distance moved. It is met by trembling where distances are long, and never where they are
short.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from itertools import combinations, starmap

from equipoise.coordinates.centroid import centroid_of
from equipoise.coordinates.coordinate import Coordinate

__all__ = ["Stability"]

# [2] found 32 samples and a threshold of 8 (in milliseconds of energy) to suit the internet.
WINDOW_SAMPLES = 32
ENERGY_MS_MAX = 8.0


class Stability:
    """What one node announces to others. Owned by that node; changes through `consider`."""

    def __init__(self, *, window_samples: int = WINDOW_SAMPLES, energy_ms_max: float = ENERGY_MS_MAX) -> None:
        self._window_samples = window_samples
        self._energy_ms_max = energy_ms_max
        self._start: list[Coordinate] = []
        self._current: deque[Coordinate] = deque(maxlen=window_samples)
        # Once both windows are full; they are alike then.
        self._energy: _Energy | None = None
        # The last announcement; None before the first.
        self.announced: Coordinate | None = None

    @property
    def settled(self) -> Coordinate | None:
        """The middle of the current window: nearer to the truth than any one of its coordinates."""
        return centroid_of(self._current) if self._current else None

    def consider(self, coordinate: Coordinate) -> Coordinate | None:
        """The coordinate is this now; what to tell the others, or None if nothing has changed for them."""
        if len(self._start) < self._window_samples:
            self._current.append(coordinate)
            self._start.append(coordinate)
            # Until there is a window, every doubling of what is known is news.
            count = len(self._start)
            return self._tell(coordinate) if count & (count - 1) == 0 else None
        if self._energy is None:
            self._energy = _Energy.of_one(self._start)
        self._energy.replace(_place(self._current[0]), _place(coordinate))
        self._current.append(coordinate)
        if self._energy.ms <= self._energy_ms_max:
            return None
        announced = self._tell(centroid_of(self._current))
        self._start, self._energy = list(self._current), None
        return announced

    def jump(self, coordinate: Coordinate) -> Coordinate:
        """The node knows that it is elsewhere now, as behind another gateway: tell it at once."""
        self._start.clear()
        self._current.clear()
        self._energy = None
        return self._tell(coordinate)

    def _tell(self, coordinate: Coordinate) -> Coordinate:
        self.announced = coordinate
        return coordinate


class _Energy:
    """The energy distance of two full windows, of which the second moves on: two sums change by what comes and goes."""

    def __init__(self, start: Sequence[Coordinate], current: Sequence[Coordinate]) -> None:
        self._start = [_place(coordinate) for coordinate in start]
        self._current = deque(_place(coordinate) for coordinate in current)
        self._within_start_s = _half_sum(self._start)
        self._within_current_s = _half_sum(list(self._current))
        self._between_s = math.fsum(math.dist(a, b) for a in self._start for b in self._current)

    @classmethod
    def of_one(cls, window: Sequence[Coordinate]) -> _Energy:
        """Both windows are this one, as after an announcement: a quarter of the distances tells all three sums."""
        energy = cls((), ())
        energy._start = [_place(coordinate) for coordinate in window]
        energy._current = deque(energy._start)
        energy._within_start_s = energy._within_current_s = _half_sum(energy._start)
        energy._between_s = 2 * energy._within_start_s
        return energy

    @property
    def ms(self) -> float:
        n, m = len(self._start), len(self._current)
        within_s = 2 * self._within_start_s / (n * n) + 2 * self._within_current_s / (m * m)
        return 1_000 * (n * m / (n + m)) * (2 * self._between_s / (n * m) - within_s)

    def replace(self, oldest: tuple[float, ...], newest: tuple[float, ...]) -> None:
        dist, current = math.dist, self._current
        current.popleft()
        self._between_s += sum(dist(a, newest) - dist(a, oldest) for a in self._start)
        self._within_current_s += sum(dist(b, newest) - dist(b, oldest) for b in current)
        current.append(newest)


def energy_ms(one: Sequence[Coordinate], other: Sequence[Coordinate]) -> float:
    """The energy distance of two samples of places (Székely and Rizzo), points and heights in milliseconds."""
    return _Energy(one, other).ms


def _place(coordinate: Coordinate) -> tuple[float, ...]:
    return (*coordinate.point_s, coordinate.height_s)


def _half_sum(places: Sequence[tuple[float, ...]]) -> float:
    """The distances of all pairs, each once."""
    return math.fsum(starmap(math.dist, combinations(places, 2)))
