"""Real hubs at sites, with the real store and the real controller between them, all over the simulated network.

Every hub has its own session with the store and follows plan, specs and the other hubs through it; the controller leads
by the store, reads what hubs have recorded over the network, and commits plans there. No information passes
beside the wire: what is far away takes its time. `fleet` stands in for the store where distances do not matter.

Always true: what is looked at from outside (`plan`, `hub`) is only looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

from equipoise.client.url import Endpoint
from equipoise.control.controller import Controller
from equipoise.control.provision import NoProvisioner
from equipoise.control.settings import ControllerSettings
from equipoise.hub import Hub, HubSettings, Limits
from equipoise.hub.cluster.settings import ClusterSettings
from equipoise.hub.membership.settings import Join, MembershipSettings
from equipoise.hub.telemetry.settings import TelemetrySettings
from equipoise.lab.experiments.views import LiveViews, SimulatedTelemetryReader
from equipoise.lab.simulation import CpuSpec, Simulation
from equipoise.lab.simulation.cluster.region import TREE, Region, RegionHub
from equipoise.lab.simulation.simulated_hub import PORT
from equipoise.model import Entry, EntryChange, Member, MemberChange, PlanChange, Reason, TopicSpec, Why
from equipoise.plan import Policy
from equipoise.store import (
    HubsStore,
    LeaderFacts,
    PlanStore,
    SpecsStore,
)
from equipoise.view import View

__all__ = ["CONTROLLER", "CloudRegion", "Command", "TelemetryViews"]

CONTROLLER = "controller"
WANTED = Why(Reason.OPERATOR)
# Between two attempts to reach the store.
RETRY_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What a region is like."""

    # Where each hub stands; a place of the topology, and the hub's site.
    hubs: Mapping[str, str]
    # Where store and controller are.
    cloud: str
    cpu: CpuSpec | None = None
    out_bytes_per_s: float | None = None
    cluster: ClusterSettings = field(default_factory=lambda: ClusterSettings(unsubscribe_delay_s=2.0))


class TelemetryViews:
    """The controller's source of views: what hubs recorded, read once a second over the network."""

    def __init__(
        self, hubs: Iterable[str], clock: Callable[[], float], views: LiveViews | None = None
    ) -> None:
        """`views` makes them of the records."""
        self.latest: View | None = None
        self.news = asyncio.Event()
        self._hubs = list(hubs)
        self._clock = clock
        self._views = views or LiveViews()

    async def run(self) -> None:
        reader, loop = SimulatedTelemetryReader(), asyncio.get_running_loop()
        at = loop.time()
        while True:
            at += 1.0
            await asyncio.sleep(max(0.0, at - loop.time()))
            view = self._views.view(await reader.read(self._hubs), self._clock())
            if view is not None:
                self.latest = view
                self.news.set()


class CloudRegion(Region):
    """All of it. `begin` first; then `commit` as an operator in the cloud, or let a `control` run."""

    def __init__(self, sim: Simulation, command: Command) -> None:
        super().__init__(sim, place=command.cloud, retry_s=RETRY_S)
        self.command = command
        for name, site in command.hubs.items():
            host = sim.host(name, place=site, cpu=command.cpu, nic_out_bytes_per_s=command.out_bytes_per_s)
            self.add(_settings(name, site, command), host=host)
        # When a plan was committed, and how many topics it put elsewhere.
        self.moves: list[tuple[float, int]] = []
        self._operator = sim.host("operator", place=command.cloud)
        self._from_afar: PlanStore | None = None

    @property
    def endpoints(self) -> list[Endpoint]:
        return [Endpoint(name, PORT) for name in self.hubs]

    def hub(self, name: str) -> Hub:
        hub = self.hubs[name].hub
        assert hub is not None, "looked at once it serves"
        return hub

    async def begin(
        self, entries: Mapping[bytes, str] | None = None, specs: Iterable[TopicSpec] = ()
    ) -> None:
        """Start everything, with these topics at these hubs, and wait until all serve under that plan."""
        self.serve()
        self.sim.loop.create_task(self._follow(), name="follow plans")
        for hub in self.hubs.values():
            hub.start()
        await self._operator.spawn(self._first(entries or {}, list(specs)), name="operator")
        version = self.plan.version
        await self.sim.until(lambda: all(self._serves(hub, version) for hub in self.hubs.values()), 60.0)

    async def move(self, entries: Mapping[bytes, str]) -> None:
        """Commit, from the cloud, that these topics live at these hubs."""
        await self._operator.spawn(self._commit(entries), name="commit")

    def control(self, policy: Policy, name: str = CONTROLLER, views: LiveViews | None = None) -> None:
        """Let a controller of this name run on a host of its own in the cloud, on views made by `views`."""
        host = self.sim.host(name, place=self.command.cloud)
        if not host.is_up:
            host.restart()
        made = TelemetryViews(self.hubs, host.clock.time, views)
        host.spawn(self._control(policy, name, host.clock.time, made), name="control")

    # On the operator's host.

    async def _first(self, entries: Mapping[bytes, str], specs: list[TopicSpec]) -> None:
        store = await self.open()
        plans = self._from_afar = PlanStore(store, TREE, writer="operator", clock=self._operator.clock.time)
        for spec in specs:
            await SpecsStore(store, TREE).put(spec)
        # A hub serves under plans that were committed after it had come.
        async with aclosing(HubsStore(store, TREE).watch()) as changes:
            async for seen in changes:
                if all(name in seen and seen[name].alive is not None for name in self.hubs):
                    break
        members = tuple(MemberChange(name, Member(name), WANTED) for name in sorted(self.hubs))
        await plans.commit(PlanChange(1, _changes(entries), members))
        self.plan = await plans.load()

    async def _commit(self, entries: Mapping[bytes, str]) -> None:
        assert self._from_afar is not None, "begun before"
        base = await self._from_afar.load()
        await self._from_afar.commit(PlanChange(base.version + 1, _changes(entries)))

    # On the controller's.

    async def _control(
        self, policy: Policy, name: str, clock: Callable[[], float], views: TelemetryViews
    ) -> None:
        settings = ControllerSettings(name=name, site=self.command.cloud)
        controller = Controller(
            await self.open(),
            TREE,
            settings,
            policy=policy,
            views=views,
            provisioner=NoProvisioner(),
            facts=LeaderFacts(name=name, site=settings.site),
            clock=clock,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(views.run())
            group.create_task(controller.run())

    # From outside.

    async def _follow(self) -> None:
        store = await self.beside()
        async for plan in PlanStore(store, TREE, writer="observer", clock=lambda: 0.0).watch():
            before, self.plan = self.plan.entries, plan
            changed = [topic for topic, entry in plan.entries.items() if before.get(topic) != entry]
            gone = before.keys() - plan.entries.keys()
            self.moves.append((self.sim.now, len(changed) + len(gone)))

    def _serves(self, hub: RegionHub, version: int) -> bool:
        if hub.membership is None or not hub.membership.ready.is_set():
            return False
        cluster = self.hub(hub.name).cluster
        assert cluster is not None, "a membership joins it"
        sees_all = self.hubs.keys() <= cluster.router.routing.hubs.keys()
        return sees_all and cluster.router.version >= version and cluster.is_barrier_passed


def _settings(name: str, site: str, command: Command) -> HubSettings:
    return HubSettings(
        name=name,
        host="0.0.0.0",
        port=PORT,
        insecure=True,
        limits=Limits(accepts_per_s=10_000),
        cluster=command.cluster,
        telemetry=TelemetrySettings(out_bytes_per_s_max=command.out_bytes_per_s),
        # The first plan names the members: a hub that starts is not to enter itself.
        membership=MembershipSettings(site=site, join=Join.WAIT),
    )


def _changes(entries: Mapping[bytes, str]) -> tuple[EntryChange, ...]:
    return tuple(EntryChange(topic, Entry(topic, (hub,)), WANTED) for topic, hub in entries.items())
