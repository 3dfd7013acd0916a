"""Keep what the planner remembers where the next leader finds it: what it is emptying, asked for, and has learnt.

A leader that dies takes no plan with it, but a release half done would look to its successor like an operator's drain.
Written after a plan that changed something, and now and then for what was learnt. It may be lost or be older than the
plan: a planner that knows nothing plans safely, only slower.
"""

from __future__ import annotations

import logging

import msgspec

from equipoise.errors import NoNodeError, ViewError
from equipoise.plan import Memory, decode_memory, encode_memory
from equipoise.store import Store, Tree

__all__ = ["Remembering"]

log = logging.getLogger("equipoise.control")

# Below what a node may hold.
_BYTES_MAX = 900_000
# Seconds between two writes for the sake of profiles and noise, which change with every view.
_LEARNT_S = 60.0


class Remembering:
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
            log.warning("what an earlier controller remembered is passed over: %s", problem)
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
    """What was begun and has to be ended by somebody."""
    return memory.releasing, memory.released, memory.servers_wanted, memory.plan_s
