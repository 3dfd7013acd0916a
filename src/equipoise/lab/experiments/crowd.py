"""Players who come, walk, talk, listen and go.

Each is a light client on a machine of its own, a leg away from the cloud. Its response time is the paper's: from
publishing a state update until the same update comes back from the tile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from equipoise.client.url import Endpoint
from equipoise.lab.experiments.light import LightClient
from equipoise.lab.experiments.meter import Meter
from equipoise.lab.scenarios.game import Game, Walker
from equipoise.lab.scenarios.schedule import Schedule
from equipoise.lab.simulation import Simulation
from equipoise.lab.simulation.host import Host

__all__ = ["Crowd", "Player"]

# To find a tile's home, connect and subscribe takes five legs; whoever needs longer than this is not served.
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
        # When each own update left that has not come back, and whether it has to.
        self._under_way: dict[int, tuple[float, bool]] = {}
        self._topic = b""
        self._arrived_at = 0.0
        self._client: LightClient | None = None
        self._timer: asyncio.TimerHandle | None = None

    def enter(self, entries: Sequence[Endpoint]) -> None:
        """Begin to play; `entries` are hubs that may be asked first."""
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
        """Stand still and publish nothing more, but listen."""
        if self._timer is not None:
            self._timer.cancel()

    @property
    def is_deaf(self) -> bool:
        """Whether the player has been on its tile for a while and still hears nothing of it."""
        client = self._client
        if client is None or client.is_live(self._topic):
            return False
        return self._loop.time() - self._arrived_at > DEAF_S

    @property
    def unanswered(self) -> int:
        """Own updates that have to come back and have not."""
        return sum(is_owed for _, is_owed in self._under_way.values())

    def _act(self) -> None:
        """Walk on, change tiles if that led to another one, and say so to everybody there."""
        client = self._client
        assert client is not None, "a player that has left acts no more"
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
        """Expect nothing of the last tile any more. What has not come back took at least until now."""
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
        """`entries` names the hubs that a newcomer may ask first."""
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
        """Let players come and go until the schedule is over, or `each_second` says that it has seen enough.

        That is told the seconds since the beginning.
        """
        began = self._sim.now
        for second in range(int(schedule.duration_s)):
            self._adjust(schedule.at(second))
            await asyncio.sleep(began + second + 1 - self._sim.now)
            if each_second(second + 1.0):
                return

    def _adjust(self, wanted: int) -> None:
        """Come and go within the second that begins, each at a moment of its own."""
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
