"""Report a coordinate only after a significant change.

A node's coordinate changes a little with every sample. Its users, who place topics by it, need an update only when the
network has changed. Ledlie et al. [2] compare the coordinates of a start window with those of the current one by the
energy distance, which is zero for two samples of one distribution and grows with their difference. Once it exceeds the
threshold, the current centroid is announced, and both windows begin anew.

Alternative not taken: a threshold on the distance moved. Where distances are long, jitter exceeds it; where they are
short, no change does.
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
        # Set once both windows are full; they are equal then.
        self._energy: _Energy | None = None
        # The last announcement; None before the first.
        self.announced: Coordinate | None = None

    @property
    def settled(self) -> Coordinate | None:
        """The mean of the current window: more accurate than any one of its coordinates."""
        return centroid_of(self._current) if self._current else None

    def consider(self, coordinate: Coordinate) -> Coordinate | None:
        """The node has a new coordinate; return the one to announce, None without a significant change."""
        if len(self._start) < self._window_samples:
            self._current.append(coordinate)
            self._start.append(coordinate)
            # Until the window is full, announce after each doubling of the number of samples.
            count = len(self._start)
            return self._announce(coordinate) if count & (count - 1) == 0 else None
        if self._energy is None:
            self._energy = _Energy.of_one(self._start)
        self._energy.replace(_place(self._current[0]), _place(coordinate))
        self._current.append(coordinate)
        if self._energy.ms <= self._energy_ms_max:
            return None
        announced = self._announce(centroid_of(self._current))
        self._start, self._energy = list(self._current), None
        return announced

    def jump(self, coordinate: Coordinate) -> Coordinate:
        """The node has moved, such as behind another gateway: announce the coordinate at once."""
        self._start.clear()
        self._current.clear()
        self._energy = None
        return self._announce(coordinate)

    def _announce(self, coordinate: Coordinate) -> Coordinate:
        self.announced = coordinate
        return coordinate


class _Energy:
    """The energy distance of two full windows, the second sliding: a new sample changes two of the sums."""

    def __init__(self, start: Sequence[Coordinate], current: Sequence[Coordinate]) -> None:
        self._start = [_place(coordinate) for coordinate in start]
        self._current = deque(_place(coordinate) for coordinate in current)
        self._within_start_s = _half_sum(self._start)
        self._within_current_s = _half_sum(list(self._current))
        self._between_s = math.fsum(math.dist(a, b) for a in self._start for b in self._current)

    @classmethod
    def of_one(cls, window: Sequence[Coordinate]) -> _Energy:
        """Both windows are equal, as after an announcement: a quarter of the distances determines all three sums."""
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
    """The energy distance of two samples of points (Székely and Rizzo), points and heights in milliseconds."""
    return _Energy(one, other).ms


def _place(coordinate: Coordinate) -> tuple[float, ...]:
    return (*coordinate.point_s, coordinate.height_s)


def _half_sum(places: Sequence[tuple[float, ...]]) -> float:
    """The distances of all pairs, each once."""
    return math.fsum(starmap(math.dist, combinations(places, 2)))
