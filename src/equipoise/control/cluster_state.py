"""The state that a controller reads from the store, and the state it leaves for the next leader.

One task each keeps plan, specs and hubs up to date; without the store the controller continues with the last state.
The planner's memory (hubs that it is draining, requested servers, profiles) is written after each plan with changes,
and periodically for the profiles: to a successor, an unfinished release would look like an operator's drain. It may be
lost or older than the plan: a planner with an empty memory plans safely, only slower.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import aclosing

import msgspec

from equipoise.control.store_health import StoreHealth
from equipoise.errors import NoNodeError, ViewError
from equipoise.ledger.registration import BookieFacts
from equipoise.model import Plan, Specs
from equipoise.plan import Memory, decode_memory, encode_memory
from equipoise.store import HubSeen, HubsStore, PlanStore, SpecsStore, Store, Tree
from equipoise.store.records.bookies import BookiesStore
from equipoise.view import HubView

__all__ = ["ClusterState", "StoredMemory", "hub_views"]

log = logging.getLogger("equipoise.control")

# Seconds after which bookies are read again without a change, to which the last sync times do not count.
_BOOKIES_S = 30.0


class ClusterState:
    """Run `run` as a task; wait for `is_complete` before any decision."""

    def __init__(self, store: Store, tree: Tree, plans: PlanStore, health: StoreHealth) -> None:
        self._plans = plans
        self._health = health
        self._hubs = HubsStore(store, tree)
        self._specs = SpecsStore(store, tree)
        self._bookies = BookiesStore(store, tree)
        self.plan = Plan()
        self.specs = Specs()
        self.hubs: Mapping[str, HubSeen] = {}
        # Decisions do not wait for bookies: without them there are no durable topics.
        self.bookies: tuple[BookieFacts, ...] = ()
        # Set once everything has been read; and, `changed`, at every change of hubs or specs.
        self.is_complete = asyncio.Event()
        self.changed = asyncio.Event()
        self._unread = {"plan", "specs", "hubs"}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for what, follow in (
                ("plan", self._follow_plan),
                ("specs", self._follow_specs),
                ("hubs", self._follow_hubs),
                ("bookies", self._follow_bookies),
            ):
                group.create_task(self._health.keep(what, follow))

    def committed(self, plan: Plan) -> None:
        """This controller has committed the plan: use it without waiting for the store's event."""
        if plan.version > self.plan.version:
            self.plan = plan

    async def _follow_plan(self) -> None:
        async with aclosing(self._plans.watch()) as plans:
            async for plan in plans:
                self.committed(plan)
                self._read("plan")

    async def _follow_specs(self) -> None:
        async with aclosing(self._specs.watch()) as changes:
            async for specs in changes:
                self.specs = specs
                self._read("specs")

    async def _follow_hubs(self) -> None:
        async with aclosing(self._hubs.watch()) as changes:
            async for hubs in changes:
                self.hubs = hubs
                self._read("hubs")

    async def _follow_bookies(self) -> None:
        async with self._bookies.watch_available() as watch:
            while True:
                found = tuple((await self._bookies.load()).values())
                if _sites(found) != _sites(self.bookies):
                    self.changed.set()
                self.bookies = found
                self._health.worked("bookies")
                await watch.changed(_BOOKIES_S)

    def _read(self, what: str) -> None:
        self._health.worked(what)
        self._unread.discard(what)
        if not self._unread:
            self.is_complete.set()
        if what != "plan":
            self.changed.set()


def hub_views(
    hubs: Mapping[str, HubSeen],
    plan: Plan,
    specs: Specs,
    *,
    releasable: set[str],
    releasing: str = "",
    bookies: Collection[BookieFacts] = (),
    plan_id: int | None = None,
) -> list[HubView]:
    """The live hubs, by the store. `plan_id`: the creation id of the plan's version, if it is known.

    A member with weight 0 is being drained by an operator, unless the planner drains it. A hub of a release without
    rate limits, or without logs, counts as drained while there are such topics.
    """
    views = []
    needs_limits = any(spec.rate_per_s is not None for spec in specs)
    needs_logs = any(spec.durability is not None for spec in specs)
    for name in sorted(hubs):
        seen = hubs[name]
        if seen.alive is None:
            continue
        member = plan.by_hub.get(name)
        views.append(
            HubView(
                name=name,
                site=seen.facts.site,
                rack=seen.facts.rack,
                incarnation=seen.facts.incarnation,
                is_draining=(member is not None and member.weight == 0 and name != releasing)
                or (needs_limits and not seen.facts.keeps_limits)
                or (needs_logs and not seen.facts.keeps_logs),
                is_releasable=name in releasable,
                carries_content=seen.facts.carries_content,
                is_waiting=member is not None
                and plan_id is not None
                and not seen.serves_under(plan.version, plan_id),
                bookies=sum(_is_usable(bookie, seen.facts.site) for bookie in bookies),
                commit_s=_commit_s(bookies, seen.facts.site),
            )
        )
    return views


def _sites(bookies: Iterable[BookieFacts]) -> Counter[str]:
    return Counter(bookie.site for bookie in bookies if not bookie.is_read_only)


def _commit_s(bookies: Iterable[BookieFacts], site: str) -> float:
    """The commit time of a durable topic at a site; 0 without a bookie, or before the first sync."""
    found = sorted(bookie.sync_us_p99 for bookie in bookies if _is_usable(bookie, site))
    return found[(len(found) - 1) // 2] / 1e6 if found else 0.0


def _is_usable(bookie: BookieFacts, site: str) -> bool:
    """Whether hubs at this site count the bookie as local. A bookie without a site is local everywhere."""
    return not bookie.is_read_only and (not site or bookie.site in ("", site))


# Less than the maximum size of a node.
_BYTES_MAX = 900_000
# Seconds between two writes of profiles and noise, which change with every view.
_LEARNT_S = 60.0


class StoredMemory:
    """The node of the memory, and its last written content."""

    def __init__(self, store: Store, tree: Tree) -> None:
        self._store = store
        self._path = tree.planner
        self._kept = Memory()
        self._kept_s = float("-inf")

    async def recall(self) -> Memory:
        """The stored memory; an empty one if there is none, or it is unreadable. Raises StoreError."""
        node = await self._store.find(self._path)
        if node is None or not node.data:
            return Memory()
        try:
            self._kept = decode_memory(node.data)
        except ViewError as problem:
            log.warning("state of the previous controller ignored: %s", problem)
            return Memory()
        return self._kept

    async def keep(self, memory: Memory, now: float) -> None:
        """Write it if it has relevant changes. Raises StoreError."""
        if _intentions(memory) == _intentions(self._kept) and now - self._kept_s < _LEARNT_S:
            return
        data = encode_memory(memory)
        if len(data) > _BYTES_MAX:
            # Only the times of topics' moves can become so large, and these expire after a minute.
            data = encode_memory(msgspec.structs.replace(memory, moved_s={}, replicated_s={}, absent_s={}))
        try:
            await self._store.set(self._path, data, version=None)
        except NoNodeError:
            await self._store.ensure(self._path)
            await self._store.set(self._path, data, version=None)
        self._kept, self._kept_s = memory, now


def _intentions(memory: Memory) -> tuple[object, ...]:
    """The actions in progress, which a successor has to finish."""
    return memory.releasing, memory.released, memory.servers_wanted, memory.plan_s
