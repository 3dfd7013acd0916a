"""Players in five cities; all parts are real except network and players (ePulsar 5.8.2).

Every player's avatar has its own topic, to which the other players of its group subscribe. Now and then a player
changes its group, and subscriptions change. Players find their coordinates by probing hubs, and report them.

The planner's limit is a tenth below the limit of the players: coordinates have errors of a few percent, and players
receive messages of a new member before its topic can move.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from equipoise.client.url import Endpoint
from equipoise.coordinates import FinderSettings
from equipoise.lab.experiments.cloud_region import CloudRegion, Command
from equipoise.lab.experiments.epulsar_swarms import STAMP, STAMP_BYTES, TIME_BYTES, planner_of, unheard
from equipoise.lab.experiments.epulsar_worlds import GAME_LIMIT_MS, US_CITIES, city_rtt_s
from equipoise.lab.experiments.experiment import Progress, silent
from equipoise.lab.experiments.meter import Latencies, Meter
from equipoise.lab.simulation import Simulation
from equipoise.lab.simulation.cluster.controller import LiveViews
from equipoise.lab.simulation.host import Host
from equipoise.lab.simulation.light_client.client import LightClient
from equipoise.lab.simulation.link import LinkSpec
from equipoise.model import TopicSpec

__all__ = ["Evening", "GameSession", "LightPlayer", "Table", "limit_s", "play", "topic_of"]

# Message rate of players while the system settles.
SETTLING_PER_S = 5.0
LAN_S = 0.000_25
DRAIN_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GameSession:
    """One run."""

    cities: int = 5
    players: int = 64
    # Eight players per group, as in figure 4.
    groups: int = 8
    # Rate of each player.
    updates_per_s: float = 300.0
    payload_bytes: int = 998
    # Time that a player stays in a group, drawn between the two.
    stay_s: tuple[float, float] = (30.0, 60.0)
    seconds: int = 600
    # Time for hubs to find their coordinates, and then for players and topics.
    settle_s: float = 120.0
    begin_s: float = 90.0
    # Relative difference between the planner's limit and the players' limit.
    margin: float = 0.1
    is_planned: bool = True
    seed: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        return US_CITIES[: self.cities]

    @property
    def cloud(self) -> str:
        """Place of controller and store."""
        return self.names[0]

    @property
    def pattern(self) -> bytes:
        """The pattern of all topics."""
        return b"avatar/*"

    @property
    def topics(self) -> tuple[bytes, ...]:
        return tuple(topic_of(player) for player in range(self.players))

    def table(self, sim: Simulation) -> Table:
        return Table(sim, self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evening:
    """The outcome of a session."""

    session: GameSession
    latencies: Latencies
    # Latencies of the messages that the first player receives.
    heard: Latencies
    meter: Meter
    # Number of group changes.
    changes: int
    moves: tuple[tuple[float, int], ...]
    # The homes of each topic during the measurement.
    lived_at: Mapping[bytes, frozenset[str]] = field(default_factory=dict)


def limit_s() -> float:
    """One-way limit: the paper's limits are for sums of round trips."""
    return GAME_LIMIT_MS / 2_000


def topic_of(player: int) -> bytes:
    return b"avatar/%d" % player


def edge(city: str) -> str:
    """The place of a city's players."""
    return f"{city}/edge"


class Country:
    """A topology of cities and their edges, with half of the round trips of figure 4's world as latencies."""

    def __init__(self, session: GameSession) -> None:
        rtt_s = city_rtt_s(session.names)
        places = [*session.names, *map(edge, session.names)]
        self._latency_s = {
            (one, other): LAN_S + float(rtt_s[at, to]) / 2
            for at, one in enumerate(places)
            for to, other in enumerate(places)
        }

    def link(self, source: str, target: str) -> LinkSpec:
        return LinkSpec(latency_s=self._latency_s[source, target])


class LightPlayer:
    """One light client."""

    def __init__(self, number: int, host: Host, table: Table) -> None:
        self.number, self.host = number, host
        self.group, self.joined_at = -1, 0.0
        self._table = table
        # The topic that it publishes to; empty: none.
        self.topic = topic_of(number)
        self._name = (STAMP % (0.0, number))[TIME_BYTES:]
        self._padding = bytes(table.session.payload_bytes - STAMP_BYTES)
        self._timer: asyncio.TimerHandle | None = None
        # The header of its last update, and of the last update received from each other player.
        self.said = b""
        self.heard: dict[bytes, bytes] = {}

    async def begin(self, entries: Sequence[Endpoint]) -> None:
        self._loop = asyncio.get_running_loop()
        self._client = LightClient(entries, self._table.meter, self._hear, self.host.random, FinderSettings())
        self._loop.call_later(self.host.random.random() / SETTLING_PER_S, self._talk)

    async def hear(self, topics: Sequence[bytes]) -> None:
        for topic in topics:
            self._client.subscribe(topic)

    async def ignore(self, topics: Sequence[bytes]) -> None:
        for topic in topics:
            self._client.unsubscribe(topic)

    async def fall_silent(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _talk(self) -> None:
        if self.topic:
            self.said = STAMP % (self._loop.time(), self.number)
            self._client.publish(self.topic, self.said + self._padding)
        self._timer = self._loop.call_later(self._table.interval_s, self._talk)

    def _hear(self, topic: bytes, payload: bytes) -> None:
        table, now, sender = self._table, self._loop.time(), payload[TIME_BYTES:STAMP_BYTES]
        if sender == self._name:
            return
        self.heard[sender] = payload[:STAMP_BYTES]
        if table.latencies is not None and table.heard is not None:
            latency_s = now - float(payload[:TIME_BYTES])
            table.latencies.note(topic, now, latency_s)
            if self.number == 0:
                table.heard.note(topic, now, latency_s)


class Table:
    """All players, their groups, and their measurements."""

    def __init__(self, sim: Simulation, session: GameSession) -> None:
        self._sim, self.session = sim, session
        self._random = sim.random.random
        self.meter = Meter()
        self.latencies: Latencies | None = None
        self.heard: Latencies | None = None
        self.interval_s = 1 / SETTLING_PER_S
        self.changes = 0
        self.players = [
            LightPlayer(number, sim.host(f"player-{number}", place=edge(self._city(number))), self)
            for number in range(session.players)
        ]

    def _city(self, number: int) -> str:
        return self.session.names[number % self.session.cities]

    def begin(self, entries: Sequence[Endpoint]) -> None:
        for player in self.players:
            player.host.spawn(player.begin(entries), name="play")
            self._join(player)
            self._sim.loop.call_later(self._stay_s(), self._change, player)

    def count(self, began: float) -> None:
        """Start the measurement with the full message rate."""
        self.latencies, self.heard = (Latencies(self.session.seconds, began) for _ in range(2))
        self.interval_s = 1 / self.session.updates_per_s

    def end(self) -> None:
        for player in self.players:
            player.host.spawn(player.fall_silent(), name="end")

    @property
    def unheard(self) -> int:
        """Number of missing last updates, over players and the settled members of their groups."""
        settled = [player for player in self.players if self._sim.now - player.joined_at > 2 * DRAIN_S]
        return sum(unheard(one, [o for o in settled if o in self._mates(one)]) for one in settled)

    def _stay_s(self) -> float:
        low, high = self.session.stay_s
        return low + (high - low) * self._random()

    def _change(self, player: LightPlayer) -> None:
        self.changes += self.latencies is not None
        mates = self._mates(player)
        for mate in mates:
            mate.host.spawn(mate.ignore([player.topic]), name="ignore")
        player.host.spawn(player.ignore([mate.topic for mate in mates]), name="ignore")
        self._join(player)
        self._sim.loop.call_later(self._stay_s(), self._change, player)

    def _join(self, player: LightPlayer) -> None:
        """Join any group but the current one, with equal chances."""
        others = [group for group in range(self.session.groups) if group != player.group]
        player.group = others[int(self._random() * len(others))]
        player.joined_at = self._sim.now
        mates = self._mates(player)
        for mate in mates:
            mate.host.spawn(mate.hear([player.topic]), name="hear")
        player.host.spawn(player.hear([mate.topic for mate in mates]), name="hear")

    def _mates(self, player: LightPlayer) -> list[LightPlayer]:
        return [other for other in self.players if other.group == player.group and other is not player]


def play(session: GameSession, progress: Progress = silent, views: LiveViews | None = None) -> Evening:
    """Run a session in a new simulation; `views` makes the controller's views."""
    with Simulation(seed=session.seed, topology=Country(session), steps_max=10**11) as sim:
        return sim.run(_play(sim, session, progress, views))


async def _play(
    sim: Simulation, session: GameSession, progress: Progress, views: LiveViews | None
) -> Evening:
    hubs = {f"hub-{city}": city for city in session.names}
    region = CloudRegion(sim, Command(hubs=hubs, cloud=session.cloud))
    latency_ms = 1e3 * limit_s() * (1 - session.margin)
    await region.begin(specs=[TopicSpec(pattern=session.pattern, latency_ms=latency_ms)])
    await asyncio.sleep(session.settle_s)
    table = session.table(sim)
    table.begin(region.endpoints)
    if session.is_planned:
        region.control(planner_of(len(hubs)), views=views)
    await asyncio.sleep(session.begin_s)
    began = sim.now
    table.count(began)
    lived_at: dict[bytes, set[str]] = {topic: set() for topic in session.topics}
    for second in range(session.seconds):
        await asyncio.sleep(began + second + 1 - sim.now)
        for topic, at in lived_at.items():
            at.update(region.plan.home_of(topic).homes)
        progress(f"{second + 1} s, {table.changes} changes of groups", (second + 1) / session.seconds)
    table.end()
    await asyncio.sleep(DRAIN_S)
    table.meter.unanswered = table.unheard
    assert table.latencies is not None and table.heard is not None, "it was counted"
    return Evening(
        session=session,
        latencies=table.latencies,
        heard=table.heard,
        meter=table.meter,
        changes=table.changes,
        moves=tuple((at - began, count) for at, count in region.moves if count and at >= began),
        lived_at={topic: frozenset(at) for topic, at in lived_at.items()},
    )
