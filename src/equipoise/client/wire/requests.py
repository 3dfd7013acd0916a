"""Requests in flight on one connection, in the order of sending.

A request has one reply, or fails with its connection. Its class decides what the outcome completes: a future, the next
flush, or a callback that waits for a later push. A hub may defer the reply to a publish (`deferred_publishes`): then
the next requests get their replies first.

A connection replies in order. Most requests get one reply; a subscription request gets one push instead, or an error as
a reply. So one queue serves both: a reply belongs to its head, and so does the push that confirms a subscription.

A probe measures a round trip on a connection with other traffic. It counts only if the request waited behind no own
traffic: no unsent bytes before it, few bytes without an ack, and few received before the reply. The filter of the
estimator handles other delays.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from equipoise.client.wire.deferred_publishes import DeferredPublishes
from equipoise.errors import EquipoiseError, ProtocolError, RefusedError, UncertainError

__all__ = []

AHEAD_BYTES_MAX = 14_600
"""Bytes of publishes that may be in flight before a probe: ten segments, which every connection sends at once
(RFC 6928).
"""
BEHIND_BYTES_MAX = 65_536
"""Bytes that may arrive before the reply: more would keep the line, or this program, busy."""


class Lost:
    """In place of a reply: the connection was lost before it."""


LOST = Lost()

# Called with the reply, which may be a RefusedError or LOST; and the round trip, None if that does not count.
Answered = Callable[[object, float | None], None]


class ProbedConnection(Protocol):
    """A connection to a peer that may know its coordinate."""

    def measure(self, frame: bytes, answered: Answered) -> None:
        """Send a request at once and measure the time until its reply."""

    def close(self) -> None: ...


class Probe:
    """A request whose round trip is measured. No flush waits for it."""

    __slots__ = ("_answered", "_began_at", "_clock", "_is_clear", "_read_bytes")

    def __init__(self, answered: Answered, clock: Callable[[], float]) -> None:
        self._answered = answered
        self._clock = clock
        self._is_clear = False
        self._began_at = 0.0
        self._read_bytes: Callable[[], int] = int

    def begin(self, read_bytes: Callable[[], int], *, is_clear: bool) -> None:
        """It is about to be sent. `read_bytes`: all bytes received so far on its connection."""
        before = read_bytes()
        self._read_bytes = lambda: read_bytes() - before
        self._is_clear = is_clear
        self._began_at = self._clock()

    def settle(self, reply: object) -> None:
        took_s = self._clock() - self._began_at
        is_clear = self._is_clear and self._read_bytes() <= BEHIND_BYTES_MAX
        self._answered(reply, took_s if is_clear else None)

    def fail(self) -> None:
        """The connection is lost."""
        self._answered(LOST, None)


Push: TypeAlias = list[Any]
"""A push as parsed by hiredis: its kind, then the elements of wire.md. Each handler names their types."""


class NowaitLosses:
    """Publishes without receipt that failed. Raised by the next flush."""

    __slots__ = ("count", "first")

    def __init__(self) -> None:
        self.count = 0
        self.first: EquipoiseError | None = None

    def add(self, error: EquipoiseError, count: int = 1) -> None:
        self.first = self.first or error
        self.count += count

    def take(self) -> EquipoiseError | None:
        error, count = self.first, self.count
        self.first, self.count = None, 0
        if error is not None and count > 1:
            error.add_note(f"the first of {count} publishes without receipt that failed since the last flush")
        return error


class Request:
    """A request with one reply: a publish with its size, or another request with size 0."""

    __slots__ = ("frame", "is_sent", "publisher", "size")

    def __init__(self, frame: bytes, size: int) -> None:
        self.frame = frame
        self.size = size
        self.is_sent = False
        # Resends it if its connection is lost before it is sent; None: it is dropped then.
        self.publisher: object = None

    @property
    def is_over(self) -> bool:
        """Whether no caller needs the reply any more: then it need not be sent."""
        return False

    def stand_still(self) -> None:
        """Its topic is above its rate limit: the caller's time-out is paused."""

    def go_on(self) -> None:
        """It is sent, or its topic is within its rate limit again."""

    def settle(self, reply: object) -> None:
        raise AssertionError("a subclass implements this")

    def fail(self, error: EquipoiseError) -> None:
        raise AssertionError("a subclass implements this")


class Ticket(Request):
    """A request whose reply is awaited. `clock` runs while the caller waits, if its time is limited."""

    __slots__ = ("_left_s", "clock", "future")

    def __init__(self, frame: bytes, size: int, future: asyncio.Future[object]) -> None:
        # All in one object: it is created for every message with a receipt.
        self.frame = frame
        self.size = size
        self.is_sent = False
        self.publisher = None
        self.future = future
        self.clock: asyncio.Timeout | None = None
        # The caller waits for this until the clock continues; None while it runs.
        self._left_s: float | None = None

    @property
    def is_over(self) -> bool:
        return self.future.done()

    def stand_still(self) -> None:
        clock = self.clock
        if clock is not None and self._left_s is None and not self.future.done():
            due_at = clock.when()
            if due_at is not None:
                self._left_s = due_at - self.future.get_loop().time()
                clock.reschedule(None)

    def go_on(self) -> None:
        left_s, self._left_s = self._left_s, None
        if left_s is not None and self.clock is not None and not self.future.done():
            self.clock.reschedule(self.future.get_loop().time() + left_s)

    def settle(self, reply: object) -> None:
        if self.future.done():
            return
        if isinstance(reply, Exception):
            self.future.set_exception(reply)
        else:
            self.future.set_result(reply)

    def fail(self, error: EquipoiseError) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class NowaitTicket(Request):
    """A publish without receipt that had to wait before it was sent."""

    __slots__ = ("_losses",)

    def __init__(self, frame: bytes, size: int, losses: NowaitLosses) -> None:
        super().__init__(frame, size)
        self._losses = losses

    def settle(self, reply: object) -> None:
        if isinstance(reply, EquipoiseError):
            self._losses.add(reply)

    def fail(self, error: EquipoiseError) -> None:
        self._losses.add(error)


class SyncRequest(Request):
    """A request whose reply only shows that all before it have replies. Without a reply there is no callback."""

    __slots__ = ("_answered",)

    def __init__(self, frame: bytes, answered: Callable[[], None] | None = None) -> None:
        super().__init__(frame, 0)
        self._answered = answered

    def settle(self, reply: object) -> None:
        if self._answered is not None:
            self._answered()

    def fail(self, error: EquipoiseError) -> None: ...


class QueryRequest(Request):
    """A request that a hub acknowledges at once, and answers with a push later: `key` is the beginning of the push.

    `answered` is called once: with the push, or with None if the hub rejects the request or its connection is lost.
    """

    __slots__ = ("_answered", "_is_answered", "key")

    def __init__(
        self, frame: bytes, key: tuple[bytes, bytes], answered: Callable[[Push | None], None]
    ) -> None:
        super().__init__(frame, 0)
        self.key = key
        self._answered = answered
        self._is_answered = False

    @property
    def is_over(self) -> bool:
        return self._is_answered

    def answer(self, push: Push | None) -> None:
        if not self._is_answered:
            self._is_answered = True
            self._answered(push)

    def settle(self, reply: object) -> None:
        if isinstance(reply, Exception):
            self.answer(None)

    def fail(self, error: EquipoiseError) -> None:
        self.answer(None)


class NameRequest(Protocol):
    """A subscription request. Confirmed by a push, rejected by a reply."""

    @property
    def verb(self) -> bytes:
        """The first word of the push that confirms it."""

    @property
    def name(self) -> bytes: ...

    def refuse(self, error: RefusedError) -> None: ...


class _Ignored:
    """A request whose reply is ignored: a ping."""


IGNORED = _Ignored()

_Entry: TypeAlias = int | Request | NameRequest | Probe | _Ignored


class InFlight:
    """The requests without a reply on one connection. `messages` and `bytes` are those of its publishes."""

    __slots__ = ("_entries", "_losses", "bytes", "deferred", "messages")

    def __init__(self, losses: NowaitLosses) -> None:
        # A bare int is a publish without receipt, and its size: no other state is needed.
        self._entries: deque[_Entry] = deque()
        self._losses = losses
        self.messages = 0
        self.bytes = 0
        # Publishes with deferred replies, not counted above.
        self.deferred = DeferredPublishes()

    def add_nowait(self, size: int) -> None:
        self._entries.append(size)
        self.messages += 1
        self.bytes += size

    def add_publish(self, request: Request) -> None:
        self._entries.append(request)
        self.messages += 1
        self.bytes += request.size

    def add(self, entry: NameRequest | Probe | _Ignored) -> None:
        self._entries.append(entry)

    def reply(self, reply: object) -> None:
        """Raises ProtocolError if no request is waiting for it."""
        if not self._entries:
            raise ProtocolError("a reply came without a request")
        entry = self._entries.popleft()
        if isinstance(entry, int):
            self.messages -= 1
            self.bytes -= entry
            if isinstance(reply, EquipoiseError):
                self._losses.add(reply)
        elif isinstance(entry, Request):
            self.messages -= 1
            self.bytes -= entry.size
            entry.settle(reply)
        elif isinstance(entry, Probe):
            entry.settle(reply)
        elif not isinstance(entry, _Ignored):
            if not isinstance(reply, RefusedError):
                raise ProtocolError("a subscription was answered by a reply instead of a push")
            entry.refuse(reply)

    def defer(self, number: int, topic: bytes) -> None:
        """The first request, a publish, gets its reply later. Raises ProtocolError if it is not a publish."""
        entry = self._entries.popleft() if self._entries else None
        if isinstance(entry, int):
            self.bytes -= entry
            self.deferred.add(number, topic, self._settle_nowait)
        elif isinstance(entry, Request):
            self.bytes -= entry.size
            entry.stand_still()
            self.deferred.add(number, topic, entry.settle)
        else:
            raise ProtocolError("the reply to something else than a publish was deferred")
        self.messages -= 1

    def _settle_nowait(self, reply: object) -> None:
        if isinstance(reply, EquipoiseError):
            self._losses.add(reply)

    def confirm(self, verb: bytes, name: object) -> NameRequest | None:
        """The request that this push confirms, removed from the queue; None if the peer pushed it by itself."""
        head = self._entries[0] if self._entries else None
        if head is None or isinstance(head, int | Request | Probe | _Ignored):
            return None
        if head.verb != verb or head.name != name:
            return None
        self._entries.popleft()
        return head

    def fail(self, reason: str) -> None:
        """The connection is lost: the outcome of every message in flight is uncertain."""
        entries, self._entries = self._entries, deque()
        self.messages = self.bytes = 0
        nowait = 0
        for entry in entries:
            if isinstance(entry, int):
                nowait += 1
            elif isinstance(entry, Request):
                entry.fail(_uncertain(reason))
            elif isinstance(entry, Probe):
                entry.fail()
        if nowait:
            self._losses.add(_uncertain(reason), nowait)
        self.deferred.fail(lambda: _uncertain(reason))


def _uncertain(reason: str) -> UncertainError:
    return UncertainError(
        f"the connection was lost before the receipt came ({reason}); the message may or may not have been "
        "delivered: publish it again only if a duplicate does no harm"
    )
