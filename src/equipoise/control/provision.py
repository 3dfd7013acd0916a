"""Servers on demand: ask whoever has machines to start a hub, and to stop one that is empty.

The controller says how many; a provisioner finds machines. Both calls are repeated until they have worked, so they
have to be harmless when repeated.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import Mapping, Sequence
from typing import Protocol

from equipoise.errors import ProvisionError
from equipoise.store import ServersStore, Store, Tree, Wanted

__all__ = ["CommandProvisioner", "NoProvisioner", "Provisioner", "StoreProvisioner", "fresh_names"]

log = logging.getLogger("equipoise.control")

# Starting a machine may take minutes; the command is to ask for it, not to wait for it.
COMMAND_S_MAX = 60.0
_OUTPUT_SHOWN = 300


class Provisioner(Protocol):
    """Who has machines."""

    async def wanted(self) -> Mapping[str, Wanted]:
        """The hubs that were asked for and not given back. Raises StoreError."""
        ...

    async def start(self, servers: Sequence[Wanted]) -> None:
        """See that these hubs run. Raises StoreError, or ProvisionError."""
        ...

    async def stop(self, hubs: Sequence[str]) -> None:
        """See that these, which nothing lives at any more, run no longer. Raises like `start`."""
        ...


class NoProvisioner:
    """Hubs are somebody's own business."""

    async def wanted(self) -> Mapping[str, Wanted]:
        return {}

    async def start(self, servers: Sequence[Wanted]) -> None:
        return None

    async def stop(self, hubs: Sequence[str]) -> None:
        return None


class StoreProvisioner:
    """Write what is wanted into the store; `equipoise up` reads it and starts and stops processes."""

    def __init__(self, store: Store, tree: Tree) -> None:
        self._servers = ServersStore(store, tree)

    async def wanted(self) -> Mapping[str, Wanted]:
        return await self._servers.load()

    async def start(self, servers: Sequence[Wanted]) -> None:
        await self._servers.change(add=servers)

    async def stop(self, hubs: Sequence[str]) -> None:
        await self._servers.change(remove=hubs)


class CommandProvisioner:
    """Call a command of the user's, for any cloud: `COMMAND start NAME SITE`, `COMMAND stop NAME`.

    What was asked for is kept in the store first, so that no hub is forgotten if this process dies in between.
    """

    def __init__(self, command: str, store: Store, tree: Tree, *, patience_s: float = COMMAND_S_MAX) -> None:
        self._words = shlex.split(command)
        self._servers = ServersStore(store, tree)
        self._patience_s = patience_s

    async def wanted(self) -> Mapping[str, Wanted]:
        return await self._servers.load()

    async def start(self, servers: Sequence[Wanted]) -> None:
        await self._servers.change(add=servers)
        for server in servers:
            await self._call("start", server.hub, server.site)

    async def stop(self, hubs: Sequence[str]) -> None:
        for hub in hubs:
            await self._call("stop", hub)
        await self._servers.change(remove=hubs)

    async def _call(self, *words: str) -> None:
        """Raises ProvisionError with the end of what the command printed."""
        shown = shlex.join([*self._words, *words])
        try:
            process = await asyncio.create_subprocess_exec(
                *self._words,
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
        except OSError as problem:
            raise ProvisionError(f"cannot run {shown}: {problem.strerror}") from problem
        try:
            async with asyncio.timeout(self._patience_s):
                output, _ = await process.communicate()
        except TimeoutError as problem:
            process.kill()
            await process.wait()
            raise ProvisionError(f"{shown} did not end within {self._patience_s:g} s") from problem
        if process.returncode:
            said = output.decode(errors="replace").strip()[-_OUTPUT_SHOWN:]
            raise ProvisionError(f"{shown} ended with status {process.returncode}: {said or 'no word'}")
        log.info("%s", shown)


def fresh_names(taken: set[str], count: int, *, prefix: str = "hub") -> list[str]:
    """Names that nobody has or had: hub-1, hub-2 and so on, the lowest free ones."""
    names: list[str] = []
    number = 1
    while len(names) < count:
        name = f"{prefix}-{number}"
        if name not in taken:
            names.append(name)
        number += 1
    return names
