"""The subscribers by filter that know positions, and what each push to them accounts for.

Such a subscriber sees holes that are no losses, so each push names the positions that it accounts for, and of these the
messages that the filter matches:

    eq.fmessage number epoch first count (position payload) …

What matches nothing is accounted for by the next message that does, ahead of every push that says how the topic's
streams go on, and when the client asks (EQ.COVER). One encoding serves all subscribers of a filter: who came later has
passed what comes first.

Always true:
    `SmartMembers.at` is at or behind the position up to which each of its subscribers knows the stream;
    a span that is sent holds no position that was lost on its way here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.data.kinds import Kind
from equipoise.resp.replies import bulk, integer

if TYPE_CHECKING:
    from equipoise.hub.data.subscriber import Subscriber

__all__ = ["FilterSpans", "SmartMembers", "SpannedStream"]


class _RunNotes(Protocol):
    messages: int


class SpannedStream(Protocol):
    """The topic, or a lane of it."""

    epoch: int
    n: int
    bytes_out: int

    @property
    def lane(self) -> bytes: ...


class SmartMembers:
    """The subscribers with positions of one filter."""

    __slots__ = ("at", "count", "numbers")

    def __init__(self) -> None:
        # By session, the numbers of its subscriptions to the filter, as its pushes have them.
        self.numbers: dict[Subscriber, tuple[bytes, ...]] = {}
        self.count = 0
        # By stream, up to where they know it.
        self.at: dict[bytes, tuple[int, int]] = {}


class FilterSpans:
    """Owned by the filters of one topic."""

    __slots__ = ("_floors", "_starts", "filters", "sessions")

    def __init__(self) -> None:
        # Those of all filters that have such subscribers; and these, each with the number of its subscriptions.
        self.filters: dict[SmartMembers, None] = {}
        self.sessions: dict[Subscriber, int] = {}
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
        if not members.numbers:
            self.filters[members] = None
            members.at = {stream.lane: (stream.epoch, stream.n) for stream in streams}
        members.numbers[session] = (*members.numbers.get(session, ()), bulk(number))
        members.count += 1
        self.sessions[session] = self.sessions.get(session, 0) + 1

    def remove(self, members: SmartMembers, session: Subscriber, number: bytes) -> None:
        left = tuple(known for known in members.numbers.pop(session) if known != bulk(number))
        if left:
            members.numbers[session] = left
        elif not members.numbers:
            del self.filters[members]
        members.count -= 1
        self.sessions[session] -= 1
        if not self.sessions[session]:
            del self.sessions[session]

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
            positions = [first + i for i in found]
            base = self._base(members, stream)
            backlogs.messages = len(found)
            head, tail = _push(
                stream, base + 1, positions[-1] - base, positions, [payloads[i] for i in found]
            )
            members.at[stream.lane] = (stream.epoch, positions[-1])
            _write(stream, members, head, tail)

    def _note_run(self, stream: SpannedStream, first: int) -> None:
        """The first run of an epoch says where the epoch begins here, if nothing has before."""
        start = self._starts.get(stream.lane)
        if start is None or start[0] != stream.epoch:
            self._starts[stream.lane] = (stream.epoch, first - 1)

    def account(self, stream: SpannedStream) -> None:
        """Tell all subscribers of the positions up to the present one that they do not know of."""
        for members in list(self.filters):
            base = self._base(members, stream)
            if base < stream.n:
                head, tail = _push(stream, base + 1, stream.n - base)
                members.at[stream.lane] = (stream.epoch, stream.n)
                _write(stream, members, head, tail)

    def cover(
        self, members: SmartMembers, session: Subscriber, number: bytes, streams: Iterable[SpannedStream]
    ) -> None:
        """Tell one subscriber."""
        for stream in streams:
            base = self._base(members, stream)
            if base < stream.n:
                head, tail = _push(stream, base + 1, stream.n - base)
                session.write(b"%b%b%b" % (head, bulk(number), tail))

    def jump(self, stream: SpannedStream, epoch: int, n: int) -> None:
        """The stream goes on after this position, and what lies between never came here."""
        self.account(stream)
        self._starts[stream.lane] = self._floors[stream.lane] = (epoch, n)

    def _base(self, members: SmartMembers, stream: SpannedStream) -> int:
        """The position of the present epoch up to which the subscribers know the stream, or will find a hole."""
        lane, epoch = stream.lane, stream.epoch
        at = members.at.get(lane)
        if at is None or at[0] != epoch:
            at = self._starts.get(lane)
        if at is None or at[0] != epoch:
            # A stream that has just begun, and no message of which was here, has nothing to account for.
            return stream.n
        floor = self._floors.get(lane, at)
        return max(at, floor)[1] if floor[0] == epoch else at[1]


def _push(
    stream: SpannedStream,
    first: int,
    count: int,
    positions: Sequence[int] = (),
    payloads: Sequence[bytes] = (),
) -> tuple[bytes, bytes]:
    """What comes before the subscription's number, and what comes behind it."""
    lane, kind = stream.lane, Kind.FILTERED
    words = 5 + bool(lane) + 2 * len(payloads)
    parts = [bulk(lane)] if lane else []
    parts += (integer(stream.epoch), integer(first), integer(count))
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
