"""A real hub on a simulated host: alone, in a cluster with a store, or without one.

How a hub comes to serve is up to the attendant that it is made with: a coroutine that runs on the host from its start.
`alone` is one; a `Directory` and a `Region` are others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

from equipoise.access import Users
from equipoise.errors import SettingsError
from equipoise.hub import Hub, HubSettings
from equipoise.hub.cluster import Cluster
from equipoise.hub.membership.process import leave
from equipoise.lab.scenarios import AclSync
from equipoise.lab.simulation.host import Host
from equipoise.lab.simulation.rules import users_of

__all__ = ["PORT", "Attendant", "HostProcess", "SimulatedHub", "alone"]


class HostProcess:
    """For a hub's telemetry: the work charged to the host's processor. There is no memory to tell of."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def cpu_s(self) -> float:
        return 0.0 if self._host.cpu is None else self._host.cpu.busy_s

    work_s = cpu_s

    def resident_bytes(self) -> int:
        return 0

    def memory_bytes_max(self) -> int:
        return 0

    def network_bytes_per_s(self) -> float:
        return 0.0


PORT = 6399
# Until a supervisor starts a hub again that has ended by itself.
SUPERVISOR_S = 1.0
# A hub that has users wants an executor to check secrets on; the simulated loop calls inline and never uses it.
IDLE_EXECUTOR = ThreadPoolExecutor(1)


class SimulatedHub:
    """A host and the hub on it. `hub` is the one that serves at present, None while none does."""

    def __init__(
        self,
        host: Host,
        settings: HubSettings,
        attend: Attendant,
        *,
        rules: AclSync | None = None,
        clock_error_s: Callable[[], float] | None = None,
    ) -> None:
        """`clock_error_s`: by how much the wall clock is wrong from the next start on."""
        self.host = host
        self.name = settings.name
        self.settings = settings
        self.rules = rules
        self.hub: Hub | None = None
        # When which rules came into force here, where there are any.
        self.rules_at: list[tuple[float, AclSync]] = []
        self._attend = attend
        self._clock_error_s = clock_error_s
        self._incarnations: set[int] = set()

    def start(self) -> None:
        """Boot the host if it is down, and start a hub on it."""
        if not self.host.is_up:
            self.host.restart()
        if self._clock_error_s is not None:
            self.host.step_clock(self._clock_error_s() - self.host.clock.error_s)
        self.host.spawn(self.serve(), name="hub")

    async def serve(self) -> None:
        """Be a hub, on the host itself, for as long as its attendant goes on.

        A hub that refuses to start, since its name is still taken in the store, is started again, as by a supervisor.
        """
        while True:
            try:
                return await self._attend(self)
            except SettingsError:
                hub, self.hub = self.hub, None
                if hub is not None:
                    await hub.stop()
                await asyncio.sleep(SUPERVISOR_S)

    async def listen(self, users: Users | None = None) -> Hub:
        """For the attendant: start the hub."""
        host = self.host
        if users is None and self.rules is not None:
            users = users_of(self.rules)
        hub = Hub(
            self.settings,
            users,
            wall_clock=host.clock.time,
            rng=host.random,
            executor=IDLE_EXECUTOR,
            process=HostProcess(host),
        )
        await hub.start()
        self.hub = hub
        self._incarnations.add(hub.core.incarnation)
        self._note_rules()
        return hub

    def crash(self, *, silent: bool) -> None:
        self.hub = None
        self.host.crash(silent=silent)

    async def stop(self) -> None:
        """Take leave, on the host itself."""
        if self.hub is not None:
            hub, self.hub = self.hub, None
            await leave(hub)
            await hub.stop()

    def change_rules(self, rules: AclSync) -> None:
        """Put other rules in force: now, or as soon as the hub runs again."""
        self.rules = rules
        if self.host.is_up:
            self.host.spawn(self._reload(), name="reload")

    async def _reload(self) -> None:
        # A paused hub gets here when it thaws, which is when it reads its file.
        if self.hub is not None and self.rules is not None:
            self.hub.reload_users(users_of(self.rules))
            self._note_rules()

    def _note_rules(self) -> None:
        if self.rules is not None:
            self.rules_at.append((asyncio.get_running_loop().time(), self.rules))

    # Seen from outside.

    @property
    def cluster(self) -> Cluster | None:
        return None if self.hub is None else self.hub.cluster

    @property
    def incarnations(self) -> int:
        """How many this name has had."""
        if self.hub is not None:
            self._incarnations.add(self.hub.core.incarnation)
        return len(self._incarnations)

    @property
    def clients(self) -> int:
        """Connections of clients; those of other hubs do not count."""
        if self.hub is None:
            return 0
        return sum(session.peer is None for session in self.hub.core.sessions.values())


Attendant: TypeAlias = Callable[[SimulatedHub], Awaitable[None]]


async def alone(node: SimulatedHub) -> None:
    """Serve without other hubs."""
    await node.listen()
