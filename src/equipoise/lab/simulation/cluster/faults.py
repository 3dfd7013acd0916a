"""Change the plan and inject faults; the seed determines times and places.

Every fault ends after a while; `ClusterWorld.heal` ends the remaining faults.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from random import Random

from equipoise.lab.scenarios import ClusterScenario
from equipoise.lab.simulation.cluster.old_release import without_limits
from equipoise.lab.simulation.cluster.region import STORE
from equipoise.lab.simulation.cluster.seat_watch import begin_seat_watch
from equipoise.lab.simulation.cluster.trees import TreeChanges
from equipoise.lab.simulation.cluster.world import CONTROLLER, SESSION_S, ClusterWorld
from equipoise.lab.simulation.simulated_hub import SimulatedHub
from equipoise.limits import PARTS
from equipoise.model import Member, Mode

__all__ = ["ClusterFaults", "play"]

Act = Callable[[], object]


class ClusterFaults:
    """Owned by the run of one seed."""

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world
        self._sim = world.sim
        self._scenario: ClusterScenario = world.scenario
        self._random = world.random
        self._topics = sorted(
            {t for c in world.scenario.workload.clients for p in c.publishes for t in p.topics}
        )
        # The generator of share changes, and the topics that they affect.
        is_apart = world.scenario.has_shares_apart
        self._share_draw = Random(f"shares {world.sim.seed}").random if is_apart else world.random.random
        patterns = tuple(world.scenario.limited)
        self._shared = [
            t for t in self._topics if not is_apart or any(fnmatchcase(t, one) for one in patterns)
        ]
        self._joined = 0
        # Hubs that have been cut off from the store.
        self._store_cut: set[str] = set()

    def begin(self) -> None:
        """Draw the changes and faults of the run and their times."""
        scenario, draw = self._scenario, self._random.random
        acts: list[tuple[str, Act, tuple[int, int]]] = [
            ("move", self._move, scenario.moves),
            ("ring change", self._change_ring, scenario.ring_changes),
            ("replication", self._replicate, scenario.replications),
            *self._limit_acts(),
            ("link reset", self._reset_link, scenario.link_resets),
            ("link cut", self._cut_link, scenario.link_cuts),
            ("client reset", self._reset_client, scenario.client_resets),
            ("client cut", self._cut_client, scenario.client_cuts),
            ("hub pause", self._pause, scenario.pauses),
            ("zombie", self._pause_long, scenario.zombies),
            ("hub crash", self._crash, scenario.crashes),
            ("join", self._join, scenario.joins),
            ("cut", self._cut_any, scenario.cuts),
            ("rules change", self._change_rules, scenario.rule_changes),
            ("store cut", self._cut_store, scenario.store_cuts),
            ("store loss", self._lose_store, scenario.store_losses),
            ("store reset", self._reset_store, scenario.store_resets),
        ]
        if scenario.stops[1]:
            acts.append(("hub stop", self._stop, scenario.stops))
        if scenario.has_controller:
            acts.append(("controller crash", self._crash_controller, scenario.controller_crashes))
            acts.append(("controller cut", self._cut_controller, scenario.controller_cuts))
        for name, act, (low, high) in acts:
            for _ in range(low + int(draw() * (high - low + 1))):
                self._world.keep(self._later(draw() * scenario.duration_s, name, act))
        if scenario.has_shares_apart and scenario.limited:
            low, high = scenario.share_changes
            for _ in range(low + int(self._share_draw() * (high - low + 1))):
                at_s = self._share_draw() * scenario.duration_s
                self._world.keep(self._later(at_s, "share change", self._change_shares))
        self._begin_filtered()
        TreeChanges(self._world, self._topics).begin(
            lambda at_s, act: self._world.keep(self._later(at_s, "tree change", act))
        )
        if scenario.store_outage_s:
            self._world.keep(self._later(0.2 + draw() * 0.5, "store outage", self._go_without_store))

    def _begin_filtered(self) -> None:
        """Connection losses of filter subscribers, drawn from a separate generator."""
        clients, draw = self._world.filtered, self._world.filter_random.random
        acts: list[tuple[str, Callable[[str], object], tuple[int, int]]] = [
            ("client reset", self._reset, self._scenario.client_resets),
            ("client cut", self._cut_off, self._scenario.cuts),
        ]
        for name, act, (low, high) in acts if clients else ():
            for _ in range(low + int(draw() * (high - low + 1))):
                client = clients[int(draw() * len(clients))].name
                self._world.keep(self._later(draw() * self._scenario.duration_s, name, partial(act, client)))

    def _limit_acts(self) -> list[tuple[str, Act, tuple[int, int]]]:
        """Changes of limited topics. Worlds without limits have none, and so keep their draws."""
        if not self._scenario.limited or self._scenario.has_shares_apart:
            return []
        acts: list[tuple[str, Act, tuple[int, int]]] = [
            ("share change", self._change_shares, self._scenario.share_changes),
            ("clock step", self._step_clock, self._scenario.clock_steps),
        ]
        reshares = self._scenario.reshares
        return [*acts, ("reshare", self._reshare, reshares)] if reshares[1] else acts

    async def _later(self, at_s: float, name: str, act: Act) -> None:
        await asyncio.sleep(at_s)
        outcome = act()
        self._world.count(name)
        if asyncio.iscoroutine(outcome):
            await outcome

    # Changes of the plan.

    def _move(self) -> None:
        self._world.move(self._world.draw(self._topics), self._world.draw(self._world.members))

    def _replicate(self) -> None:
        world = self._world
        topic, members = world.draw(self._topics), world.members
        homes = []
        for _ in range(1 + int(self._random.random() * len(members))):
            homes.append(world.draw(members))
            members.remove(homes[-1])
        modes = self._scenario.modes
        if topic in self._scenario.durable:
            # One hub owns the log.
            modes = (Mode.ALL_PUBLISHERS,)
        mode = modes[int(self._random.random() * len(modes))] if len(homes) > 1 else Mode.SINGLE
        world.replicate(topic, tuple(homes), mode)

    def _change_shares(self) -> None:
        """Split a topic into random shares among some hubs, or give it one home."""
        world, draw = self._world, self._share_draw
        topic, members = self._shared[int(draw() * len(self._shared))], world.members
        homes = []
        for _ in range(1 + int(draw() * len(members))):
            homes.append(members[int(draw() * len(members))])
            members.remove(homes[-1])
        if len(homes) == 1:
            world.move(topic, homes[0])
            return
        weights = [1 + int(draw() * 9) for _ in homes[1:]]
        parts = [PARTS * weight // (sum(weights) + 1 + int(draw() * 9)) for weight in weights]
        shares = (PARTS - sum(parts), *parts) if draw() < 0.8 else ()
        world.replicate(topic, tuple(homes), Mode.ALL_SUBSCRIBERS, shares)

    def _reshare(self) -> None:
        """Change the shares of rate and depth at the same homes. A topic with one home is split over all hubs."""
        world = self._world
        topic = world.draw(self._topics)
        entry = world.directory.plan.entries.get(topic.encode())
        is_split = entry is not None and entry.mode is Mode.ALL_SUBSCRIBERS
        homes = entry.homes if entry is not None and is_split else tuple(world.members)
        if len(homes) > 1:
            shares, depths = self._parts(len(homes)), self._parts(len(homes))
            world.replicate(topic, homes, Mode.ALL_SUBSCRIBERS, shares, depths)

    def _parts(self, count: int) -> tuple[int, ...]:
        weights = [1 + int(self._random.random() * 9) for _ in range(count)]
        parts = [PARTS * weight // sum(weights) for weight in weights[1:]]
        return PARTS - sum(parts), *parts

    def _change_ring(self) -> None:
        plan = self._world.directory.plan
        members = tuple(
            Member(member.hub, 1 + int(self._random.random() * 32), member.site) for member in plan.members
        )
        self._world.directory.commit(replace(plan, members=members, entries={}))

    async def _join(self) -> None:
        self._joined += 1
        world, name = self._world, f"new-{self._joined}"
        world.add_hub(name).start()
        if self._scenario.has_store:
            # The hub adds itself to the plan.
            return
        await world.until(lambda: name in world.directory.alive, 5.0)
        plan = world.directory.plan
        world.directory.commit(replace(plan, members=(*plan.members, Member(name)), entries={}))

    # Links and clients.

    def _hub(self) -> str:
        return self._world.draw(sorted(self._world.hubs))

    def _client(self) -> str:
        return self._world.draw([client.name for client in self._scenario.workload.each()])

    def _pair(self) -> tuple[str, str]:
        one = self._hub()
        return one, self._world.draw([name for name in sorted(self._world.hubs) if name != one])

    def _reset_link(self) -> None:
        self._sim.reset_connections(*self._pair())

    async def _cut_link(self) -> None:
        one, other = self._pair()
        one_way = self._random.random() < 0.5
        self._sim.cut(one, other, one_way=one_way)
        await asyncio.sleep(0.05 + self._random.random() * 1.5)
        self._sim.heal(one, other, one_way=one_way)

    def _reset_client(self) -> None:
        self._reset(self._client())

    def _reset(self, client: str) -> None:
        for hub in self._world.hubs:
            self._sim.reset_connections(hub, client)

    async def _cut_off(self, client: str) -> None:
        """Cut a client off from all current hubs."""
        hubs, (low, high) = sorted(self._world.hubs), self._scenario.cut_s
        for hub in hubs:
            self._sim.cut(client, hub)
        await asyncio.sleep(low + self._world.filter_random.random() * (high - low))
        for hub in hubs:
            self._sim.heal(client, hub)

    async def _cut_client(self) -> None:
        client, hub = self._client(), self._hub()
        hubs = [hub] if self._random.random() < 0.7 else sorted(self._world.hubs)
        kind = self._random.random()
        for name in hubs:
            pair = (client, name) if kind < 0.5 else (name, client)
            self._sim.cut(*pair, one_way=kind > 0.3)
        # Mostly longer than a client's ping timeout.
        await asyncio.sleep(0.1 + self._random.random() * 4.0)
        for name in hubs:
            self._sim.heal(client, name)

    async def _cut_any(self) -> None:
        """Cut the link between a hub and any hub, client or the store."""
        parts = [*sorted(self._world.hubs), *(client.name for client in self._scenario.workload.each())]
        if self._scenario.has_store:
            parts.append(STORE)
        one = self._hub()
        other = self._world.draw([part for part in parts if part != one])
        pair = (one, other) if self._random.random() < 0.5 else (other, one)
        low, high = self._scenario.cut_s
        lasts_s = low + self._random.random() * (high - low)
        self._sim.cut(*pair, one_way=self._random.random() < 0.3)
        await asyncio.sleep(lasts_s)
        self._sim.heal(*pair)

    async def _change_rules(self) -> None:
        access = self._scenario.access
        assert access is not None, "a rule change needs access rules"
        alternatives = access.alternatives
        await self._world.change_rules(alternatives[int(self._random.random() * len(alternatives))])
        await asyncio.sleep(0.1 + self._random.random())
        await self._world.change_rules(access.rules)

    # Hubs.

    async def _pause(self) -> None:
        host = self._world.hubs[self._hub()].host
        if host.is_up:
            host.pause()
            await asyncio.sleep(0.02 + self._random.random() * 0.6)
            host.thaw()

    async def _pause_long(self) -> None:
        world, node = self._world, self._world.hubs[self._hub()]
        if self._scenario.has_store and node.host.is_up:
            node.host.pause()
            await asyncio.sleep((1.1 + self._random.random()) * SESSION_S)
            node.host.thaw()
        elif node.host.is_up and node.name in world.directory.alive:
            node.host.pause()
            await asyncio.sleep(0.3)
            world.directory.expire(node.name)
            await asyncio.sleep(0.1 + self._random.random())
            node.host.thaw()

    async def _crash(self) -> None:
        world = self._world
        up = [name for name in sorted(world.hubs) if world.hubs[name].host.is_up]
        if len(up) < 2:
            return
        node = world.hubs[world.draw(up)]
        await self._restart(node)

    async def _stop(self) -> None:
        """Shut a hub down cleanly, and restart it."""
        world = self._world
        up = [name for name in sorted(world.hubs) if world.hubs[name].hub is not None]
        if len(up) < 2:
            return
        node = world.hubs[world.draw(up)]
        try:
            await node.host.spawn(node.stop(), name="stop")
        except asyncio.CancelledError:
            # The world was healed during the shutdown, and the hub was still up then.
            node.crash(silent=False)
            world.directory.expire(node.name)
            node.start()
            raise
        world.directory.expire(node.name)
        node.crash(silent=False)
        await asyncio.sleep(0.2 + self._random.random() * 0.5)
        node.start()

    async def _restart(self, node: SimulatedHub) -> None:
        """Crash a hub, and restart it under the same name before or after its session expires."""
        directory, draw = self._world.directory, self._random.random
        facts = directory.alive.get(node.name)
        node.crash(silent=draw() < 0.5)
        is_quick = draw() < 0.3
        if is_quick:
            await asyncio.sleep(0.05)
            node.start()
        await asyncio.sleep(0.2 + draw() * 0.5)
        if directory.alive.get(node.name) is facts:
            directory.expire(node.name)
        if not is_quick:
            await asyncio.sleep(draw() * 0.5)
            node.start()

    def _step_clock(self) -> None:
        self._world.hubs[self._hub()].host.clock.step((2 * self._random.random() - 1) * 60.0)

    # The controller.

    async def _crash_controller(self) -> None:
        host = self._sim.host(CONTROLLER)
        if host.is_up:
            host.crash(silent=self._random.random() < 0.5)
            await asyncio.sleep(0.1 + self._random.random() * 2 * SESSION_S)
            self._world.control()

    async def _cut_controller(self) -> None:
        """Cut the controller off from the store, for less than its session timeout or for longer."""
        one_way = self._random.random() < 0.3
        self._sim.cut(CONTROLLER, STORE, one_way=one_way)
        await asyncio.sleep(0.1 + self._random.random() * 2 * SESSION_S)
        self._sim.heal(CONTROLLER, STORE)

    # The store.

    async def _cut_store(self) -> None:
        # Cut off each hub only once: two cuts in a row could outlast a session.
        whole = [name for name in sorted(self._world.hubs) if name not in self._store_cut]
        if not whole:
            return
        hub, one_way = self._world.draw(whole), self._random.random() < 0.5
        self._store_cut.add(hub)
        self._sim.cut(hub, STORE, one_way=one_way)
        await asyncio.sleep(self._random.random() * 0.4 * SESSION_S)
        self._sim.heal(hub, STORE)

    async def _lose_store(self) -> None:
        hub = self._hub()
        self._sim.cut(hub, STORE)
        await asyncio.sleep((1.1 + self._random.random()) * SESSION_S)
        self._sim.heal(hub, STORE)

    def _reset_store(self) -> None:
        self._sim.reset_connections(self._hub(), STORE)

    async def _go_without_store(self) -> None:
        region, hubs = self._world.region, list(self._world.hubs)
        if not self._scenario.is_store_unreachable:
            region.go_away()
            await asyncio.sleep(self._scenario.store_outage_s)
            if self._scenario.is_store_emptied:
                await self._world.empty_store()
            region.serve()
            return
        for name in hubs:
            self._sim.cut(name, STORE)
        await asyncio.sleep(self._scenario.store_outage_s)
        for name in hubs:
            self._sim.heal(name, STORE)
            await asyncio.sleep(self._random.random() * 0.5 * SESSION_S)


async def play(world: ClusterWorld) -> None:
    """Run a world: changes and faults first, then healing, then the check of progress."""
    with world.watched_losses(), world.watched_admissions(), without_limits(world.scenario.without_limits):
        await world.start()
        measuring = world.measure()
        begin_seat_watch(world)
        ClusterFaults(world).begin()
        world.staging.stage.begin.set()
        await asyncio.sleep(world.scenario.duration_s)
        world.heal()
        await world.conclude()
        measuring.cancel()
