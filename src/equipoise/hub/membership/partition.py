"""Take one side of a partition between hubs out of the cluster, while the store reaches both.

Plan changes wait for every live hub, so two hubs that cannot reach each other cannot open new topics. Each hub writes
the peers that it has not reached for half of `unreachable_s` to its `alive` node. After the other half, all affected
hubs have written theirs, and it reads them. All hubs apply the same rule (`outvoted`), and an outvoted hub leaves: it
deletes its `alive` node, ends its incarnation, and registers again once it can connect to every live hub.

Always true: the store's state determines which hub leaves, so of two hubs that accuse each other one stays.

A peer is unreachable if no connection can be opened, or if it is silent. A peer that rejects the login or the
certificate is not: leaving would not help.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from equipoise.hub.cluster.link.frames import Life
from equipoise.model.address import split_address
from equipoise.store.records.hubs import HubSeen, HubsStore

if TYPE_CHECKING:
    from equipoise.hub.membership.registration import HubRegistration
    from equipoise.hub.shell.server import Hub

__all__ = ["Partition", "outvoted"]

log = logging.getLogger("equipoise.hub")

# Number of checks of the links per `unreachable_s`.
LOOKS = 8


def outvoted(accusations: Mapping[str, Collection[str]]) -> list[str]:
    """The hubs that have to leave, given the peers that each live hub cannot reach: about as few as possible.

    The hub in most of the broken pairs leaves first; of several, the one with the greatest name. Repeated with the
    remaining pairs.
    """
    pairs = {
        frozenset((hub, other))
        for hub, others in accusations.items()
        for other in others
        if other in accusations and other != hub
    }
    leaving: list[str] = []
    while pairs:
        count = {hub: sum(hub in pair for pair in pairs) for pair in pairs for hub in pair}
        worst = max(count, key=lambda hub: (count[hub], hub))
        leaving.append(worst)
        pairs = {pair for pair in pairs if worst not in pair}
    return leaving


class Partition:
    """Owned by one membership."""

    def __init__(self, hub: Hub, hubs: HubsStore, registration: HubRegistration) -> None:
        self._hub = hub
        self._hubs = hubs
        self._registration = registration
        self._patience_s = hub.settings.cluster.unreachable_s
        # By unreachable live peer, the time since when.
        self._broken: dict[Life, float] = {}

    async def watch(self) -> None:
        """Write the unreachable peers to the store, and leave if outvoted. Runs until it is cancelled."""
        while True:
            await asyncio.sleep(self._patience_s / LOOKS)
            self._check_links()
            if not self._registration.is_held():
                continue
            accused = self._broken_for(self._patience_s / 2)
            if accused != self._registration.unreachable:
                await self._registration.accuse(accused)
            if self._broken_for(self._patience_s) and await self._is_outvoted():
                await self._leave()

    def _check_links(self) -> None:
        cluster, now = self._hub.cluster, asyncio.get_running_loop().time()
        links = [] if cluster is None else cluster.out.values()
        broken = [(link.hub, link.incarnation) for link in links if link.is_held or link.is_unreachable]
        self._broken = {life: self._broken.get(life, now) for life in broken}

    def _broken_for(self, seconds: float) -> tuple[Life, ...]:
        """The peers that have been unreachable for at least so long."""
        now = asyncio.get_running_loop().time()
        return tuple(sorted(life for life, since in self._broken.items() if now - since >= seconds))

    async def _is_outvoted(self) -> bool:
        seen = await self._hubs.load()
        own = self._hub.settings.name
        return self._registration.is_held() and own in outvoted(_accusations(seen))

    async def _leave(self) -> None:
        others = ", ".join(hub for hub, _ in self._registration.unreachable)
        log.error(
            "hub %s cannot reach %s: it leaves the cluster until it can", self._hub.settings.name, others
        )
        self._hub.core.health.report("partition", f"cannot reach {others}: left the cluster until it can")
        self._broken.clear()
        await self._registration.leave(self._until_reachable)

    async def _until_reachable(self) -> None:
        """Return once a connection to every live hub can be opened. Raises StoreError."""
        interval_s = self._hub.settings.membership.retry_interval_s
        while not await self._can_reach_all():  # noqa: ASYNC110  # no event tells that a cut is over
            await asyncio.sleep(interval_s)
        self._hub.core.health.report("partition", "")

    async def _can_reach_all(self) -> bool:
        seen = await self._hubs.load()
        own = self._hub.settings.name
        addresses = [
            hub.facts.address for hub in seen.values() if hub.alive is not None and hub.facts.hub != own
        ]
        reached = await asyncio.gather(*map(self._can_reach, addresses))
        return all(reached)

    async def _can_reach(self, address: str) -> bool:
        try:
            async with asyncio.timeout(self._hub.settings.cluster.link_timeout_s):
                host, port = split_address(address) or ("", 0)
                transport, _ = await asyncio.get_running_loop().create_connection(
                    asyncio.Protocol, host, port
                )
        except (OSError, TimeoutError):
            return False
        transport.abort()
        return True


def _accusations(seen: Mapping[str, HubSeen]) -> dict[str, list[str]]:
    """By live hub, the live hubs that it has reported unreachable, if their incarnation is still the same."""
    lives = {name: hub.facts.incarnation for name, hub in seen.items() if hub.alive is not None}
    return {
        name: [other for other, incarnation in hub.alive.unreachable if lives.get(other) == incarnation]
        for name, hub in seen.items()
        if hub.alive is not None
    }
