"""Servers on demand: ask whoever has machines to start a hub, and to stop one that is empty.

The controller says how many; a provisioner finds machines. Every round says again what is missing and what is too much,
until it is so: what is done about it has to be harmless when repeated. No call waits for a machine; rounds go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from equipoise.store import ServersStore, Store, Tree, WantedServer

__all__ = ["NoProvisioner", "Provisioner", "StoreProvisioner", "fresh_names"]


class Provisioner(Protocol):
    """Whatever starts and stops machines."""

    @property
    def problem(self) -> str:
        """What failed last and has not worked since, for people; empty if nothing has."""
        ...

    async def wanted(self) -> Mapping[str, WantedServer]:
        """The hubs that were asked for and not given back. Raises StoreError."""
        ...

    async def start(self, servers: Sequence[WantedServer]) -> None:
        """See that these hubs run. Raises StoreError, or ProvisionError."""
        ...

    async def remind(self, hubs: Sequence[str]) -> None:
        """What was asked for and is not alive, in every round: do again what has not worked. Raises like `start`."""
        ...

    async def stop(self, hubs: Sequence[str]) -> None:
        """See that these, which nothing lives at any more, run no longer. Raises like `start`."""
        ...


class NoProvisioner:
    """Hubs are started and stopped by their operator."""

    problem = ""

    async def wanted(self) -> Mapping[str, WantedServer]:
        return {}

    async def start(self, servers: Sequence[WantedServer]) -> None:
        return None

    async def remind(self, hubs: Sequence[str]) -> None:
        return None

    async def stop(self, hubs: Sequence[str]) -> None:
        return None


class StoreProvisioner:
    """Write what is wanted into the store; `equipoise up` reads it and starts and stops processes."""

    problem = ""

    def __init__(self, store: Store, tree: Tree) -> None:
        self._servers = ServersStore(store, tree)

    async def wanted(self) -> Mapping[str, WantedServer]:
        return await self._servers.load()

    async def start(self, servers: Sequence[WantedServer]) -> None:
        await self._servers.change(add=servers)

    async def remind(self, hubs: Sequence[str]) -> None:
        """Whoever reads the store keeps what it has started running."""

    async def stop(self, hubs: Sequence[str]) -> None:
        await self._servers.change(remove=hubs)


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
