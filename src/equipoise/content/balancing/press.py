"""PRESS: bit vectors of the recent messages that each subscription matched ([1], 4.1).

During a session's sampling, each message that the offloading hub matches sets one bit in the vector of each matching
subscription. The first sample is the rightmost bit. The acceptor's covering set has one vector for all of it: the
messages that the acceptor receives already.

Always true: a vector has no bit beyond the samples taken; sampling ends with enough samples, or in time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Generic, TypeVar

from equipoise.content.filter import Filter
from equipoise.content.groups import FilterNode
from equipoise.content.index import FilterIndex

__all__ = ["PressProfile", "PressSampler", "publication_rate"]

K = TypeVar("K", bound=Hashable)


def publication_rate(input_rate: float, bits: int, samples: int) -> float:
    """Equation 2 of [1]: the messages per second of a vector."""
    return input_rate * bits.bit_count() / samples if samples else 0.0


class PressProfile(Generic[K]):
    """The result of sampling."""

    __slots__ = ("bits", "bytes_mean", "covered_bits", "input_rate", "samples")

    def __init__(
        self, *, samples: int, bits: dict[K, int], covered_bits: int, input_rate: float, bytes_mean: float
    ) -> None:
        self.samples = samples
        # By subscription; a missing one matched nothing.
        self.bits = bits
        # The messages that the acceptor's covering set matches.
        self.covered_bits = covered_bits
        # Of the offloading hub, in messages per second.
        self.input_rate = input_rate
        self.bytes_mean = bytes_mean

    def rate(self, bits: int) -> float:
        return publication_rate(self.input_rate, bits, self.samples)


class PressSampler(Generic[K]):
    """Owned by the offloading hub while a session samples. `covers`: the acceptor's covering set."""

    def __init__(self, covers: Iterable[Filter], *, samples: int, ends_s: float) -> None:
        self._samples_max = samples
        self._ends_s = ends_s
        self._covers: FilterIndex[FilterNode] = FilterIndex()
        for filter in dict.fromkeys(covers):
            self._covers.add(FilterNode(filter))
        self._bits: dict[K, int] = {}
        self._covered_bits = 0
        self._bytes = 0.0
        self.samples = 0

    def is_over(self, now_s: float) -> bool:
        return self.samples >= self._samples_max or now_s >= self._ends_s

    def take(self, attributes: dict[str, Any], matched: Iterable[K], size_bytes: int) -> None:
        """Record the subscriptions that matched a message. No effect after the last sample."""
        if self.samples >= self._samples_max:
            return
        bit = 1 << self.samples
        known = self._bits
        for key in matched:
            known[key] = known.get(key, 0) | bit
        if len(self._covers) and self._covers.match(attributes):
            self._covered_bits |= bit
        self._bytes += size_bytes
        self.samples += 1

    def profile(self, input_rate: float) -> PressProfile[K]:
        return PressProfile(
            samples=self.samples,
            bits=self._bits,
            covered_bits=self._covered_bits,
            input_rate=input_rate,
            bytes_mean=self._bytes / self.samples if self.samples else 0.0,
        )
