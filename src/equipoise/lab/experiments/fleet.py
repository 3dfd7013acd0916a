"""Real hubs on simulated machines, on demand, under one plan.

A fleet has a fixed number of machines in the cloud, all alike. A hub is started on one when it is wanted and stopped
when it is released, which is after the plan has left it out and its last client has gone. The plan and who is alive
are told to every hub a little later, each at its own time; the fleet stands in for the store, which has experiments
of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from equipoise.client.url import Endpoint
from equipoise.hub import Hub, HubSettings, Limits
from equipoise.hub.cluster import LiveHub, Routing
from equipoise.hub.cluster.settings import ClusterSettings
from equipoise.hub.telemetry.settings import TelemetrySettings
from equipoise.lab.simulation import CpuSpec, Simulation
from equipoise.lab.simulation.legs import CLOUD
from equipoise.lab.simulation.process import HostProcess
from equipoise.model import Member, Plan

__all__ = ["PORT", "Fleet", "Machine", "Server"]

PORT = 6399
# How long news takes to each hub, at most: a watch of the store fires within this.
NEWS_S = 0.05
# How often a condition is looked at while somebody waits for it, in virtual time.
LOOK_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What every server of a fleet runs on."""

    # Bytes per second that leave it; None: no limit.
    out_bytes_per_s: float | None = None
    cpu: CpuSpec | None = None


class Server:
    """One machine and the hub on it. `hub` is None while none runs."""

    def __init__(self, fleet: Fleet, name: str, machine: Machine) -> None:
        self.name = name
        self.hub: Hub | None = None
        # The number of the latest news that it has heard.
        self._heard = 0
        self.host = fleet.sim.host(
            name, place=CLOUD, cpu=machine.cpu, nic_out_bytes_per_s=machine.out_bytes_per_s
        )
        self._fleet = fleet
        self._settings = HubSettings(
            name=name,
            host="0.0.0.0",
            port=PORT,
            insecure=True,
            # A crowd that joins at once is part of the experiment, the pacing of strangers is not.
            limits=Limits(accepts_per_s=10_000),
            cluster=ClusterSettings(unsubscribe_delay_s=2.0),
            telemetry=TelemetrySettings(out_bytes_per_s_max=machine.out_bytes_per_s),
        )

    async def serve(self) -> None:
        """Run on the machine itself."""
        host = self.host
        hub = Hub(self._settings, wall_clock=host.clock.time, rng=host.random, process=HostProcess(host))
        await hub.start()
        self.hub = hub
        hub.on_renewed = self.register
        hub.join_cluster()
        self.register()

    def register(self) -> None:
        assert self.hub is not None
        facts = LiveHub(self.hub.core.incarnation, self.name, PORT, self._fleet.plan.version)
        self._fleet.register(self.name, facts)

    async def hear(self, number: int, routing: Routing) -> None:
        """News that a busy machine gets to late may be overtaken; whoever reads a store never goes back."""
        if self.hub is not None and self.hub.cluster is not None and number > self._heard:
            self._heard = number
            self.hub.cluster.apply(routing)

    async def stop(self) -> None:
        if self.hub is not None:
            hub, self.hub = self.hub, None
            await hub.stop()

    @property
    def clients(self) -> int:
        """Connections of clients; those of other hubs do not count."""
        if self.hub is None:
            return 0
        return sum(session.peer is None for session in self.hub.core.sessions.values())


class Fleet:
    """All servers. `commit`, `start` and `release` are what a controller may do."""

    def __init__(self, sim: Simulation, machine: Machine, names: Iterable[str]) -> None:
        self.sim = sim
        self.machine = machine
        self.plan = Plan()
        self.alive: dict[str, LiveHub] = {}
        self.servers = {name: Server(self, name, machine) for name in names}
        # Topics whose entry has changed, over all plans so far.
        self.moves = 0
        self._heard_at: dict[str, float] = {}
        self._told = 0

    @property
    def running(self) -> list[str]:
        return sorted(self.alive)

    @property
    def members(self) -> list[str]:
        return [member.hub for member in self.plan.members]

    @property
    def endpoints(self) -> list[Endpoint]:
        """Where the members listen."""
        return [Endpoint(name, PORT) for name in self.members]

    async def start(self, *names: str) -> None:
        """Start hubs and wait until they have made themselves known."""
        for name in names:
            server = self.servers[name]
            server.host.spawn(server.serve(), name="hub")
        await self.until(lambda: all(name in self.alive for name in names), 30.0)

    async def release(self, name: str, patience_s: float = 60.0) -> bool:
        """Stop a hub that is no member any more, once its clients have gone; False if they have not.

        Neither is one stopped that has been made a member again meanwhile.
        """
        server = self.servers[name]
        is_over = await self.until(lambda: not server.clients or name in self.members, patience_s)
        if not is_over or name in self.members:
            return False
        self.alive.pop(name, None)
        self.tell()
        await server.host.spawn(server.stop(), name="stop")
        return True

    async def begin(self, *names: str) -> None:
        """Start these hubs as the first members."""
        await self.start(*names)
        self.commit(Plan(members=tuple(Member(name) for name in sorted(names))))

    def commit(self, plan: Plan) -> None:
        """Make this the plan, under the next version."""
        plan.check()
        former = self.plan.entries
        changed = {topic for topic, entry in plan.entries.items() if former.get(topic) != entry}
        self.moves += len(changed | (former.keys() - plan.entries.keys()))
        self.plan = replace(plan, version=self.plan.version + 1)
        self.tell()

    def register(self, name: str, facts: LiveHub) -> None:
        self.alive[name] = facts
        self.tell()

    def tell(self) -> None:
        """Let every hub hear the latest, in order, each after a delay of its own."""
        routing = Routing(self.plan, dict(self.alive))
        self._told += 1
        loop, now = self.sim.loop, self.sim.now
        for name in self.alive:
            server = self.servers[name]
            at = max(now + self.sim.random.random() * NEWS_S, self._heard_at.get(name, 0.0))
            self._heard_at[name] = at + 1e-6
            loop.call_at(at, self._deliver, server, self._told, routing)

    def _deliver(self, server: Server, number: int, routing: Routing) -> None:
        if server.hub is not None:
            server.host.spawn(server.hear(number, routing), name="routing")

    async def until(self, is_so: Callable[[], bool], patience_s: float) -> bool:
        """Wait for a condition, no longer than this; whether it came."""
        for _ in range(int(patience_s / LOOK_S) + 1):
            if is_so():
                return True
            await asyncio.sleep(LOOK_S)
        return False
