"""Split an envelope into shares that sum up to the whole.

A plan's entry has parts, in millionths, one per home; the first is the trunk's. Rate and depth are split in integers,
with the remainder at the trunk; the depth by parts of its own if the entry has them. Splitting never improves delays
(Proposition 1 of the paper behind rate envelopes: the sum of all delays is at least that of one undivided bucket), so a
topic with one home has one share.

Always true of a split:
    the rates sum up to the whole rate, the depths to the whole depth;
    every share is at least a token deep, unless the burst has fewer tokens than there are homes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from equipoise.limits.bucket import TOKEN

__all__ = [
    "BURST_MAX",
    "NOTHING",
    "PARTS",
    "RATE_MAX",
    "RATE_MIN",
    "Envelope",
    "Share",
    "default_burst",
    "equal_parts",
    "split",
]

# The sum of the parts of an entry.
PARTS = 1_000_000
# Messages per second. Above the highest, no hub has the capacity; below the lowest, a message takes hours.
RATE_MIN = 0.001
RATE_MAX = 1e7
BURST_MAX = 10_000_000
# The default burst, in seconds of the rate.
DEFAULT_BURST_S = 0.1


class Share(NamedTuple):
    """A part of an envelope: rate in millionths of a message per second, depth in units of a bucket."""

    rate: int
    depth: int

    def least(self, other: Share) -> Share:
        """The minimum of both, in rate and in depth."""
        return Share(min(self.rate, other.rate), min(self.depth, other.depth))


NOTHING = Share(0, 0)


class Envelope(NamedTuple):
    """The whole: at most rate·t + burst messages in any t seconds."""

    rate_per_s: float
    burst: int

    @property
    def whole(self) -> Share:
        return Share(max(1, round(self.rate_per_s * 1e6)), self.burst * TOKEN)

    @property
    def text(self) -> str:
        return f"{self.rate_per_s:g}/s in bursts of {self.burst}"


def default_burst(rate_per_s: float) -> int:
    return max(1, round(rate_per_s * DEFAULT_BURST_S))


def equal_parts(count: int) -> tuple[int, ...]:
    """The parts of an entry that has none."""
    each = PARTS // count
    return (PARTS - each * (count - 1), *(each for _ in range(count - 1)))


def split(whole: Share, parts: Sequence[int], depth_parts: Sequence[int] = ()) -> tuple[Share, ...]:
    """The shares of the trunk and of each lane, in the order of the parts; without depth parts, depth as the rate."""
    rates = _split(whole.rate, parts, 1)
    depths = _split(whole.depth, depth_parts or parts, TOKEN)
    return tuple(Share(rate, depth) for rate, depth in zip(rates, depths, strict=True))


def _split(total: int, parts: Sequence[int], least: int) -> list[int]:
    if total < least * len(parts):
        least = 0
    shares = [max(least, total * part // PARTS) for part in parts]
    over = sum(shares) - total
    if over <= 0:
        shares[0] -= over
        return shares
    # The largest part makes up for parts raised to the least.
    for i in sorted(range(len(shares)), key=lambda i: (-shares[i], i)):
        cut = min(over, shares[i] - least)
        shares[i] -= cut
        over -= cut
    return shares
