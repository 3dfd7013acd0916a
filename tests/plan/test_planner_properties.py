"""Properties of every decision, for any view."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from equipoise.model import Entry, Member, Mode, Plan, Reason, Specs, TopicSpec, apply
from equipoise.plan import (
    ConsistentHashing,
    Memory,
    Planner,
    PlannerSettings,
    Static,
    decode_memory,
    encode_memory,
)
from equipoise.plan.draft import Draft
from equipoise.plan.predicted import Replicas
from equipoise.plan.steps.high_load import shed_load, spread
from equipoise.view import HubView, TopicView, View, from_tables, to_tables
from plan.small import settled

NAMES = ["h1", "h2", "h3", "h4", "h5"]
SITES = ["", "paris", "rome"]
RATIOS = st.floats(0.0, 0.7)
EAGER = PlannerSettings(hits=1, plan_wait_s=0.0, severe_wait_s=0.0, topic_wait_s=0.0)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[View, Plan, Specs]:
    """Hubs in every condition, topics of every size, and a plan that is valid and nothing else."""
    hubs = [
        HubView(
            name=name,
            site=draw(st.sampled_from(SITES)),
            is_alive=draw(st.sampled_from([True, True, True, False])),
            is_draining=draw(st.sampled_from([False, False, False, True])),
            cpu_ratio=draw(st.floats(0, 1)),
            loop_lag_s=draw(st.sampled_from([0.0, 0.001, 0.03, 0.2])),
            memory_bytes=draw(st.sampled_from([0.0, 50.0, 95.0])),
            memory_bytes_max=draw(st.sampled_from([0.0, 100.0])),
            out_bytes_per_s=draw(st.floats(0, 1.5e6)),
            out_bytes_per_s_max=draw(st.sampled_from([0.0, 0.5e6, 1e6])),
            out_bytes_trend=draw(st.sampled_from([0.0, 0.0, 5e4, -5e4])),
            incarnation=draw(st.integers(0, 2)),
            carries_content=draw(st.sampled_from([True, True, True, False])),
        )
        for name in draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=5))
    ]
    names = [hub.name for hub in hubs]
    member_names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=5))
    members = [Member(name, draw(st.sampled_from([0, 8, 16, 16, 16]))) for name in member_names]
    topics, entries = [], []
    for at in range(draw(st.integers(0, 12))):
        carriers: list[str] = draw(st.lists(st.sampled_from(names), unique=True, max_size=3)) if names else []
        out = draw(RATIOS) * 1e6
        topics.append(
            TopicView(
                name=b"t%d" % at,
                publications_per_s=draw(st.sampled_from([0.0, 5.0, 2000.0])),
                deliveries_per_s=draw(st.floats(0, 1e6)),
                out_bytes_per_s=out,
                out_bytes_per_s_max=out * 1.5,
                publishers=draw(st.sampled_from([0.0, 1.0, 100.0])),
                subscribers=draw(st.sampled_from([0.0, 1.0, 1000.0])),
                out_bytes_trend=draw(st.sampled_from([0.0, 2e4, -2e4])),
                carried_by={hub: 1.0 / len(carriers) for hub in carriers},
                filters=draw(st.sampled_from([0.0, 0.0, 5000.0])),
            )
        )
        homes = tuple(draw(st.lists(st.sampled_from(member_names or [""]), unique=True, max_size=3)))
        if member_names and homes:
            mode = Mode.SINGLE if len(homes) == 1 else draw(st.sampled_from(list(Mode)[1:]))
            parents = (0, 0, draw(st.integers(0, 1)))[: len(homes)] if mode is Mode.CONTENT else ()
            entries.append(Entry(b"t%d" % at, homes, mode, parents=parents))
    plan = Plan.of(version=3, members=members, entries=entries)
    specs = Specs([TopicSpec(pattern=b"t1*", site="paris")] if draw(st.booleans()) else [])
    return View.of(100.0, topics, hubs), plan, specs


def memory_for(view: View) -> Memory:
    return settled([], incarnations=dict.fromkeys(view.hubs.names, 0), spread_until_s=110.0)


SLOW = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@SLOW
@given(worlds())
def test_nothing_is_given_to_a_dead_drained_or_full_hub_or_to_the_wrong_site(
    world: tuple[View, Plan, Specs],
) -> None:
    view, plan, specs = world
    decision = Planner(EAGER).decide(view, plan, specs, 100.0, memory_for(view))
    after = apply(plan, decision.change)
    hubs = {hub.name: hub for hub in view.hub_rows()}
    alive = {name for name, hub in hubs.items() if hub.is_alive}
    for part in decision.change.entries:
        if part.entry is None or part.why.reason is Reason.LEFT:
            continue
        before = plan.entries.get(part.topic)
        for name in part.entry.homes:
            assert name in after.by_hub
            # Topics that it had, and topics from the ring, are not assigned by the planner.
            was_home = before is not None and name in before.homes
            if was_home or name in (plan.ring.owner(part.topic, alive), after.ring.owner(part.topic, alive)):
                continue
            hub = hubs[name]
            assert hub.is_alive
            assert not hub.is_draining
            assert after.by_hub[name].weight > 0
            assert hub.memory_bytes_max == 0 or hub.memory_bytes <= 0.9 * hub.memory_bytes_max
            spec = specs.of(part.topic)
            assert spec is None or spec.site is None or hub.site == spec.site


@SLOW
@given(worlds())
def test_the_same_inputs_give_the_same_decision_also_after_encoding(
    world: tuple[View, Plan, Specs],
) -> None:
    view, plan, specs = world
    memory = memory_for(view)
    first = Planner(EAGER).decide(view, plan, specs, 100.0, memory)
    back = from_tables(view.time_s, to_tables(view))
    second = Planner(EAGER).decide(back, plan, specs, 100.0, decode_memory(encode_memory(memory)))
    assert first.change == second.change
    assert first.servers_wanted == second.servers_wanted


@SLOW
@given(worlds())
def test_no_move_for_load_widens_the_difference_between_hubs(world: tuple[View, Plan, Specs]) -> None:
    view, plan, specs = world
    for step in (shed_load, spread):
        draft = Draft(view, plan, specs, 100.0, memory=memory_for(view), settings=EAGER)
        among = draft.eligible
        if not among.any():
            continue
        watching = Watching(draft, among)
        step(draft)
        differences = watching.differences
        assert all(after <= before + 1e-9 for before, after in pairwise(differences))


class Watching:
    """Wraps the prediction of a draft and records the difference between hubs after every move."""

    def __init__(self, draft: Draft, among: NDArray[np.bool_]) -> None:
        self._draft, self._among = draft, among
        self._place = draft.predicted.place
        self.differences = [_difference(draft, among)]
        draft.predicted.place = self  # type: ignore[method-assign,assignment]  # To see every move.

    def __call__(self, topic: int, to: Replicas | int) -> None:
        self._place(topic, to)
        self.differences.append(_difference(self._draft, self._among))


def _difference(draft: Draft, among: NDArray[np.bool_]) -> float:
    ratio = draft.predicted.ratio
    members = among | draft.givers()
    return float(ratio[members].max() - ratio[among].min())


@SLOW
@given(worlds())
def test_every_policy_makes_a_valid_plan_of_every_view(world: tuple[View, Plan, Specs]) -> None:
    view, plan, specs = world
    for policy in (Planner(), Planner(EAGER), ConsistentHashing(), Static()):
        decision = policy.decide(view, plan, specs, 100.0, memory_for(view))
        apply(plan, decision.change).check()
        assert decision.change.version == plan.version + 1
        again = policy.decide(view, apply(plan, decision.change), specs, 101.0, decision.memory)
        apply(apply(plan, decision.change), again.change).check()


@SLOW
@given(worlds())
def test_no_more_is_moved_than_the_limits_allow_and_no_claimed_topic(
    world: tuple[View, Plan, Specs],
) -> None:
    view, plan, specs = world
    tight = PlannerSettings(
        hits=1,
        plan_wait_s=0.0,
        severe_wait_s=0.0,
        topic_wait_s=0.0,
        moves_per_round_max=2,
        moves_in_flight_max=3,
    )
    memory = memory_for(view)
    held, _ = memory.arbiter.claim("content", list(view.topics.names)[:2], now=99.0)
    memory = settled([], incarnations=memory.incarnations, spread_until_s=110.0, arbiter=held)
    decision = Planner(tight).decide(view, plan, specs, 100.0, memory)
    free = {Reason.LEFT, Reason.AS_RING}
    moved = [part.topic for part in decision.change.entries if part.why.reason not in free]
    assert len(moved) <= 2
    assert not set(moved) & set(list(view.topics.names)[:2])
