"""A network coordinate: a point, a height and an adjustment.

The distance of two coordinates estimates the round trip between their nodes, in seconds. The point models the core of
the network, the height the access link that every packet passes, and the adjustment the part that no Euclidean space
can express.

Always true: all numbers are finite; `Coordinate.of` rejects others, since they come from other nodes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

from equipoise.coordinates.settings import CoordinateSettings
from equipoise.errors import CoordinateError

__all__ = ["Coordinate"]

# In longest round trips: one to the farthest point, and one more for an access line. A farther coordinate is invalid.
_REACH = 2.0
# Each number is a float64, the lowest byte first.
_NUMBER_BYTES = 8


@dataclass(frozen=True, slots=True)
class Coordinate:
    """One node's coordinate. Immutable: `Estimator` makes the next one."""

    point_s: tuple[float, ...]
    # The relative error of estimates; 0: exact.
    error: float
    height_s: float
    adjustment_s: float = 0.0

    @classmethod
    def unknown(cls, settings: CoordinateSettings) -> Coordinate:
        """The initial coordinate of every node."""
        return cls((0.0,) * settings.dimensions, settings.error_max, settings.height_s_min)

    @classmethod
    def of(cls, numbers: Sequence[float], settings: CoordinateSettings) -> Coordinate:
        """From `numbers` that another node sent. Raises CoordinateError."""
        expected = settings.dimensions + 3
        if len(numbers) != expected:
            raise CoordinateError(f"a coordinate has {expected} numbers, not {len(numbers)}")
        reach_s = _REACH * settings.rtt_s_max
        if not all(math.isfinite(number) and abs(number) <= reach_s for number in numbers):
            raise CoordinateError(f"a coordinate is beyond {reach_s:g} s, or not finite")
        *point, error, height_s, adjustment_s = map(float, numbers)
        if error < 0 or height_s < 0:
            raise CoordinateError("error and height of a coordinate are not negative")
        return cls(tuple(point), min(error, settings.error_max), height_s, adjustment_s)

    @property
    def numbers(self) -> tuple[float, ...]:
        """All numbers, in the order that `of` expects."""
        return (*self.point_s, self.error, self.height_s, self.adjustment_s)

    @classmethod
    def from_bytes(cls, data: bytes, settings: CoordinateSettings) -> Coordinate:
        """From the output of `to_bytes` at another node. Raises CoordinateError."""
        count, rest = divmod(len(data), _NUMBER_BYTES)
        if rest or count != settings.dimensions + 3:
            raise CoordinateError(
                f"a coordinate has {settings.dimensions + 3} numbers, not {len(data)} bytes"
            )
        return cls.of(struct.unpack(f"<{count}d", data), settings)

    def to_bytes(self) -> bytes:
        """The encoding for the wire and for telemetry."""
        numbers = self.numbers
        return struct.pack(f"<{len(numbers)}d", *numbers)

    @property
    def is_finite(self) -> bool:
        # A sum of finite numbers is finite, unless they are far beyond any coordinate.
        total = sum(self.point_s, self.error + self.height_s + self.adjustment_s)
        return math.isfinite(total) or all(map(math.isfinite, self.numbers))

    def raw_distance_s(self, other: Coordinate) -> float:
        """Points and heights only."""
        return math.dist(self.point_s, other.point_s) + self.height_s + other.height_s

    def distance_s(self, other: Coordinate) -> float:
        """The estimated round trip. Adjustments count unless they would make it negative."""
        raw_s = self.raw_distance_s(other)
        adjusted_s = raw_s + self.adjustment_s + other.adjustment_s
        return adjusted_s if adjusted_s > 0 else raw_s

    def behind(self, access_s: float) -> Coordinate:
        """The coordinate of a node that reaches the network through this one, `access_s` of round trip away."""
        return replace(self, height_s=self.height_s + access_s)
