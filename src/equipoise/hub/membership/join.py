"""Add a hub to the plan in a cluster without a controller.

A hub serves under plans that are committed after its start. So a region's first hub commits the first plan, a new hub
adds itself, and a restarted hub commits the plan again. A leading controller does this instead, and alone decides on
the members; but if it does not add a restarted member back, the member commits the plan itself after a while.
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
    """Commit a plan after `plan` that includes this member; False if a controller has to do it.

    `is_patient`: a controller still has time to notice a restarted member. A hub that is a member already keeps its
    weight, because an operator may be draining it. If another plan is committed first, check it and call again if
    necessary.
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
