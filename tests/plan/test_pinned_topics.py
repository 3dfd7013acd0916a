"""No policy moves a topic that an operator has pinned, unless its hub is drained or dead."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from equipoise.model import Entry, Member, Plan, Reason, Specs, TopicSpec, apply
from equipoise.plan import ConsistentHashing, Planner, PlannerSettings, Policy, Static
from equipoise.plan.policies.baselines import MembersOnly
from equipoise.plan.policies.topic_manager import TopicManager
from equipoise.view import HubView, View
from plan.near import at, hub, near
from plan.small import decide, moved, plan_of, settled, topic, view
from plan.test_planner_properties import EAGER, memory_for, worlds

HUBS = ["a", "b", "c"]
POLICIES: list[Policy] = [
    Planner(),
    Planner(EAGER),
    TopicManager(),
    ConsistentHashing(),
    MembersOnly(),
    Static(),
]


def pinned(plan: Plan, *topics: str) -> Plan:
    """The plan with these of its entries pinned."""
    entries = [
        msgspec.structs.replace(entry, is_pinned=entry.topic.decode() in topics)
        for entry in plan.entries.values()
    ]
    return Plan.of(version=plan.version, members=plan.members, entries=entries)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=[Phase.generate]
)
@given(world=worlds(), later_s=st.sampled_from([1.0, 5_000.0]))
def test_a_pinned_topic_is_never_moved_by_a_policy_while_its_hub_lives(
    policy: Policy, world: tuple[View, Plan, Specs], later_s: float
) -> None:
    seen, plan, specs = world
    plan = pinned(plan, *(f"t{n}" for n in range(12)))
    memory = memory_for(seen)
    serving = {row.name for row in seen.hub_rows() if row.is_alive and not row.is_draining}
    for now in (100.0, 100.0 + later_s):
        view_now = View.of(now, seen.topic_rows(), seen.hub_rows())
        decision = policy.decide(view_now, plan, specs, now, memory)
        after = apply(plan, decision.change)
        for entry in plan.pinned:
            if serving.issuperset(entry.homes):
                assert after.entries.get(entry.topic) == entry
        plan, memory = after, decision.memory


def test_an_overloaded_hub_gives_away_topics_that_are_not_pinned() -> None:
    rows = [topic("hot", 0.5, "a"), topic("warm", 0.4, "a"), topic("cool", 0.1, "b")]
    free = decide(rows, HUBS, views=10)
    assert moved(free)
    (first,) = list(moved(free))[:1]
    outcome = decide(rows, HUBS, plan=pinned(free.plan, first), views=10)
    assert first not in moved(outcome) and moved(outcome)


def test_no_server_is_requested_if_pinned_topics_alone_overload_a_hub() -> None:
    rows = [topic("hot", 0.7, "a"), topic("hotter", 0.6, "a"), topic("cool", 0.1, "b")]
    hubs = ["a", "b"]
    free = decide(rows, hubs, plan=pinned(plan_of(rows, hubs), "cool"), views=10)
    assert moved(free)
    kept = decide(rows, hubs, plan=pinned(plan_of(rows, hubs), "hot", "hotter"), views=60)
    assert not moved(kept)
    assert kept.decision.servers_wanted == 2
    assert any(why.reason is Reason.NO_ROOM and "pinned" in why.note for why in kept.decision.reasons)


def test_a_server_is_requested_if_it_would_help_though_a_topic_is_pinned() -> None:
    rows = [topic("hot", 0.7, "a"), topic("warm", 0.4, "a"), topic("also", 0.7, "b")]
    hubs = ["a", "b"]
    kept = decide(rows, hubs, plan=pinned(plan_of(rows, hubs), "hot"), views=200)
    assert kept.decision.servers_wanted > 2
    assert not any("pinned" in why.note for why in kept.decision.reasons)


def test_a_pinned_entry_stays_though_it_agrees_with_the_ring_or_is_unused() -> None:
    plan = plan_of({}, HUBS)
    home = plan.home_of(b"t").homes[0]
    plan = Plan.of(members=plan.members, entries=[Entry(b"t", (home,)), Entry(b"idle", ("a",))])
    rows = [topic("t", 0.01, home)]
    late = PlannerSettings(servers_min=3, idle_entry_s=5.0)
    assert apply(plan, decide(rows, HUBS, plan=plan, settings=late).change).entries.keys() == {b"idle"}
    kept = pinned(plan, "t", "idle")
    assert decide(rows, HUBS, plan=kept, settings=late, views=30).plan.entries == kept.entries


def test_a_hub_that_a_topic_is_pinned_to_is_not_released() -> None:
    rows = [topic(f"{name}{n}", 0.01, name) for name in HUBS for n in range(3)]
    free = plan_of(rows, HUBS)
    low = PlannerSettings()
    assert decide(rows, HUBS, plan=free, settings=low, views=200).memory.releasing
    everywhere = pinned(free, "a0", "b0", "c0")
    assert not decide(rows, HUBS, plan=everywhere, settings=low, views=200).memory.releasing
    only_c = pinned(free, "a0", "b0")
    assert decide(rows, HUBS, plan=only_c, settings=low, views=200).memory.releasing == "c"


def test_a_pinned_topic_far_from_its_clients_stays_and_stops_waking_the_controller() -> None:
    hubs = [hub("west", 0), hub("east", 200)]
    rows = [near("t", 0.05, "east", [at(0), at(2)], [at(1)], hubs)]
    specs = Specs([TopicSpec(pattern=b"t", latency_ms=40)])
    free = plan_of(rows, ["west", "east"])
    assert moved(decide(rows, hubs, plan=free, specs=specs, views=10)) == {"t": ("west",)}
    kept = pinned(free, "t")
    outcome = decide(rows, hubs, plan=kept, specs=specs, views=10)
    assert moved(outcome) == {} and outcome.plan.entries == kept.entries
    seen = view(rows, hubs, at_s=110.0)
    assert not Planner().wakes(seen, specs, outcome.memory)


def test_a_drained_hub_loses_its_pinned_topics_and_the_pins_end() -> None:
    rows = [topic("t", 0.1, "c")]
    hubs: list[str | HubView] = ["a", "b", HubView(name="c", is_draining=True)]
    members = [Member("a"), Member("b"), Member("c", 0)]
    plan = Plan.of(members=members, entries=[Entry(b"t", ("c",), is_pinned=True)])
    outcome = decide(rows, hubs, plan=plan)
    assert moved(outcome)["t"] in (("a",), ("b",)) and outcome.reasons == {Reason.DRAINED}
    assert apply(plan, outcome.change).pinned == ()


def test_a_hub_that_restarts_keeps_its_pinned_topics() -> None:
    rows = [topic("t", 0.1, "a"), topic("u", 0.1, "b")]
    dead: list[str | HubView] = ["a", "b", HubView(name="c", is_alive=False)]
    plan = pinned(plan_of({"t": ["c"], "u": ["b"]}, HUBS), "t")
    outcome = decide(rows, dead, plan=plan, views=20, memory=settled(HUBS))
    assert outcome.plan.entries[b"t"] == Entry(b"t", ("c",), is_pinned=True)
