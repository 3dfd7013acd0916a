"""A real hub on a simulated host: alone, in a cluster with a store, or without one.

An attendant starts the hub: a coroutine that runs on the host from its start. `alone` is an attendant; a `Directory`
and a `Region` provide others.
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
    """Process figures for a hub's telemetry: the work charged to the host's processor, and no memory."""

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
# Delay until a supervisor restarts a hub that has exited.
SUPERVISOR_S = 1.0
# A hub with users needs an executor to check secrets; the simulated loop calls functions inline and never uses it.
IDLE_EXECUTOR = ThreadPoolExecutor(1)


class SimulatedHub:
    """A host and the hub on it. `hub` is the running hub, or None."""

    def __init__(
        self,
        host: Host,
        settings: HubSettings,
        attend: Attendant,
        *,
        rules: AclSync | None = None,
        clock_error_s: Callable[[], float] | None = None,
    ) -> None:
        """`clock_error_s`: draws the error of the wall clock at each start."""
        self.host = host
        self.name = settings.name
        self.settings = settings
        self.rules = rules
        self.hub: Hub | None = None
        # Access rules and the times at which they took effect on this hub.
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
        """Runs on the host: run the attendant, and restart it when it fails, as a supervisor does.

        A hub cannot start while its name is still registered in the store.
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
        """Start the hub; attendants call this."""
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
        """Runs on the host: shut the hub down cleanly."""
        if self.hub is not None:
            hub, self.hub = self.hub, None
            await leave(hub)
            await hub.stop()

    def change_rules(self, rules: AclSync) -> None:
        """Apply new access rules: now, or when the hub runs again."""
        self.rules = rules
        if self.host.is_up:
            self.host.spawn(self._reload(), name="reload")

    async def _reload(self) -> None:
        # A paused hub runs this when it thaws, which is when it would read its users file.
        if self.hub is not None and self.rules is not None:
            self.hub.reload_users(users_of(self.rules))
            self._note_rules()

    def _note_rules(self) -> None:
        if self.rules is not None:
            self.rules_at.append((asyncio.get_running_loop().time(), self.rules))

    # Observation.

    @property
    def cluster(self) -> Cluster | None:
        return None if self.hub is None else self.hub.cluster

    @property
    def incarnations(self) -> int:
        """Number of incarnations of the hub so far."""
        if self.hub is not None:
            self._incarnations.add(self.hub.core.incarnation)
        return len(self._incarnations)

    @property
    def clients(self) -> int:
        """Number of client connections, without those of other hubs."""
        if self.hub is None:
            return 0
        return sum(session.peer is None for session in self.hub.core.sessions.values())


Attendant: TypeAlias = Callable[[SimulatedHub], Awaitable[None]]


async def alone(node: SimulatedHub) -> None:
    """Attendant of a single hub."""
    await node.listen()
