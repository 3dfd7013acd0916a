"""Estimate the loads of two hubs after the subscribers chosen so far have moved ([1], 4.2).

Rates are from PRESS, delays by equation 4 (`linear`) or by the fitted costs of a subscription and a match (`fitted`).
An acceptor without subscriptions has no delay to scale: its own profile gives it.

Always true: the load taken from one hub is added to the other, except for messages that the acceptor receives already.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from equipoise.content.balancing.load import EdgeLoad, delay_difference
from equipoise.content.balancing.press import PressProfile
from equipoise.content.balancing.settings import BalancingSettings, DelayEstimate
from equipoise.content.filter import Filter
from equipoise.content.groups import FilterNode
from equipoise.content.index import FilterIndex

__all__ = ["BalancedMetric", "OffloadCandidate", "PairEstimate", "ReportCard"]


class BalancedMetric(StrEnum):
    """The metric of a session; each has its offload algorithm."""

    INPUT = "input"
    MATCH = "match"
    OUTPUT = "output"


class OffloadCandidate(FilterNode):
    """A subscription of the offloading hub, with the number of its subscribers that can move and that cannot."""

    __slots__ = ("bits", "fixed", "movable")

    def __init__(self, filter: Filter, *, movable: int, fixed: int, bits: int) -> None:
        super().__init__(filter)
        self.movable = movable
        self.fixed = fixed
        self.bits = bits


class ReportCard(NamedTuple):
    """The effect of moving `subscribers` of a subscription ([1], 5.1)."""

    candidate: OffloadCandidate
    subscribers: int
    # The difference in the session's metric afterwards; negative: the offloading hub would be the less loaded one.
    difference: float
    is_covered: bool
    # Messages per second that the offloading hub would no longer receive.
    rate_reduced: float
    # Bytes per second for each subscriber.
    output_bytes_per_s: float


class _Side:
    """One of the two hubs."""

    def __init__(self, load: EdgeLoad, estimate: DelayEstimate) -> None:
        self.load = load
        self._estimate = estimate
        self.input_rate = load.input_rate
        self.subscriptions = load.subscriptions
        self.delay_s = load.delay_s
        self.output_bytes_per_s = load.output_bytes_per_s

    def changed(self, *, subscribers: int, input_rate: float, matched_rate: float, size: float) -> _Side:
        """The load with this many subscribers more, or fewer; `matched_rate`: the messages per second of each."""
        side = _Side(self.load, self._estimate)
        side.subscriptions = max(0.0, self.subscriptions + subscribers)
        side.input_rate = max(0.0, self.input_rate + input_rate)
        side.output_bytes_per_s = max(0.0, self.output_bytes_per_s + subscribers * matched_rate * size)
        # Matches of a message at this hub, for its incoming messages afterwards.
        rate = max(side.input_rate, self.input_rate)
        matches = subscribers * matched_rate / rate if rate else 0.0
        side.delay_s = self._delay_s(subscribers, matches)
        return side

    def _delay_s(self, subscribers: int, matches: float) -> float:
        load = self.load
        if self._estimate is DelayEstimate.LINEAR and self.subscriptions > 0 and self.delay_s > 0:
            return max(0.0, (self.subscriptions + subscribers) / self.subscriptions * self.delay_s)
        return max(0.0, self.delay_s + load.subscription_s * subscribers + load.match_s * matches)

    @property
    def input_ratio(self) -> float:
        return self.input_rate * self.delay_s

    @property
    def output_ratio(self) -> float:
        return self.output_bytes_per_s / self.load.bandwidth_bytes_per_s

    @property
    def cpu_ratio(self) -> float:
        return self.load.other_cpu_ratio + self.input_ratio

    @property
    def memory_ratio(self) -> float:
        more = self.subscriptions - self.load.subscriptions
        return self.load.memory_ratio + more * self.load.subscription_memory_ratio

    def is_within(self, settings: BalancingSettings) -> bool:
        """Whether no metric is above its lower threshold."""
        return (
            self.input_ratio <= settings.input.lower
            and self.output_ratio <= settings.output.lower
            and self.cpu_ratio <= settings.cpu.lower
            and self.memory_ratio <= settings.memory.lower
        )

    def estimated(self) -> EdgeLoad:
        load = self.load
        return EdgeLoad(
            input_rate=self.input_rate,
            delay_s=self.delay_s,
            output_bytes_per_s=self.output_bytes_per_s,
            bandwidth_bytes_per_s=load.bandwidth_bytes_per_s,
            subscriptions=self.subscriptions,
            other_cpu_ratio=load.other_cpu_ratio,
            memory_ratio=self.memory_ratio,
            subscription_s=load.subscription_s,
            match_s=load.match_s,
            subscription_memory_ratio=load.subscription_memory_ratio,
        )


class PairEstimate:
    """Owned by one run of an offload algorithm; `move` alone changes it."""

    def __init__(
        self,
        offloader: EdgeLoad,
        acceptor: EdgeLoad,
        *,
        profile: PressProfile[Filter],
        covers: FilterIndex[FilterNode],
        candidates: list[OffloadCandidate],
        settings: BalancingSettings,
    ) -> None:
        self.offloader = _Side(offloader, settings.estimate)
        self.acceptor = _Side(acceptor, settings.estimate)
        self._profile = profile
        self._covers = covers
        self._settings = settings
        self._covered_bits = profile.covered_bits
        # By sample, how many subscriptions match it: a message that only one matches moves with that one.
        self._matching = [0] * profile.samples
        for candidate in candidates:
            self._count(candidate.bits, 1)

    def card(self, metric: BalancedMetric, candidate: OffloadCandidate, subscribers: int) -> ReportCard:
        offloader, acceptor = self._after(candidate, subscribers)
        return ReportCard(
            candidate,
            subscribers,
            self._difference(metric, offloader, acceptor),
            self.is_covered(candidate),
            self._rate_reduced(candidate, subscribers),
            self._profile.rate(candidate.bits) * self._profile.bytes_mean,
        )

    def difference(self, metric: BalancedMetric) -> float:
        return self._difference(metric, self.offloader, self.acceptor)

    def difference_after(
        self, metric: BalancedMetric, candidate: OffloadCandidate, subscribers: int
    ) -> float:
        return self._difference(metric, *self._after(candidate, subscribers))

    def fits(
        self, metric: BalancedMetric, candidate: OffloadCandidate, subscribers: int, *, is_overloaded: bool
    ) -> bool:
        """Whether the acceptor would be neither overloaded nor so far above the other that it moves some back."""
        offloader, acceptor = self._after(candidate, subscribers)
        if not acceptor.is_within(self._settings):
            return False
        if is_overloaded:
            return True
        # Silent subscribers can offset the effect of an output session on the others: those move without output.
        guarded = (metric,) if metric is BalancedMetric.OUTPUT else tuple(BalancedMetric)
        return all(
            self._difference(each, offloader, acceptor)
            >= min(self._bound(metric, each), self.difference(each))
            for each in guarded
        )

    def _bound(self, metric: BalancedMetric, other: BalancedMetric) -> float:
        """How far a session about a metric may put the acceptor above the other hub without a session back."""
        settings = self._settings
        if settings.side_effect_ratio == 1 or metric is not other:
            return -settings.side_effect_ratio
        is_delay = metric is BalancedMetric.MATCH
        return -(settings.local_delay_trigger if is_delay else settings.local_ratio_trigger)

    def relieves(self, metric: BalancedMetric, candidate: OffloadCandidate, subscribers: int) -> bool:
        """Whether the offloading hub would not be overloaded any more."""
        return self._is_relieved(metric, self._after(candidate, subscribers)[0])

    def is_relieved(self, metric: BalancedMetric) -> bool:
        return self._is_relieved(metric, self.offloader)

    def is_covered(self, candidate: OffloadCandidate) -> bool:
        """By the acceptor's covering set, or equal to a member of it."""
        filter = candidate.filter
        return self._covers.get(filter) is not None or self._covers.covering(filter) is not None

    def rate_reduced_with_all(self, candidate: OffloadCandidate) -> float:
        return self._rate_reduced(candidate, candidate.movable)

    def added_rate(self, candidate: OffloadCandidate) -> float:
        """Additional messages per second of the acceptor (equation 3)."""
        return self._profile.rate(candidate.bits & ~self._covered_bits)

    def move(self, candidate: OffloadCandidate, subscribers: int) -> None:
        self.offloader, self.acceptor = self._after(candidate, subscribers)
        self._covered_bits |= candidate.bits
        if self._covers.get(candidate.filter) is None:
            self._covers.add(FilterNode(candidate.filter))
        candidate.movable -= subscribers
        if not candidate.movable and not candidate.fixed:
            self._count(candidate.bits, -1)

    def _after(self, candidate: OffloadCandidate, subscribers: int) -> tuple[_Side, _Side]:
        profile = self._profile
        rate = profile.rate(candidate.bits)
        size = profile.bytes_mean
        offloader = self.offloader.changed(
            subscribers=-subscribers,
            input_rate=-self._rate_reduced(candidate, subscribers),
            matched_rate=rate,
            size=size,
        )
        acceptor = self.acceptor.changed(
            subscribers=subscribers, input_rate=self.added_rate(candidate), matched_rate=rate, size=size
        )
        return offloader, acceptor

    def _rate_reduced(self, candidate: OffloadCandidate, subscribers: int) -> float:
        if subscribers < candidate.movable or candidate.fixed:
            return 0.0
        bits, alone = candidate.bits, 0
        while bits:
            lowest = bits & -bits
            if self._matching[lowest.bit_length() - 1] == 1:
                alone |= lowest
            bits ^= lowest
        return self._profile.rate(alone)

    def _count(self, bits: int, step: int) -> None:
        while bits:
            lowest = bits & -bits
            self._matching[lowest.bit_length() - 1] += step
            bits ^= lowest

    def _difference(self, metric: BalancedMetric, offloader: _Side, acceptor: _Side) -> float:
        if metric is BalancedMetric.INPUT:
            return offloader.input_ratio - acceptor.input_ratio
        if metric is BalancedMetric.OUTPUT:
            return offloader.output_ratio - acceptor.output_ratio
        return delay_difference(offloader.delay_s, acceptor.delay_s, self._settings.delay_norm_s)

    def _is_relieved(self, metric: BalancedMetric, side: _Side) -> bool:
        settings = self._settings
        if metric is BalancedMetric.OUTPUT:
            return side.output_ratio <= settings.output.lower
        return (
            side.input_ratio <= settings.input.lower
            and side.cpu_ratio <= settings.cpu.lower
            and side.memory_ratio <= settings.memory.lower
        )
