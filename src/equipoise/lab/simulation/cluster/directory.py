"""Give the plan and the live hubs to hubs without a store.

Stands in for the store in worlds that want every skew between hubs there can be, at many seeds per second. Each hub
hears of each change after a delay of its own, in order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from equipoise.hub import Hub, HubSettings
from equipoise.hub.cluster import LiveHub, Routing
from equipoise.lab.simulation.host import Host
from equipoise.lab.simulation.rules import HUBS_USER
from equipoise.lab.simulation.simulated_hub import PORT, SimulatedHub
from equipoise.lab.simulation.world import Simulation
from equipoise.model import Plan, Specs

__all__ = ["Directory"]


class Directory:
    """Knows all hubs of a run by name. Start them through `hubs`."""

    def __init__(
        self,
        sim: Simulation,
        draw: Callable[[], float],
        *,
        lag_s: float,
        is_reinstated: Callable[[], bool] = lambda: False,
    ) -> None:
        """`draw` draws from [0, 1). `lag_s`: how late a hub hears of a change, at most. `is_reinstated`: whether a
        member that comes back gets its share at once, by a new plan."""
        self.sim = sim
        self.plan = Plan()
        self.specs = Specs()
        self.hubs: dict[str, SimulatedHub] = {}
        self.alive: dict[str, LiveHub] = {}
        # By hub, when it hears of the latest change.
        self.heard_at: dict[str, float] = {}
        self._draw = draw
        self._lag_s = lag_s
        self._is_reinstated = is_reinstated
        # Prepares what a hub on a host needs beside the others; the outcome gives it to the hub.
        self.prepare: Callable[[Host], Awaitable[Callable[[Hub], None]]] | None = None
        self._changes = 0
        # By hub, the number of the latest change that it has applied.
        self._applied: dict[str, int] = {}

    def add(self, settings: HubSettings, *, host: Host | None = None, **options: object) -> SimulatedHub:
        """A hub on this host, or on that of its name; `start` it."""
        host = host or self.sim.host(settings.name)
        node = self.hubs[settings.name] = SimulatedHub(host, settings, self.attend, **options)  # type: ignore[arg-type]  # passed on
        return node

    async def attend(self, node: SimulatedHub) -> None:
        """On the host of the hub: let it serve, and make it known."""
        equip = None if self.prepare is None else await self.prepare(node.host)
        hub = await node.listen()
        if equip is not None:
            # A hub that keeps logs knows which topics are durable before it serves.
            equip(hub)
            hub.core.specs.follow(self.specs, 1)
        hub.on_renewed = lambda: self._register(node)
        hub.join_cluster(None if node.rules is None else (HUBS_USER, HUBS_USER))
        hub.core.specs.follow(self.specs, 1)
        hub.core.cluster.limits.specs_changed(lambda: None)
        self._applied.pop(node.name, None)
        self._register(node)

    def commit(self, plan: Plan) -> None:
        """Make this the plan, under the next version."""
        self.plan = replace(plan, version=self.plan.version + 1)
        self.tell()

    def expire(self, name: str) -> None:
        """The hub counts as dead from now on."""
        self.alive.pop(name, None)
        self.tell()

    def tell(self) -> None:
        """Let every hub hear the latest."""
        routing = Routing(self.plan, dict(self.alive))
        self._changes += 1
        now = self.sim.now
        for node in self.hubs.values():
            at = max(now + self._draw() * self._lag_s, self.heard_at.get(node.name, 0.0))
            self.heard_at[node.name] = at + 1e-6
            self.sim.loop.call_at(at, self._hear, node, self._changes, routing)

    def _register(self, node: SimulatedHub) -> None:
        assert node.hub is not None, "it has just started"
        facts = LiveHub(node.hub.core.incarnation, node.name, PORT, self.plan.version)
        self.alive[node.name] = facts
        if any(member.hub == node.name for member in self.plan.members) and self._is_reinstated():
            self.commit(self.plan)
        else:
            self.tell()

    def _hear(self, node: SimulatedHub, number: int, routing: Routing) -> None:
        """Apply it on the hub's own host, when that runs."""
        if node.host.is_up:
            node.host.spawn(self._apply(node, number, routing), name="routing")

    async def _apply(self, node: SimulatedHub, number: int, routing: Routing) -> None:
        # What a busy host gets to late may have been overtaken; a hub that reads a store never goes back.
        if node.cluster is not None and number > self._applied.get(node.name, 0):
            self._applied[node.name] = number
            node.cluster.apply(routing)
            if node.name not in self.alive and node.hub is not None:
                # It was given up before it had heard that it was known. With a store its session would tell it.
                node.hub.renew()
