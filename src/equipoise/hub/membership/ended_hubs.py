"""Declare a hub on this machine dead when its process has ended, before its session expires.

When a link breaks, or cannot be connected, this hub asks the operating system whether the process at its other end has
ended (`processes/identity`). If that is certain, it deletes the hub's `alive` node: all hubs learn that within a round
trip of the store, and the next homes take over while a supervisor still restarts the process.

Always true: only the `alive` node of a process that has certainly ended is deleted. All other cases are left to the
session timeout.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from equipoise.hub.cluster.link.frame import Life
from equipoise.store.records.hubs import HubsStore

if TYPE_CHECKING:
    from equipoise.hub.shell.server import Hub

__all__ = ["EndedHubs"]

log = logging.getLogger("equipoise.hub")


class EndedHubs:
    """Owned by one membership."""

    def __init__(self, hub: Hub, hubs: HubsStore, is_gone: Callable[[str], bool]) -> None:
        """`is_gone`: whether a process has certainly ended."""
        self._hub = hub
        self._hubs = hubs
        self._is_gone = is_gone
        # By incarnation, the process identities of hubs whose links have broken.
        self._processes: dict[Life, str] = {}
        # Incarnations whose links have broken since the last check.
        self._suspects: dict[Life, None] = {}
        self._has_suspects = asyncio.Event()

    def link_lost(self, life: Life) -> None:
        """A connection to this incarnation of a hub has ended or failed. Called again with each attempt."""
        self._suspects[life] = None
        self._has_suspects.set()

    async def watch(self) -> None:
        """Declare hubs dead whose process has ended. Runs until it is cancelled. Raises StoreError."""
        while True:
            await self._has_suspects.wait()
            self._has_suspects.clear()
            suspects, self._suspects = self._suspects, {}
            peers = self._peers()
            self._processes = {life: found for life, found in self._processes.items() if life in peers}
            for life in suspects:
                # Hubs that are no peers are declared dead already.
                if life in peers and self._is_gone(await self._process(life)):
                    await self._declare_dead(life)

    def _peers(self) -> set[Life]:
        cluster = self._hub.cluster
        return set() if cluster is None else {(link.hub, link.incarnation) for link in cluster.out.values()}

    async def _process(self, life: Life) -> str:
        """The identity of the hub's process; empty if it is unknown."""
        found = self._processes.get(life)
        if found is None:
            seen = await self._hubs.look(life[0])
            is_same = seen is not None and seen.facts.incarnation == life[1]
            found = self._processes[life] = seen.facts.process if seen is not None and is_same else ""
        return found

    async def _declare_dead(self, life: Life) -> None:
        if await self._hubs.delete_ended(*life):
            log.warning("hub %s: its process has ended: it is declared dead", life[0])
