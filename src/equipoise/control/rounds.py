"""One round of control: inputs to actions. Pure.

A view that is missing or old, or a policy that fails, freezes the plan: no topic is moved for load, no server is
requested or released. Membership is still updated, from the store alone.
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
    # It leads, and moves nothing, because it has no recent view, or its policy fails.
    FROZEN = "frozen"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundInput:
    """The input of a round."""

    now: float
    view: View | None
    plan: Plan
    # The creation id of its version; None: unknown.
    plan_id: int | None = None
    specs: Specs
    hubs: Mapping[str, HubSeen]
    # Requested hubs.
    wanted: Mapping[str, WantedServer]
    memory: Memory
    # Since when each of those that are not alive was requested, or has been missing.
    absent_s: Mapping[str, float] = field(default_factory=dict)
    bookies: Collection[BookieFacts] = ()


@dataclass(frozen=True, slots=True)
class RoundOutcome:
    state: ControllerState
    decision: Decision
    # Why the plan is frozen; empty if it is not.
    frozen: str = ""
    # The exception of the policy, if there was one.
    problem: Exception | None = None
    # Hubs to request; requested ones that are not alive; hubs to stop; hubs that were given up.
    start: Sequence[WantedServer] = ()
    missing: Sequence[str] = ()
    stop: Sequence[str] = ()
    given_up: Sequence[str] = ()


def absent_since(known: RoundInput) -> dict[str, float]:
    """The same for the next round, without hubs that are alive or no longer wanted."""
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
        plan_id=known.plan_id,
    )
    if frozen:
        return _freeze(known, policy, alive, frozen)
    assert known.view is not None, "without one it is frozen"
    try:
        decision = _decision(policy, known.view.with_store(alive), known)
    except Exception as problem:
        # Any exception is an error of the policy: its only effect is a frozen plan.
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
    """The topics that the next views should name, whatever their load.

    A pattern that begins with a wildcard adds no names: of its topics, only the heaviest are checked.
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
    # An old view still shows which topics have limits that the ring must not break when a hub joins.
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
    """The hubs to request for the number that the policy wants, within the bounds.

    The policy's count decides how many it lacks; the bounds are on machines, whatever their use. A hub that an operator
    drains is about to go and counts for neither. One that was given up is no longer waited for; but until it has been
    stopped it may be a machine with costs.
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
