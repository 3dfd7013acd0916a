"""How many there are at each time: straight lines between points. Pure."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

from equipoise.errors import SettingsError

__all__ = ["Schedule"]


class Schedule:
    """A number that changes with time."""

    def __init__(self, *points: tuple[float, float]) -> None:
        """(seconds, players), in order of time."""
        assert all(one[0] < other[0] for one, other in pairwise(points)), "points are in order of time"
        self._points = points
        self.duration_s = points[-1][0]
        self.players_max = int(max(players for _, players in points))

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """From `0:20,30:120,90:20`: seconds and players. Raises SettingsError."""
        try:
            pairs = [part.split(":") for part in text.split(",")]
            points = [(float(seconds), float(players)) for seconds, players in pairs]
        except ValueError as problem:
            raise SettingsError(
                f"{text!r} is no schedule: write SECONDS:PLAYERS,SECONDS:PLAYERS,…"
            ) from problem
        is_rising = all(one[0] < other[0] for one, other in pairwise(points))
        if not is_rising or not all(0 <= players < 1e6 and 0 <= at < 1e9 for at, players in points):
            raise SettingsError(f"{text!r} is no schedule: times rise, and players are not negative")
        return cls(*points)

    def at(self, seconds: float) -> int:
        points = self._points
        index = bisect_right(points, seconds, key=lambda point: point[0])
        if index == 0:
            return round(points[0][1])
        if index == len(points):
            return round(points[-1][1])
        (from_s, low), (to_s, high) = points[index - 1], points[index]
        return round(low + (high - low) * (seconds - from_s) / (to_s - from_s))
