"""One round of control: inputs to actions. Pure.

A view that is missing or old, or a policy that fails, freezes the plan: nothing is moved for load, no server is asked
for or given back. Who takes part is still decided, by the store's word alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from equipoise.control.cluster_state import hub_views
from equipoise.control.provision import fresh_names
from equipoise.control.settings import ControllerSettings
from equipoise.ledger.registration import BookieFacts
from equipoise.model import Glob, Plan, Specs
from equipoise.plan import Decision, Memory, Policy
from equipoise.plan.registry import policy_without_view
from equipoise.store import HubSeen, WantedServer
from equipoise.view import HubView, View
from equipoise.view.interest import Interest

__all__ = [
    "ControllerState",
    "RoundInput",
    "RoundOutcome",
    "absent_since",
    "decide",
    "interest_of",
]


class ControllerState(StrEnum):
    # Another controller leads, or none can.
    STANDBY = "standby"
    LEADING = "leading"
    # It leads, and moves nothing, since it cannot see, or its policy fails.
    FROZEN = "frozen"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundInput:
    """Everything a round is decided on."""

    now: float
    view: View | None
    plan: Plan
    specs: Specs
    hubs: Mapping[str, HubSeen]
    # Hubs that were asked for.
    wanted: Mapping[str, WantedServer]
    memory: Memory
    # Since when each of those that are not alive has been asked for, or gone.
    absent_s: Mapping[str, float] = field(default_factory=dict)
    bookies: Collection[BookieFacts] = ()


@dataclass(frozen=True, slots=True)
class RoundOutcome:
    state: ControllerState
    decision: Decision
    # Why the plan is frozen; empty if it is not.
    frozen: str = ""
    # What the policy raised, if it did.
    problem: Exception | None = None
    # Hubs to ask for; those that were asked for and have not come; those that nothing lives at; those given up.
    start: Sequence[WantedServer] = ()
    missing: Sequence[str] = ()
    stop: Sequence[str] = ()
    given_up: Sequence[str] = ()


def absent_since(known: RoundInput) -> dict[str, float]:
    """The same for the next round, without hubs that came or are no longer wanted."""
    missing = known.wanted.keys() - {name for name, seen in known.hubs.items() if seen.alive is not None}
    return {name: known.absent_s.get(name, known.now) for name in sorted(missing)}


def decide(known: RoundInput, policy: Policy, settings: ControllerSettings) -> RoundOutcome:
    frozen = _why_frozen(known, settings)
    alive = hub_views(
        known.hubs,
        known.plan,
        known.specs,
        releasable=set(known.wanted),
        releasing=known.memory.releasing,
        bookies=known.bookies,
    )
    if frozen:
        return _freeze(known, policy, alive, frozen)
    assert known.view is not None, "without one it is frozen"
    try:
        decision = _decision(policy, known.view.with_store(alive), known)
    except Exception as problem:
        # Whatever it is, it is a mistake in the policy: others must not suffer more than standing still.
        why = f"the policy {policy.name} fails: {type(problem).__name__}: {problem}"
        return _freeze(known, policy, alive, why, problem)
    absent = absent_since(known)
    late = [hub for hub, since_s in absent.items() if known.now - since_s >= settings.hub_start_timeout_s]
    return RoundOutcome(
        ControllerState.LEADING,
        decision,
        start=_to_start(known, decision, alive, settings, late=late),
        missing=[hub for hub in absent if hub not in late],
        stop=[hub for hub in decision.releasable if hub in known.wanted],
        given_up=late,
    )


def interest_of(plan: Plan, specs: Specs, decision: Decision) -> Interest:
    """What the next views are to name, whatever it weighs.

    A pattern that begins with a wildcard names nothing in advance: of its topics, the heaviest are judged.
    """
    prefixes = {
        Glob(spec.pattern).prefix for spec in specs if spec.latency_ms is not None or spec.site is not None
    }
    return Interest(
        names=frozenset(plan.entries) | frozenset(decision.memory.arbiter.in_hand),
        prefixes=tuple(sorted(prefixes - {b""})),
        hubs=frozenset(decision.open_hubs),
    )


def _decision(policy: Policy, view: View, known: RoundInput) -> Decision:
    decided: object = policy.decide(view, known.plan, known.specs, known.now, known.memory)
    if not isinstance(decided, Decision):
        raise TypeError(f"decide returned {type(decided).__name__}, no Decision")
    return decided


def _freeze(
    known: RoundInput, policy: Policy, alive: Sequence[HubView], why: str, problem: Exception | None = None
) -> RoundOutcome:
    # An old view still tells which topics have limits that the ring must not break when a hub joins.
    blind = View.of(known.memory.view_s, hubs=alive) if known.view is None else known.view.with_store(alive)
    decision = policy_without_view(policy).decide(blind, known.plan, known.specs, known.now, known.memory)
    return RoundOutcome(ControllerState.FROZEN, decision, why, problem)


def _why_frozen(known: RoundInput, settings: ControllerSettings) -> str:
    if known.view is None:
        return "no view yet: is the pipeline running?"
    age_s = known.now - known.view.time_s
    if age_s > settings.view_age_s_max:
        return f"the view is {age_s:.0f} s old: is the pipeline running?"
    return ""


def _to_start(
    known: RoundInput,
    decision: Decision,
    alive: Sequence[HubView],
    settings: ControllerSettings,
    *,
    late: Collection[str],
) -> list[WantedServer]:
    """The hubs to ask for so that there are as many as the policy wants, within the bounds.

    What the policy lacks is counted as it counts; the bounds are on machines, whatever they are good for. A hub that an
    operator drains is about to go and counts for neither. One that is given up is waited for no longer; but until it
    has been stopped it may be a machine that is paid for.
    """
    if not settings.hubs_max:
        return []
    staying = {hub.name for hub in alive if not hub.is_draining}
    coming = known.wanted.keys() - {hub.name for hub in alive} - set(late)
    at_work = len(staying) if decision.servers_at_work is None else decision.servers_at_work
    missing = decision.servers_wanted - at_work - len(coming)
    missing = max(missing, settings.hubs_min - len(staying | coming))
    missing = min(missing, settings.hubs_max - len(staying | coming) - len(late))
    taken = set(known.wanted) | set(known.hubs) | set(known.plan.by_hub)
    return [WantedServer(hub=name) for name in fresh_names(taken, max(0, missing))]
