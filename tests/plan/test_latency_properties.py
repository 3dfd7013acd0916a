"""Properties of every decision about topics with latency limits, for any view."""

from __future__ import annotations

import math
from dataclasses import replace

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from equipoise.coordinates import Coordinate
from equipoise.model import Plan, Reason, Specs, TopicSpec, apply
from equipoise.plan import (
    AllPairs,
    ConsistentHashing,
    Planner,
    PlannerSettings,
    TopicManager,
    decode_memory,
    encode_memory,
)
from equipoise.plan.draft import Draft
from equipoise.plan.latency import CentroidEstimate, LatencyLimits, limits_of
from equipoise.plan.memory import LatencyMoves
from equipoise.view import HubView, View, from_tables, to_tables
from plan.near import at
from plan.test_planner_properties import SLOW, memory_for, worlds

EAGER = PlannerSettings(hits=1, latency_hits=1, plan_wait_s=0.0, severe_wait_s=0.0, topic_wait_s=0.0)
# What takes a topic away whatever its limit.
OBLIGATIONS = {Reason.PINNED, Reason.DRAINED, Reason.LEFT}
points = st.sampled_from([0.0, 10.0, 40.0, 100.0])


@st.composite
def far_worlds(draw: st.DrawFn) -> tuple[View, Plan, Specs]:
    """The worlds of the planner's properties with places on a line, some of them unknown, and limits."""
    view, plan, specs = draw(worlds())
    hubs = [
        replace(row, coordinate=draw(st.none() | st.builds(at, points)), loop_lag_s=0.0)
        for row in view.hub_rows()
    ]
    topics = [
        replace(
            row,
            publishers_at=draw(st.none() | st.builds(at, points)),
            subscribers_at=draw(st.none() | st.builds(at, points)),
            deviation_s=draw(st.sampled_from([0.0, 0.002, math.nan])),
            latency_s_worst=draw(st.sampled_from([0.005, 0.02, 0.2, math.nan])),
        )
        for row in view.topic_rows()
    ]
    limits = [TopicSpec(pattern=b"t*", latency_ms=draw(st.sampled_from([10.0, 30.0, 60.0])))]
    return View.of(view.time_s, topics, hubs), plan, Specs([*specs, *limits])


def is_sound(hub: HubView, plan: Plan) -> bool:
    """It may keep what it has."""
    has_memory = hub.memory_bytes_max == 0 or hub.memory_bytes <= 0.9 * hub.memory_bytes_max
    is_member = hub.name in plan.by_hub and plan.by_hub[hub.name].weight > 0
    return hub.is_alive and not hub.is_draining and is_member and has_memory


@SLOW
@given(far_worlds())
def test_no_limit_that_held_is_broken_by_an_entry_or_by_the_ring(world: tuple[View, Plan, Specs]) -> None:
    view, plan, specs = world
    decision = Planner(EAGER).decide(view, plan, specs, 100.0, memory_for(view))
    after = apply(plan, decision.change)
    hubs = {row.name: row for row in view.hub_rows()}
    alive = {name for name, row in hubs.items() if row.is_alive}
    limits = LatencyLimits(view, limits_of(view, specs), CentroidEstimate(view))
    obliged = {part.topic for part in decision.change.entries if part.why.reason in OBLIGATIONS}
    for topic in limits.topics.tolist():
        name = view.topics.names[topic]
        before = plan.home_of(name, alive).homes
        if name in obliged or not before or not all(is_sound(hubs[home], after) for home in before):
            continue
        homes = tuple(view.hub_index[home] for home in before)
        if not limits.present_s(topic, homes) <= limits.limit_s[topic]:
            continue
        for home in set(after.home_of(name, alive).homes) - set(before):
            expected_s = limits.worst_s(topic)[view.hub_index[home]]
            has_places = any(row.coordinate is not None for row in hubs.values())
            assert expected_s <= limits.limit_s[topic] or not has_places


@SLOW
@given(far_worlds())
def test_no_hub_is_overloaded_for_a_limit(world: tuple[View, Plan, Specs]) -> None:
    view, plan, specs = world
    decision = Planner(EAGER).decide(view, plan, specs, 100.0, memory_for(view))
    for part in decision.change.entries:
        if part.why.reason is Reason.LATENCY and "receiver_ratio_after" in part.why.numbers:
            assert part.why.numbers["receiver_ratio_after"] <= EAGER.crowded_ratio + 1e-4
            assert part.why.numbers["latency_ms"] > part.why.numbers["limit_ms"]


@SLOW
@given(far_worlds(), st.integers(1, 4), st.data())
def test_nor_where_some_of_a_rounds_moves_may_not_be_made(
    world: tuple[View, Plan, Specs], moves_max: int, data: st.DataObject
) -> None:
    """1. Some topics wait before they go back to where they were. 2. A round has few moves."""
    view, plan, specs = world
    names = view.topics.names
    waiting: set[bytes] = data.draw(st.sets(st.sampled_from(names)) if names else st.just(set()))
    left = LatencyMoves(99.0, tuple(view.hubs.names), 3)
    memory = msgspec.structs.replace(memory_for(view), approaches=dict.fromkeys(waiting, left))
    settings = msgspec.structs.replace(EAGER, moves_per_round_max=moves_max, topic_wait_s=60.0)
    decision = Planner(settings).decide(view, plan, specs, 100.0, memory)
    entries = [part for part in decision.change.entries if part.entry is not None]
    if not entries or any(part.why.reason is not Reason.LATENCY for part in entries):
        return
    after = Draft(view, apply(plan, decision.change), specs, 100.0, memory=memory, settings=settings)
    got = {view.hub_index[home] for part in entries if part.entry for home in part.entry.homes}
    before = Draft(view, plan, specs, 100.0, memory=memory, settings=settings).predicted.ratio
    for hub in got:
        assert after.predicted.ratio[hub] <= max(settings.crowded_ratio, before[hub]) + 1e-6


@SLOW
@given(far_worlds())
def test_the_same_inputs_give_the_same_decision_wherever_clients_are(world: tuple[View, Plan, Specs]) -> None:
    view, plan, specs = world
    memory = memory_for(view)
    first = Planner(EAGER).decide(view, plan, specs, 100.0, memory)
    back = from_tables(view.time_s, to_tables(view))
    second = Planner(EAGER).decide(back, plan, specs, 100.0, decode_memory(encode_memory(memory)))
    assert first.change == second.change
    assert first.memory.far_hits == second.memory.far_hits


@SLOW
@given(far_worlds())
def test_every_policy_makes_a_valid_plan_wherever_clients_are(world: tuple[View, Plan, Specs]) -> None:
    view, plan, specs = world
    clients: dict[bytes, tuple[list[Coordinate], list[Coordinate]]] = {
        row.name: ([at(0)], [row.subscribers_at] if row.subscribers_at else []) for row in view.topic_rows()
    }
    for policy in (Planner(), Planner(EAGER), ConsistentHashing(), TopicManager(), AllPairs(clients)):
        decision = policy.decide(view, plan, specs, 100.0, memory_for(view))
        after = apply(plan, decision.change)
        after.check()
        again = policy.decide(view, after, specs, 101.0, decision.memory)
        apply(after, again.change).check()


@SLOW
@given(far_worlds())
def test_hashing_knows_no_limits(world: tuple[View, Plan, Specs]) -> None:
    view, plan, specs = world
    bare = Plan.of(version=plan.version, members=plan.members, entries=[])
    decision = ConsistentHashing().decide(view, bare, specs, 100.0, memory_for(view))
    assert not decision.change.entries


@SLOW
@given(far_worlds())
def test_topics_without_limits_may_move_as_in_a_cluster_without_any(world: tuple[View, Plan, Specs]) -> None:
    view, plan, specs = world
    few = Specs([spec for spec in specs if spec.site is not None] + [TopicSpec(pattern=b"t3", latency_ms=30)])
    none = Specs([spec for spec in few if spec.latency_ms is None])
    memory = memory_for(view)
    drafts = [Draft(view, plan, some, 100.0, memory=memory, settings=EAGER) for some in (few, none)]
    for topic, name in enumerate(view.topics.names):
        masks = [draft.takers(topic).tolist() for draft in drafts]
        assert name == b"t3" or masks[0] == masks[1]
        assert all(one <= other for one, other in zip(*masks, strict=True))
