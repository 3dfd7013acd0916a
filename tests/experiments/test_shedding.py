"""Consistent hashing as released: the share that each server gives to a new one, and the result with eight servers."""

from __future__ import annotations

from collections import Counter

from equipoise.lab.experiments.shedding import Shedding
from equipoise.model import Member, Plan, Specs, apply
from equipoise.plan import Memory
from equipoise.view import HubView, TopicView, View

TOPICS = [f"tile-{number}".encode() for number in range(640)]


def view(hubs: dict[str, float], *, at_s: float = 0.0) -> View:
    return View.of(
        at_s,
        [TopicView(name=name, out_bytes_per_s=1.0, carried_by={"hub-1": 1.0}) for name in TOPICS],
        [HubView(name=name, out_bytes_per_s=ratio, out_bytes_per_s_max=1.0) for name, ratio in hubs.items()],
    )


def counts(plan: Plan) -> Counter[str]:
    return Counter(plan.home_of(topic).homes[0] for topic in TOPICS)


def plan_of_one() -> Plan:
    return Plan.of(members=[Member("hub-1")])


def test_nothing_happens_below_the_threshold() -> None:
    policy = Shedding(8)
    decision = policy.decide(view({"hub-1": 0.79}), plan_of_one(), Specs(), 100.0, Memory())
    assert decision.change.is_empty
    assert decision.servers_wanted == 1
    assert not policy.wakes(view({"hub-1": 0.79}), Specs(), Memory())


def test_an_overload_asks_for_one_server_and_not_again_until_that_has_come() -> None:
    policy, memory = Shedding(8), Memory()
    for now in (100.0, 101.0, 130.0):
        decision = policy.decide(view({"hub-1": 1.2}), plan_of_one(), Specs(), now, memory)
        memory = decision.memory
        assert decision.change.is_empty
        assert decision.servers_wanted == 2


def test_no_more_servers_are_asked_for_than_there_are() -> None:
    decision = Shedding(1).decide(view({"hub-1": 1.2}), plan_of_one(), Specs(), 100.0, Memory())
    assert decision.servers_wanted == 1


def test_each_server_gives_a_new_one_its_part_and_the_first_two_keep_most() -> None:
    policy, plan, memory = Shedding(8), plan_of_one(), Memory()
    for number in range(2, 9):
        hubs = dict.fromkeys([*(member.hub for member in plan.members), f"hub-{number}"], 0.9)
        before = counts(plan)
        decision = policy.decide(view(hubs), plan, Specs(), 100.0 * number, memory)
        plan, memory = apply(plan, decision.change), decision.memory
        # Each of n gives 1/(n·(n + 1)) of what it has.
        have = number - 1
        for hub, held in before.items():
            assert held - counts(plan)[hub] == round(held / (have * (have + 1)))
    found = counts(plan)
    assert sum(found.values()) == 640
    # By the rule: ½ · ⅚ · 11/12 · 19/20 · 29/30 · 41/42 · 55/56 = 0.336 of all channels.
    assert abs(found["hub-1"] / 640 - 0.336) < 0.01
    assert abs(found["hub-2"] / 640 - 0.336) < 0.01
    assert found["hub-8"] < 0.03 * 640


def test_a_join_starts_the_wait_for_the_next_one() -> None:
    policy = Shedding(8)
    joined = policy.decide(view({"hub-1": 0.9, "hub-2": 0.0}), plan_of_one(), Specs(), 100.0, Memory())
    plan = apply(plan_of_one(), joined.change)
    full = view({"hub-1": 0.9, "hub-2": 0.9})
    assert policy.decide(full, plan, Specs(), 119.0, joined.memory).servers_wanted == 2
    assert policy.decide(full, plan, Specs(), 120.0, joined.memory).servers_wanted == 3
