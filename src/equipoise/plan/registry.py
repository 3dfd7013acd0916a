"""The policies there are, by name; and what is left of each without a view."""

from __future__ import annotations

from typing import Protocol

from equipoise.errors import SettingsError
from equipoise.model import Plan, Specs
from equipoise.plan.decision import Decision, Policy
from equipoise.plan.memory import Memory
from equipoise.plan.planner import Planner
from equipoise.plan.policies import ConsistentHashing, Static
from equipoise.plan.policies.members_only import MembersOnly
from equipoise.plan.settings import PlannerSettings
from equipoise.view.view import View

__all__ = ["POLICIES", "Blind", "policy_named", "when_blind"]

POLICIES = (Planner.name, ConsistentHashing.name, Static.name)


class Blind(Protocol):
    """Decides on the store's word alone: in the view there are hubs, and nothing measured."""

    def decide(self, view: View, plan: Plan, specs: Specs, now: float, memory: Memory) -> Decision: ...


def policy_named(name: str, settings: PlannerSettings | None = None) -> Policy:
    """Raises SettingsError if there is none of that name."""
    if name == Planner.name:
        return Planner(settings)
    if name == ConsistentHashing.name:
        return ConsistentHashing(settings)
    if name == Static.name:
        return Static()
    raise SettingsError(f"there is no policy {name!r}: use one of {', '.join(POLICIES)}")


def when_blind(policy: Policy) -> Blind:
    """What it does while there is no view to believe: who takes part, by its own settings; a static one, nothing."""
    if isinstance(policy, Static):
        return Static()
    settings = getattr(policy, "settings", None)
    return MembersOnly(settings if isinstance(settings, PlannerSettings) else None)
