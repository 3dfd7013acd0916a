"""Choose the subscribers that move from one hub to another: the three offload algorithms of [1], section 5.

    input    subscriptions of the covering set, since only these take messages along; if there are none, as match
    match    subscriptions with the least traffic, which change neither input nor output
    output   Phase I: subscriptions covered by the acceptor's covering set; Phase II: others, while inputs stay balanced

Always true of the selection:
    it does not overload the acceptor, by PRESS's estimate, nor raise another metric of the acceptor so far above the
    offloading hub's that the acceptor would request a session back, unless the offloading hub was overloaded;
    it reduces the difference of the two hubs, unless the offloading hub was overloaded;
    it skips a subscription whose move changes nothing: the move would have a cost and no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from equipoise.content.balancing.load import EdgeLoad
from equipoise.content.balancing.pair_estimate import (
    BalancedMetric,
    OffloadCandidate,
    PairEstimate,
    ReportCard,
)
from equipoise.content.balancing.press import PressProfile
from equipoise.content.balancing.settings import BalancingSettings
from equipoise.content.cover_set import CoverSet
from equipoise.content.filter import Filter
from equipoise.content.groups import FilterNode
from equipoise.content.index import FilterIndex

__all__ = ["ChosenSubscribers", "Offload", "OffloadedSubscription", "phase_one_type", "select"]

# A smaller change of the metric counts as none.
EFFECT_MIN = 1e-6
_ALL = 1 << 60


class OffloadedSubscription(NamedTuple):
    """Subscribers of one filter at the offloading hub: those that can move, and others."""

    filter: Filter
    movable: int
    fixed: int = 0


class ChosenSubscribers(NamedTuple):
    """This many subscribers of the filter move."""

    filter: Filter
    subscribers: int


class Offload(NamedTuple):
    """The moves of one session, and the estimated loads of both hubs after it."""

    chosen: tuple[ChosenSubscribers, ...]
    offloader: EdgeLoad
    acceptor: EdgeLoad

    @property
    def subscribers(self) -> int:
        return sum(chosen.subscribers for chosen in self.chosen)


def select(
    metric: BalancedMetric,
    subscriptions: Iterable[OffloadedSubscription],
    *,
    offloader: EdgeLoad,
    acceptor: EdgeLoad,
    covers: Sequence[Filter],
    profile: PressProfile[Filter],
    settings: BalancingSettings,
    is_overloaded: bool = False,
) -> Offload:
    """`covers`: the acceptor's covering set. `is_overloaded`: also move until the offloading hub is not."""
    candidates = [
        OffloadCandidate(
            subscription.filter,
            movable=subscription.movable,
            fixed=subscription.fixed,
            bits=profile.bits.get(subscription.filter, 0),
        )
        for subscription in subscriptions
    ]
    known: FilterIndex[FilterNode] = FilterIndex()
    for filter in dict.fromkeys(covers):
        known.add(FilterNode(filter))
    pair = PairEstimate(
        offloader, acceptor, profile=profile, covers=known, candidates=candidates, settings=settings
    )
    run = _OffloadRun(metric, pair, candidates, settings, is_overloaded=is_overloaded)
    _ALGORITHMS[metric](run)
    return Offload(tuple(run.chosen()), pair.offloader.estimated(), pair.acceptor.estimated())


def phase_one_type(pair: PairEstimate, card: ReportCard) -> int:
    """I: takes messages along; II: would, if all its subscribers moved; III: would not."""
    if card.rate_reduced > 0:
        return 1
    return 2 if pair.rate_reduced_with_all(card.candidate) > 0 else 3


class _OffloadRun:
    """One run of an algorithm: the common part of all three."""

    def __init__(
        self,
        metric: BalancedMetric,
        pair: PairEstimate,
        candidates: Sequence[OffloadCandidate],
        settings: BalancingSettings,
        *,
        is_overloaded: bool,
    ) -> None:
        self.metric = metric
        self.pair = pair
        self.candidates = candidates
        self.settings = settings
        self.is_overloaded = is_overloaded
        self._chosen: dict[Filter, int] = {}

    def chosen(self) -> Iterable[ChosenSubscribers]:
        return (ChosenSubscribers(filter, count) for filter, count in self._chosen.items())

    @property
    def has_chosen(self) -> bool:
        return bool(self._chosen)

    def is_done(self) -> bool:
        """Balanced, or the offloading hub is below the other; and it is not overloaded any more."""
        if self._must_relieve():
            return False
        return self.pair.difference(self.metric) <= self.settings.balance_ratio

    def card(self, candidate: OffloadCandidate) -> ReportCard | None:
        """With the number of subscribers that should move; None: none should."""
        count = self._subscribers(candidate)
        if not count:
            return None
        card = self.pair.card(self.metric, candidate, count)
        before = self.pair.difference(self.metric)
        if before - card.difference <= EFFECT_MIN:
            return None
        if abs(card.difference) >= abs(before) and not self._must_relieve():
            return None
        return card

    def take(self, card: ReportCard) -> None:
        filter = card.candidate.filter
        self._chosen[filter] = self._chosen.get(filter, 0) + card.subscribers
        self.pair.move(card.candidate, card.subscribers)

    def _must_relieve(self) -> bool:
        return self.is_overloaded and not self.pair.is_relieved(self.metric)

    def _subscribers(self, candidate: OffloadCandidate) -> int:
        """The least sufficient number, within the acceptor's capacity."""
        pair, movable = self.pair, candidate.movable
        if not movable:
            return 0
        must_relieve = self._must_relieve()

        def fits(count: int) -> bool:
            return pair.fits(self.metric, candidate, count, is_overloaded=must_relieve)

        def is_enough(count: int) -> bool:
            if must_relieve and not pair.relieves(self.metric, candidate, count):
                return False
            return pair.difference_after(self.metric, candidate, count) <= self.settings.balance_ratio

        return min(_most(fits, movable), _least(is_enough, movable))


def _most(holds: Callable[[int], bool], upper: int) -> int:
    """The greatest number from 0 to `upper` for which it holds; it holds for all below."""
    if holds(upper):
        return upper
    low, high = 0, upper
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low


def _least(holds: Callable[[int], bool], upper: int) -> int:
    """The least number from 1 to `upper` for which it holds, or `upper`."""
    return min(upper, _most(lambda count: not holds(count), upper) + 1)


def _offload_input(run: _OffloadRun) -> None:
    """From the covering set, always the filter that brings both nearest; its children replace it when all of it moved.

    If each of them alone would take more along than the hubs differ by, those with the least traffic move: the input
    ratio falls with their matching. Not in [1], where such hubs stay different.
    """
    covers: CoverSet[OffloadCandidate] = CoverSet()
    for candidate in run.candidates:
        covers.add(candidate)
    covers.settle(_ALL)
    while not run.is_done():
        cards = [card for candidate in covers if (card := run.card(candidate)) is not None]
        if not cards:
            break
        best = min(cards, key=lambda card: abs(card.difference))
        run.take(best)
        # Each is chosen at most once.
        covers.remove(best.candidate)
        covers.settle(_ALL)
    if not run.has_chosen:
        _offload_match(run)


def _offload_match(run: _OffloadRun) -> None:
    """Least output first; among equals, the one that adds least to the acceptor's input."""
    order = sorted(
        run.candidates,
        key=lambda candidate: (candidate.bits.bit_count(), run.pair.added_rate(candidate)),
    )
    for candidate in order:
        if run.is_done():
            return
        card = run.card(candidate)
        if card is not None:
            run.take(card)


def _offload_output(run: _OffloadRun) -> None:
    waiting = {candidate: None for candidate in run.candidates if candidate.bits}
    _phase_one(run, waiting)
    while not run.is_done() and _may_go_on(run):
        cards = [card for candidate in waiting if (card := run.card(candidate)) is not None]
        if not cards:
            return
        best = min(cards, key=lambda card: abs(card.difference))
        run.take(best)
        waiting.pop(best.candidate)
        # Filters that it covers are now covered at the acceptor.
        _phase_one(run, waiting)


def _phase_one(run: _OffloadRun, waiting: dict[OffloadCandidate, None]) -> None:
    """Filters covered by the acceptor's covering set: Type I before II before III, in each the highest traffic
    first.
    """
    pair = run.pair
    covered = [candidate for candidate in waiting if pair.is_covered(candidate)]
    ranked = []
    for candidate in covered:
        card = run.card(candidate)
        if card is not None:
            ranked.append((phase_one_type(pair, card), -card.output_bytes_per_s, candidate))
    for _, _, candidate in sorted(ranked, key=lambda rank: rank[:2]):
        if run.is_done():
            return
        card = run.card(candidate)
        if card is not None:
            run.take(card)
            waiting.pop(candidate)


def _may_go_on(run: _OffloadRun) -> bool:
    """Phase II ends where the inputs are balanced, so that input and output offload do not undo each other."""
    if run.is_overloaded:
        return not run.pair.is_relieved(BalancedMetric.OUTPUT)
    return run.pair.difference(BalancedMetric.INPUT) > run.settings.balance_ratio


_ALGORITHMS: dict[BalancedMetric, Callable[[_OffloadRun], None]] = {
    BalancedMetric.INPUT: _offload_input,
    BalancedMetric.MATCH: _offload_match,
    BalancedMetric.OUTPUT: _offload_output,
}
