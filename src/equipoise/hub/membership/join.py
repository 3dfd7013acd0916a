"""Add a hub to the plan in a cluster without a controller.

A hub serves under plans that are committed after it has come alive. So a region's first hub makes the first plan, a new
hub adds itself, and one that has come back commits the plan once more. A controller that leads does this instead, and
decides alone who is a member; but a member that has come back and that it does not notice helps itself after a while.
"""

from __future__ import annotations

from equipoise.errors import PlanRaceError
from equipoise.model import Member, Plan, PlanChange, Reason, Why
from equipoise.store.records.leader import LeaderStore
from equipoise.store.records.plans import PlanStore

__all__ = ["enter"]


async def enter(
    plans: PlanStore,
    leaders: LeaderStore,
    plan: Plan,
    member: Member,
    *,
    access_version: int,
    specs_version: int = 0,
    is_patient: bool = True,
) -> bool:
    """Commit a plan after `plan` with this member in it; False if that is left to a controller.

    `is_patient`: a controller is still given time to notice a member that has come back. A hub that is a member already
    keeps the weight it has: an operator may be draining it. If another commits first, look at that plan, and call
    again if need be.
    """
    known = plan.by_hub.get(member.hub)
    if (known is None or is_patient) and await leaders.load() is not None:
        return False
    if known is not None:
        member = Member(known.hub, known.weight, member.site)
    newer_rules = access_version if access_version > plan.access_version else None
    newer_specs = specs_version if specs_version > plan.specs_version else None
    note = "came back" if known is not None else "new"
    change = PlanChange.on(
        plan,
        Why(Reason.JOINED, note=note),
        set_members=[member],
        access_version=newer_rules,
        specs_version=newer_specs,
    )
    try:
        await plans.commit(change)
    except PlanRaceError:
        pass
    return True
