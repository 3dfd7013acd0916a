"""Subscribers by filter with positions, and the positions that each push to them accounts for.

For such a subscriber a hole in the positions need not be a loss, so each push names the positions that it accounts for,
with the messages of these that the filter matches:
    eq.fmessage number epoch first count (position payload) …
Messages that do not match are accounted for with the next one that does, before every push about the topic's streams,
and on request (EQ.COVER). One encoding serves all subscribers of a filter: a later subscriber ignores positions before
its own.

If there are many subscribers, announcements reach them in slices (`announce`), each before any other push to it.

Always true:
    `SmartMembers.at` is at or behind the position up to which each of its subscribers has the stream;
    a span contains no position that was lost before it reached this hub;
    a subscriber receives announcements and messages in the order in which they were made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

from equipoise.hub.data.kinds import Kind
from equipoise.resp.replies import bulk, integer

if TYPE_CHECKING:
    from equipoise.hub.data.subscriber import Subscriber

__all__ = ["SLICE", "FilterSpans", "SmartMembers", "SpannedStream"]

# Subscribers that receive an announcement in one turn: about 5 ms.
SLICE = 1_000


class _RunNotes(Protocol):
    messages: int


class SpannedStream(Protocol):
    """The topic, or a lane of it."""

    epoch: int
    n: int
    bytes_out: int

    @property
    def lane(self) -> bytes: ...
    @property
    def shown_epoch(self) -> int: ...


class SmartMembers:
    """The subscribers with positions of one filter."""

    __slots__ = ("at", "count", "leaving", "numbers")

    def __init__(self) -> None:
        # By session, the numbers of its subscriptions to the filter, encoded as in pushes.
        self.numbers: dict[Subscriber, tuple[bytes, ...]] = {}
        self.count = 0
        # Number of these that migrate to another edge and are still here.
        self.leaving = 0
        # By stream, the position that was accounted for to all of them.
        self.at: dict[bytes, tuple[int, int]] = {}


class _Mark(NamedTuple):
    """The position of a stream at an announcement, in the epoch shown to clients."""

    lane: bytes
    shown_epoch: int
    n: int
    # The position at which its epoch begins here, and the position of the last loss; None: unknown.
    start: tuple[int, int] | None
    floor: tuple[int, int] | None

    def base(self, at: tuple[int, int] | None) -> int:
        """The position up to which subscribers with coverage up to `at` have the stream, or will detect a loss."""
        if at is None or at[0] != self.shown_epoch:
            at = self.start
        if at is None or at[0] != self.shown_epoch:
            # A stream that has just begun, without a message here, has nothing to account for.
            return self.n
        floor = self.floor or at
        return max(at, floor)[1] if floor[0] == self.shown_epoch else at[1]


class _Notice(NamedTuple):
    """An announcement to all subscribers: the positions of streams, then a frame, if there is one."""

    marks: Sequence[_Mark]
    frame: bytes


class FilterSpans:
    """Owned by the filters of one topic."""

    __slots__ = (
        "_call_soon",
        "_filters_of",
        "_floors",
        "_made",
        "_notices",
        "_starts",
        "_waiting",
        "filters",
        "sessions",
    )

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        """`call_soon`: call something in the next turn."""
        self._call_soon = call_soon
        # The members of all filters with such subscribers; and by subscriber, its number of subscriptions.
        self.filters: dict[SmartMembers, None] = {}
        self.sessions: dict[Subscriber, int] = {}
        self._filters_of: dict[Subscriber, dict[SmartMembers, None]] = {}
        # Announcements that have not reached all subscribers; the number of all so far; and by waiting subscriber, the
        # number of its first pending one.
        self._notices: list[_Notice] = []
        self._made = 0
        self._waiting: dict[Subscriber, int] = {}
        # By stream: the position after which its epoch begins here, for earlier subscribers; and the one after the last
        # loss.
        self._starts: dict[bytes, tuple[int, int]] = {}
        self._floors: dict[bytes, tuple[int, int]] = {}

    def add(
        self,
        members: SmartMembers,
        session: Subscriber,
        number: bytes,
        streams: Iterable[SpannedStream],
    ) -> None:
        self._push_pending(session)
        if not members.numbers:
            self.filters[members] = None
            members.at = {stream.lane: (stream.shown_epoch, stream.n) for stream in streams}
        members.numbers[session] = (*members.numbers.get(session, ()), bulk(number))
        members.count += 1
        self.sessions[session] = self.sessions.get(session, 0) + 1
        self._filters_of.setdefault(session, {})[members] = None

    def remove(self, members: SmartMembers, session: Subscriber, number: bytes) -> None:
        left = tuple(known for known in members.numbers.pop(session) if known != bulk(number))
        if left:
            members.numbers[session] = left
        else:
            del self._filters_of[session][members]
            if not members.numbers:
                del self.filters[members]
        members.count -= 1
        self.sessions[session] -= 1
        if not self.sessions[session]:
            del self.sessions[session], self._filters_of[session]
            self._waiting.pop(session, None)

    # Delivery.

    def deliver(
        self,
        backlogs: _RunNotes,
        stream: SpannedStream,
        first: int,
        payloads: Sequence[bytes],
        hits: Mapping[SmartMembers, Sequence[int]],
    ) -> None:
        """Push a run of messages of the stream, the first at `first`; `hits`: by filter, the indexes that match."""
        self._note_run(stream, first)
        for members, found in hits.items():
            for session in tuple(members.numbers) if self._waiting else ():
                self._push_pending(session)
            positions = [first + i for i in found]
            base = self._mark(stream).base(members.at.get(stream.lane))
            backlogs.messages = len(found)
            head, tail = _push(
                stream, base + 1, positions[-1] - base, positions, [payloads[i] for i in found]
            )
            members.at[stream.lane] = (stream.shown_epoch, positions[-1])
            _write(stream, members, head, tail)

    def _note_run(self, stream: SpannedStream, first: int) -> None:
        """Record where the epoch begins here, at its first run, unless that is known."""
        start = self._starts.get(stream.lane)
        if start is None or start[0] != stream.shown_epoch:
            self._starts[stream.lane] = (stream.shown_epoch, first - 1)

    def announce(
        self, streams: Iterable[SpannedStream], frame: bytes, ahead: Iterable[Subscriber] = ()
    ) -> None:
        """Push the positions of the streams to all subscribers, then a frame about them; to `ahead` at once."""
        if len(self.sessions) <= SLICE and not self._waiting:
            for stream in streams:
                self.account(stream)
            for session in tuple(self.sessions):
                session.write(frame)
            return
        self._notify(_Notice([self._mark(stream) for stream in streams], frame))
        for session in ahead:
            self._push_pending(session)

    def account(self, stream: SpannedStream) -> None:
        """Push the span up to the current position to all subscribers, if it is not accounted for."""
        if len(self.sessions) > SLICE or self._waiting:
            self._notify(_Notice([self._mark(stream)], b""))
            return
        mark = self._mark(stream)
        for members in list(self.filters):
            base = mark.base(members.at.get(mark.lane))
            if base < mark.n:
                head, tail = _push(mark, base + 1, mark.n - base)
                members.at[mark.lane] = (mark.shown_epoch, mark.n)
                _write(stream, members, head, tail)

    def _notify(self, notice: _Notice) -> None:
        if not self._waiting:
            self._notices.clear()
            self._call_soon(self._go_on)
        self._notices.append(notice)
        for session in self.sessions:
            self._waiting.setdefault(session, self._made)
        self._made += 1

    def _go_on(self) -> None:
        """Push to the next slice of subscribers."""
        for session in list(islice(self._waiting, SLICE)):
            self._push_pending(session)
        if self._waiting:
            self._call_soon(self._go_on)

    def _push_pending(self, session: Subscriber) -> None:
        """Push the pending announcements to a subscriber."""
        number = self._waiting.pop(session, None)
        if number is None:
            return
        for notice in self._notices[number - self._made :]:
            for members in tuple(self._filters_of.get(session, ())):
                for mark in notice.marks:
                    self._account_to(session, members, mark, members.numbers.get(session, ()))
            if notice.frame and session in self.sessions:
                session.write(notice.frame)

    def _account_to(
        self, session: Subscriber, members: SmartMembers, mark: _Mark, numbers: Iterable[bytes]
    ) -> None:
        base = mark.base(members.at.get(mark.lane))
        if base < mark.n:
            head, tail = _push(mark, base + 1, mark.n - base)
            for number in numbers:
                session.write(b"%b%b%b" % (head, number, tail))

    def cover(
        self, members: SmartMembers, session: Subscriber, number: bytes, streams: Iterable[SpannedStream]
    ) -> None:
        """Push the spans of all streams to one subscription."""
        self._push_pending(session)
        for stream in streams:
            self._account_to(session, members, self._mark(stream), (bulk(number),))

    def jump(self, stream: SpannedStream, epoch: int, n: int) -> None:
        """The stream continues after this position; the messages between were not received here."""
        self.account(stream)
        # A durable topic shows one constant epoch to clients.
        shown = epoch if stream.epoch == stream.shown_epoch else stream.shown_epoch
        self._starts[stream.lane] = self._floors[stream.lane] = (shown, n)

    def _mark(self, stream: SpannedStream) -> _Mark:
        lane = stream.lane
        return _Mark(lane, stream.shown_epoch, stream.n, self._starts.get(lane), self._floors.get(lane))


def _push(
    stream: SpannedStream | _Mark,
    first: int,
    count: int,
    positions: Sequence[int] = (),
    payloads: Sequence[bytes] = (),
) -> tuple[bytes, bytes]:
    """The bytes of the push before and after the subscription's number."""
    lane, kind = stream.lane, Kind.FILTERED
    words = 5 + bool(lane) + 2 * len(payloads)
    parts = [bulk(lane)] if lane else []
    parts += (integer(stream.shown_epoch), integer(first), integer(count))
    for position, payload in zip(positions, payloads, strict=True):
        parts.append(b":%d\r\n$%d\r\n%b\r\n" % (position, len(payload), payload))
    return b">%d\r\n%b" % (words, bulk(kind.lane_message if lane else kind.message)), b"".join(parts)


def _write(stream: SpannedStream, members: SmartMembers, head: bytes, tail: bytes) -> None:
    # A copy, because a subscriber may be disconnected by the write, and its filters removed.
    for session, numbers in tuple(members.numbers.items()):
        for number in numbers:
            frame = b"%b%b%b" % (head, number, tail)
            session.write(frame)
            stream.bytes_out += len(frame)
