"""What an operator may do through the pages: the same changes of plan and specs that the commands make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from equipoise.errors import PlanRaceError, SettingsError
from equipoise.model import Entry, Member, Mode, Plan, PlanChange, Reason, TopicSpec, Why
from equipoise.model.names import from_id
from equipoise.store import Committed, PlanStore, SpecsStore, Store, Tree
from equipoise.web.history import History

__all__ = ["Actions", "Drain", "Limits", "Move"]

# The controller commits now and then; nobody is in the way for long.
RACES_MAX = 8


class Move(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a topic shall live; without hubs it follows the ring again."""

    topic: str
    hubs: list[str] = []
    mode: Mode = Mode.SINGLE


class Drain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    hub: str


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What topics that match a pattern need; a pattern without any of it has its spec removed."""

    pattern: str
    latency_ms: float | None = None
    site: str | None = None


class Actions:
    """Changes the store on behalf of whoever has the token."""

    def __init__(self, store: Store, tree: Tree, *, writer: str = "dashboard") -> None:
        self._plans = PlanStore(store, tree, writer=writer)
        self._history = History(self._plans)
        self._specs = SpecsStore(store, tree)
        self._writer = writer

    async def history(self, limit: int, version: int) -> list[Committed]:
        """The last changes of the plan, up to this version at least, or our own latest."""
        return await self._history.latest(limit, max(version, self._plans.plan.version))

    async def move(self, wanted: Move) -> dict[str, Any]:
        """Raises SettingsError, PlanError."""
        topic = from_id(wanted.topic)

        def change(plan: Plan, why: Why) -> PlanChange:
            if wanted.hubs:
                entry = Entry(topic, tuple(wanted.hubs), wanted.mode)
                return PlanChange.on(plan, why, set_entries=[entry])
            if topic not in plan.entries:
                raise SettingsError("the topic follows the ring already")
            return PlanChange.on(plan, why, remove_entries=[topic])

        return await self._commit(change, Reason.OPERATOR)

    async def drain(self, wanted: Drain) -> dict[str, Any]:
        """Raises SettingsError, PlanError."""

        def change(plan: Plan, why: Why) -> PlanChange:
            member = plan.by_hub.get(wanted.hub)
            if member is None:
                raise SettingsError(f"{wanted.hub} is not in the plan: see the list of hubs")
            left = [other for other in plan.by_hub if other != wanted.hub]
            if not left:
                raise SettingsError(f"{wanted.hub} is the only hub: start another one first")
            kept, freed = _without(plan, wanted.hub)
            return PlanChange.on(
                plan,
                why,
                set_members=[Member(member.hub, 0, member.site)],
                set_entries=kept,
                remove_entries=freed,
            )

        return await self._commit(change, Reason.DRAINED)

    async def limit(self, wanted: Limits) -> dict[str, Any]:
        """Raises SettingsError."""
        pattern = wanted.pattern.encode()
        if wanted.latency_ms is None and not wanted.site:
            return {"removed": await self._specs.remove(pattern)}
        spec = TopicSpec(pattern=pattern, latency_ms=wanted.latency_ms, site=wanted.site or None)
        await self._specs.put(spec)
        return {"set": wanted.pattern}

    async def _commit(self, change: Callable[[Plan, Why], PlanChange], reason: Reason) -> dict[str, Any]:
        why = Why(reason, note=f"by {self._writer}")
        for attempt in range(RACES_MAX):
            plan = await self._plans.load()
            try:
                made = await self._plans.commit(change(plan, why))
                return {"version": made.version}
            except PlanRaceError:
                if attempt == RACES_MAX - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")


def _without(plan: Plan, hub: str) -> tuple[list[Entry], list[bytes]]:
    """The entries that name the hub, without it; and the topics of those that name nobody else."""
    kept: list[Entry] = []
    freed: list[bytes] = []
    for entry in plan.entries.values():
        if hub not in entry.homes:
            continue
        homes = tuple(home for home in entry.homes if home != hub)
        if not homes:
            freed.append(entry.topic)
        else:
            kept.append(Entry(entry.topic, homes, entry.mode if len(homes) > 1 else Mode.SINGLE))
    return kept, freed
