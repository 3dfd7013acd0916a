"""A topic whose best hub changes back and forth stays; one that had settled follows its clients."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from equipoise.model import Entry, Member, Mode, Plan, Specs, TopicSpec, apply
from equipoise.plan import Memory, Planner, PlannerSettings, decode_memory, encode_memory
from equipoise.plan.memory import Arbiter, MoveClaim
from plan.near import at, hub, near
from plan.small import decide, moved, plan_of, settled, view

LIMIT = Specs([TopicSpec(pattern=b"near*", latency_ms=30)])
HERE = (at(0),)


class Flapping:
    """One topic whose clients are near one hub, then near the other, for a while each."""

    def __init__(self, every_s: int, hubs_each: int = 1) -> None:
        firsts = [hub(f"a{number}", 0) for number in range(hubs_each)]
        self.hubs = (*firsts, *(hub(f"b{number}", 100) for number in range(hubs_each)))
        self.names = [one.name for one in self.hubs]
        self.every_s = every_s
        self.plan = Plan.of(version=1, members=map(Member, self.names), entries=[Entry(b"near/1", ("a0",))])
        self.memory: Memory = settled(self.names)
        self.began_s = 100
        self.moves = 0
        self.above_s = 0

    def run(self, seconds: int) -> None:
        planner = Planner(PlannerSettings(servers_min=len(self.hubs)))
        for second in range(seconds):
            clients = [at(100.0 * (second // self.every_s % 2))]
            home = self.plan.home_of(b"near/1").homes[0]
            row = near("near/1", 0.1, home, clients, clients, self.hubs)
            self.above_s += row.latency_s_worst > 0.03
            if not self.is_seen(self.began_s + second):
                continue
            now = float(self.began_s + second)
            seen = view([row], self.hubs, at_s=now, plan_version=self.plan.version)
            decision = planner.decide(seen, self.plan, LIMIT, now, self.memory)
            after = apply(self.plan, decision.change)
            self.moves += after.home_of(b"near/1").homes[0] != home
            self.plan, self.memory = after, decode_memory(encode_memory(decision.memory))
        self.began_s += seconds

    def is_seen(self, now: float) -> bool:
        """Whether there is a view then."""
        return True


def test_a_topic_whose_best_hub_changes_back_and_forth_stays() -> None:
    hectic = Flapping(every_s=6)
    hectic.run(600)
    # Moving each time would be a hundred moves.
    assert hectic.moves <= 14


def test_the_hubs_of_a_site_are_one_place_to_go_back_to() -> None:
    hectic = Flapping(every_s=6, hubs_each=6)
    hectic.run(600)
    assert hectic.moves <= 14


class Unseen(Flapping):
    """The same, with no view for a while after each move."""

    def is_seen(self, now: float) -> bool:
        made = self.memory.approaches.get(b"near/1")
        return made is None or not 0 < now - made.at_s <= 11


def test_a_placement_that_no_view_has_shown_does_not_count_as_settled() -> None:
    hectic = Unseen(every_s=6)
    hectic.run(600)
    assert hectic.moves <= 14


def test_homes_of_a_replicated_topic_do_not_go_back_and_forth_either() -> None:
    hubs = (hub("a", 0), hub("a2", 1), hub("b", 100), hub("b2", 101))
    names = [one.name for one in hubs]
    plan = plan_of({"near/1": ("a", "a2")}, names, mode=Mode.ALL_PUBLISHERS)
    memory, planner, moves = settled(names), Planner(PlannerSettings(servers_min=4)), 0
    for now in range(100, 700):
        clients = [at(100.0 * (now // 6 % 2))]
        homes = plan.home_of(b"near/1").homes
        worst_s = 0.1 if homes[0][0] != "ab"[now // 6 % 2] else 0.001
        row = near("near/1", 0.4, homes[0], clients, clients, hubs)
        row = replace(row, latency_s_worst=worst_s, carried_by=dict.fromkeys(homes, 0.5), subscribers=5000.0)
        seen = view([row], hubs, at_s=float(now), plan_version=plan.version)
        decision = planner.decide(seen, plan, LIMIT, float(now), memory)
        after = apply(plan, decision.change)
        moves += after.home_of(b"near/1").homes != homes
        plan, memory = after, decision.memory
    assert 1 <= moves <= 14


def test_a_replicated_topic_that_no_hub_keeps_within_its_limit_still_gets_nearer() -> None:
    hubs = (hub("a", 30), hub("b", 31), hub("c", 80))
    row = replace(near("near/1", 0.4, "a", HERE, HERE, hubs), latency_s_worst=0.08)
    row = replace(row, carried_by={"a": 0.5, "c": 0.5}, subscribers=5000.0)
    plan = plan_of({"near/1": ("a", "c")}, ["a", "b", "c"], mode=Mode.ALL_PUBLISHERS)
    tight = Specs([TopicSpec(pattern=b"near*", latency_ms=5)])
    assert moved(decide([row], hubs, plan=plan, specs=tight, views=2)) == {"near/1": ("a", "b")}


def test_evidence_outlives_rounds_in_which_nothing_more_may_be_moved() -> None:
    held = {
        b"other/%d" % n: MoveClaim("planner", 100.0, 9) for n in range(PlannerSettings().moves_in_flight_max)
    }
    hubs = (hub("a", 10), hub("b", 40), hub("c", 80))
    full = msgspec.structs.replace(settled(["a", "b", "c"]), arbiter=Arbiter(held))
    row = near("near/1", 0.1, "c", HERE, HERE, hubs)
    outcome = decide([row], hubs, specs=LIMIT, memory=full, views=1)
    assert outcome.decision.memory.far_hits[b"near/1"].count == 1


def test_a_topic_whose_clients_travel_now_and_then_follows_them() -> None:
    calm = Flapping(every_s=120)
    calm.run(1200)
    assert calm.moves == 9
    assert calm.above_s <= 9 * 15


def test_a_topic_that_had_settled_follows_however_often_its_clients_have_moved() -> None:
    steady = Flapping(every_s=30)
    steady.run(1200)
    assert steady.moves == 39
    assert steady.above_s <= 39 * 4


def test_a_topic_that_changes_back_and_forth_and_then_settles_is_treated_like_others() -> None:
    flapping = Flapping(every_s=6)
    flapping.run(120)
    assert flapping.memory.approaches[b"near/1"].returns > 0
    flapping.every_s = 30
    flapping.run(300)
    flapping.moves = flapping.above_s = 0
    flapping.run(300)
    assert flapping.moves == 10
    assert flapping.above_s <= 10 * 4
