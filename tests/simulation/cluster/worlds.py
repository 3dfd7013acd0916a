"""Several real hubs in one simulation, with clients spread over them, plans that change and things that break.

A directory stands in for the store: it knows the plan and who is alive, and each hub hears of a change after a delay of
its own, so that every skew there can be happens. What the clients saw is judged by the ordinary checkers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from random import Random

from equipoise.hub import Hub, HubSettings, Limits
from equipoise.hub.cluster import LiveHub, Routing
from equipoise.hub.cluster.counters import cluster_counters
from equipoise.hub.cluster.settings import ClusterSettings
from equipoise.lab.scenarios import Client, Dialect, Publishing, Subscribing
from equipoise.lab.simulation import Simulation
from equipoise.lab.simulation.checkers import CHECKERS, Violation
from equipoise.lab.simulation.host import Host
from equipoise.lab.simulation.link import LinkSpec
from equipoise.lab.simulation.topology import Lan, Topology
from equipoise.lab.workload import Driven, History, Place, Stage, cast_client, hurried
from equipoise.lab.workload.history import Marker, Missed, Outcome, Received, Sent
from equipoise.model import Entry, Member, Mode, Plan

PORT = 6399
TOPICS = ("a", "b", "c")
LIMITS = Limits()
SETTINGS = ClusterSettings(
    link_timeout_s=0.7, reconnect_interval_s_max=0.2, unsubscribe_delay_s=0.5, ack_interval_s=0.05
)


def _hear(*names: str, is_pattern: bool = False) -> tuple[Subscribing, ...]:
    return (Subscribing(names=names, is_pattern=is_pattern),)


def _talk(*topics: str) -> tuple[Publishing, ...]:
    return (Publishing(topics=topics, count=80, burst=(1, 12), interval_s=0.25, receipts=0.1),)


# Publishers of the same topics, and listeners of every kind; who is at which hub is drawn from the seed.
CROWD = (
    Client(name="ann", publishes=_talk("a", "b", "c")),
    Client(name="bob", publishes=_talk("a", "b"), subscribes=_hear("[ac]", is_pattern=True)),
    Client(name="cat", dialect=Dialect.RESP3, subscribes=_hear("a", "b", "c")),
    Client(name="dan", subscribes=_hear("a", "c")),
    Client(name="eve", dialect=Dialect.RESP2, subscribes=_hear("a", "b")),
    Client(name="fay", dialect=Dialect.RESP2, subscribes=_hear("*", is_pattern=True)),
    Client(name="gus", subscribes=_hear("b")),
)


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """How often each thing happens in a run; a pair is drawn between."""

    moves: tuple[int, int] = (0, 0)
    # Members' weights change: many topics move at once.
    reweighs: tuple[int, int] = (0, 0)
    # A topic gets one of the modes, with homes that are drawn; now and then it has one home again.
    replications: tuple[int, int] = (0, 0)
    modes: tuple[Mode, ...] = (Mode.ALL_PUBLISHERS,)
    link_resets: tuple[int, int] = (0, 0)
    link_cuts: tuple[int, int] = (0, 0)
    client_resets: tuple[int, int] = (0, 0)
    # A client and one hub, or all of them, do not hear each other, or one of them does not.
    client_cuts: tuple[int, int] = (0, 0)
    pauses: tuple[int, int] = (0, 0)
    # Longer than anybody waits: the hub is taken for dead, and wakes up.
    long_pauses: tuple[int, int] = (0, 0)
    crashes: tuple[int, int] = (0, 0)
    joins: tuple[int, int] = (0, 0)
    # How wrong the clock of a hub may be, another way after each restart.
    clock_error_s: float = 0.0
    # Of news to each hub, in seconds.
    lag_s: float = 0.05
    duration_s: float = 3.0
    settings: ClusterSettings = SETTINGS
    limits: Limits = LIMITS
    is_gap_allowed: bool = False
    # Whether smart clients go where topics live.
    is_routing: bool = False


class HubNode:
    """A host and the hub on it."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.host: Host = world.sim.host(name)
        self.hub: Hub | None = None
        self._settings = HubSettings(
            name=name,
            host="0.0.0.0",
            port=PORT,
            insecure=True,
            limits=world.trouble.limits,
            cluster=world.trouble.settings,
        )

    def start(self) -> None:
        if not self.host.is_up:
            self.host.restart()
        error_s = (2 * self.world.random.random() - 1) * self.world.trouble.clock_error_s
        self.host.step_clock(error_s - self.host.clock.error_s)
        self.host.spawn(self._serve(), name="hub")

    async def _serve(self) -> None:
        hub = Hub(self._settings, wall_clock=self.host.clock.time, rng=self.host.random)
        await hub.start()
        self.hub = hub
        hub.on_renewed = self._register
        hub.join_cluster()
        self._register()

    def _register(self) -> None:
        assert self.hub is not None
        directory = self.world.directory
        facts = LiveHub(self.hub.core.incarnation, self.name, PORT, directory.plan.version)
        directory.register(self.name, facts)

    def hear(self, routing: Routing) -> None:
        """Apply it on the hub's own host, when it runs."""
        if self.host.is_up:
            self.host.spawn(self._apply(routing), name="routing")

    async def _apply(self, routing: Routing) -> None:
        if self.hub is not None and self.hub.cluster is not None:
            self.hub.cluster.apply(routing)

    def crash(self, *, silent: bool) -> None:
        self.hub = None
        self.host.crash(silent=silent)


class Directory:
    """The plan and who is alive; each hub hears of it in order, each after delays of its own."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.plan = Plan()
        self.alive: dict[str, LiveHub] = {}
        self._heard_at: dict[str, float] = {}

    def register(self, name: str, facts: LiveHub) -> None:
        """A hub is alive. Sooner or later somebody sees to it that a plan gives it something."""
        self.alive[name] = facts
        is_member = any(member.hub == name for member in self.plan.members)
        if is_member and (self._world.is_healed or self._world.random.random() < 0.3):
            self.commit(self.plan)
        else:
            self.tell()

    def expire(self, name: str) -> None:
        self.alive.pop(name, None)
        self.tell()

    def commit(self, plan: Plan) -> None:
        self.plan = replace(plan, version=self.plan.version + 1)
        self.tell()

    def tell(self) -> None:
        routing = Routing(self.plan, dict(self.alive))
        world = self._world
        loop, now = world.sim.loop, world.sim.now
        for node in world.nodes.values():
            at = max(now + world.random.random() * world.trouble.lag_s, self._heard_at.get(node.name, 0.0))
            self._heard_at[node.name] = at + 1e-6
            loop.call_at(at, node.hear, routing)

    @property
    def settled_at(self) -> float:
        """When everybody has heard everything."""
        return max(self._heard_at.values(), default=0.0)


@dataclass
class Outcomes:
    """What became of one run."""

    violations: list[Violation]
    history: History
    fired: dict[str, int] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    hash: str = ""


class World:
    """One run of one seed."""

    def __init__(
        self, sim: Simulation, trouble: Trouble, clients: tuple[Client, ...], hubs: tuple[str, ...]
    ) -> None:
        self.sim = sim
        self.trouble = trouble
        self.random = Random(f"cluster {sim.seed}")
        self.history = History()
        self.directory = Directory(self)
        self.nodes = {name: HubNode(self, name) for name in hubs}
        self.clients = clients
        self.fired: dict[str, int] = {}
        # When messages may be lost without a word: (from, until); and those that were on their way when a hub died.
        self.excused: list[tuple[float, float]] = []
        self.under_way: list[Sent] = []
        self.is_healed = False
        # Who plays a client.
        self.cast: Callable[[Client, Place, Stage, History], Driven] = cast_client
        self._tasks: list[asyncio.Task[None]] = []
        self._spare = 0

    async def play(self) -> None:
        stage = Stage()
        for node in self.nodes.values():
            node.start()
        await self.until(lambda: len(self.directory.alive) == len(self.nodes), 5.0)
        self.directory.commit(Plan(members=tuple(Member(name) for name in sorted(self.nodes))))
        driven = [self._seat(client, stage) for client in self.clients]
        await self.until(lambda: all(track.is_live for track in self.history.tracks), 10.0)
        self._begin()
        stage.begin.set()
        await asyncio.sleep(self.trouble.duration_s)
        self._heal(driven)
        stage.conclude.set()
        await self.until(lambda: self._is_concluded(driven), 20.0)
        self._note_unfinished(driven)

    def _seat(self, client: Client, stage: Stage) -> Driven:
        host = self.sim.host(client.name)
        at = client.place or self.draw(sorted(self.nodes))
        others = tuple(name for name in self.nodes if name != at) if self.trouble.is_routing else ()
        settings = hurried(routing=self.trouble.is_routing)
        place = Place(at, PORT, settings, host.random, others=others)
        made = self.cast(client, place, stage, self.history)
        host.spawn(made.run(), name=client.name)
        return made

    def keep(self, story: Coroutine[object, object, None]) -> None:
        """Let a story of its own be played beside the rest, until everything is healed."""
        self._tasks.append(self.sim.loop.create_task(story))

    async def until(self, is_so: Callable[[], bool], patience_s: float) -> None:
        for _ in range(int(patience_s / 0.05)):
            if is_so():
                return
            await asyncio.sleep(0.05)

    def draw(self, among: list[str]) -> str:
        return among[int(self.random.random() * len(among))]

    # Trouble.

    def _begin(self) -> None:
        trouble = self.trouble
        for what, times in (
            (self._move, trouble.moves),
            (self._reweigh, trouble.reweighs),
            (self._replicate, trouble.replications),
            (self._reset_link, trouble.link_resets),
            (self._cut_link, trouble.link_cuts),
            (self._reset_client, trouble.client_resets),
            (self._cut_client, trouble.client_cuts),
            (self._pause, trouble.pauses),
            (self._pause_long, trouble.long_pauses),
            (self._crash, trouble.crashes),
            (self._join, trouble.joins),
        ):
            low, high = times
            for _ in range(low + int(self.random.random() * (high - low + 1))):
                at_s = self.random.random() * trouble.duration_s
                self._tasks.append(self.sim.loop.create_task(self._later(at_s, what)))

    async def _later(self, at_s: float, what: Callable[[], object]) -> None:
        await asyncio.sleep(at_s)
        outcome = what()
        name = what.__name__.strip("_")
        self.fired[name] = self.fired.get(name, 0) + 1
        self.sim.note(f"{name}")
        if asyncio.iscoroutine(outcome):
            await outcome

    def move(self, topic: str, hub: str) -> None:
        self.replicate(topic, (hub,), Mode.SINGLE)

    def replicate(self, topic: str, homes: tuple[str, ...], mode: Mode) -> None:
        plan = self.directory.plan
        entries = {**plan.entries, topic.encode(): Entry(topic.encode(), homes, mode)}
        self.directory.commit(replace(plan, entries=entries))

    def _members(self) -> list[str]:
        return [member.hub for member in self.directory.plan.members]

    def _move(self) -> None:
        self.move(self.draw(list(TOPICS)), self.draw(self._members()))

    def _replicate(self) -> None:
        topic, members = self.draw(list(TOPICS)), self._members()
        homes = []
        for _ in range(1 + int(self.random.random() * len(members))):
            homes.append(self.draw(members))
            members.remove(homes[-1])
        modes = self.trouble.modes
        mode = modes[int(self.random.random() * len(modes))] if len(homes) > 1 else Mode.SINGLE
        self.replicate(topic, tuple(homes), mode)

    def _reweigh(self) -> None:
        plan = self.directory.plan
        members = tuple(replace_weight(member, 1 + int(self.random.random() * 32)) for member in plan.members)
        self.directory.commit(replace(plan, members=members, entries={}))

    def _pair(self) -> tuple[str, str]:
        one = self.draw(sorted(self.nodes))
        return one, self.draw([name for name in sorted(self.nodes) if name != one])

    def _reset_link(self) -> None:
        self.sim.reset_connections(*self._pair())

    async def _cut_link(self) -> None:
        one, other = self._pair()
        one_way = self.random.random() < 0.5
        self.sim.cut(one, other, one_way=one_way)
        await asyncio.sleep(0.05 + self.random.random() * 1.5)
        self.sim.heal(one, other, one_way=one_way)

    def _reset_client(self) -> None:
        client = self.draw([client.name for client in self.clients])
        for node in self.nodes:
            self.sim.reset_connections(node, client)

    async def _cut_client(self) -> None:
        client, hub = self.draw([client.name for client in self.clients]), self.draw(sorted(self.nodes))
        hubs = [hub] if self.random.random() < 0.7 else sorted(self.nodes)
        kind = self.random.random()
        for name in hubs:
            pair = (client, name) if kind < 0.5 else (name, client)
            self.sim.cut(*pair, one_way=kind > 0.3)
        # Mostly longer than a client waits for a sign of life.
        await asyncio.sleep(0.1 + self.random.random() * 4.0)
        for name in hubs:
            self.sim.heal(client, name)

    async def _pause(self) -> None:
        host = self.nodes[self.draw(sorted(self.nodes))].host
        if host.is_up:
            host.pause()
            await asyncio.sleep(0.02 + self.random.random() * 0.6)
            host.thaw()

    async def _pause_long(self) -> None:
        node = self.nodes[self.draw(sorted(self.nodes))]
        if node.host.is_up and node.name in self.directory.alive:
            self.excuse()
            node.host.pause()
            await asyncio.sleep(0.3)
            self.directory.expire(node.name)
            await asyncio.sleep(0.1 + self.random.random())
            node.host.thaw()

    async def _crash(self) -> None:
        up = [name for name in sorted(self.nodes) if self.nodes[name].host.is_up]
        if len(up) < 2:
            return
        node = self.nodes[self.draw(up)]
        self.excuse()
        incarnation = self.directory.alive.get(node.name)
        node.crash(silent=self.random.random() < 0.5)
        is_quick = self.random.random() < 0.3
        if is_quick:
            # Back under its old name before its session has expired.
            await asyncio.sleep(0.05)
            node.start()
        await asyncio.sleep(0.2 + self.random.random() * 0.5)
        if self.directory.alive.get(node.name) is incarnation:
            self.directory.expire(node.name)
        if not is_quick:
            await asyncio.sleep(self.random.random() * 0.5)
            node.start()

    def excuse(self) -> None:
        """A hub dies now: what is on its way may be in it, and so may what comes until everybody is back."""
        self.excused.append((self.sim.now, self.sim.now + 2.5 + self.trouble.lag_s))
        received = [
            (track, {event[1:] for event in track.events if type(event) is Received})
            for track in self.history.tracks
        ]
        for (publisher, topic), messages in self.history.sent.items():
            for sequence, message in enumerate(messages):
                facts = (topic, publisher, sequence)
                if any(track.wants(topic) and facts not in seen for track, seen in received):
                    self.under_way.append(message)

    async def _join(self) -> None:
        self._spare += 1
        name = f"new-{self._spare}"
        node = self.nodes[name] = HubNode(self, name)
        node.start()
        await self.until(lambda: name in self.directory.alive, 5.0)
        plan = self.directory.plan
        self.directory.commit(replace(plan, members=(*plan.members, Member(name)), entries={}))

    def _heal(self, driven: list[Driven]) -> None:
        self.is_healed = True
        for task in self._tasks:
            task.cancel()
        names = [*self.nodes, *(client.name for client in driven)]
        for one in names:
            for other in names:
                if one < other:
                    self.sim.heal(one, other)
        for node in self.nodes.values():
            node.host.thaw()
            if not node.host.is_up:
                self.directory.expire(node.name)
                node.start()
        # Whoever has come back gets its share again.
        self.directory.commit(self.directory.plan)
        self.sim.note("healed")

    # The end.

    def _is_concluded(self, driven: list[Driven]) -> bool:
        if any(client.unfinished for client in driven):
            return False
        return all(
            track.latest(stream) >= (sequence or 0)
            for stream, sequence in self.history.markers
            for track in self.history.tracks
            if track.wants(stream[1])
        )

    def _note_unfinished(self, driven: list[Driven]) -> None:
        marked = {marker.stream for marker in self.history.markers}
        for client in driven:
            if client.unfinished:
                self.history.unfinished.append(f"{client.name} is still waiting to publish")
                streams = [stream for stream in self.history.sent if stream[0] == client.name]
                self.history.markers += [Marker(s, None) for s in streams if s not in marked]

    def forgive(self) -> None:
        """What was in a hub that died may be lost: the promise leaves it out."""
        late = [
            message
            for sent in self.history.sent.values()
            for message in sent
            if any(since <= message.began_at <= until for since, until in self.excused)
        ]
        for message in (*late, *self.under_way):
            if message.outcome is Outcome.ACKNOWLEDGED:
                message.outcome = Outcome.UNCERTAIN

    def counters(self) -> dict[str, int]:
        sums: dict[str, int] = {}
        for node in self.nodes.values():
            cluster = None if node.hub is None else node.hub.cluster
            if cluster is None:
                continue
            for name, value in cluster_counters(cluster).items():
                sums[name] = sums.get(name, 0) + value
        return sums


def replace_weight(member: Member, weight: int) -> Member:
    return Member(member.hub, weight, member.site)


def run(
    seed: int,
    trouble: Trouble,
    *,
    clients: tuple[Client, ...] = CROWD,
    hubs: tuple[str, ...] = ("h1", "h2", "h3"),
    script: Callable[[World], object] | None = None,
    prepare: Callable[[World], None] | None = None,
    topology: Topology | None = None,
) -> Outcomes:
    """Play one seed and judge it."""
    draw = Random(f"network {seed}")
    spec = LinkSpec(latency_s=0.000_2 + draw.random() * 0.01, jitter_s=max(0.0, draw.random() - 0.5) * 0.02)
    with Simulation(
        seed=seed, topology=topology or Lan(spec), split=draw.random() * 0.2, time_s_max=1_000.0
    ) as sim:
        world = World(sim, trouble, clients, hubs)
        if prepare is not None:
            prepare(world)
        sim.run(world.play())
        world.forgive()
        names = ("once", "order", "progress")
        violations = [violation for name in names for violation in CHECKERS[name](world.history)]
        if not trouble.is_gap_allowed:
            violations += _gaps(world.history)
        return Outcomes(violations, world.history, world.fired, world.counters(), sim.trace.digest())


def _gaps(history: History) -> list[Violation]:
    """Nothing was wrong, so nobody may have been told that anything was."""
    return [
        Violation("no gap", f"{track.name} was told of a gap: {event}")
        for track in history.tracks
        for event in track.events
        if isinstance(event, Missed)
    ]
