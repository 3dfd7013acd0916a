"""The subscribers by filter that know positions, and what each push to them accounts for.

Such a subscriber sees holes that are no losses, so each push names the positions that it accounts for, and of these the
messages that the filter matches:

    eq.fmessage number epoch first count (position payload) …

What matches nothing is accounted for by the next message that does, ahead of every push that says how the topic's
streams go on, and when the client asks (EQ.COVER). One encoding serves all subscribers of a filter: who came later has
passed what comes first.

Where there are many subscribers, they learn what all of them have to in slices (`announce`), each before anything else
comes to it.

Always true:
    `SmartMembers.at` is at or behind the position up to which each of its subscribers knows the stream;
    a span that is sent holds no position that was lost on its way here;
    a subscriber gets announcements and messages in the order in which they were made.
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

# Subscribers that learn something in one turn: some 5 ms.
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
        # By session, the numbers of its subscriptions to the filter, as its pushes have them.
        self.numbers: dict[Subscriber, tuple[bytes, ...]] = {}
        self.count = 0
        # Of these, how many were sent to another edge and are still here.
        self.leaving = 0
        # By stream, up to where they know it.
        self.at: dict[bytes, tuple[int, int]] = {}


class _Mark(NamedTuple):
    """Where a stream stood when something was announced, in the epoch that clients see."""

    lane: bytes
    shown_epoch: int
    n: int
    # Where its epoch begins here, and what lies behind the last loss, as far as is known.
    start: tuple[int, int] | None
    floor: tuple[int, int] | None

    def base(self, at: tuple[int, int] | None) -> int:
        """The position of the epoch up to which subscribers who were told up to `at` know the stream, or will find a
        hole."""
        if at is None or at[0] != self.shown_epoch:
            at = self.start
        if at is None or at[0] != self.shown_epoch:
            # A stream that has just begun, and no message of which was here, has nothing to account for.
            return self.n
        floor = self.floor or at
        return max(at, floor)[1] if floor[0] == self.shown_epoch else at[1]


class _Notice(NamedTuple):
    """What all subscribers learn: how far the streams are, then a frame, if there is one."""

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
        # Those of all filters that have such subscribers; and these, each with the number of its subscriptions.
        self.filters: dict[SmartMembers, None] = {}
        self.sessions: dict[Subscriber, int] = {}
        self._filters_of: dict[Subscriber, dict[SmartMembers, None]] = {}
        # What has been announced and not reached all; how many notices there were; and by subscriber that has yet to
        # learn of some, the number of the first of them.
        self._notices: list[_Notice] = []
        self._made = 0
        self._waiting: dict[Subscriber, int] = {}
        # By stream: the position behind which its epoch begins here, for those that came before the epoch did; and the
        # one behind the last loss.
        self._starts: dict[bytes, tuple[int, int]] = {}
        self._floors: dict[bytes, tuple[int, int]] = {}

    def add(
        self,
        members: SmartMembers,
        session: Subscriber,
        number: bytes,
        streams: Iterable[SpannedStream],
    ) -> None:
        self._tell(session)
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

    # What they get.

    def deliver(
        self,
        backlogs: _RunNotes,
        stream: SpannedStream,
        first: int,
        payloads: Sequence[bytes],
        hits: Mapping[SmartMembers, Sequence[int]],
    ) -> None:
        """A run of messages of the stream, the first at `first`; by filter, which of them match."""
        self._note_run(stream, first)
        for members, found in hits.items():
            for session in tuple(members.numbers) if self._waiting else ():
                self._tell(session)
            positions = [first + i for i in found]
            base = self._mark(stream).base(members.at.get(stream.lane))
            backlogs.messages = len(found)
            head, tail = _push(
                stream, base + 1, positions[-1] - base, positions, [payloads[i] for i in found]
            )
            members.at[stream.lane] = (stream.shown_epoch, positions[-1])
            _write(stream, members, head, tail)

    def _note_run(self, stream: SpannedStream, first: int) -> None:
        """The first run of an epoch says where the epoch begins here, if nothing has before."""
        start = self._starts.get(stream.lane)
        if start is None or start[0] != stream.shown_epoch:
            self._starts[stream.lane] = (stream.shown_epoch, first - 1)

    def announce(
        self, streams: Iterable[SpannedStream], frame: bytes, ahead: Iterable[Subscriber] = ()
    ) -> None:
        """Have all subscribers learn how far the streams are, and then a frame about them; those `ahead` at once."""
        if len(self.sessions) <= SLICE and not self._waiting:
            for stream in streams:
                self.account(stream)
            for session in tuple(self.sessions):
                session.write(frame)
            return
        self._notify(_Notice([self._mark(stream) for stream in streams], frame))
        for session in ahead:
            self._tell(session)

    def account(self, stream: SpannedStream) -> None:
        """Tell all subscribers of the positions up to the present one that they do not know of."""
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
        """Tell the next ones."""
        for session in list(islice(self._waiting, SLICE)):
            self._tell(session)
        if self._waiting:
            self._call_soon(self._go_on)

    def _tell(self, session: Subscriber) -> None:
        """What was announced and the subscriber has not been told."""
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
        """Tell one subscriber."""
        self._tell(session)
        for stream in streams:
            self._account_to(session, members, self._mark(stream), (bulk(number),))

    def jump(self, stream: SpannedStream, epoch: int, n: int) -> None:
        """The stream goes on after this position, and what lies between never came here."""
        self.account(stream)
        # Of a durable topic clients see one epoch.
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
    """What comes before the subscription's number, and what comes behind it."""
    lane, kind = stream.lane, Kind.FILTERED
    words = 5 + bool(lane) + 2 * len(payloads)
    parts = [bulk(lane)] if lane else []
    parts += (integer(stream.shown_epoch), integer(first), integer(count))
    for position, payload in zip(positions, payloads, strict=True):
        parts.append(b":%d\r\n$%d\r\n%b\r\n" % (position, len(payload), payload))
    return b">%d\r\n%b" % (words, bulk(kind.lane_message if lane else kind.message)), b"".join(parts)


def _write(stream: SpannedStream, members: SmartMembers, head: bytes, tail: bytes) -> None:
    # A copy: a subscriber that is written to may be cut, and its filters with it.
    for session, numbers in tuple(members.numbers.items()):
        for number in numbers:
            frame = b"%b%b%b" % (head, number, tail)
            session.write(frame)
            stream.bytes_out += len(frame)
