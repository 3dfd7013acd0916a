"""Drive a plain Redis subscriber: connect, subscribe, record messages, reconnect.

It speaks RESP2 or RESP3 over a bare transport. It pings now and then, as careful Redis clients do, because a
subscriber that never sends would not detect that its hub has been replaced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import cycle

import hiredis

from equipoise.client.wire.codec import encode_request
from equipoise.clock import done_within
from equipoise.lab.scenarios import Client, Dialect
from equipoise.lab.workload.endpoint import HubEndpoint
from equipoise.lab.workload.history import Away, History, Live, SubscriptionEnded, Track
from equipoise.lab.workload.stage import RunPhases

__all__ = ["PlainClient"]

_PING = encode_request(b"PING")


class PlainClient:
    """One plain client of a workload, with one subscription. `run` it as a task."""

    def __init__(self, client: Client, place: HubEndpoint, stage: RunPhases, history: History) -> None:
        self.name = client.name
        self._client = client
        self._place = place
        self._stage = stage
        self._history = history
        self._loop = asyncio.get_running_loop()
        (subscribing,) = client.subscribes
        assert not client.publishes, "only smart clients publish"
        self.track = Track(
            f"{client.name}/0",
            subscribing.names,
            is_pattern=subscribing.is_pattern,
            is_smart=False,
            user=client.user,
            via=place.host,
            where=subscribing.where,
        )
        self._where = subscribing.where
        history.tracks.append(self.track)
        self._connection: _Connection | None = None
        self._is_stalled = False
        self.unfinished = 0
        # The hubs that it connects to, in turn.
        self._hosts = cycle((place.host, *place.others) if client.is_wandering else (place.host,))

    async def run(self) -> None:
        """Stay subscribed until the run stops or the caller cancels."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._keep())
            await self._stage.stop.wait()
            task.cancel()

    def stall(self) -> None:
        """Do not read the socket until `resume`."""
        self._is_stalled = True
        if self._connection is not None:
            self._connection.transport.pause_reading()

    def resume(self) -> None:
        self._is_stalled = False
        if self._connection is not None:
            self._connection.transport.resume_reading()

    async def _keep(self) -> None:
        settings = self._place.settings
        while True:
            try:
                async with asyncio.timeout(settings.connect_timeout_s):
                    _, connection = await self._loop.create_connection(
                        self._new_connection, next(self._hosts), self._place.port
                    )
            except (OSError, TimeoutError):
                await asyncio.sleep(self._place.retry_s)
                continue
            self._connection = connection
            if self._is_stalled:
                connection.transport.pause_reading()
            try:
                await self._watch(connection)
            finally:
                self._connection = None
                connection.transport.abort()
            self.track.events.append(Away(self._loop.time()))
            await asyncio.sleep(self._place.retry_s)

    async def _watch(self, connection: _Connection) -> None:
        """Return when the connection is lost or has been silent for too long."""
        settings = self._place.settings
        unanswered = 0
        while not connection.lost.done():
            await done_within(connection.lost, settings.ping_interval_s)
            if connection.is_heard or self._is_stalled:
                unanswered = 0
            elif unanswered >= settings.pings_unanswered_max:
                return
            connection.is_heard = False
            unanswered += 1
            connection.transport.write(_PING)

    def _new_connection(self) -> _Connection:
        return _Connection(self._loop, self.track, self._history.payloads, self._opening())

    def _opening(self) -> list[bytes]:
        """The first commands of a new connection; the last one subscribes."""
        user, track = self._client.user.encode(), self.track
        commands = []
        if self._client.dialect is Dialect.RESP3:
            login = [b"AUTH", user, user] if user else []
            commands.append(encode_request(b"HELLO", b"3", *login))
        elif user:
            commands.append(encode_request(b"AUTH", user, user))
        names = [name.encode() for name in track.names]
        if self._where:
            names = [b"$filter %b %b" % (name, self._where.encode()) for name in names]
        verb = b"PSUBSCRIBE" if track.is_pattern or self._where else b"SUBSCRIBE"
        commands.append(encode_request(verb, *names))
        return commands


class _Connection(asyncio.Protocol):
    """One connection of a plain subscriber."""

    transport: asyncio.Transport

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        track: Track,
        payloads: dict[bytes, tuple[str, int]],
        opening: list[bytes],
    ) -> None:
        self._now = loop.time
        self._track = track
        self._opening = opening
        self._receive: Callable[[float, str, bytes], None] = track.receiver(payloads)
        self._reader = hiredis.Reader(notEnoughData=...)
        self._topics: dict[bytes, str] = {}
        self._unconfirmed = len(track.names)
        self.is_heard = False
        self.lost: asyncio.Future[None] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # a stream's transport
        self.transport.write(b"".join(self._opening))

    def data_received(self, data: bytes) -> None:
        self.is_heard = True
        reader = self._reader
        reader.feed(data)
        take, now, receive, topics = reader.gets, self._now(), self._receive, self._topics
        while (item := take()) is not ...:
            if not isinstance(item, list):
                self._reply(item)
                continue
            kind = item[0]
            if kind == b"message" or kind == b"pmessage":
                name, payload = item[-2], item[-1]
                topic = topics.get(name)
                if topic is None:
                    topic = topics[name] = name.decode()
                receive(now, topic, payload)
            elif kind != b"pong":
                self._change(kind)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.lost.done():
            self.lost.set_result(None)

    def _change(self, kind: bytes) -> None:
        if kind.endswith(b"unsubscribe"):
            self._end("unsubscribed by the hub")
        elif kind.endswith(b"subscribe"):
            self._unconfirmed -= 1
            if not self._unconfirmed:
                self._track.events.append(Live(self._now()))

    def _reply(self, reply: object) -> None:
        if isinstance(reply, Exception):
            self._end(str(reply))

    def _end(self, reason: str) -> None:
        """The subscription was rejected or ended: disconnect, and retry later on a new connection."""
        self._track.events.append(SubscriptionEnded(self._now(), reason))
        self.transport.abort()
