"""The state that a controller reads from the store, and the state it leaves for the next leader.

Plan, specs and hubs are kept up to date by one task each; without the store the controller goes on with the last it
knew. The planner's memory (what it is emptying, has asked for and has learnt) is written after a plan that changed
something, and now and then for what was learnt: a release half done would look to a successor like an operator's drain.
It may be lost or be older than the plan: a planner that knows nothing plans safely, only slower.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import aclosing

import msgspec

from equipoise.errors import NoNodeError, StoreError, ViewError
from equipoise.ledger.registration import BookieFacts
from equipoise.model import Plan, Specs
from equipoise.plan import Memory, decode_memory, encode_memory
from equipoise.store import HubSeen, HubsStore, PlanStore, SpecsStore, Store, Tree
from equipoise.store.records.bookies import BookiesStore
from equipoise.view import HubView

__all__ = ["ClusterState", "StoredMemory", "hub_views"]

log = logging.getLogger("equipoise.control")

# Seconds after which bookies are read again though none has come or gone: after a failure.
_BOOKIES_S = 30.0


class ClusterState:
    """Run `run` as a task; wait for `is_complete` before deciding anything."""

    def __init__(self, store: Store, tree: Tree, plans: PlanStore) -> None:
        self._plans = plans
        self._hubs = HubsStore(store, tree)
        self._specs = SpecsStore(store, tree)
        self._bookies = BookiesStore(store, tree)
        self.plan = Plan()
        self.specs = Specs()
        self.hubs: Mapping[str, HubSeen] = {}
        # Decisions do not wait for them: without bookies there are no durable topics.
        self.bookies: tuple[BookieFacts, ...] = ()
        # Set once everything has been read; and whenever hubs or specs change: `changed`.
        self.is_complete = asyncio.Event()
        self.changed = asyncio.Event()
        self._unread = {"plan", "specs", "hubs"}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_plan())
            group.create_task(self._follow_specs())
            group.create_task(self._follow_hubs())
            group.create_task(self._follow_bookies())

    def committed(self, plan: Plan) -> None:
        """We have just made this one: no need to wait until we hear of it."""
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
                try:
                    found = tuple((await self._bookies.load()).values())
                    if _sites(found) != _sites(self.bookies):
                        self.changed.set()
                    self.bookies = found
                except StoreError as problem:
                    log.warning("bookies: %s", problem)
                await watch.changed(_BOOKIES_S)

    def _read(self, what: str) -> None:
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
) -> list[HubView]:
    """The hubs that are alive, by what the store knows of them.

    A member without weight is being drained by an operator, unless the planner itself is emptying it. One of a release
    that keeps no rate limits, or no logs, is, too, while there are such topics.
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
                bookies=sum(_is_usable(bookie, seen.facts.site) for bookie in bookies),
                commit_s=_commit_s(bookies, seen.facts.site),
            )
        )
    return views


def _sites(bookies: Iterable[BookieFacts]) -> Counter[str]:
    return Counter(bookie.site for bookie in bookies if not bookie.is_read_only)


def _commit_s(bookies: Iterable[BookieFacts], site: str) -> float:
    """How long a commit of a durable topic takes at a site; 0 if there is no bookie, or none has synced yet."""
    found = sorted(bookie.sync_us_p99 for bookie in bookies if _is_usable(bookie, site))
    return found[(len(found) - 1) // 2] / 1e6 if found else 0.0


def _is_usable(bookie: BookieFacts, site: str) -> bool:
    """Whether a hub at this site counts the bookie as one of its own. Without a site it is at all of them."""
    return not bookie.is_read_only and (not site or bookie.site in ("", site))


# Below what a node may hold.
_BYTES_MAX = 900_000
# Seconds between two writes for the sake of profiles and noise, which change with every view.
_LEARNT_S = 60.0


class StoredMemory:
    """The node, and what was last written there."""

    def __init__(self, store: Store, tree: Tree) -> None:
        self._store = store
        self._path = tree.planner
        self._kept = Memory()
        self._kept_s = float("-inf")

    async def recall(self) -> Memory:
        """What was kept; an empty memory if nothing was, or nothing that can be read. Raises StoreError."""
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
        """Write it if a successor would miss something. Raises StoreError."""
        if _intentions(memory) == _intentions(self._kept) and now - self._kept_s < _LEARNT_S:
            return
        data = encode_memory(memory)
        if len(data) > _BYTES_MAX:
            # When topics moved is all that can get so large, and rests for a minute.
            data = encode_memory(msgspec.structs.replace(memory, moved_s={}, replicated_s={}, absent_s={}))
        try:
            await self._store.set(self._path, data, version=None)
        except NoNodeError:
            await self._store.ensure(self._path)
            await self._store.set(self._path, data, version=None)
        self._kept, self._kept_s = memory, now


def _intentions(memory: Memory) -> tuple[object, ...]:
    """What was begun and has to be ended."""
    return memory.releasing, memory.released, memory.servers_wanted, memory.plan_s
