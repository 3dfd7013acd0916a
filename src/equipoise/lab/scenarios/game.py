"""The game of Dynamoth's experiments: a square world of tiles, and players who walk in it.

A player picks a random point, walks there in a straight line, rests a moment and picks another (random waypoint). It
subscribes to its current tile and publishes its state there a few times a second, so that all players of a tile
receive each other's state. A tile is a topic.

The paper states the rate of updates only. Speed 10, a rest of about 2 s and a map of 200 × 200 are from the authors'
released game. Its tiles of 25 are from a comment there; the released settings have one tile of 200.

A map may have a market: one tile that players visit again and again, so that it always has many players.

Pure: randomness arrives as a function that draws from [0, 1), time as seconds to advance.

A schedule states the number of players at each time: straight lines between points.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import hypot

from equipoise.errors import SettingsError

__all__ = ["Draw", "Game", "Schedule", "Walker"]


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
                f"{text!r} is not a schedule: write SECONDS:PLAYERS,SECONDS:PLAYERS,…"
            ) from problem
        is_rising = all(one[0] < other[0] for one, other in pairwise(points))
        if not is_rising or not all(0 <= players < 1e6 and 0 <= at < 1e9 for at, players in points):
            raise SettingsError(
                f"{text!r} is not a schedule: times must increase, and players must not be negative"
            )
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


# Draws a number from [0, 1).
Draw = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Game:
    """A world and the behaviour of its players. Lengths are in units of the map."""

    tiles_per_side: int = 8
    tile_length: float = 25.0
    speed_per_s: float = 10.0
    # Drawn between the two at every waypoint.
    rest_s: tuple[float, float] = (1.9, 2.1)
    updates_per_s: float = 3.0
    # Size of one state update.
    payload_bytes: int = 1_000
    # Column and row of the market, and the chance that a player's next point is on it; 0: the map has no market.
    market: tuple[int, int] = (3, 3)
    market_chance: float = 0.0
    # Prefix of the topic names. Another prefix gives other topics, which the ring maps to other hubs.
    world: str = "world"

    @property
    def side_length(self) -> float:
        return self.tiles_per_side * self.tile_length

    @property
    def interval_s(self) -> float:
        """Time between two updates of one player."""
        return 1.0 / self.updates_per_s

    @property
    def topics(self) -> list[bytes]:
        """All tiles, row by row."""
        side = range(self.tiles_per_side)
        return [self.topic(column, row) for row in side for column in side]

    def topic(self, column: int, row: int) -> bytes:
        return f"{self.world}/tile/{column}/{row}".encode()

    def topic_at(self, x: float, y: float) -> bytes:
        """The tile under a point; the far edges belong to the last tiles."""
        last = self.tiles_per_side - 1
        return self.topic(min(int(x / self.tile_length), last), min(int(y / self.tile_length), last))


class Walker:
    """One player's path through the world. Changes through `advance` alone; never leaves the map."""

    __slots__ = ("_draw", "_game", "_rest_s", "_target", "topic", "x", "y")

    def __init__(self, game: Game, draw: Draw) -> None:
        self._game = game
        self._draw = draw
        self.x, self.y = self._draw_point()
        self._target = self._draw_point()
        self._rest_s = 0.0
        self.topic = game.topic_at(self.x, self.y)

    def advance(self, seconds: float) -> bytes:
        """Advance by this time. Returns the topic of the tile that the player is then on."""
        left_s = seconds
        while left_s > 0:
            rested_s = min(self._rest_s, left_s)
            self._rest_s -= rested_s
            left_s -= rested_s
            if left_s > 0:
                left_s = self._walk(left_s)
        self.topic = self._game.topic_at(self.x, self.y)
        return self.topic

    def _walk(self, seconds: float) -> float:
        """Walk towards the target. Returns the time left when the player reaches it and begins to rest."""
        (to_x, to_y), speed = self._target, self._game.speed_per_s
        distance = hypot(to_x - self.x, to_y - self.y)
        if distance > speed * seconds:
            part = speed * seconds / distance
            self.x += (to_x - self.x) * part
            self.y += (to_y - self.y) * part
            return 0.0
        self.x, self.y = to_x, to_y
        self._target = self._draw_point()
        low, high = self._game.rest_s
        self._rest_s = low + (high - low) * self._draw()
        return seconds - distance / speed

    def _draw_point(self) -> tuple[float, float]:
        game = self._game
        if game.market_chance and self._draw() < game.market_chance:
            column, row = game.market
            return (column + self._draw()) * game.tile_length, (row + self._draw()) * game.tile_length
        return self._draw() * game.side_length, self._draw() * game.side_length
