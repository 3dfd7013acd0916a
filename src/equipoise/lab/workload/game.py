"""The game of tiles on real hubs: players who walk, publish and subscribe, and an observer of each tile.

A player is a smart client. Every tile has an observer from the beginning; every second observer is a plain Redis
client. The tally compares the messages of observers with those of players, so a run counts exactly how many messages
were lost, duplicated or out of order.

Runs on the current event loop. The caller sets the number of players at any time.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise

import hiredis

import equipoise.client as client
from equipoise.client.url import parse_url
from equipoise.client.wire.codec import encode_request
from equipoise.errors import EquipoiseError
from equipoise.lab.scenarios.game import Game, Walker

__all__ = ["GameLoad", "GameTally"]

# Number of recent deliveries kept for percentiles.
LATENCIES_KEPT = 20_000


@dataclass
class GameTally:
    """The messages that all players sent and the observers received."""

    # By tile and player, the number of messages sent; and the messages without a receipt.
    sent: dict[tuple[bytes, int], int] = field(default_factory=dict)
    doubtful: set[tuple[bytes, int, int]] = field(default_factory=set)
    # By tile and player, the received sequence numbers.
    seen: dict[tuple[bytes, int], list[int]] = field(default_factory=dict)
    published: int = 0
    delivered: int = 0
    gaps: int = 0
    # (time, latency) of the latest deliveries to players.
    latencies_s: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=LATENCIES_KEPT))

    def observe(self, tile: bytes, payload: bytes) -> None:
        player, sequence, _ = _parse(payload)
        self.seen.setdefault((tile, player), []).append(sequence)

    def verdict(self, sent: Mapping[tuple[bytes, int], int] | None = None) -> dict[str, int]:
        """Lost, duplicated and disordered messages of the observers.

        While messages are in flight, pass an earlier copy of `sent`, so that newer messages do not count as lost.
        """
        lost = doubled = disordered = 0
        for key, count in (self.sent if sent is None else sent).items():
            seen = self.seen.get(key, [])
            distinct = set(seen)
            missing = [n for n in range(count) if n not in distinct and (*key, n) not in self.doubtful]
            lost += len(missing)
            doubled += len(seen) - len(distinct)
            disordered += sum(one > other for one, other in pairwise(seen))
        return {"lost": lost, "duplicated": doubled, "out_of_order": disordered, "gaps": self.gaps}


class GameLoad:
    """Owned by one task. Call `start`, then `set_players` any number of times, then `stop`."""

    def __init__(
        self,
        urls: Sequence[str],
        game: Game,
        *,
        seed: int = 0,
        settings: client.ClientSettings | None = None,
    ) -> None:
        """`urls`: the hubs that clients connect to first; `settings`: settings of smart clients."""
        self.game = game
        self.tally = GameTally()
        self._urls = list(urls)
        self._settings = settings
        self._rng = random.Random(seed)
        self._players: list[asyncio.Task[None]] = []
        self._observers: list[asyncio.Task[None]] = []
        self._number = 0
        # A point that many players walk to, if set; and how many of ten players do.
        self.favourite: tuple[float, float] | None = None
        self.crowd_of_ten = 7

    @property
    def players(self) -> int:
        return len(self._players)

    async def start(self) -> None:
        """Returns when every tile has an observer. Raises errors of clients."""
        ready = []
        for number, tile in enumerate(self.game.topics):
            is_ready = asyncio.get_running_loop().create_future()
            observe = self._observe_plain if number % 2 else self._observe
            self._observers.append(asyncio.create_task(observe(tile, is_ready)))
            ready.append(is_ready)
        await asyncio.gather(*ready)

    def set_players(self, count: int) -> None:
        """Add or remove players until there are `count`."""
        while len(self._players) < count:
            self._number += 1
            self._players.append(asyncio.create_task(self._play(self._number)))
        while len(self._players) > count:
            self._players.pop(self._rng.randrange(len(self._players))).cancel()

    async def settle(self, seconds: float) -> None:
        """Remove all players, and wait `seconds` for messages in flight."""
        self.set_players(0)
        await asyncio.sleep(seconds)

    async def stop(self) -> None:
        tasks = [*self._players, *self._observers]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _connect(self) -> client.Bus:
        return client.connect(self._rng.choice(self._urls), settings=self._settings)

    # Observers.

    async def _observe(self, tile: bytes, is_ready: asyncio.Future[None]) -> None:
        async with self._connect() as bus, bus.subscribe(tile) as messages:
            is_ready.set_result(None)
            async for event in messages:
                if isinstance(event, client.Gap):
                    self.tally.gaps += 1
                else:
                    self.tally.observe(tile, event.payload)

    async def _observe_plain(self, tile: bytes, is_ready: asyncio.Future[None]) -> None:
        endpoint = parse_url(self._rng.choice(self._urls)).endpoints[0]
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        try:
            writer.write(encode_request(b"SUBSCRIBE", tile))
            replies = hiredis.Reader()
            while data := await reader.read(65_536):
                replies.feed(data)
                while (reply := replies.gets()) is not False:
                    if reply[0] == b"message":
                        self.tally.observe(tile, reply[2])
                    elif not is_ready.done():
                        is_ready.set_result(None)
            # The hub is gone. A plain client may have missed messages and receives no gap.
            self.tally.gaps += 1
        finally:
            writer.transport.abort()

    # Players.

    async def _play(self, number: int) -> None:
        walker = Walker(self.game, random.Random(f"{number}").random)
        try:
            async with self._connect() as bus, asyncio.TaskGroup() as group:
                hearing = group.create_task(self._hear(bus, walker.topic))
                while True:
                    before = walker.topic
                    tile = self._tile(walker, number)
                    if tile != before:
                        hearing.cancel()
                        hearing = group.create_task(self._hear(bus, tile))
                    await self._update(bus, tile, number)
                    await asyncio.sleep(self.game.interval_s * (0.8 + 0.4 * self._rng.random()))
        except (EquipoiseError, ExceptionGroup):
            # A player whose connection fails leaves the game. Observers detect lost messages.
            pass

    def _tile(self, walker: Walker, number: int) -> bytes:
        walker.advance(self.game.interval_s)
        if self.favourite is not None and number % 10 < self.crowd_of_ten:
            walker.topic = self.game.topic_at(*self.favourite)
        return walker.topic

    async def _update(self, bus: client.Bus, tile: bytes, number: int) -> None:
        key = (tile, number)
        sequence = self.tally.sent.get(key, 0)
        now = asyncio.get_running_loop().time()
        head = b"%d %d %.6f " % (number, sequence, now)
        self.tally.sent[key] = sequence + 1
        # Doubtful until the receipt arrives.
        self.tally.doubtful.add((*key, sequence))
        with suppress(EquipoiseError):
            await bus.publish(tile, head.ljust(self.game.payload_bytes, b"."))
            self.tally.doubtful.discard((*key, sequence))
            self.tally.published += 1

    async def _hear(self, bus: client.Bus, tile: bytes) -> None:
        loop = asyncio.get_running_loop()
        async with bus.subscribe(tile) as messages:
            async for event in messages:
                if not isinstance(event, client.Gap):
                    _, _, at = _parse(event.payload)
                    self.tally.delivered += 1
                    self.tally.latencies_s.append((loop.time(), loop.time() - at))


def _parse(payload: bytes) -> tuple[int, int, float]:
    player, sequence, at, _ = payload.split(b" ", 3)
    return int(player), int(sequence), float(at)
