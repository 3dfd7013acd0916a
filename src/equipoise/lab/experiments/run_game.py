"""Run the game on servers under a controller, and record the run.

The world of Dynamoth's experiments 2 and 3: servers with limited bandwidth, players whose number follows a schedule,
and a controller with the policy of the experiment. Each player is a light client on its own machine, one leg away from
the cloud. Its response time is that of the paper: from the publish of a state update until the player receives the same
update from its tile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from equipoise.client.url import Endpoint
from equipoise.lab.experiments.cloud_region import CloudRegion, Command
from equipoise.lab.experiments.experiment import Progress, silent
from equipoise.lab.experiments.meter import Meter, Second
from equipoise.lab.scenarios.game import Game, Schedule, Walker
from equipoise.lab.simulation import Simulation
from equipoise.lab.simulation.cluster.controller import LiveViews
from equipoise.lab.simulation.cpu import measured_cpu
from equipoise.lab.simulation.host import Host
from equipoise.lab.simulation.legs import CLOUD, Legs
from equipoise.lab.simulation.light_client.client import LightClient
from equipoise.model import Entry
from equipoise.plan import Policy

__all__ = ["RESPONSE_S_MAX", "Crowd", "Match", "Outcome", "Player", "play", "server_names"]

# Finding a tile's home, connecting and subscribing takes five legs; a player that needs longer is not served.
DEAF_S = 1.0
# Sequence numbers in payloads: enough for a year of updates.
_SEQUENCE_DIGITS = 9


class Player:
    """One player. `enter` and `leave` are called on its own host."""

    def __init__(self, number: int, game: Game, host: Host, meter: Meter) -> None:
        self.host = host
        self._game = game
        self._meter = meter
        self._walker = Walker(game, host.random.random)
        self._tag = b"%06d:" % number
        self._padding = b"." * max(0, game.payload_bytes - len(self._tag) - _SEQUENCE_DIGITS)
        self._digits = slice(len(self._tag), len(self._tag) + _SEQUENCE_DIGITS)
        self._sequence = 0
        # Publish time of each own update that has not been received, and whether it must be.
        self._under_way: dict[int, tuple[float, bool]] = {}
        self._topic = b""
        self._arrived_at = 0.0
        self._client: LightClient | None = None
        self._timer: asyncio.TimerHandle | None = None

    def enter(self, entries: Sequence[Endpoint]) -> None:
        """Start playing; `entries` are hubs for the first connection."""
        self._loop = asyncio.get_running_loop()
        self._client = LightClient(entries, self._meter, self._hear, self.host.random)
        self._act()

    def leave(self) -> None:
        """Stop playing."""
        self.fall_silent()
        if self._client is not None:
            self._client.close()
            self._client = None
        self._under_way.clear()

    def fall_silent(self) -> None:
        """Stop walking and publishing, but stay subscribed."""
        if self._timer is not None:
            self._timer.cancel()

    @property
    def is_deaf(self) -> bool:
        """Whether the player has been on its tile for a while without a confirmed subscription."""
        client = self._client
        if client is None or client.is_live(self._topic):
            return False
        return self._loop.time() - self._arrived_at > DEAF_S

    @property
    def unanswered(self) -> int:
        """Number of own updates that the player must receive and has not."""
        return sum(is_owed for _, is_owed in self._under_way.values())

    def _act(self) -> None:
        """Walk on, change tiles if needed, and publish the new state."""
        client = self._client
        assert client is not None, "the player has not left"
        topic = self._walker.advance(self._game.interval_s)
        if topic != self._topic and self._topic:
            client.unsubscribe(self._topic)
            self._give_up()
        self._sequence += 1
        self._under_way[self._sequence] = (self._loop.time(), client.is_live(topic))
        client.publish(topic, b"%b%09d%b" % (self._tag, self._sequence, self._padding))
        if topic != self._topic:
            self._topic, self._arrived_at = topic, self._loop.time()
            client.subscribe(topic)
        self._timer = self._loop.call_later(self._game.interval_s, self._act)

    def _give_up(self) -> None:
        """Stop waiting for updates of the last tile. The response time of missing updates counts until now."""
        now = self._loop.time()
        for left_at, is_owed in self._under_way.values():
            if is_owed:
                self._meter.respond(now, now - left_at)
        self._under_way.clear()

    def _hear(self, topic: bytes, payload: bytes) -> None:
        if payload.startswith(self._tag):
            left = self._under_way.pop(int(payload[self._digits]), None)
            if left is not None:
                now = self._loop.time()
                self._meter.respond(now, now - left[0])


class Crowd:
    """All players. `follow` keeps their number to a schedule."""

    def __init__(
        self, sim: Simulation, game: Game, meter: Meter, entries: Callable[[], Sequence[Endpoint]]
    ) -> None:
        """`entries` returns the hubs for the first connection of a new player."""
        self.players: list[Player] = []
        self._sim = sim
        self._game = game
        self._meter = meter
        self._entries = entries
        self._entered = 0

    @property
    def unanswered(self) -> int:
        return sum(player.unanswered for player in self.players)

    @property
    def deaf(self) -> int:
        return sum(player.is_deaf for player in self.players)

    def fall_silent(self) -> None:
        for player in self.players:
            player.fall_silent()

    async def follow(self, schedule: Schedule, each_second: Callable[[float], bool]) -> None:
        """Let players join and leave until the schedule is over, or `each_second` returns True.

        Its argument is the number of seconds since the beginning.
        """
        began = self._sim.now
        for second in range(int(schedule.duration_s)):
            self._adjust(schedule.at(second))
            await asyncio.sleep(began + second + 1 - self._sim.now)
            if each_second(second + 1.0):
                return

    def _adjust(self, wanted: int) -> None:
        """Let players join or leave at random times within the next second."""
        draw = self._sim.random.random
        for _ in range(wanted - len(self.players)):
            self._entered += 1
            name = f"player-{self._entered}"
            player = Player(self._entered, self._game, self._sim.host(name), self._meter)
            self.players.append(player)
            player.host.spawn(_later(draw(), player.enter, self._entries()), name="enter")
        for _ in range(len(self.players) - wanted):
            player = self.players.pop(int(draw() * len(self.players)))
            player.host.spawn(_later(draw(), player.leave), name="leave")


async def _later(delay_s: float, function: Callable[..., None], *args: object) -> None:
    await asyncio.sleep(delay_s)
    function(*args)


Floats = NDArray[np.float64]

# The paper's limit of the mean response (V-D).
RESPONSE_S_MAX = 0.150
# Largest share of players without messages of their tile, which a mean of responses does not show.
DEAF_SHARE_MAX = 0.02
# Window of means.
SMOOTHING_S = 5
# Time for messages in flight after the last second of the schedule.
DRAIN_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """One run of the game."""

    schedule: Schedule
    game: Game = field(default_factory=Game)
    servers: int = 8
    servers_at_start: int = 1
    # Outgoing bandwidth of each server.
    out_bytes_per_s: float = 10e6
    # Time from the request for a server until its hub starts.
    start_s: float = 5.0
    # The run ends after bad service for this long, see `is_lost`; None: never.
    give_up_s: int | None = None
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a run."""

    match: Match
    meter: Meter
    plans: int
    # Topics moved by a plan entry; topics that moved with the ring are not counted.
    moves: int
    # The entry with the most homes in all plans; None if no entry had several.
    widest: Entry | None = None

    @property
    def responses_s(self) -> Floats:
        """The mean response over the last few seconds, at the end of each second."""
        return self.meter.means(SMOOTHING_S)

    @property
    def is_lost(self) -> NDArray[np.bool_]:
        """Whether players are served badly in each second: too slowly on average, or not at all."""
        deaf = np.array([second.deaf / max(1, second.players) for second in self.meter.seconds])
        with np.errstate(invalid="ignore"):
            return (self.responses_s > RESPONSE_S_MAX) | (deaf > DEAF_SHARE_MAX)

    def lost_from(self, lasting_s: int) -> int | None:
        """The first second of bad service that lasts for this long without a break; None: never."""
        run = 0
        for second, is_lost in enumerate(self.is_lost.tolist()):
            run = run + 1 if is_lost else 0
            if run >= lasting_s:
                return second + 1 - lasting_s
        return None


def play(
    match: Match, policy: Policy, views: LiveViews | None = None, progress: Progress = silent
) -> Outcome:
    """Run the match in a new simulation; `views` makes the controller's views."""
    topology = Legs(seed=match.seed)
    with Simulation(seed=match.seed, topology=topology, steps_max=10**11) as sim:
        return sim.run(_play(sim, match, policy, views, progress))


def server_names(count: int) -> list[str]:
    """Names of the servers, which determine the ring."""
    return [f"hub-{number}" for number in range(1, count + 1)]


async def _play(
    sim: Simulation, match: Match, policy: Policy, views: LiveViews | None, progress: Progress
) -> Outcome:
    meter = Meter()
    command = Command(
        hubs=dict.fromkeys(server_names(match.servers_at_start), CLOUD),
        cloud=CLOUD,
        out_bytes_per_s=match.out_bytes_per_s,
        cpu=measured_cpu(),
        start_s=match.start_s,
    )
    region = CloudRegion(sim, command)
    await region.begin()
    crowd = Crowd(sim, match.game, meter, lambda: region.endpoints)
    controlling = region.control(policy, views=views, hubs_max=match.servers)
    delivered = 0
    meter.began_at = sim.now

    def each_second(second: float) -> bool:
        nonlocal delivered
        if controlling.done():
            # The controller only ends with an error: raise it.
            controlling.result()
        meter.seconds.append(
            Second(
                at_s=second,
                players=len(crowd.players),
                servers=len(region.members),
                deaf=crowd.deaf,
                deliveries=meter.deliveries - delivered,
                load_ratios=region.load_ratios,
                lost=meter.lost,
                plan_version=region.plan.version,
            )
        )
        delivered = meter.deliveries
        progress(f"{second:.0f} s, {len(crowd.players)} players", second / match.schedule.duration_s)
        return match.give_up_s is not None and _is_given_up(outcome(), match.give_up_s)

    def outcome() -> Outcome:
        meter.plans_at_s = [at - meter.began_at for at, _ in region.moves if at > meter.began_at]
        return Outcome(
            match=match,
            meter=meter,
            plans=region.plan.version,
            moves=sum(count for _, count in region.moves),
            widest=region.widest,
        )

    await crowd.follow(match.schedule, each_second)
    crowd.fall_silent()
    await sim.until(lambda: not crowd.unanswered, DRAIN_S)
    meter.unanswered = crowd.unanswered
    controlling.cancel()
    await asyncio.wait([controlling])
    return outcome()


def _is_given_up(outcome: Outcome, after_s: int) -> bool:
    """Whether the run ends early. Checked every few seconds, because the check is slow."""
    count = len(outcome.meter.seconds)
    return count % SMOOTHING_S == 0 and count >= after_s and bool(outcome.is_lost[-after_s:].all())
