"""A subscriber that reads positions from the wire, lanes included, and checks the wire protocol.

It uses one hub, which merges the streams for it. A violation of the wire protocol fails an assertion; positions that
it misses are gaps in its track.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from equipoise.client.wire.codec import encode_request
from equipoise.lab.scenarios import Client
from equipoise.lab.workload.endpoint import HubEndpoint, PushConnection
from equipoise.lab.workload.history import Away, History, Live, Missed, Track
from equipoise.lab.workload.stage import RunPhases

__all__ = ["PositionedSubscriber"]

Position = tuple[int, int]
# A topic and one of its streams: the hub of a lane, or nothing for the trunk.
Name = tuple[bytes, bytes]


@dataclass
class Cursors:
    """The positions of the streams of one connection."""

    at: dict[Name, Position] = field(default_factory=dict)

    def take(self, name: Name, epoch: int, n: int, count: int) -> tuple[int, int | None]:
        """The number of known messages among these, and of missed messages before them; None: unknown."""
        known = self.at.get(name)
        self.at[name] = max((epoch, n + count - 1), known or (0, 0))
        if known is None or (epoch, n) <= known:
            skip = 0 if known is None or epoch < known[0] else min(count, known[1] + 1 - n)
            return (count if known is not None and epoch < known[0] else skip), 0
        if epoch == known[0]:
            return 0, n - known[1] - 1
        return 0, None


class PositionedSubscriber:
    """One subscriber of a workload; `run` it as a task."""

    def __init__(self, client: Client, place: HubEndpoint, stage: RunPhases, history: History) -> None:
        self.name = client.name
        self.unfinished = 0
        (subscribing,) = client.subscribes
        self.place = place
        self.stage = stage
        self.track = Track(
            f"{client.name}/0", subscribing.names, is_pattern=subscribing.is_pattern, is_smart=True
        )
        history.tracks.append(self.track)
        self.receive = self.track.receiver(history.payloads)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._keep())
            await self.stage.stop.wait()
            task.cancel()

    def stall(self) -> None:
        """Keeps reading: its assertions do not concern slow readers."""

    def resume(self) -> None:
        pass

    async def _keep(self) -> None:
        loop, place = asyncio.get_running_loop(), self.place
        while True:
            connection = None
            try:
                async with asyncio.timeout(place.settings.connect_timeout_s):
                    _, connection = await loop.create_connection(
                        lambda: PositionedConnection(self, Cursors()), place.host, place.port
                    )
                await connection.watch()
            except (OSError, TimeoutError):
                pass
            if connection is not None:
                connection.transport.abort()
                self.track.events.append(Away(loop.time()))
            await asyncio.sleep(place.retry_s)


class PositionedConnection(PushConnection):
    """One connection, until it is lost or silent."""

    def __init__(self, owner: PositionedSubscriber, cursors: Cursors) -> None:
        super().__init__(owner.place.settings)
        self.owner = owner
        self.cursors = cursors
        self._unconfirmed = len(owner.track.names)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        track = self.owner.track
        verb = b"EQ.PSUBSCRIBE" if track.is_pattern else b"EQ.SUBSCRIBE"
        names = [name.encode() for name in track.names]
        self.transport.write(encode_request(b"HELLO", b"3") + encode_request(verb, *names))

    def on_push(self, word: str, fields: Sequence[Any]) -> None:
        getattr(self, f"on_{word}")(*fields)

    def on_error(self, error: Exception) -> None:
        raise AssertionError(error)

    # Pushes of the hub.

    def on_subscribe(self, topic: bytes, count: int, epoch: int, n: int) -> None:
        self.cursors.at[topic, b""] = (epoch, n)
        self._confirm()

    def on_psubscribe(self, pattern: bytes, count: int) -> None:
        self._confirm()

    def on_message(self, topic: bytes, epoch: int, n: int, *payloads: bytes) -> None:
        self._take((topic, b""), epoch, n, payloads)

    def on_lmessage(self, topic: bytes, lane: bytes, epoch: int, n: int, *payloads: bytes) -> None:
        known = self.cursors.at.get((topic, lane))
        # A later epoch: a hub died that may have had messages for the lane.
        assert known is not None and known[0] <= epoch, f"{lane!r} of {topic!r} in {epoch}, known {known}"
        self._take((topic, lane), epoch, n, payloads)

    def on_pmessage(self, pattern: bytes, topic: bytes, epoch: int, n: int, *payloads: bytes) -> None:
        self._take((topic, b""), epoch, n, payloads, is_followed=False)

    def on_lpmessage(
        self, pattern: bytes, topic: bytes, lane: bytes, epoch: int, n: int, *payloads: bytes
    ) -> None:
        self._take((topic, lane), epoch, n, payloads, is_followed=False)

    def on_opened(self, topic: bytes, epoch: int, former: int, n: int, at: int = 0) -> None:
        known = self.cursors.at[topic, b""]
        if epoch > known[0]:
            if known[0] == former and n > known[1]:
                self._miss(topic, n - known[1])
            elif known[0] != former:
                self._miss(topic, None)
            self.cursors.at[topic, b""] = (epoch, at)
        elif epoch == known[0] and at > known[1]:
            self._miss(topic, at - known[1])
            self.cursors.at[topic, b""] = (epoch, at)

    def on_lane(self, topic: bytes, lane: bytes, epoch: int, n: int) -> None:
        known = self.cursors.at.get((topic, lane))
        assert known in (None, (epoch, n)), f"{lane!r} of {topic!r} at {epoch, n}, known at {known}"
        self.cursors.at[topic, lane] = (epoch, n)

    def on_ended(self, topic: bytes, lane: bytes, epoch: int, n: int) -> None:
        known = self.cursors.at.pop((topic, lane))
        # A later epoch: a hub died that may have had messages for the lane, and no message has arrived since.
        assert not epoch or (epoch, n) >= known, f"ended at {epoch, n}, stood at {known}"
        if not epoch or epoch > known[0]:
            self._miss(topic, None)
        elif n > known[1]:
            self._miss(topic, n - known[1])

    def on_after(self, topic: bytes, stream: bytes, other: bytes, epoch: int, n: int) -> None:
        assert stream != other
        known = self.cursors.at.get((topic, other))
        assert known is None or known >= (epoch, n), f"{stream!r} after {other!r} {epoch, n}, at {known}"

    def on_gap(self, pattern: bytes, topic: bytes | None) -> None:
        self._miss(topic, None)

    # Internal.

    def _confirm(self) -> None:
        self._unconfirmed -= 1
        if not self._unconfirmed:
            self.owner.track.events.append(Live(asyncio.get_running_loop().time()))

    def _take(
        self, name: Name, epoch: int, n: int, payloads: tuple[bytes, ...], *, is_followed: bool = True
    ) -> None:
        skip, missed = self.cursors.take(name, epoch, n, len(payloads))
        if (missed and is_followed) or (missed is None and is_followed):
            self._miss(name[0], missed)
        now = asyncio.get_running_loop().time()
        for payload in payloads[skip:]:
            self.owner.receive(now, name[0].decode(), payload)

    def _miss(self, topic: bytes | None, missed: int | None) -> None:
        name = None if topic is None else topic.decode()
        self.owner.track.events.append(Missed(asyncio.get_running_loop().time(), name, missed))
