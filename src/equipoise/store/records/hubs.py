"""The hubs of a region and their liveness.

A hub has two nodes, as in Hedwig: a persistent one with its facts, and below it `alive`, ephemeral, with its facts and
its load. The node that makes it alive has all of its data, so no reader sees a hub with half of it.

A session may end while its hub lives. The hub then replaces its own `alive` in its next session, and holds `alive-next`
meanwhile: a reader finds at least one of the two.

Always true: of two processes under one name at most one holds `alive`. The second waits for the end of the first one's
session, unless it can prove that the first process has ended: then it deletes the first one's `alive` and creates its
own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing

import msgspec

from equipoise.errors import BadVersionError, NodeExistsError, NoNodeError
from equipoise.store.contract import Answer, Node, Store, WatchKind
from equipoise.store.records.follow import follow, read_reported
from equipoise.store.records.hubs_snapshot import (
    EdgeReport,
    HubAlive,
    HubFacts,
    HubLook,
    HubSeen,
    counting_node,
    decode_alive,
    seen_in,
)
from equipoise.store.tree import ALIVE, ALIVE_NEXT, Tree

__all__ = ["HubAlive", "HubFacts", "HubSeen", "HubsStore", "RegionStore"]

# A hub replaces one of its two nodes by the other while they are read; rarely more than once.
_LOOKS_MAX = 5


class RegionStore:
    """The identity of the region in a store. The first hub creates the node, and hubs remember the identity: without it
    the store was emptied; with another one it has another history of plans, users and hubs."""

    def __init__(self, store: Store, tree: Tree) -> None:
        self._store = store
        self._tree = tree

    async def identity(self) -> str | None:
        """None before the first hub, or in an emptied store."""
        node = await self._store.find(self._tree.identity)
        return None if node is None else node.data.decode("utf-8", "replace")

    async def claim(self, identity: str) -> str:
        """Give the region this identity unless it has one; return the one in force."""
        await self._store.ensure(self._tree.root)
        try:
            await self._store.create(self._tree.identity, identity.encode())
        except NodeExistsError:
            return await self.identity() or identity
        return identity


class HubsStore:
    """Announce a hub, and read the others."""

    def __init__(
        self,
        store: Store,
        tree: Tree | None = None,
        *,
        is_gone: Callable[[str], bool] = lambda process: False,
    ) -> None:
        """`is_gone`: whether a process, by the identity in its facts, is known to have ended."""
        self._store = store
        self._tree = tree or Tree()
        self._is_gone = is_gone
        # The hubs of the last read, and which of their nodes counted.
        self._guesses: dict[str, str] = {}

    async def announce(
        self,
        facts: HubFacts,
        *,
        load_ratio: float = 0.0,
        since_id: int = 0,
        served_version: int = 0,
        specs_version: int = 0,
        patience_s: float = 30.0,
    ) -> Node:
        """Become alive in the present session; call again after every LOST. Returns the `alive` node.

        `since_id` is the creation id of this run's first node, if there was one. Waits for the end of another process
        of this name; raises NodeExistsError if it does not end within `patience_s`.
        """
        await self._store.ensure(self._tree.hub(facts.hub))
        alive = HubAlive(
            facts=facts,
            load_ratio=load_ratio,
            since_id=since_id,
            served_version=served_version,
            specs_version=specs_version,
        )
        node = await self._claim(alive, patience_s)
        # After the claim: another hub of this name keeps its facts until then.
        await self._store.set(self._tree.hub(facts.hub), msgspec.msgpack.encode(facts), version=None)
        return node

    async def report(
        self,
        facts: HubFacts,
        *,
        load_ratio: float,
        since_id: int = 0,
        served_version: int = 0,
        specs_version: int = 0,
        unreachable: Sequence[tuple[str, int]] = (),
        edge: EdgeReport | None = None,
    ) -> None:
        """Report the current load and specs, and unreachable hubs. Raises NoNodeError if it is not alive."""
        alive = HubAlive(
            facts=facts,
            load_ratio=load_ratio,
            since_id=since_id,
            served_version=served_version,
            specs_version=specs_version,
            unreachable=tuple(unreachable),
            edge=edge,
        )
        await self._store.set(self._tree.alive(facts.hub), msgspec.msgpack.encode(alive), version=None)

    async def withdraw(self, hub: str) -> None:
        """Delete the own `alive` nodes: the hub counts as dead at once."""
        await self._delete(self._tree.alive(hub))

    async def delete_ended(self, hub: str, incarnation: int) -> bool:
        """Delete the `alive` of this run if its process is known to have ended; return whether this call deleted it.

        A process that replaces its node at the same moment may lose the new one; it notices and creates it again.
        """
        for path in (self._tree.alive(hub), self._tree.alive_next(hub)):
            found = await self._store.find(path)
            if found is None:
                continue
            facts = decode_alive(found).facts
            if facts.incarnation == incarnation and self._is_gone(facts.process):
                await self._delete(path, version=found.version)
                return True
        return False

    async def forget(self, hub: str) -> None:
        """Remove a dead hub's facts. Raises NotEmptyError if it is alive."""
        await self._delete(self._tree.hub(hub))

    async def load(self) -> dict[str, HubSeen]:
        """All hubs by name, in one round trip if nodes have not changed. Raises DamagedError."""
        look = self.glance()
        return await self.conclude(look, await self._store.read(look.reads))

    def glance(self) -> HubLook:
        """For a caller that reads the hubs together with other data: `conclude` with the results of its reads."""
        return HubLook(self._tree, self._guesses)

    async def conclude(self, look: HubLook, answers: Sequence[Answer]) -> dict[str, HubSeen]:
        """As `load`; a hub that differs from the guess is read now. Raises DamagedError."""
        found, others = look.conclude(answers)
        found.update(zip(others, await asyncio.gather(*map(self.look, others)), strict=True))
        seen = {hub: one for hub, one in sorted(found.items()) if one is not None}
        self._guesses = {hub: ALIVE if one.alive is not None else "" for hub, one in seen.items()}
        return {one.facts.hub: one for one in seen.values()}

    async def look(self, hub: str) -> HubSeen | None:
        """One hub; None if it was never announced. Raises DamagedError."""
        path = self._tree.hub(hub)
        try:
            for _ in range(_LOOKS_MAX):
                # The list is read at one moment: a live hub has one of the two in it.
                names = await self._store.children(path)
                for name in (ALIVE, ALIVE_NEXT):
                    node = await self._store.find(f"{path}/{name}") if name in names else None
                    if node is not None:
                        return seen_in(node, is_alive=True)
                if not counting_node(names):
                    break
            return seen_in(await self._store.get(path), is_alive=False)
        except NoNodeError:
            return None

    async def watch(self) -> AsyncGenerator[Mapping[str, HubSeen], None]:
        """All hubs, and again whenever one joins, dies or begins another run; not when only its load changes.

        Continues after a loss of the store: an unavailable store makes no hub dead.
        """
        async with aclosing(self.changes()) as changes:
            async for _ in changes:
                yield await read_reported(self.load)

    def changes(self) -> AsyncGenerator[None, None]:
        """As `watch`, for a caller that reads by itself."""
        return follow(self._store, self._tree.hubs, WatchKind.CHILDREN)

    # Claiming a name.

    async def _claim(self, alive: HubAlive, patience_s: float) -> Node:
        path, data = self._tree.alive(alive.facts.hub), msgspec.msgpack.encode(alive)
        async with self._store.watch(path) as watch:
            deadline = asyncio.get_running_loop().time() + patience_s
            while True:
                try:
                    node = await self._store.create(path, data, ephemeral=True)
                except NodeExistsError:
                    found = await self._store.find(path)
                    if found is None:
                        continue
                    if await self._make_room(found, alive):
                        continue
                    if found.owner == self._store.session:
                        return await self._store.set(path, data, version=None)
                    left_s = deadline - asyncio.get_running_loop().time()
                    if left_s <= 0 or not await watch.changed(left_s):
                        await self._delete(self._tree.alive_next(alive.facts.hub), is_own=True)
                        raise
                else:
                    await self._delete(self._tree.alive_next(alive.facts.hub), is_own=True)
                    return node

    async def _make_room(self, found: Node, alive: HubAlive) -> bool:
        """Delete an own `alive`, or that of an ended process, to replace it; return whether it was one of these."""
        facts = decode_alive(found).facts
        is_own_session = found.owner == self._store.session
        is_own_life = facts.incarnation == alive.facts.incarnation
        if is_own_session and is_own_life:
            return False
        if not is_own_session and not is_own_life and not self._is_gone(facts.process):
            # It belongs to another process that may live: wait for its session to end.
            return False
        if is_own_life:
            # Left by the last own session: readers must find a node while it is replaced.
            await self._stand_in(alive)
        await self._delete(found.path, version=found.version)
        return True

    async def _stand_in(self, alive: HubAlive) -> None:
        path = self._tree.alive_next(alive.facts.hub)
        try:
            await self._store.create(path, msgspec.msgpack.encode(alive), ephemeral=True)
        except NodeExistsError:
            found = await self._store.find(path)
            if found is not None and found.owner != self._store.session:
                # Of a session before the last, which has not expired yet either.
                await self._delete(path)
                await self._store.create(path, msgspec.msgpack.encode(alive), ephemeral=True)

    async def _delete(self, path: str, *, version: int | None = None, is_own: bool = False) -> None:
        """Delete a node if it exists; with `is_own` only if it belongs to this session."""
        if is_own:
            found = await self._store.find(path)
            if found is None or found.owner != self._store.session:
                return
        try:
            await self._store.delete(path, version=version)
        except (NoNodeError, BadVersionError):
            # Another one by now, or none: the caller reads again.
            pass
