"""One round by itself: facts in, actions out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from control.knowing import known, seen
from equipoise.control.rounds import ControllerState, RoundInput, RoundOutcome, absent_since, decide
from equipoise.control.settings import ControllerSettings
from equipoise.model import Member, Plan, Specs, TopicSpec, apply
from equipoise.plan import Decision, Planner, PlannerSettings
from equipoise.plan.policies import ConsistentHashing, Static
from equipoise.view import HubView
from plan.near import at, hub, near
from plan.small import settled, topic, view

BOUNDS = ControllerSettings(hubs_min=1, hubs_max=6)


def after_a_minute(
    load: Sequence[float], *, idle: Iterable[HubView] = (), wanted: Iterable[str] = ()
) -> tuple[RoundOutcome, RoundInput]:
    """Hub a has topics of these ratios, the others none; after sixty views."""
    others = list(idle)
    names = ["a", *(hub.name for hub in others)]
    rows = [topic(f"t{number}", ratio, "a") for number, ratio in enumerate(load)]
    drained = {hub.name for hub in others if hub.is_draining}
    plan = Plan.of(version=1, members=[Member(name, 0 if name in drained else 16) for name in names])
    memory, policy = settled(names), Planner(PlannerSettings(servers_max=6))
    for second in range(60):
        now = 100.0 + second
        shown = view(rows, ["a", *others], at_s=now, plan_version=plan.version)
        facts = known(now, view=shown, plan=plan, hubs=seen(names), wanted=wanted, memory=memory)
        outcome = decide(facts, policy, BOUNDS)
        memory = outcome.decision.memory
        if not outcome.decision.change.is_empty:
            plan = apply(plan, outcome.decision.change)
        if outcome.start:
            break
    return outcome, facts


@pytest.mark.parametrize("drained", [0, 1, 2])
def test_a_needed_server_is_requested_while_a_hub_is_drained(drained: int) -> None:
    idle = [HubView(name=f"d{number}", is_draining=True) for number in range(drained)]
    outcome, _ = after_a_minute([0.3] * 4, idle=idle)
    assert outcome.decision.servers_wanted == 2
    assert [server.hub for server in outcome.start] == ["hub-1"]


def test_a_needed_server_is_requested_while_another_has_full_memory() -> None:
    full = HubView(name="full", memory_bytes=100, memory_bytes_max=100)
    outcome, _ = after_a_minute([0.3] * 4, idle=[full])
    assert [server.hub for server in outcome.start] == ["hub-1"]


def test_a_starting_hub_is_not_requested_twice() -> None:
    outcome, _ = after_a_minute([0.3] * 4, wanted=["hub-1"])
    assert outcome.decision.servers_wanted == 2
    assert outcome.start == []


def test_machines_never_exceed_the_limit_though_some_have_no_topics() -> None:
    full = [HubView(name=f"full{n}", memory_bytes=100, memory_bytes_max=100) for n in range(5)]
    outcome, _ = after_a_minute([0.3] * 4, idle=full)
    assert outcome.decision.servers_wanted > 1
    assert outcome.start == []


def late_by(seconds: float, *, hubs_max: int) -> RoundOutcome:
    """Two hubs were requested that long ago and have not started, while a third is available."""
    plan = Plan.of(version=1, members=[Member("a")])
    memory = settled(["a"], servers_wanted=3, asked_s=100.0)
    facts = known(
        100.0 + seconds,
        view=view([topic(f"t{n}", 0.3, "a") for n in range(4)], ["a"], at_s=100.0 + seconds),
        plan=plan,
        hubs=seen(["a"]),
        wanted=["hub-1", "hub-2"],
        memory=memory,
        absent_s={"hub-1": 100.0, "hub-2": 100.0 + seconds},
    )
    return decide(facts, Planner(), ControllerSettings(hubs_max=hubs_max, hub_start_timeout_s=600.0))


def test_a_hub_that_does_not_start_is_abandoned_after_a_while_and_replaced() -> None:
    before, after = late_by(599.0, hubs_max=6), late_by(600.0, hubs_max=6)
    assert (before.start, before.missing, before.given_up) == ([], ["hub-1", "hub-2"], [])
    assert [server.hub for server in after.start] == ["hub-3"]
    assert (after.missing, after.given_up) == (["hub-2"], ["hub-1"])


def test_an_abandoned_hub_counts_as_a_machine_until_it_is_stopped() -> None:
    assert late_by(600.0, hubs_max=3).start == []


def test_the_wait_begins_when_a_hub_is_first_missing_and_ends_when_it_starts() -> None:
    first = known(100.0, hubs=seen(["a"]), wanted=["a", "hub-1"])
    assert absent_since(first) == {"hub-1": 100.0}
    later = known(150.0, hubs=seen(["a"], ["hub-1"]), wanted=["a", "hub-1"], absent_s=absent_since(first))
    assert absent_since(later) == {"hub-1": 100.0}
    come = known(160.0, hubs=seen(["a", "hub-1"]), wanted=["a", "hub-1"], absent_s=absent_since(later))
    assert absent_since(come) == {}


def test_a_static_plan_requests_no_server() -> None:
    plan = Plan.of(version=1, members=[Member("a"), Member("drained", 0), Member("dead")])
    facts = known(100.0, view=view([], ["a", "drained"]), plan=plan, hubs=seen(["a", "drained"]))
    assert decide(facts, Static(), BOUNDS).start == []


def test_hashing_requests_a_server_while_another_is_drained() -> None:
    plan = Plan.of(version=1, members=[Member("a"), Member("drained", 0)])
    shown = view([topic("t", 0.9, "a")], ["a", "drained"])
    facts = known(100.0, view=shown, plan=plan, hubs=seen(["a", "drained"]), memory=settled(["a", "drained"]))
    outcome = decide(facts, ConsistentHashing(), BOUNDS)
    assert [server.hub for server in outcome.start] == ["hub-1"]


def test_a_frozen_plan_follows_the_settings_of_the_policy() -> None:
    plan = Plan.of(version=1, members=[Member("a"), Member("dead")])
    memory = settled(["a", "dead"], dead_s={"dead": 100.0})
    facts = known(150.0, plan=plan, hubs=seen(["a"], ["dead"]), memory=memory)
    patient, usual = PlannerSettings(dead_wait_s=600.0), PlannerSettings()
    for made in (Planner, ConsistentHashing):
        outcome = decide(facts, made(patient), BOUNDS)
        assert outcome.state is ControllerState.FROZEN and outcome.decision.change.is_empty
        outcome = decide(facts, made(usual), BOUNDS)
        assert [part.hub for part in outcome.decision.change.members] == ["dead"]


def test_a_hub_that_joins_a_frozen_plan_gets_no_topic_whose_limit_held() -> None:
    a = hub("a", 10)
    rows = [near(f"near/{number}", 0.01, "a", (at(0),), (at(0),), [a]) for number in range(40)]
    shown = view(rows, [a], at_s=100.0)
    plan = Plan.of(version=1, members=[Member("a")])
    facts = known(900.0, view=shown, plan=plan, hubs=seen(["a", "new"]), memory=settled(["a"]))
    limits = Specs([TopicSpec(pattern=b"near*", latency_ms=30)])
    for specs, stays in ((limits, True), (Specs(), False)):
        outcome = decide(replace(facts, specs=specs), Planner(), BOUNDS)
        after = apply(plan, outcome.decision.change)
        assert outcome.state is ControllerState.FROZEN and set(after.by_hub) == {"a", "new"}
        assert all(after.home_of(row.name).homes == ("a",) for row in rows) == stays


def test_a_frozen_static_plan_does_not_change() -> None:
    plan = Plan.of(version=1, members=[Member("a"), Member("dead")])
    memory = settled(["a", "dead"], dead_s={"dead": 100.0})
    facts = known(900.0, plan=plan, hubs=seen(["a", "new"], ["dead"]), memory=memory)
    outcome = decide(facts, Static(), BOUNDS)
    assert outcome.state is ControllerState.FROZEN and outcome.decision.change.is_empty


class Mistaken(Static):
    """A policy from outside the package."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def decide(self, *_: object) -> Decision:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value]  # a mistake


@pytest.mark.parametrize("answer", [ZeroDivisionError("division by zero"), None, "a plan"])
def test_a_failing_policy_freezes_the_plan_with_a_reason(answer: object) -> None:
    plan = Plan.of(version=1, members=[Member("a")])
    facts = known(100.0, view=view([topic("t", 2.0, "a")], ["a"]), plan=plan, hubs=seen(["a"]))
    outcome = decide(facts, Mistaken(answer), BOUNDS)
    assert outcome.state is ControllerState.FROZEN and outcome.problem is not None
    assert outcome.frozen.startswith(f"the policy static fails: {type(outcome.problem).__name__}")
    assert (outcome.start, outcome.stop, outcome.decision.change.is_empty) == ((), (), True)
