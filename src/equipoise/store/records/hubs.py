"""The hubs of a region and their liveness.

A hub has two nodes, Hedwig's: one with its facts, which stays, and below it `alive`, ephemeral, with its facts and its
load. That everything is in the one node which makes it alive matters: no reader sees a hub half announced.

A session may end while its hub lives. The hub then takes its own `alive` over into its next session, and holds
`alive-next` meanwhile: a reader in between finds one of the two.

Always true: of two processes under one name at most one holds `alive`. The second waits for the session of the first to
end, unless it can prove that the first process has ended: then it deletes the first one's `alive` and takes its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing

import msgspec

from equipoise.errors import BadVersionError, NodeExistsError, NoNodeError, StoreUnavailableError
from equipoise.store.contract import Answer, Node, Store, WatchKind
from equipoise.store.records.follow import follow
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

# A hub changes from one of its two nodes to the other while they are read; hardly more than once.
_LOOKS_MAX = 5


class RegionStore:
    """Which region a store holds. The first hub makes the node, and hubs remember it: a store in which it is missing
    was emptied, and one in which it differs holds another history of plans, users and hubs."""

    def __init__(self, store: Store, tree: Tree) -> None:
        self._store = store
        self._tree = tree

    async def identity(self) -> str | None:
        """None if no hub was ever here, or the store was emptied."""
        node = await self._store.find(self._tree.identity)
        return None if node is None else node.data.decode("utf-8", "replace")

    async def claim(self, identity: str) -> str:
        """Give the region this identity unless it has one; the one it has."""
        await self._store.ensure(self._tree.root)
        try:
            await self._store.create(self._tree.identity, identity.encode())
        except NodeExistsError:
            return await self.identity() or identity
        return identity


class HubsStore:
    """Announce a hub, and see the others."""

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
        # The hubs there were when they were looked at last, and which of their nodes counted.
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
        """Come alive in the present session; call again after every LOST. Returns the `alive` node.

        `since_id` is the creation id of this life's first node, if there was one. Waits for another process of this
        name to end; raises NodeExistsError if it does not within `patience_s`.
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
        # After the claim: a hub that is still alive under this name keeps its facts until then.
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
        """Report the current load and specs, and which hubs it cannot reach. Raises NoNodeError if it is not alive."""
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
        """Be dead, at once and on purpose."""
        await self._delete(self._tree.alive(hub))

    async def delete_ended(self, hub: str, incarnation: int) -> bool:
        """Delete the `alive` of this life if its process is known to have ended; whether that was done here.

        A process that takes its place at the same moment may lose its new node, notices that and makes it again.
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
        """All hubs there are, by name, in one round trip if they are as they were. Raises DamagedError."""
        look = self.glance()
        return await self.conclude(look, await self._store.read(look.reads))

    def glance(self) -> HubLook:
        """For a caller that reads the hubs together with something else: `conclude` with the answers to its reads."""
        return HubLook(self._tree, self._guesses)

    async def conclude(self, look: HubLook, answers: Sequence[Answer]) -> dict[str, HubSeen]:
        """As `load`; a hub that is not as guessed is read now. Raises DamagedError."""
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
                # The list is read at one moment: a hub that is alive has one of the two in it.
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
        """All hubs, and again whenever one comes, dies or begins another life; not when only its load changes.

        Goes on when the store has been away: a store that does not answer makes no hub dead.
        """
        async with aclosing(self.changes()) as changes:
            async for _ in changes:
                try:
                    yield await self.load()
                except StoreUnavailableError:
                    continue

    def changes(self) -> AsyncGenerator[None, None]:
        """As `watch`, for a caller that does its own reads."""
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
        """Delete an `alive` of ours, or of a process that has ended, to take its place; whether it was one."""
        facts = decode_alive(found).facts
        is_own_session = found.owner == self._store.session
        is_own_life = facts.incarnation == alive.facts.incarnation
        if is_own_session and is_own_life:
            return False
        if not is_own_session and not is_own_life and not self._is_gone(facts.process):
            # Another process's that may live: wait for its session to end.
            return False
        if is_own_life:
            # Left by our last session: no reader may find nothing while it is replaced.
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
                # Of a session before the last, which has not ended yet either.
                await self._delete(path)
                await self._store.create(path, msgspec.msgpack.encode(alive), ephemeral=True)

    async def _delete(self, path: str, *, version: int | None = None, is_own: bool = False) -> None:
        """Delete a node if it is there; with `is_own` only if it is this session's."""
        if is_own:
            found = await self._store.find(path)
            if found is None or found.owner != self._store.session:
                return
        try:
            await self._store.delete(path, version=version)
        except (NoNodeError, BadVersionError):
            # Another one by now, or none: the caller reads again.
            pass
