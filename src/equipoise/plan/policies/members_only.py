"""Membership and nothing else: the ring over the live hubs. A baseline, and what a planner does without a view.

Without measurements nothing is moved for load. But a hub that comes alive has to be let in, and one that has died has
to be taken out; for that the store's word is enough.
"""

from __future__ import annotations

from equipoise.model import Plan, Specs
from equipoise.plan.decision import Decision
from equipoise.plan.draft import Draft
from equipoise.plan.memory import Memory
from equipoise.plan.settings import PlannerSettings
from equipoise.plan.steps.membership import keep_members
from equipoise.view.view import View

__all__ = ["MembersOnly"]


class MembersOnly:
    """The policy `ring`, and that of a frozen plan. It asks for no servers and gives none back."""

    name = "ring"

    def __init__(self, settings: PlannerSettings | None = None) -> None:
        self._settings = settings or PlannerSettings()

    def decide(self, view: View, plan: Plan, specs: Specs, now: float, memory: Memory) -> Decision:
        draft = Draft(
            view, plan, specs, now, memory=memory, settings=self._settings, view_before_s=view.time_s
        )
        keep_members(draft)
        return Decision(change=draft.change(), memory=draft.memory, servers_wanted=0)

    def wakes(self, view: View, specs: Specs, memory: Memory) -> bool:
        return False
