"""What an operator does to a plan: move, replicate, drain, forget.

Each is one commit, made again on the newer plan if somebody else commits first. Always true: nothing is placed on a hub
that is no member or is dead, and what is asked for and already so makes no new version.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from equipoise.errors import NotEmptyError, PlanError, PlanRaceError
from equipoise.model import Entry, Member, Mode, Plan, PlanChange, Reason, Why, ring_over
from equipoise.store.hubs import HubsStore
from equipoise.store.plans import PlanStore

__all__ = ["change_plan", "drain", "forget", "place", "unplace", "weigh"]

# Plans come every few seconds at most; whoever loses this often is up against something else.
_RACES_MAX = 20


async def change_plan(plans: PlanStore, make: Callable[[Plan], PlanChange | None]) -> Plan:
    """Commit what `make` makes of the latest plan; None leaves it. The plan as it is then."""
    for attempt in range(_RACES_MAX):
        plan = await plans.load()
        change = make(plan)
        if change is None or change.is_empty:
            return plan
        try:
            return await plans.commit(change)
        except PlanRaceError:
            if attempt == _RACES_MAX - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


async def place(
    plans: PlanStore,
    topic: bytes,
    homes: Iterable[str],
    mode: Mode,
    *,
    alive: Collection[str],
    note: str = "",
) -> Plan:
    """Have a topic live at these hubs. Raises PlanError if one is no member, or dead."""
    entry = Entry(topic, tuple(homes), mode)

    def make(plan: Plan) -> PlanChange | None:
        for hub in entry.homes:
            _require(plan, hub)
            if hub not in alive:
                raise PlanError(f"hub {hub} is dead: start it first, or choose one of {_names(plan, alive)}")
        if plan.entries.get(topic) == entry:
            return None
        return PlanChange.on(plan, Why(Reason.OPERATOR, note=note), set_entries=[entry])

    return await change_plan(plans, make)


async def unplace(plans: PlanStore, topic: bytes, *, note: str = "") -> Plan:
    """Have a topic follow the ring again."""

    def make(plan: Plan) -> PlanChange | None:
        if topic not in plan.entries:
            return None
        return PlanChange.on(plan, Why(Reason.OPERATOR, note=note), remove_entries=[topic])

    return await change_plan(plans, make)


async def drain(plans: PlanStore, hub: str, *, note: str = "") -> Plan:
    """Give a hub no topics any more: no share of the ring, and no entry. It stays a member."""

    def make(plan: Plan) -> PlanChange | None:
        member = _require(plan, hub)
        entries = _without(plan, hub)
        if member.weight == 0 and not entries:
            return None
        return PlanChange.on(
            plan,
            Why(Reason.DRAINED, note=note),
            set_entries=entries,
            set_members=[Member(hub, 0, member.site)],
        )

    return await change_plan(plans, make)


async def weigh(plans: PlanStore, hub: str, weight: int, *, note: str = "") -> Plan:
    """Give a hub another share of the ring."""

    def make(plan: Plan) -> PlanChange | None:
        member = _require(plan, hub)
        if member.weight == weight:
            return None
        why = Why(Reason.OPERATOR, note=note)
        return PlanChange.on(plan, why, set_members=[Member(hub, weight, member.site)])

    return await change_plan(plans, make)


async def forget(plans: PlanStore, hubs: HubsStore, hub: str, *, note: str = "") -> Plan:
    """Take a dead hub out of the plan and forget its facts. Raises PlanError if it is alive, or unknown."""
    seen = await hubs.look(hub)
    if seen is not None and seen.alive is not None:
        raise PlanError(f"hub {hub} is alive: drain it and stop it first")

    def make(plan: Plan) -> PlanChange | None:
        if hub not in plan.by_hub:
            if seen is None:
                raise PlanError(f"there is no hub {hub}: `equipoise hubs ls` lists them")
            return None
        return PlanChange.on(
            plan,
            Why(Reason.LEFT, note=note),
            set_entries=_without(plan, hub) if len(plan.members) > 1 else (),
            remove_entries=() if len(plan.members) > 1 else plan.entries,
            remove_members=[hub],
        )

    plan = await change_plan(plans, make)
    try:
        await hubs.forget(hub)
    except NotEmptyError as problem:
        raise PlanError(f"hub {hub} has come back: drain it and stop it first") from problem
    return plan


def _without(plan: Plan, hub: str) -> list[Entry]:
    """The entries that name the hub, with others in its place: those of its own site first."""
    named = [entry for entry in plan.entries.values() if hub in entry.homes]
    others = [member for member in plan.members if member.hub != hub and member.weight > 0]
    site = plan.by_hub[hub].site
    near = [member for member in others if member.site == site] or others
    if not near:
        raise PlanError(f"hub {hub} is the only one that takes topics: start another hub first")
    ring = ring_over(tuple((member.hub, member.weight) for member in near))
    changed: list[Entry] = []
    for entry in named:
        homes = tuple(home for home in entry.homes if home != hub) or (ring.owner(entry.topic) or "",)
        changed.append(Entry(entry.topic, homes, entry.mode if len(homes) > 1 else Mode.SINGLE))
    return changed


def _require(plan: Plan, hub: str) -> Member:
    member = plan.by_hub.get(hub)
    if member is None:
        known = ", ".join(member.hub for member in plan.members) or "none"
        raise PlanError(f"hub {hub} is no member of the plan; members are: {known}")
    return member


def _names(plan: Plan, alive: Collection[str]) -> str:
    return ", ".join(member.hub for member in plan.members if member.hub in alive) or "no other"
