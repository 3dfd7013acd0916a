"""The policies there are, by name."""

from __future__ import annotations

from equipoise.errors import SettingsError
from equipoise.plan.decision import Policy
from equipoise.plan.planner import Planner
from equipoise.plan.policies import ConsistentHashing, Static
from equipoise.plan.settings import PlannerSettings

__all__ = ["POLICIES", "policy_named"]

POLICIES = (Planner.name, ConsistentHashing.name, Static.name)


def policy_named(name: str, settings: PlannerSettings | None = None) -> Policy:
    """Raises SettingsError if there is none of that name."""
    if name == Planner.name:
        return Planner(settings)
    if name == ConsistentHashing.name:
        return ConsistentHashing(settings)
    if name == Static.name:
        return Static()
    raise SettingsError(f"there is no policy {name!r}: use one of {', '.join(POLICIES)}")
