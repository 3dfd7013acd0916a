"""The planner and latency limits, by table: when a topic moves, where to, and what load may do to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest

from equipoise.coordinates import Coordinate
from equipoise.model import Member, Mode, Plan, Reason, Specs, TopicSpec, apply
from equipoise.plan import Memory, Planner, PlannerSettings
from equipoise.plan.memory import LatencyMoves
from equipoise.view import HubView, TopicView
from plan.near import at, hub, near
from plan.small import Outcome, decide, moved, plan_of, settled, topic, view

# Ways are half of round trips: clients at 0 are 5 ms from a, 20 from b and 40 from c, there and back as much.
HUBS = (hub("a", 10), hub("b", 40), hub("c", 80))
LIMIT = Specs([TopicSpec(pattern=b"near*", latency_ms=30)])
HERE = (at(0),)


def limited(name: str, home: str, ratio: float = 0.1, places: Sequence[Coordinate] = HERE) -> TopicView:
    return near(name, ratio, home, places, places, HUBS)


def decided(
    topics: Sequence[TopicView], *, views: int = 2, hubs: Sequence[HubView] = HUBS, **how: object
) -> Outcome:
    return decide(topics, hubs, views=views, **{"specs": LIMIT, **how})  # type: ignore[arg-type]


def test_a_topic_above_its_limit_moves_to_its_clients() -> None:
    outcome = decided([limited("near/1", "c")])
    assert moved(outcome) == {"near/1": ("a",)}
    (part,) = outcome.change.entries
    assert part.why.reason is Reason.LATENCY
    assert part.why.numbers["latency_ms"] == pytest.approx(80)
    assert part.why.numbers["limit_ms"] == 30
    assert part.why.numbers["expected_ms"] == pytest.approx(10)


def test_one_view_is_not_enough_but_the_next_round_follows_at_once() -> None:
    outcome = decided([limited("near/1", "c")], views=1)
    assert not moved(outcome)
    assert outcome.decision.is_pressing


def test_a_topic_slightly_above_its_limit_waits_for_another_window() -> None:
    hubs = (hub("a", 10), hub("b", 31))
    topics = [near("near/1", 0.1, "b", HERE, HERE, hubs)]
    assert not moved(decided(topics, hubs=hubs, views=8))
    assert moved(decided(topics, hubs=hubs, views=12)) == {"near/1": ("a",)}


def test_a_topic_within_its_limit_stays_though_another_hub_is_nearer() -> None:
    topics = [near("near/1", 0.1, "b", HERE, HERE, HUBS)]
    wide = Specs([TopicSpec(pattern=b"near*", latency_ms=45)])
    assert not moved(decided(topics, specs=wide, views=5))


def test_a_topic_without_a_limit_is_not_moved() -> None:
    assert not moved(decided([limited("other", "c")], views=5))


def measured(row: TopicView, **quantiles_ms: float) -> TopicView:
    return replace(row, **{f"latency_s_{level}": ms / 1e3 for level, ms in quantiles_ms.items()})  # type: ignore[arg-type]


def test_a_limit_is_compared_with_the_measurement_at_its_quantile() -> None:
    # By coordinates its messages take 80 ms at worst; nine in ten of them were measured to take 20.
    row = measured(limited("near/1", "c"), p50=10, p90=20, p99=60, max=70)
    for quantile, goes in ((0.5, False), (0.9, False), (0.99, True), (0.999, True)):
        spec = TopicSpec(pattern=b"near*", latency_ms=30, quantile=quantile)
        outcome = decided([row], specs=Specs([spec]))
        assert bool(moved(outcome)) is goes
    (part,) = outcome.change.entries
    assert part.why.numbers["latency_ms"] == pytest.approx(70)


def test_only_a_measured_violation_starts_an_early_round() -> None:
    row = measured(limited("near/1", "c"), p50=10, p90=20, p99=25, max=70)
    assert not decided([row], views=1).decision.is_pressing
    assert decided([limited("near/1", "c")], views=1).decision.is_pressing


def test_a_topic_that_is_slow_for_a_subscriber_that_lags_does_not_move_for_a_little_gain() -> None:
    # 40 ms by way of b, 10 by way of a; and messages wait for two seconds in a backlog, here as there.
    wide = Specs([TopicSpec(pattern=b"near*", latency_ms=45)])
    queueing = measured(limited("near/1", "b"), p50=40, p90=2_040, p99=2_040, max=2_040)
    outcome = decided([queueing], specs=wide, views=5)
    assert not moved(outcome)
    assert Reason.TOO_FAR in outcome.reasons


def test_if_no_hub_keeps_the_limit_the_nearest_is_chosen_if_it_is_much_nearer() -> None:
    tight = Specs([TopicSpec(pattern=b"near*", latency_ms=5)])
    assert moved(decided([limited("near/1", "c")], specs=tight)) == {"near/1": ("a",)}
    hubs = (hub("a", 10), hub("b", 10.5))
    outcome = decided([near("near/1", 0.1, "b", HERE, HERE, hubs)], specs=tight, hubs=hubs, views=5)
    assert not moved(outcome)
    assert Reason.TOO_FAR in outcome.reasons


def test_a_hub_that_would_be_too_full_is_skipped() -> None:
    wide = Specs([TopicSpec(pattern=b"near*", latency_ms=45)])
    full = [limited("near/1", "c"), topic("heavy", 0.74, "a")]
    assert moved(decided(full, specs=wide)) == {"near/1": ("b",)}


@pytest.mark.parametrize("known", [{"cpu_ratio": 0.9}, {"memory_bytes": 87.0, "memory_bytes_max": 100.0}])
def test_a_hub_with_an_exhausted_resource_gets_no_topics(known: dict[str, float]) -> None:
    hubs = (replace(HUBS[0], **known), *HUBS[1:])  # type: ignore[arg-type]
    wide = Specs([TopicSpec(pattern=b"near*", latency_ms=45)])
    assert moved(decided([limited("near/1", "c")], hubs=hubs, specs=wide)) == {"near/1": ("b",)}


def test_a_topic_that_can_be_anywhere_makes_room_for_one_that_cannot() -> None:
    crowded = [limited("near/1", "c", 0.2), topic("big", 0.45, "a"), topic("small", 0.2, "a")]
    outcome = decided(crowded)
    assert moved(outcome) == {"small": ("b",), "near/1": ("a",)}
    reasons = {part.topic: part.why.reason for part in outcome.change.entries}
    assert reasons == {b"small": Reason.MADE_ROOM, b"near/1": Reason.LATENCY}


def test_an_overloaded_hub_gives_away_topics_that_may_move_and_keeps_others() -> None:
    near_one = limited("near/1", "a", 0.6)
    over = [near_one, topic("light", 0.3, "a")]
    assert moved(decided(over, views=4)) == {"light": ("b",)}
    # Without the limit the heavier one would have gone.
    assert "near/1" in moved(decided(over, views=4, specs=Specs()))


def test_a_topic_with_several_hubs_within_its_limit_may_be_moved_for_load_between_them() -> None:
    wide = Specs([TopicSpec(pattern=b"near*", latency_ms=45)])
    over = [limited("near/1", "a", 0.45), limited("near/2", "a", 0.45)]
    assert moved(decided(over, views=4, specs=wide)) == {"near/1": ("b",)}


def test_the_emptiest_hub_gets_nothing_after_a_join_that_it_would_break() -> None:
    topics = [limited(f"near/{n}", "a", 0.1) for n in range(6)]
    hubs = (hub("a", 10), hub("d", 300))
    memory = settled(["a", "d"], spread_until_s=200.0)
    outcome = decided(topics, hubs=hubs, memory=memory, views=3)
    assert not moved(outcome)
    assert moved(decided(topics, hubs=hubs, memory=memory, specs=Specs(), views=3))


def by_ring(count: int, members: Sequence[str]) -> tuple[list[TopicView], Plan]:
    """Topics without entries, all of them at a."""
    return [limited(f"near/{n}", "a", 0.01) for n in range(count)], Plan.of(
        version=1, members=[Member(name) for name in members], entries=[]
    )


def test_a_hub_that_joins_far_away_gets_no_topic_whose_limit_it_would_break() -> None:
    topics, plan = by_ring(40, ["a"])
    hubs = (hub("a", 10), hub("far", 300))
    outcome = decided(topics, hubs=hubs, plan=plan, memory=settled(["a"]), views=1)
    after = apply(outcome.plan, outcome.change)
    assert set(after.by_hub) == {"a", "far"}
    assert all(after.home_of(row.name).homes == ("a",) for row in topics)
    # Nothing has moved, so nothing is in hand.
    assert not outcome.memory.arbiter.in_hand
    free = decided(topics, hubs=hubs, plan=plan, memory=settled(["a"]), views=1, specs=Specs())
    assert any(apply(free.plan, free.change).home_of(row.name).homes == ("far",) for row in topics)


def test_a_hub_that_a_limit_depends_on_is_not_released() -> None:
    topics = [topic("load", 0.3, "b"), limited("near/1", "a", 0.01)]
    free = PlannerSettings(server_hour_price=1000.0)
    hubs = (hub("a", 10), hub("b", 90))

    def members_after(specs: Specs) -> set[Reason]:
        return decide(topics, hubs, settings=free, views=200, specs=specs).reasons

    assert Reason.LOW_LOAD in members_after(Specs())
    assert Reason.LOW_LOAD not in members_after(LIMIT)


def test_a_site_comes_before_a_limit_and_a_drain_too() -> None:
    hubs = (replace(HUBS[0], site="x"), replace(HUBS[1], site="x"), replace(HUBS[2], site="far"))
    bound = Specs([TopicSpec(pattern=b"near*", latency_ms=30, site="far")])
    topics = [limited("near/1", "a")]
    assert moved(decided(topics, hubs=hubs, specs=bound, views=1)) == {"near/1": ("c",)}
    drained = (replace(HUBS[0], is_draining=True), *HUBS[1:])
    assert moved(decided(topics, hubs=drained, views=1))["near/1"] in (("b",), ("c",))


def test_an_unknown_latency_is_not_judged() -> None:
    nowhere = [topic("near/1", 0.1, "c")]
    assert not moved(decided(nowhere, views=5))
    over = [topic("near/1", 0.6, "a"), topic("near/2", 0.4, "a")]
    assert moved(decided(over, views=4))
    lost = tuple(replace(one, coordinate=None) for one in HUBS)
    assert not moved(
        decided([replace(limited("near/1", "c"), latency_s_worst=float("nan"))], hubs=lost, views=5)
    )


def test_a_home_of_a_replicated_topic_that_is_too_far_is_swapped() -> None:
    hubs = (hub("a", 10), hub("b", 12), hub("c", 80))
    row = replace(near("near/1", 0.4, "a", HERE, HERE, hubs), latency_s_worst=0.08)
    row = replace(row, carried_by={"a": 0.5, "c": 0.5}, subscribers=5000.0)
    plan = plan_of({"near/1": ("a", "c")}, ["a", "b", "c"], mode=Mode.ALL_PUBLISHERS)
    outcome = decided([row], hubs=hubs, plan=plan)
    assert moved(outcome) == {"near/1": ("a", "b")}


def test_a_topic_is_replicated_only_where_its_limit_holds() -> None:
    row = replace(limited("near/1", "a", 0.9), subscribers=5000.0)
    hubs = (*HUBS, hub("d", 12))
    assert moved(decided([row], hubs=hubs, views=4))["near/1"] == ("a", "d")


def swapping() -> tuple[tuple[HubView, ...], list[TopicView]]:
    """Two topics that would both fit and be within their limits, each at the hub of the other."""
    hubs = (hub("a", 0), hub("b", 100))
    there, here = [at(100)], [at(0)]
    topics = [near("near/1", 0.5, "a", there, there, hubs), near("near/2", 0.5, "b", here, here, hubs)]
    return hubs, topics


def test_two_topics_that_need_each_others_places_change_them() -> None:
    hubs, topics = swapping()
    outcome = decided(topics, hubs=hubs)
    assert moved(outcome) == {"near/1": ("b",), "near/2": ("a",)}
    ratios = [part.why.numbers["receiver_ratio_after"] for part in outcome.change.entries]
    assert ratios == pytest.approx([0.5, 0.5])


def test_neither_goes_when_the_other_may_not() -> None:
    hubs, topics = swapping()
    waiting = msgspec.structs.replace(
        settled(["a", "b"]), approaches={b"near/2": LatencyMoves(95.0, ("a",), 2)}
    )
    assert not moved(decided(topics, hubs=hubs, memory=waiting))
    assert not moved(decided(topics, hubs=hubs, settings=PlannerSettings(moves_per_round_max=1)))


def test_room_that_a_move_of_the_same_round_takes_is_not_given_to_another() -> None:
    hubs = (hub("a", 0), hub("b", 40), hub("c", 100))
    specs = Specs([TopicSpec(pattern=b"near/1", latency_ms=30), TopicSpec(pattern=b"near/2", latency_ms=60)])
    here = (at(0),)
    rows = [near("near/1", 0.42, "c", here, here, hubs), near("near/2", 0.14, "c", here, here, hubs)]
    outcome = decided([*rows, topic("x", 0.3, "a"), topic("y", 0.3, "a")], hubs=hubs, specs=specs)
    assert moved(outcome)
    assert outcome.decision.ratio_max <= PlannerSettings().crowded_ratio


def test_moves_for_latency_do_not_delay_moves_for_load() -> None:
    topics = [limited("near/1", "c", 0.05), topic("one", 0.5, "b"), topic("two", 0.45, "b")]
    outcome = decided(topics, views=2)
    assert moved(outcome) == {"near/1": ("a",)}
    assert outcome.memory.plan_s < 0
    assert msgspec.structs.asdict(outcome.memory)["hits"]


def wakes(row: TopicView, memory: Memory | None = None, specs: Specs = LIMIT) -> bool:
    return Planner().wakes(view([row], HUBS), specs, memory or Memory())


def test_a_topic_that_gets_above_its_limit_wakes_the_controller() -> None:
    assert wakes(limited("near/1", "c"))
    assert not wakes(limited("near/1", "a"))
    assert not wakes(limited("other", "c"))
    assert not wakes(limited("near/1", "c"), specs=Specs())
    # The most specific spec holds, whatever the smallest limit is.
    wide = Specs([*LIMIT, TopicSpec(pattern=b"near/1", latency_ms=100)])
    assert not wakes(limited("near/1", "c"), specs=wide)


def test_a_latency_near_its_limit_or_unknown_does_not_wake_the_controller() -> None:
    assert not wakes(replace(limited("near/1", "c"), latency_s_worst=0.0329))
    assert wakes(replace(limited("near/1", "c"), latency_s_worst=0.0331))
    assert not wakes(replace(limited("near/1", "c"), latency_s_worst=float("nan")))


def test_a_topic_that_cannot_be_helped_wakes_the_controller_until_there_is_evidence() -> None:
    tight = Specs([TopicSpec(pattern=b"near*", latency_ms=5)])
    row = limited("near/1", "a")
    assert wakes(row, specs=tight)
    assert wakes(row, decided([row], specs=tight, views=1).decision.memory, tight)
    outcome = decided([row], specs=tight, views=2)
    assert not moved(outcome)
    assert not wakes(row, outcome.decision.memory, tight)


def test_a_topic_that_is_moving_does_not_wake_the_controller() -> None:
    outcome = decided([limited("near/1", "c")])
    assert moved(outcome)
    assert not wakes(limited("near/1", "c"), outcome.decision.memory)
