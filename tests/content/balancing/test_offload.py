"""Which subscribers move: each algorithm by its own rule, within the capacity of the acceptor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from equipoise.content.balancing.load import EdgeLoad
from equipoise.content.balancing.offload import Offload, OffloadedSubscription, phase_one_type, select
from equipoise.content.balancing.pair_estimate import BalancedMetric, OffloadCandidate, PairEstimate
from equipoise.content.balancing.press import PressProfile
from equipoise.content.balancing.settings import BalancingSettings, DelayEstimate
from equipoise.content.filter import Filter
from equipoise.content.groups import FilterNode
from equipoise.content.index import FilterIndex

from .support import filter_of, load_of, profile_of

LINEAR = BalancingSettings(estimate=DelayEstimate.LINEAR)
WIDE = filter_of("class = 'STOCK'")
NARROW = filter_of("class = 'STOCK' and volume > 15")
NARROWER = filter_of("class = 'STOCK' and volume > 150")
APART = filter_of("class = 'SPORTS'")
SILENT = filter_of("class = 'MOVIES'")


def chosen(
    metric: BalancedMetric,
    subscriptions: list[OffloadedSubscription],
    profile: PressProfile[Filter],
    *,
    offloader: EdgeLoad,
    acceptor: EdgeLoad,
    covers: tuple[Filter, ...] = (),
    is_overloaded: bool = False,
    settings: BalancingSettings = LINEAR,
) -> Offload:
    return select(
        metric,
        subscriptions,
        offloader=offloader,
        acceptor=acceptor,
        covers=covers,
        profile=profile,
        settings=settings,
        is_overloaded=is_overloaded,
    )


def counts(offload: Offload) -> dict[Filter, int]:
    return {one.filter: one.subscribers for one in offload.chosen}


BITS = {WIDE: 0b1111110000, NARROW: 0b1111000000, NARROWER: 0b1000000000, APART: 0b0000001111}


def test_input_offload_takes_from_the_covering_set_alone() -> None:
    found = chosen(
        BalancedMetric.INPUT,
        [OffloadedSubscription(filter, 1) for filter in BITS],
        profile_of(BITS),
        offloader=load_of(input_ratio=0.2, subscriptions=100),
        acceptor=load_of(input_ratio=0.1, subscriptions=100),
    )
    assert counts(found)
    assert set(counts(found)) <= {WIDE, APART}
    assert found.offloader.input_ratio < 0.2
    assert found.acceptor.input_ratio > 0.1


def test_input_offload_moves_silent_filters_where_a_cover_would_add_too_much_load() -> None:
    """The only cover takes all messages along: hubs that differ by 0.15 would differ by as much the other way."""
    found = chosen(
        BalancedMetric.INPUT,
        [OffloadedSubscription(WIDE, 1), OffloadedSubscription(SILENT, 50)],
        profile_of({WIDE: 0b1111111111}),
        offloader=load_of(input_ratio=0.45, delay_s=0.045, subscriptions=150),
        acceptor=load_of(input_ratio=0.30, delay_s=0.030, subscriptions=100),
    )
    assert set(counts(found)) == {SILENT}
    assert 0 <= found.offloader.input_ratio - found.acceptor.input_ratio < 0.15


def test_linear_estimates_follow_equation_4() -> None:
    found = chosen(
        BalancedMetric.MATCH,
        [OffloadedSubscription(SILENT, 10)],
        profile_of({}),
        offloader=load_of(delay_s=0.04, subscriptions=200),
        acceptor=load_of(delay_s=0.02, subscriptions=100),
    )
    assert counts(found) == {SILENT: 10}
    assert found.offloader.delay_s == pytest.approx(190 / 200 * 0.04)
    assert found.acceptor.delay_s == pytest.approx(110 / 100 * 0.02)


def test_fitted_estimates_by_what_a_subscription_and_a_match_cost() -> None:
    found = chosen(
        BalancedMetric.MATCH,
        [OffloadedSubscription(NARROW, 4)],
        profile_of(BITS),
        offloader=load_of(input_ratio=0.4, output_ratio=0.5, delay_s=0.04, subscription_s=1e-4, match_s=1e-3),
        acceptor=load_of(input_ratio=0.2, delay_s=0.02, subscription_s=2e-4, match_s=2e-3),
        settings=BalancingSettings(side_effect_ratio=1.0),
    )
    # Each of the four matches two messages of five; both hubs get ten messages a second.
    assert counts(found) == {NARROW: 4}
    assert found.offloader.delay_s == pytest.approx(0.04 - 4 * 1e-4 - 4 * 0.4 * 1e-3)
    rate = 10.0 + 4.0
    assert found.acceptor.delay_s == pytest.approx(0.02 + 4 * 2e-4 + 4 * (4.0 / rate) * 2e-3)


def test_moves_without_an_effect_are_skipped() -> None:
    """A hub whose subscriptions cost nothing but matches is not relieved of one that never matches."""
    found = chosen(
        BalancedMetric.MATCH,
        [OffloadedSubscription(SILENT, 10)],
        profile_of({}),
        offloader=load_of(delay_s=0.04, subscription_s=0.0, match_s=1e-3),
        acceptor=load_of(delay_s=0.02, subscription_s=0.0, match_s=1e-3),
        settings=BalancingSettings(),
    )
    assert not found.chosen


def test_a_session_about_the_input_does_not_fill_the_acceptors_output() -> None:
    """What moves for the input's sake would come back for the output's."""
    loud = [OffloadedSubscription(WIDE, 10)]
    offloader = load_of(input_ratio=0.5, output_ratio=0.2, delay_s=0.04)
    acceptor = load_of(input_ratio=0.2, output_ratio=0.2)
    found = chosen(BalancedMetric.INPUT, loud, profile_of(BITS), offloader=offloader, acceptor=acceptor)
    assert found.acceptor.output_ratio - found.offloader.output_ratio <= LINEAR.side_effect_ratio
    unbounded = chosen(
        BalancedMetric.INPUT,
        loud,
        profile_of(BITS),
        offloader=offloader,
        acceptor=acceptor,
        settings=BalancingSettings(estimate=DelayEstimate.LINEAR, side_effect_ratio=1.0),
    )
    assert unbounded.acceptor.output_ratio > unbounded.offloader.output_ratio + 0.2


def test_a_session_about_the_input_does_not_make_the_acceptor_slow() -> None:
    """At a third of the rate the acceptor would have three times the delay at the same input ratio.

    A session about the delay would move them back, and one about the input again, for ever.
    """
    narrow = [OffloadedSubscription(NARROW, 40), OffloadedSubscription(WIDE, 1, fixed=60)]
    offloader = load_of(input_ratio=0.6, delay_s=0.06, match_s=1e-3, subscription_s=0.0)
    acceptor = load_of(input_ratio=0.0, delay_s=0.0, match_s=3e-3, subscription_s=0.0, subscriptions=0)
    bounded, unbounded = (
        chosen(
            BalancedMetric.INPUT,
            narrow[:1],
            profile_of(BITS),
            offloader=offloader,
            acceptor=acceptor,
            settings=BalancingSettings(side_effect_ratio=ratio),
        )
        for ratio in (0.08, 1.0)
    )
    assert bounded.chosen
    assert bounded.acceptor.delay_s - bounded.offloader.delay_s <= 0.08 * LINEAR.delay_norm_s
    assert (
        unbounded.acceptor.delay_s - unbounded.offloader.delay_s
        > LINEAR.local_delay_trigger * LINEAR.delay_norm_s
    )


def test_a_subscriber_that_would_be_sent_back_stays() -> None:
    """The hub that has it is 0.15 above the other, at least: it would move to and fro for ever."""
    bounded, unbounded = (
        chosen(
            BalancedMetric.MATCH,
            [OffloadedSubscription(SILENT, 1)],
            profile_of({}),
            offloader=load_of(delay_s=0.036, subscription_s=0.0155, subscriptions=2),
            acceptor=load_of(delay_s=0.020, subscription_s=0.0155, subscriptions=1),
            settings=BalancingSettings(side_effect_ratio=ratio),
        )
        for ratio in (0.08, 1.0)
    )
    assert not bounded.chosen
    assert counts(unbounded) == {SILENT: 1}


def test_an_empty_acceptor_is_as_slow_as_its_profile() -> None:
    found = chosen(
        BalancedMetric.MATCH,
        [OffloadedSubscription(SILENT, 200)],
        profile_of({}),
        offloader=load_of(delay_s=0.04, subscriptions=200, subscription_s=2e-4),
        acceptor=load_of(delay_s=0.0, subscriptions=0, subscription_s=1e-4),
    )
    # 2e-4 (200 - x) = 1e-4 x, within the balance.
    assert found.subscribers == pytest.approx(133, abs=3)


def test_match_offload_takes_the_least_traffic_first() -> None:
    found = chosen(
        BalancedMetric.MATCH,
        [OffloadedSubscription(filter, 5) for filter in (*BITS, SILENT)],
        profile_of(BITS),
        offloader=load_of(delay_s=0.022, subscriptions=110),
        acceptor=load_of(delay_s=0.020, subscriptions=100),
    )
    assert counts(found) == {SILENT: 4}


def test_match_offload_continues_while_the_hub_is_overloaded() -> None:
    found = chosen(
        BalancedMetric.MATCH,
        [OffloadedSubscription(SILENT, 100)],
        profile_of({}),
        offloader=load_of(input_ratio=1.2, delay_s=0.02, subscriptions=100),
        acceptor=load_of(input_ratio=0.1, delay_s=0.02, subscriptions=100),
        is_overloaded=True,
    )
    # Delays were equal; the input ratio has to come below 0.9.
    assert found.offloader.input_ratio <= 0.9
    assert found.subscribers == 25


def test_output_offload_moves_covered_filters_first() -> None:
    found = chosen(
        BalancedMetric.OUTPUT,
        [OffloadedSubscription(NARROW, 1), OffloadedSubscription(APART, 1)],
        profile_of(BITS, covered_bits=BITS[WIDE]),
        offloader=load_of(input_ratio=0.3, output_ratio=0.3),
        acceptor=load_of(input_ratio=0.3, output_ratio=0.22),
        covers=(WIDE,),
    )
    # Phase II would end at once, since the inputs are balanced.
    assert counts(found) == {NARROW: 1}


def test_phase_two_ends_when_the_inputs_are_balanced() -> None:
    subscriptions = [OffloadedSubscription(APART, 10)]
    profile = profile_of(BITS)
    balanced = chosen(
        BalancedMetric.OUTPUT,
        subscriptions,
        profile,
        offloader=load_of(input_ratio=0.3, output_ratio=0.8),
        acceptor=load_of(input_ratio=0.3, output_ratio=0.1),
    )
    assert not balanced.chosen
    apart = chosen(
        BalancedMetric.OUTPUT,
        subscriptions,
        profile,
        offloader=load_of(input_ratio=0.4, output_ratio=0.8),
        acceptor=load_of(input_ratio=0.1, output_ratio=0.1),
    )
    assert apart.chosen


def test_phase_two_continues_until_the_output_is_no_longer_overloaded() -> None:
    found = chosen(
        BalancedMetric.OUTPUT,
        [OffloadedSubscription(APART, 20)],
        profile_of(BITS),
        offloader=load_of(input_ratio=0.2, output_ratio=1.2),
        acceptor=load_of(input_ratio=0.2, output_ratio=0.1),
        is_overloaded=True,
    )
    assert found.chosen
    assert found.offloader.output_ratio <= 0.9


def test_phase_two_moves_a_cover_and_then_the_filters_it_covers() -> None:
    found = chosen(
        BalancedMetric.OUTPUT,
        [OffloadedSubscription(NARROW, 2), OffloadedSubscription(WIDE, 4), OffloadedSubscription(APART, 1)],
        profile_of(BITS),
        # The four of the wide one send 240 bytes a second, the two of the narrow one 80.
        offloader=load_of(input_ratio=0.5, output_ratio=0.8),
        acceptor=load_of(input_ratio=0.1, output_ratio=0.1),
    )
    order = [one.filter for one in found.chosen]
    assert order[:2] == [WIDE, NARROW]


def pair_of(subscriptions: dict[Filter, tuple[int, int]], covers: tuple[Filter, ...] = ()) -> PairEstimate:
    index: FilterIndex[FilterNode] = FilterIndex()
    for filter in covers:
        index.add(FilterNode(filter))
    candidates = [
        OffloadCandidate(filter, movable=movable, fixed=fixed, bits=BITS[filter])
        for filter, (movable, fixed) in subscriptions.items()
    ]
    pair = PairEstimate(
        load_of(input_ratio=0.5),
        load_of(),
        profile=profile_of(BITS),
        covers=index,
        candidates=candidates,
        settings=LINEAR,
    )
    return pair


def test_the_three_types_of_phase_one() -> None:
    pair = pair_of({WIDE: (2, 0), NARROW: (2, 0), APART: (2, 0)})
    apart = OffloadCandidate(APART, movable=2, fixed=0, bits=BITS[APART])
    narrow = OffloadCandidate(NARROW, movable=2, fixed=0, bits=BITS[NARROW])
    metric = BalancedMetric.OUTPUT
    assert phase_one_type(pair, pair.card(metric, apart, 2)) == 1
    assert phase_one_type(pair, pair.card(metric, apart, 1)) == 2
    # The wide one still wants all that the narrow one matches.
    assert phase_one_type(pair, pair.card(metric, narrow, 2)) == 3
    fixed = OffloadCandidate(APART, movable=2, fixed=1, bits=BITS[APART])
    assert phase_one_type(pair, pair.card(metric, fixed, 2)) == 3


def test_a_report_card_has_the_fields_of_the_paper() -> None:
    pair = pair_of({WIDE: (1, 0), APART: (1, 0)}, covers=(WIDE,))
    narrow = OffloadCandidate(NARROW, movable=3, fixed=0, bits=BITS[NARROW])
    card = pair.card(BalancedMetric.OUTPUT, narrow, 2)
    assert card.subscribers == 2
    assert card.is_covered
    assert card.output_bytes_per_s == pytest.approx(10.0 * 0.4 * 10.0)
    assert card.rate_reduced == 0.0
    apart = OffloadCandidate(APART, movable=1, fixed=0, bits=BITS[APART])
    card = pair.card(BalancedMetric.INPUT, apart, 1)
    assert not card.is_covered
    assert card.rate_reduced == pytest.approx(4.0)


@st.composite
def offloads(draw: st.DrawFn) -> tuple[BalancedMetric, Offload, EdgeLoad, EdgeLoad, dict[Filter, int], bool]:
    filters = [WIDE, NARROW, NARROWER, APART, SILENT]
    movable = {filter: draw(st.integers(0, 30)) for filter in filters}
    bits = {filter: draw(st.integers(0, 1023)) for filter in filters}

    def load() -> EdgeLoad:
        return load_of(
            input_ratio=draw(st.floats(0, 1.3)),
            output_ratio=draw(st.floats(0, 1.3)),
            delay_s=draw(st.floats(0.001, 0.2)),
            subscriptions=150,
            memory_ratio=draw(st.floats(0, 1)),
            match_s=draw(st.sampled_from([0.0, 1e-4])),
        )

    metric = draw(st.sampled_from(list(BalancedMetric)))
    offloader, acceptor = load(), load()
    is_overloaded = draw(st.booleans())
    found = chosen(
        metric,
        [OffloadedSubscription(filter, count) for filter, count in movable.items()],
        profile_of(bits, covered_bits=draw(st.integers(0, 1023))),
        offloader=offloader,
        acceptor=acceptor,
        covers=tuple(draw(st.lists(st.sampled_from(filters), unique=True))),
        is_overloaded=is_overloaded,
        settings=BalancingSettings(estimate=draw(st.sampled_from(DelayEstimate))),
    )
    return metric, found, offloader, acceptor, movable, is_overloaded


def _difference(metric: BalancedMetric, one: EdgeLoad, other: EdgeLoad) -> float:
    if metric is BalancedMetric.INPUT:
        return one.input_ratio - other.input_ratio
    if metric is BalancedMetric.OUTPUT:
        return one.output_ratio - other.output_ratio
    return (one.delay_s - other.delay_s) / LINEAR.delay_norm_s


@hypothesis_settings(max_examples=100, deadline=None)
@given(offloads())
def test_every_choice_overloads_no_acceptor_and_reduces_the_difference(
    drawn: tuple[BalancedMetric, Offload, EdgeLoad, EdgeLoad, dict[Filter, int], bool],
) -> None:
    metric, found, offloader, acceptor, movable, is_overloaded = drawn
    for one in found.chosen:
        assert 0 < one.subscribers <= movable[one.filter]
    if not found.chosen:
        return
    after = found.acceptor
    assert max(after.input_ratio, after.output_ratio, after.cpu_ratio, after.memory_ratio) <= 0.9 + 1e-9
    if not is_overloaded:
        before = abs(_difference(metric, offloader, acceptor))
        assert abs(_difference(metric, found.offloader, found.acceptor)) < before
    total = offloader.subscriptions + acceptor.subscriptions
    assert found.offloader.subscriptions + found.acceptor.subscriptions == pytest.approx(total)
