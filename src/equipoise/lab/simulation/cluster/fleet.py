"""Hubs on machines that are started on demand, under one plan that is handed to them without a store.

A fleet has a fixed number of machines in the cloud, all alike. A hub is started on one when it is wanted and stopped
when it is released, which is after the plan has left it out and its last client has gone. Every hub hears of the plan
and of the live hubs a little later, at a time of its own (`Directory`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from equipoise.client.url import Endpoint
from equipoise.hub import HubSettings, Limits
from equipoise.hub.cluster.settings import ClusterSettings
from equipoise.hub.telemetry.settings import TelemetrySettings
from equipoise.lab.simulation.cluster.directory import Directory
from equipoise.lab.simulation.cpu import CpuSpec
from equipoise.lab.simulation.legs import CLOUD
from equipoise.lab.simulation.simulated_hub import PORT, SimulatedHub
from equipoise.lab.simulation.world import Simulation
from equipoise.model import Entry, Member, Plan

__all__ = ["Fleet", "Machine"]

# How late a hub hears of a change, at most: a watch of the store fires within this.
NEWS_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What every server of a fleet runs on."""

    # Bytes per second that leave it; None: no limit.
    out_bytes_per_s: float | None = None
    cpu: CpuSpec | None = None


class Fleet(Directory):
    """All servers. `commit`, `start` and `release` are what a controller may do."""

    def __init__(self, sim: Simulation, machine: Machine, names: Iterable[str]) -> None:
        super().__init__(sim, sim.random.random, lag_s=NEWS_S)
        self.machine = machine
        # Topics whose entry has changed, over all plans so far.
        self.moves = 0
        # Of all plans so far, the entry with the most homes; None if none had several.
        self.widest: Entry | None = None
        for name in names:
            host = sim.host(name, place=CLOUD, cpu=machine.cpu, nic_out_bytes_per_s=machine.out_bytes_per_s)
            self.add(_settings(name, machine), host=host)

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

    async def begin(self, *names: str) -> None:
        """Start these hubs as the first members."""
        await self.start(*names)
        self.commit(Plan(members=tuple(Member(name) for name in sorted(names))))

    async def start(self, *names: str) -> None:
        """Start hubs and wait until they have made themselves known."""
        for name in names:
            self.hubs[name].start()
        await self.sim.until(lambda: all(name in self.alive for name in names), 30.0)

    async def release(self, name: str, patience_s: float = 60.0) -> bool:
        """Stop a hub that is no member any more, once its clients have gone; False if they have not.

        Neither is one stopped that has been made a member again meanwhile.
        """
        node = self.hubs[name]
        is_over = await self.sim.until(lambda: not node.clients or name in self.members, patience_s)
        if not is_over or name in self.members:
            return False
        # It leaves in order before it counts as dead: its end is no gap then.
        await node.host.spawn(node.stop(), name="stop")
        self.expire(name)
        return True

    def commit(self, plan: Plan) -> None:
        """Make this the plan, under the next version."""
        plan.check()
        former = self.plan.entries
        changed = {topic for topic, entry in plan.entries.items() if former.get(topic) != entry}
        self.moves += len(changed | (former.keys() - plan.entries.keys()))
        for topic in changed:
            homes = len(plan.entries[topic].homes)
            if homes > (1 if self.widest is None else len(self.widest.homes)):
                self.widest = plan.entries[topic]
        super().commit(plan)

    def _told(self) -> Iterable[SimulatedHub]:
        return [self.hubs[name] for name in self.alive]


def _settings(name: str, machine: Machine) -> HubSettings:
    return HubSettings(
        name=name,
        host="0.0.0.0",
        port=PORT,
        insecure=True,
        # A crowd that joins at once is part of the experiment, the pacing of new connections is not.
        limits=Limits(accepts_per_s=10_000),
        cluster=ClusterSettings(unsubscribe_delay_s=2.0),
        telemetry=TelemetrySettings(out_bytes_per_s_max=machine.out_bytes_per_s),
    )
