"""The baselines that planners are compared with.

`ConsistentHashing` is the paper's: the ring alone places topics, and one server is added whenever one is overloaded
(Dynamoth V-D). A new server gets 1/n of every member's topics, regardless of their load, so a hub may stay overloaded.
Servers are never released, topics never replicated.

`MembersOnly`, the ring over the live hubs, is what a planner does without a view: a hub that becomes alive joins, a
dead one is removed; the store's data is enough for that. `Static` does not change the plan; only a plan without members
gets the live hubs.
"""

from __future__ import annotations

import msgspec

from equipoise.model import Member, Plan, PlanChange, Reason, Specs, Why
from equipoise.plan.decision import Decision
from equipoise.plan.draft import Draft, why
from equipoise.plan.load import capacities
from equipoise.plan.memory import Memory
from equipoise.plan.settings import PlannerSettings
from equipoise.plan.steps.obligations import keep_members
from equipoise.view.view import View

__all__ = ["ConsistentHashing", "MembersOnly", "Static"]


class ConsistentHashing:
    """Ring only. Settings in use: the high threshold, T_wait, the patience with dead hubs, the most servers."""

    name = "hashing"

    def __init__(self, settings: PlannerSettings | None = None) -> None:
        self.settings = settings or PlannerSettings()

    def decide(self, view: View, plan: Plan, specs: Specs, now: float, memory: Memory) -> Decision:
        recalled = msgspec.structs.replace(memory, view_s=max(view.time_s, memory.view_s))
        # The ring has no sites and no limits.
        draft = Draft(
            view,
            plan,
            Specs(),
            now,
            memory=recalled,
            settings=self.settings,
            view_before_s=memory.view_s,
        )
        keep_members(draft)
        have = int(draft.eligible.sum())
        busiest = float(draft.capacities.measured[draft.eligible].max()) if have else 0.0
        is_due = draft.may_plan and busiest > self.settings.high_ratio and have < self.settings.servers_max
        if memory.servers_wanted <= have and is_due:
            draft.reasons.append(why(Reason.SERVER_WANTED, load_ratio=busiest, servers=have))
            draft.remember(servers_wanted=have + 1, plan_s=now)
        ratio = draft.predicted.ratio[draft.eligible]
        return Decision(
            change=draft.changes.plan_change(),
            memory=draft.memory,
            servers_wanted=max(have, draft.memory.servers_wanted, self.settings.servers_min),
            servers_at_work=have,
            reasons=tuple(draft.reasons),
            ratio_max=float(ratio.max()) if have else 0.0,
            ratio_mean=float(ratio.mean()) if have else 0.0,
        )

    def wakes(self, view: View, specs: Specs, memory: Memory) -> bool:
        caps = capacities(view, memory.profiles, memory.noises, self.settings)
        return bool((view.hubs.is_alive & (caps.measured > self.settings.high_ratio)).any())


class MembersOnly:
    """The policy `ring`, and the behaviour of a frozen plan. It neither requests nor releases servers."""

    name = "ring"

    def __init__(self, settings: PlannerSettings | None = None) -> None:
        self._settings = settings or PlannerSettings()

    def decide(self, view: View, plan: Plan, specs: Specs, now: float, memory: Memory) -> Decision:
        draft = Draft(
            view, plan, specs, now, memory=memory, settings=self._settings, view_before_s=view.time_s
        )
        keep_members(draft)
        return Decision(change=draft.changes.plan_change(), memory=draft.memory, servers_wanted=0)

    def wakes(self, view: View, specs: Specs, memory: Memory) -> bool:
        return False


class Static:
    name = "static"

    def decide(self, view: View, plan: Plan, specs: Specs, now: float, memory: Memory) -> Decision:
        living = [hub for hub in view.hub_rows() if hub.is_alive and not hub.is_draining]
        members = [] if plan.members else [Member(hub.name, site=hub.site) for hub in living]
        change = PlanChange.on(plan, Why(Reason.JOINED), set_members=members)
        # Another server would never receive a topic.
        count = len(plan.members) or len(members)
        return Decision(change=change, memory=memory, servers_wanted=count, servers_at_work=count)

    def wakes(self, view: View, specs: Specs, memory: Memory) -> bool:
        return False
