"""Send the plan and the live hubs to hubs without a store.

Replaces the store in worlds that need every possible skew between hubs at many seeds per second. Each hub receives
each change after a delay of its own, in order.
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
        """`draw` draws from [0, 1). `lag_s`: the longest delay until a hub receives a change. `is_reinstated`: whether
        a member that restarts gets its share at once, by a new plan."""
        self.sim = sim
        self.plan = Plan()
        self.specs = Specs()
        self.hubs: dict[str, SimulatedHub] = {}
        self.alive: dict[str, LiveHub] = {}
        # By hub, the time at which it receives the latest change.
        self.due_at: dict[str, float] = {}
        self._draw = draw
        self._lag_s = lag_s
        self._is_reinstated = is_reinstated
        # Prepares extra components of a hub on a host; the returned function installs them in the hub.
        self.prepare: Callable[[Host], Awaitable[Callable[[Hub], None]]] | None = None
        self._changes = 0
        # By hub, the number of the latest change it has applied.
        self._applied: dict[str, int] = {}

    def add(self, settings: HubSettings, *, host: Host | None = None, **options: object) -> SimulatedHub:
        """Add a hub on this host, or on the host of the same name. The caller starts it."""
        host = host or self.sim.host(settings.name)
        node = self.hubs[settings.name] = SimulatedHub(host, settings, self.attend, **options)  # type: ignore[arg-type]  # passed on
        return node

    async def attend(self, node: SimulatedHub) -> None:
        """Runs on the hub's host: start the server, and add the hub to the live hubs."""
        equip = None if self.prepare is None else await self.prepare(node.host)
        hub = await node.listen()
        if equip is not None:
            # A hub with logs needs the specs of durable topics before it serves clients.
            equip(hub)
            hub.core.specs.follow(self.specs, 1)
        hub.on_renewed = lambda: self._register(node)
        hub.join_cluster(None if node.rules is None else (HUBS_USER, HUBS_USER))
        hub.core.specs.follow(self.specs, 1)
        hub.core.cluster.limits.specs_changed(lambda: None)
        self._applied.pop(node.name, None)
        self._register(node)

    def commit(self, plan: Plan) -> None:
        """Commit this plan with the next version."""
        self.plan = replace(plan, version=self.plan.version + 1)
        self.publish()

    def expire(self, name: str) -> None:
        """Remove the hub from the live hubs."""
        self.alive.pop(name, None)
        self.publish()

    def publish(self) -> None:
        """Send the latest plan and live hubs to every hub, each after its delay."""
        routing = Routing(self.plan, dict(self.alive))
        self._changes += 1
        now = self.sim.now
        for node in self.hubs.values():
            at = max(now + self._draw() * self._lag_s, self.due_at.get(node.name, 0.0))
            self.due_at[node.name] = at + 1e-6
            self.sim.loop.call_at(at, self._receive, node, self._changes, routing)

    def _register(self, node: SimulatedHub) -> None:
        assert node.hub is not None, "it has just started"
        facts = LiveHub(node.hub.core.incarnation, node.name, PORT, self.plan.version)
        self.alive[node.name] = facts
        if any(member.hub == node.name for member in self.plan.members) and self._is_reinstated():
            self.commit(self.plan)
        else:
            self.publish()

    def _receive(self, node: SimulatedHub, number: int, routing: Routing) -> None:
        """Apply a change on the hub's host, unless the host is down."""
        if node.host.is_up:
            node.host.spawn(self._apply(node, number, routing), name="routing")

    async def _apply(self, node: SimulatedHub, number: int, routing: Routing) -> None:
        # A busy host may process a change after a later one. It skips the older change, as a store reader would.
        if node.cluster is not None and number > self._applied.get(node.name, 0):
            self._applied[node.name] = number
            node.cluster.apply(routing)
            if node.name not in self.alive and node.hub is not None:
                # The hub expired before it received its own registration. With a store its session would report this.
                node.hub.renew()
