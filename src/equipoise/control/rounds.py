"""One round of control: what is known in, what to do out. Pure.

A view that is missing or old freezes the plan: nothing is moved for load, no server is asked for or given back. Who
takes part is still decided, by the store's word alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from equipoise.control.knowledge import hub_views
from equipoise.control.provision import fresh_names
from equipoise.control.settings import ControllerSettings
from equipoise.model import Plan, Specs
from equipoise.plan import Decision, Memory, Policy, View
from equipoise.plan.policies.members import MembersOnly
from equipoise.store import HubSeen, Wanted

__all__ = ["Known", "Outcome", "State", "decide"]


class State(StrEnum):
    # Another controller leads, or none can.
    STANDBY = "standby"
    LEADING = "leading"
    # It leads, and moves nothing, since it cannot see.
    FROZEN = "frozen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Everything a round is decided on."""

    now: float
    view: View | None
    plan: Plan
    specs: Specs
    hubs: Mapping[str, HubSeen]
    # Hubs that were asked for.
    wanted: Mapping[str, Wanted]
    memory: Memory


@dataclass(frozen=True, slots=True)
class Outcome:
    state: State
    decision: Decision
    # Why the plan is frozen; empty if it is not.
    frozen: str = ""
    start: Sequence[Wanted] = ()
    stop: Sequence[str] = ()


def decide(known: Known, policy: Policy, settings: ControllerSettings) -> Outcome:
    frozen = _why_frozen(known, settings)
    alive = hub_views(known.hubs, known.plan, releasable=set(known.wanted), releasing=known.memory.releasing)
    if frozen:
        blind = View.of(known.memory.view_s if known.view is None else known.view.time_s, hubs=alive)
        decision = MembersOnly().decide(blind, known.plan, known.specs, known.now, known.memory)
        return Outcome(State.FROZEN, decision, frozen)
    assert known.view is not None, "without one it is frozen"
    view = known.view.with_store(alive)
    decision = policy.decide(view, known.plan, known.specs, known.now, known.memory)
    return Outcome(
        State.LEADING,
        decision,
        start=_to_start(known, decision.servers_wanted, settings),
        stop=[hub for hub in decision.releasable if hub in known.wanted],
    )


def _why_frozen(known: Known, settings: ControllerSettings) -> str:
    if known.view is None:
        return "no view yet: is the pipeline running?"
    age_s = known.now - known.view.time_s
    if age_s > settings.view_age_s_max:
        return f"the view is {age_s:.0f} s old: is the pipeline running?"
    return ""


def _to_start(known: Known, count: int, settings: ControllerSettings) -> list[Wanted]:
    """The hubs to ask for so that there are `count`, within the bounds; those asked for and not yet alive count."""
    if not settings.hubs_max:
        return []
    there = {name for name, seen in known.hubs.items() if seen.alive is not None} | known.wanted.keys()
    missing = min(max(count, settings.hubs_min), settings.hubs_max) - len(there)
    taken = there | set(known.hubs) | set(known.plan.by_hub)
    return [Wanted(hub=name) for name in fresh_names(taken, max(0, missing))]
