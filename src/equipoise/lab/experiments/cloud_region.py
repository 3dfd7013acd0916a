"""Hubs of an experiment with the real store and controller, over the simulated network.

Every hub has its own session with the store and follows plan, specs and the other hubs through it. The controller is
elected in the store, reads the hubs' telemetry over the network, and commits plans to the store. It writes the wanted
hubs to the store: a new machine starts for each after a while, and an unwanted hub is stopped, as `equipoise up` does.
All information passes over the simulated network, with its latency.

Always true: `plan`, `hub` and `load_ratios` are for observers and change nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from equipoise.client.url import Endpoint
from equipoise.control.settings import ControllerSettings
from equipoise.hub import Hub, HubSettings, Limits
from equipoise.hub.cluster.settings import ClusterSettings
from equipoise.hub.membership.settings import Join, MembershipSettings
from equipoise.hub.telemetry.settings import TelemetrySettings
from equipoise.lab.simulation import CpuSpec, Simulation
from equipoise.lab.simulation.cluster.controller import LiveViews, TelemetryViews, run_controller
from equipoise.lab.simulation.cluster.region import TREE, Region, RegionHub
from equipoise.lab.simulation.simulated_hub import PORT
from equipoise.model import Entry, Member, Plan, TopicSpec
from equipoise.plan import Policy
from equipoise.store import ServersStore, WantedServer

__all__ = ["CONTROLLER", "CloudRegion", "Command"]

CONTROLLER = "controller"
# Delay between two attempts to reach the store.
RETRY_S = 0.5
# Time for a hub to be alive in the store, and for all hubs to serve under the first plan.
START_S_MAX, BEGIN_S_MAX = 30.0, 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Description of a region."""

    # The initial hubs with their places: a place of the topology, and the hub's site.
    hubs: Mapping[str, str]
    # Place of store, controller and later hubs.
    cloud: str
    cpu: CpuSpec | None = None
    out_bytes_per_s: float | None = None
    # Time from the request for a hub until its start.
    start_s: float = 5.0
    cluster: ClusterSettings = field(default_factory=lambda: ClusterSettings(unsubscribe_delay_s=2.0))


class CloudRegion(Region):
    """The whole region. Call `begin` first; then `commit` as an operator in the cloud, or run a `control`."""

    def __init__(self, sim: Simulation, command: Command) -> None:
        super().__init__(sim, place=command.cloud, retry_s=RETRY_S)
        self.command = command
        # Times of plan commits, with the number of topics moved.
        self.moves: list[tuple[float, int]] = []
        # The entry with the most homes in all plans so far; None if no entry had several.
        self.widest: Entry | None = None
        # Views of the latest controller; None before the first.
        self.views: TelemetryViews | None = None
        self._asked: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        for name, site in command.hubs.items():
            self._place(name, site)

    async def begin(self, entries: Iterable[Entry] = (), specs: Iterable[TopicSpec] = ()) -> None:
        """Start the first hubs, with these entries in their plan, and wait until all serve under it."""
        await super().begin()
        await self.put_specs(specs)
        for work in (*self.work(), self._provide()):
            self._keep(work)
        await self.start(*self.hubs)
        members = [Member(name) for name in sorted(self.hubs)]
        self.commit(Plan.of(members=members, entries=entries))
        first = dict(self.hubs)
        await self.sim.until(lambda: all(self._serves(hub, first) for hub in first.values()), BEGIN_S_MAX)

    async def start(self, *names: str) -> None:
        """Start hubs, in the cloud if they are new, and wait until they are alive in the store."""
        for name in names:
            if name not in self.hubs:
                self._place(name, self.command.cloud)
            self.hubs[name].start()
        await self.sim.until(lambda: self.alive.keys() >= set(names), START_S_MAX)

    def move(self, entries: Iterable[Entry]) -> None:
        """Commit these plan entries."""
        self.commit(replace(self.plan, entries={**self.plan.entries, **{one.topic: one for one in entries}}))

    def control(
        self, policy: Policy, name: str = CONTROLLER, views: LiveViews | None = None, hubs_max: int = 0
    ) -> asyncio.Task[None]:
        """Run a controller of this name on its own host in the cloud, with views made by `views`.

        It may request up to `hubs_max` hubs; 0: only the present hubs.
        """
        host = self.sim.host(name, place=self.command.cloud)
        if not host.is_up:
            host.restart()
        self.views = TelemetryViews(lambda: self.alive, host.clock.time, views)
        settings = ControllerSettings(name=name, site=self.command.cloud, hubs_max=hubs_max)
        if hubs_max:
            # The initial hubs are machines like later ones, so the controller may release them too.
            self._keep(self._want(self.hubs))
        return run_controller(self, policy, self.views, settings, host)

    # Machines.

    def _place(self, name: str, site: str) -> None:
        command = self.command
        host = self.sim.host(name, place=site, cpu=command.cpu, nic_out_bytes_per_s=command.out_bytes_per_s)
        self.add(_settings(name, site, command), host=host)

    async def _want(self, names: Iterable[str]) -> None:
        self._asked.update(names)
        await ServersStore(self._store, TREE).change(add=[WantedServer(hub=name) for name in names])

    async def _provide(self) -> None:
        """Start hubs that are added to the store's list of wanted hubs, and stop removed ones."""
        async with aclosing(ServersStore(self._store, TREE).watch()) as changes:
            async for wanted in changes:
                for name in sorted(wanted.keys() - self._asked):
                    self._keep(self._boot(name))
                for name in sorted(self._asked - wanted.keys()):
                    self._keep(self._stop(name))
                self._asked = set(wanted)

    async def _boot(self, name: str) -> None:
        await asyncio.sleep(self.command.start_s)
        if name in self._asked:
            await self.start(name)

    async def _stop(self, name: str) -> None:
        if name in self.alive:
            await self.retire(name)

    def _keep(self, work: Coroutine[Any, Any, object]) -> None:
        task = self.sim.loop.create_task(_run(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Observation.

    @property
    def members(self) -> list[str]:
        return [member.hub for member in self.plan.members]

    @property
    def running(self) -> list[str]:
        return sorted(self.alive)

    @property
    def endpoints(self) -> list[Endpoint]:
        """Addresses of the members."""
        return [Endpoint(name, PORT) for name in self.hubs if name in self.plan.by_hub]

    @property
    def load_ratios(self) -> tuple[float, ...]:
        """Dynamoth's load ratio (equation 1) of each member, as the controller sees it: outgoing bandwidth over its
        maximum."""
        view = None if self.views is None else self.views.latest
        if view is None:
            return ()
        hubs = [view.hub(name) for name in self.members if name in view.hub_index]
        return tuple(hub.out_bytes_per_s / hub.out_bytes_per_s_max for hub in hubs if hub.out_bytes_per_s_max)

    def hub(self, name: str) -> Hub:
        hub = self.hubs[name].hub
        assert hub is not None, "the hub is running"
        return hub

    async def _follow(self) -> None:
        before: Mapping[bytes, Entry] = {}
        async with aclosing(self._plans.watch()) as plans:
            async for plan in plans:
                self.plan = plan
                changed = [entry for topic, entry in plan.entries.items() if before.get(topic) != entry]
                self.moves.append((self.sim.now, len(changed) + len(before.keys() - plan.entries.keys())))
                widest = max(changed, key=lambda entry: len(entry.homes), default=None)
                if widest is not None and len(widest.homes) > (
                    1 if self.widest is None else len(self.widest.homes)
                ):
                    self.widest = widest
                before = plan.entries

    def _serves(self, hub: RegionHub, others: Mapping[str, RegionHub]) -> bool:
        if hub.membership is None or not hub.membership.ready.is_set() or not self.plan.version:
            return False
        cluster = self.hub(hub.name).cluster
        assert cluster is not None, "the hub has joined the cluster"
        sees_all = others.keys() <= cluster.router.routing.hubs.keys()
        return sees_all and cluster.router.version >= self.plan.version and cluster.is_barrier_passed


async def _run(work: Coroutine[Any, Any, object]) -> None:
    await work


def _settings(name: str, site: str, command: Command) -> HubSettings:
    return HubSettings(
        name=name,
        host="0.0.0.0",
        port=PORT,
        insecure=True,
        # Many clients connect at once in experiments, without pacing of new connections.
        limits=Limits(accepts_per_s=10_000),
        cluster=command.cluster,
        telemetry=TelemetrySettings(out_bytes_per_s_max=command.out_bytes_per_s),
        # The planner adds members, so a starting hub must not add itself.
        membership=MembershipSettings(site=site, join=Join.WAIT),
    )
