"""What a profile sweeps: shapes of load, each at ever higher rates."""

from __future__ import annotations

import msgspec

__all__ = ["FULL", "QUICK", "SHAPES", "SHAPES_QUICK", "LoadPace", "LoadShape", "rates"]


class LoadShape(msgspec.Struct, frozen=True):
    """A load but for its rate."""

    topics: int
    # Of each topic. All producers publish to all topics, by turns; a consumer has one topic.
    producers: int
    consumers: int
    payload_bytes: int

    @property
    def label(self) -> str:
        return f"{self.topics} topics, {self.producers} → {self.consumers}, {self.payload_bytes} B"


class LoadPace(msgspec.Struct, frozen=True):
    """How long each load lasts, and how rates rise."""

    warm_s: float
    seconds: float
    factor: float


# One number is varied at a time around ten topics with ten consumers each.
SHAPES = (
    LoadShape(10, 1, 10, 128),
    LoadShape(1, 1, 10, 128),
    LoadShape(100, 1, 2, 128),
    LoadShape(10, 8, 10, 128),
    LoadShape(10, 1, 1, 128),
    LoadShape(2, 1, 100, 128),
    LoadShape(10, 1, 10, 1_024),
    LoadShape(10, 1, 10, 8_192),
)
# Fan-out and size are what costs depend on most.
SHAPES_QUICK = (SHAPES[0], SHAPES[4], SHAPES[5], SHAPES[6])
FULL = LoadPace(warm_s=0.5, seconds=2.0, factor=1.6)
QUICK = LoadPace(warm_s=0.3, seconds=0.7, factor=2.2)

# The first rate, in publications per second: any hub is bored by it.
RATE_MIN = 500.0
# Beyond that this driver is what is measured.
RATE_MAX = 400_000.0


def rates(factor: float) -> list[float]:
    """Publications per second, of all topics together, rising."""
    found = [RATE_MIN]
    while found[-1] * factor <= RATE_MAX:
        found.append(found[-1] * factor)
    return found
