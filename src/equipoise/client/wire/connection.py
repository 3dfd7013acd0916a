"""One TCP connection: frames out, replies and pushes in.

Frames sent within one turn of the loop leave in one write, and no step of sending a message awaits. The connection
never reconnects: when it is lost it fails the requests in flight, notifies its owner once, and is discarded.

link_subscriptions.py interprets pushes; link.py decides when to connect.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol, cast

import hiredis

from equipoise.client.url import Endpoint
from equipoise.client.wire.codec import encode_request
from equipoise.client.wire.error_replies import make_refusal
from equipoise.client.wire.requests import (
    AHEAD_BYTES_MAX,
    IGNORED,
    LOST,
    Answered,
    InFlight,
    NowaitLosses,
    Probe,
    Push,
    QueryRequest,
    Request,
    Ticket,
)
from equipoise.clock import clock_of
from equipoise.errors import DisconnectedError, EquipoiseError, ProtocolError

TURN_BYTES = 64 * 1024
"""Bytes read before other tasks get a turn. uvloop would read megabytes at once, more than a queue holds, before the
task that empties the queue can run."""


class ConnectionOwner(Protocol):
    """The owner of the connection. Called from within the loop, never after `on_lost`."""

    def on_push(self, connection: Connection, push: Push) -> None: ...

    def on_read(self, connection: Connection) -> None:
        """After each chunk of replies: there may be room for more publishes."""

    def on_lost(self, connection: Connection, error: EquipoiseError) -> None: ...


class Connection(asyncio.Protocol):
    """Owned by one link. `lost` is done as soon as nothing can be sent any more."""

    def __init__(self, loop: asyncio.AbstractEventLoop, owner: ConnectionOwner, losses: NowaitLosses) -> None:
        self._loop = loop
        self._owner = owner
        self._transport: asyncio.Transport | None = None
        self._reader = hiredis.Reader(replyError=make_refusal, notEnoughData=...)
        self._out: list[bytes] = []
        # Bytes read since other tasks last had a turn.
        self._turn_bytes = 0
        # Bytes read in all.
        self._read_bytes = 0
        # By the beginning of the push that answers them, the unanswered requests, the oldest first.
        self._questions: dict[tuple[bytes, bytes], deque[QueryRequest]] = {}
        self.in_flight = InFlight(losses)
        self.lost: asyncio.Future[EquipoiseError] = loop.create_future()
        # Whether anything was received since the owner last set it to False.
        self.has_received = False
        # False once the peer has rejected a command for positions: a plain Redis.
        self.has_positions = True
        # Whether the peer continues a durable topic from a position.
        self.can_resume = True
        # The link's name at the peer, and the peer's address: as dialled, or as announced by the peer.
        self.link = b""
        self.hub = b""
        self.dialled: Endpoint | None = None
        # Whether the peer has announced its address: then it is a hub of a cluster.
        self.is_among = False
        # Whether another hub has confirmed that no message sent here is in flight any more, nor will be published.
        self.is_severed = False
        # Whether that hub orders messages by EQ.AFTER.
        self.is_severed_by_hub = False

    def send(self, frame: bytes) -> None:
        """Queue a frame whose request is in `in_flight`; it is sent at the end of this turn of the loop."""
        if not self._out:
            self._loop.call_soon(self._write_out)
        self._out.append(frame)

    def submit(self, request: Request) -> None:
        request.is_sent = True
        self.in_flight.add_publish(request)
        self.send(request.frame)

    def ask(self, *words: bytes) -> asyncio.Future[object]:
        """Send a request and return the future of its reply."""
        ticket = Ticket(encode_request(*words), 0, self._loop.create_future())
        self.submit(ticket)
        return ticket.future

    def tell(self, *words: bytes) -> None:
        """Send a request whose reply is ignored."""
        self.in_flight.add(IGNORED)
        self.send(encode_request(*words))

    def measure(self, frame: bytes, answered: Answered) -> None:
        """Send a request at once, behind all queued frames, and measure the time until its reply."""
        if self.lost.done():
            # Requests in flight have failed already. Not within this call: the caller may not be ready yet.
            self._loop.call_soon(answered, LOST, None)
            return
        transport = self._transport
        unsent_bytes = 0 if transport is None else transport.get_write_buffer_size()
        is_clear = not unsent_bytes and not self._out and self.in_flight.bytes <= AHEAD_BYTES_MAX
        probe = Probe(answered, clock_of(self._loop))
        self.in_flight.add(probe)
        self.send(frame)
        probe.begin(lambda: self._read_bytes, is_clear=is_clear)
        self._write_out()

    def expect(self, question: QueryRequest) -> None:
        """The request is about to be submitted: register its callback."""
        self._questions.setdefault(question.key, deque()).append(question)

    def answer(self, push: Push) -> None:
        """A push that answers the oldest request of its kind: later requests cover later messages, too."""
        asked = self._questions.get((push[0], push[1]), deque())
        while asked and asked[0].is_over:
            asked.popleft()  # The hub has rejected it.
        question = asked.popleft() if asked else None
        if not asked:
            self._questions.pop((push[0], push[1]), None)
        if question is not None:
            question.answer(push)

    def _write_out(self) -> None:
        out, self._out = self._out, []
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(out))

    @property
    def was_answered(self) -> bool:
        """Whether anything was received from the server."""
        return self._read_bytes > 0

    def abort(self, error: EquipoiseError) -> None:
        """Close the connection at once, without sending queued bytes."""
        if self._transport is not None:
            self._transport.abort()
        self._lose(error)

    def close(self) -> None:
        """Send queued frames, then close. `lost` is done after that."""
        self._write_out()
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, not a check: uvloop's transports do not derive from asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.has_received = True
        self._read_bytes += len(data)
        reader = self._reader
        take, reply, push = reader.gets, self.in_flight.reply, self._owner.on_push
        try:
            reader.feed(data)
            while (item := take()) is not ...:
                if type(item) is hiredis.PushNotification:
                    push(self, item)
                else:
                    reply(item)
        except (hiredis.HiredisError, ProtocolError) as error:
            self.abort(ProtocolError(f"the server does not speak the protocol of a hub: {error}"))
            return
        self._owner.on_read(self)
        self._turn_bytes += len(data)
        if (
            self._turn_bytes >= TURN_BYTES
            and self._transport is not None
            and not self._transport.is_closing()
        ):
            self._transport.pause_reading()
            self._loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        self._turn_bytes = 0
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose(DisconnectedError(str(exc) if exc else "closed by the server"))

    def _lose(self, error: EquipoiseError) -> None:
        """The first reason counts: after an abort it is more specific than the transport's."""
        if self.lost.done():
            return
        self.lost.set_result(error)
        self._out.clear()
        self._owner.on_lost(self, error)
        self.in_flight.fail(str(error))
        questions, self._questions = self._questions, {}
        for asked in questions.values():
            for question in asked:
                question.answer(None)
