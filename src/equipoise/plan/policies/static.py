"""The baseline that does nothing: the plan stays as it is; one without members gets the live hubs."""

from __future__ import annotations

from equipoise.model import Member, Plan, PlanChange, Reason, Specs, Why
from equipoise.plan.decision import Decision
from equipoise.plan.memory import Memory
from equipoise.view.view import View

__all__ = ["Static"]


class Static:
    name = "static"

    def decide(self, view: View, plan: Plan, specs: Specs, now: float, memory: Memory) -> Decision:
        living = [hub for hub in view.hub_rows() if hub.is_alive and not hub.is_draining]
        members = [] if plan.members else [Member(hub.name, site=hub.site) for hub in living]
        change = PlanChange.on(plan, Why(Reason.JOINED), set_members=members)
        # Another server would never be given anything.
        count = len(plan.members) or len(members)
        return Decision(change=change, memory=memory, servers_wanted=count, servers_at_work=count)

    def wakes(self, view: View, specs: Specs, memory: Memory) -> bool:
        return False
