"""The policies by name, and their behaviour without a view."""

from __future__ import annotations

from typing import Protocol

from equipoise.errors import SettingsError
from equipoise.model import Plan, Specs
from equipoise.plan.decision import Decision, Policy
from equipoise.plan.memory import Memory
from equipoise.plan.planner import Planner
from equipoise.plan.policies import AllPairs, ConsistentHashing, Static, TopicManager
from equipoise.plan.policies.baselines import MembersOnly
from equipoise.plan.settings import PlannerSettings
from equipoise.view.view import View

__all__ = ["POLICIES", "StorePolicy", "policy_named", "policy_without_view"]

# By name, in the order of help texts.
POLICIES = (
    *(Planner.name, TopicManager.name, AllPairs.name),
    *(ConsistentHashing.name, MembersOnly.name, Static.name),
)


class StorePolicy(Protocol):
    """Decides from the store's data alone: the view lists hubs, without measurements."""

    def decide(self, view: View, plan: Plan, specs: Specs, now: float, memory: Memory) -> Decision: ...


def policy_named(name: str, settings: PlannerSettings | None = None) -> Policy:
    """Raises SettingsError if there is no such policy, or if controllers cannot run it."""
    if name == AllPairs.name:
        raise SettingsError(
            f"policy {name!r} needs the coordinate of every client, which no view has: it runs in experiments only"
        )
    if name == TopicManager.name:
        return TopicManager() if settings is None else TopicManager(settings)
    if name == Static.name:
        return Static()
    for kind in (Planner, ConsistentHashing, MembersOnly):
        if name == kind.name:
            return kind(settings)
    raise SettingsError(f"there is no policy {name!r}: use one of {', '.join(POLICIES)}")


def policy_without_view(policy: Policy) -> StorePolicy:
    """The behaviour without a usable view: membership only, by the policy's settings; `static`: no change."""
    if isinstance(policy, Static):
        return Static()
    settings = getattr(policy, "settings", None)
    return MembersOnly(settings if isinstance(settings, PlannerSettings) else None)
