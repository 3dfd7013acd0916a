"""Take the streams of a topic over several links at once, and change links without losing or repeating anything. Pure.

A topic has a trunk and, where it is replicated for many publishers, lanes beside it: streams with positions of their
own. Each comes over one or more *seats*, which are subscriptions to the topic over one link: to all of its streams, or
to those that the link's hub numbers itself. A seat's answer says from which position on it brings a stream. Once the
stream has got as far here, the seat is *in step*: what it brings continues what there is, and what others have brought
before is skipped. Until then what it brings waits. So to change links is to take a further seat, wait until it is in
step with every stream, and leave the former: there is a live subscription all the time, and nobody who listens notices.

Order between streams is kept by marks: what follows a mark in one stream comes after the position in another that the
mark names. A hub has seen to that among all that it brings; but two streams may come from two hubs, so the marked one
waits here.

A lane begins at its hub when every other hub follows it. So a seat that was there before brings a lane from its first
message on, unless it had left it out; and a lane that one seat tells of while another has yet to is *awaited* from that
one, whatever the first has brought of it.

If a seat is lost that alone was in step, one that is ahead is taken at once, and what lies between is a gap. So it is
when more waits than may be kept, or something waits too long.

Always true: at most `bytes_max` bytes wait; positions of a stream are passed on in rising order, each once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from equipoise.client.cursor import IN_ORDER, TopicCursor, Verdict
from equipoise.client.feeds import (
    TRUNK,
    Begun,
    Ended,
    Feed,
    Mark,
    Messages,
    Opened,
    Part,
    Seat,
    Stream,
    Waiting,
)

__all__ = ["TRUNK", "MergedTopic", "Seat", "Sink"]


class Sink(Protocol):
    """Whoever the streams are for."""

    def on_down(self) -> None:
        """Nothing comes until another seat has been found, or this one is live again."""

    def on_live(self, missed: int | None) -> None:
        """The trunk goes on, after a loss of this many messages; None if nobody can say how many."""

    def on_messages(self, epoch: int, n: int, payloads: list[bytes], missed: int | None) -> None: ...


class MergedTopic:
    """Owned by one channel."""

    __slots__ = (
        "_bytes_max",
        "_is_changing",
        "_is_complete",
        "_is_settling",
        "_over",
        "_sink",
        "_streams",
        "_trunk",
        "_waiting",
        "seats",
        "wanted",
    )

    def __init__(self, sink: Sink, bytes_max: int) -> None:
        self._sink = sink
        self._bytes_max = bytes_max
        self._trunk = Stream(TRUNK)
        self._streams: dict[bytes, Stream] = {TRUNK: self._trunk}
        # By lane, the last epoch of it that is over.
        self._over: dict[bytes, int] = {}
        self._waiting = Waiting()
        self._is_settling = False
        # Whether all streams have been named once: then such as are named later had their first message after that.
        self._is_complete = False
        # Every seat that is taken or asked for; whether all that its hub has to say of streams has come.
        self.seats: dict[Seat, bool] = {}
        # Those that are to remain; and whether there are others.
        self.wanted: set[Seat] = set()
        self._is_changing = False

    # What is wanted.

    def want(self, seats: Iterable[Seat]) -> None:
        """Change to these, which have been asked for; the others are left once these bring everything."""
        self.wanted = set(seats)
        for seat in self.wanted:
            self.seats.setdefault(seat, False)
        self._settle()

    @property
    def awaits(self) -> object:
        """What a change, or a stream, waits for; None: nothing."""
        if self._is_changing or self._waiting.feeds:
            return (frozenset(self.seats), tuple(feed.start for feed in self._waiting.feeds))
        return self._trunk.cursor.behind

    def hurry(self) -> None:
        """Wait no longer: whatever has not been brought is lost."""
        if self._trunk.cursor.behind is not None:
            self._sink.on_live(self._trunk.cursor.resume(*self._trunk.cursor.behind, may_lag=False))
        self._is_settling = True
        self._skip_waiting(-1)
        self._is_settling = False
        for stream in self._streams.values():
            for feed in stream.feeds.values():
                if not feed.is_in_step:
                    self._take_up(feed, may_lag=True)
        self._settle()
        if self.wanted and all(self.seats.get(seat) for seat in self.wanted):
            self._leave_others()
            self._end_unfed()

    @property
    def is_changing(self) -> bool:
        """Whether there are seats that are to be left."""
        return self._is_changing

    # What comes over a seat.

    def begin(self, seat: Seat, name: bytes, epoch: int, n: int, *, may_lag: bool = True) -> None:
        """The seat brings a stream from here on."""
        if epoch <= self._over.get(name, -1):
            # A hub that lags does not know yet.
            return
        stream = self._streams.setdefault(name, Stream(name))
        known = stream.feeds.get(seat)
        if known is not None:
            # Said again; unless an end that has come before it is still to be dealt with.
            if any(type(part) is Ended for part in known.parts):
                self._wait(known, Begun(epoch, n))
            return
        stream.feeds[seat] = Feed(stream, seat, (epoch, n))
        stream.is_orphan = False
        self._note_beginning(stream)
        self._serve(stream, may_lag=may_lag)
        self._settle()

    def is_in_step(self, seats: Iterable[Seat]) -> bool:
        """Whether all of these have said which streams they bring, and have got as far as those are."""
        return all(
            self.seats.get(seat, False)
            and all(feed.is_in_step for stream in self._streams.values() if (feed := stream.feeds.get(seat)))
            for seat in seats
        )

    def brought_by(self, seats: Iterable[Seat]) -> set[bytes]:
        """The streams that come over some of these."""
        among = set(seats)
        return {stream.name for stream in self._streams.values() if not among.isdisjoint(stream.feeds)}

    def begin_plain(self, seat: Seat) -> None:
        """The seat's server knows no positions: whatever comes is taken as it comes."""
        self._trunk.cursor = TopicCursor()
        feed = self._trunk.feeds[seat] = Feed(self._trunk, seat, self._trunk.cursor.position)
        feed.is_in_step = True

    def greeted(self, seat: Seat) -> None:
        """The seat's hub has said which streams there are."""
        self.seats[seat] = True
        self._is_complete |= not seat.is_own
        for stream in self._streams.values():
            self._note_beginning(stream)
        self._end_unfed()
        self._settle()

    def receive(self, seat: Seat, name: bytes, epoch: int, n: int, payloads: list[bytes]) -> None:
        # This runs once per push: the usual case first, and straight through.
        stream = self._streams.get(name)
        feed = None if stream is None else stream.feeds.get(seat)
        if stream is None or feed is None:
            return
        if not feed.is_in_step or feed.parts:
            self._wait(feed, Messages(epoch, n, payloads))
            return
        verdict = stream.cursor.accept(epoch, n, len(payloads))
        if verdict is IN_ORDER:
            self._sink.on_messages(epoch, n, payloads, 0)
        else:
            self._pass_on(verdict, epoch, n, payloads)
        if self._waiting.feeds or self._is_changing:
            self._settle()

    def opened(self, seat: Seat, epoch: int, after_epoch: int, after_n: int) -> None:
        """The trunk goes on in another epoch."""
        self._put(seat, TRUNK, Opened(epoch, after_epoch, after_n))

    def marked(self, seat: Seat, name: bytes, other: bytes, epoch: int, n: int) -> None:
        self._put(seat, name, Mark(other, epoch, n))

    def ended(self, seat: Seat, name: bytes, epoch: int, n: int) -> None:
        """The lane is over; epoch 0: its hub is dead, which is told to those, too, who got it from there."""
        stream = self._streams.get(name)
        if stream is not None and seat not in stream.feeds and epoch == 0:
            stream.is_orphan = True
            self._end_orphans()
            self._settle()
        else:
            self._put(seat, name, Ended(epoch, n))

    def lost(self, seat: Seat) -> None:
        """The seat is over, or its link is down."""
        self.seats.pop(seat, None)
        self.wanted.discard(seat)
        self._unfeed(seat)

    def paused(self, seat: Seat) -> None:
        """The seat's link is down, and will ask for it again when it is up."""
        self.seats[seat] = False
        self._unfeed(seat)

    # Inside.

    def _put(self, seat: Seat, name: bytes, part: Part) -> None:
        stream = self._streams.get(name)
        feed = None if stream is None else stream.feeds.get(seat)
        if feed is not None:
            self._wait(feed, part)

    def _wait(self, feed: Feed, part: Part) -> None:
        self._waiting.add(feed, part)
        self._settle()

    def _settle(self) -> None:
        """Do whatever has become possible: take what waits, and leave the seats that are not needed any more."""
        if self._is_settling:
            # In the middle of it: whoever began goes on until nothing is possible any more.
            return
        self._is_settling = True
        for stream in self._streams.values():
            self._serve(stream, may_lag=True)
        self._take_all()
        self._skip_waiting(self._bytes_max)
        self._is_settling = False
        for stream in self._streams.values():
            for feed in stream.feeds.values():
                feed.is_in_step = feed.is_in_step or feed.start <= stream.cursor.position
        self._is_changing = self.wanted != self.seats.keys()
        if self._is_changing and self._has_arrived():
            self._leave_others()

    def _serve(self, stream: Stream, *, may_lag: bool) -> None:
        """If no feed of the stream is in step, and no other one is awaited, go on with the first of them."""
        if stream.feeds and not stream.is_served and not stream.is_awaited_from(self.seats):
            self._take_up(min(stream.feeds.values(), key=lambda feed: feed.start), may_lag=may_lag)

    def _note_beginning(self, stream: Stream) -> None:
        """All of a lane that is met later than the first ones is for us, also what it had before anybody told of it."""
        if self._is_complete and stream.name and stream.feeds and stream.cursor.epoch < 0:
            stream.cursor.resume(min(feed.start for feed in stream.feeds.values())[0], 0)

    def _take_all(self) -> None:
        while any([self._take_waiting(feed) for feed in list(self._waiting.feeds)]):  # noqa: C419  # each has its turn
            pass

    def _take_waiting(self, feed: Feed) -> bool:
        """Take what the feed has brought, as far as it may be taken; whether there was any."""
        cursor, taken = feed.stream.cursor, False
        feed.is_in_step = feed.is_in_step or feed.start <= cursor.position
        while feed.parts and feed.is_in_step and self._is_due(feed.parts[0]):
            taken = True
            self._do(feed.stream, self._waiting.take(feed))
        return taken

    def _is_due(self, part: Part) -> bool:
        """Whether a part need not wait for another stream."""
        other = self._streams.get(part.stream) if type(part) is Mark else None
        return other is None or type(part) is not Mark or other.cursor.position >= (part.epoch, part.n)

    def _do(self, stream: Stream, part: Part) -> None:
        """Take one part of a stream."""
        match part:
            case Messages(epoch, n, payloads):
                self._take(stream, epoch, n, payloads)
            case Opened(epoch, after_epoch, after_n):
                missed = stream.cursor.open(epoch, after_epoch, after_n)
                if missed != 0:
                    self._sink.on_messages(epoch, 1, [], missed)
            case Ended(epoch, n) if epoch == 0 or epoch == stream.cursor.epoch:
                missed = None if epoch == 0 else stream.cursor.resume(epoch, n, may_lag=True)
                self._end(stream)
                if missed != 0:
                    self._sink.on_messages(epoch, n + 1, [], missed)

    def _take(self, stream: Stream, epoch: int, n: int, payloads: list[bytes]) -> None:
        self._pass_on(stream.cursor.accept(epoch, n, len(payloads)), epoch, n, payloads)

    def _pass_on(self, verdict: Verdict, epoch: int, n: int, payloads: list[bytes]) -> None:
        skip, missed = verdict
        if skip:
            n, payloads = n + skip, payloads[skip:]
        if payloads or missed != 0:
            self._sink.on_messages(epoch, n, payloads, missed)

    def _take_up(self, feed: Feed, *, may_lag: bool) -> None:
        """Nobody else brings the stream: go on where the feed begins."""
        missed = feed.stream.cursor.resume(*feed.start, may_lag=may_lag)
        feed.is_in_step = True
        if not feed.stream.name:
            self._sink.on_live(missed)
        elif missed != 0:
            self._sink.on_messages(feed.start[0], feed.start[1] + 1, [], missed)

    def _has_arrived(self) -> bool:
        """Whether the wanted seats bring every stream, and are in step with it."""
        if not self.wanted or not all(self.seats.get(seat) for seat in self.wanted):
            return False
        return all(
            any(feed.is_in_step and seat in self.wanted for seat, feed in stream.feeds.items())
            for stream in self._streams.values()
        )

    def _leave_others(self) -> None:
        for seat in [seat for seat in self.seats if seat not in self.wanted]:
            self._leave(seat)

    def _leave(self, seat: Seat) -> None:
        if seat in self.seats:
            del self.seats[seat]
            seat.leave()
            self._unfeed(seat)

    def _unfeed(self, seat: Seat) -> None:
        """Nothing comes over the seat any more: streams that it alone was in step with are taken up elsewhere."""
        for stream in list(self._streams.values()):
            feed = stream.feeds.pop(seat, None)
            if feed is None:
                continue
            self._waiting.drop(feed)
            if not stream.feeds and not stream.name:
                self._sink.on_down()
        self._end_orphans()
        self._settle()

    def _end(self, stream: Stream) -> None:
        """The lane is over, for everybody who waits for it, too; what seats have brought of the next one is not."""
        del self._streams[stream.name]
        self._over[stream.name] = stream.cursor.epoch
        for seat in self.seats:
            # What begins later under the name is another lane.
            seat.left_out.discard(stream.name)
        next_lanes = stream.next_lanes()
        for feed in stream.feeds.values():
            self._waiting.drop(feed)
        stream.feeds.clear()
        for seat, parts in next_lanes:
            for part in parts:
                if type(part) is Begun:
                    self.begin(seat, stream.name, *part)
                else:
                    self._put(seat, stream.name, part)

    def _end_unfed(self) -> None:
        """A lane that nobody brings is over, if a hub that brings all says so by its silence; nobody knows where."""
        if any(is_greeted and not seat.is_own for seat, is_greeted in self.seats.items()):
            for stream in self._streams.values():
                stream.is_orphan = bool(stream.name) and not stream.feeds
            self._end_orphans()

    def _end_orphans(self) -> None:
        for stream in [stream for stream in self._streams.values() if stream.is_orphan and not stream.feeds]:
            self._end(stream)
            self._sink.on_messages(0, 1, [], None)

    def _skip_waiting(self, bytes_max: int) -> None:
        """What is waited for, and others may still bring, is left out: the order stays, and positions tell the loss."""
        # Each step takes up a feed, or passes a mark, and none of them waits a second time.
        for _ in range(sum(1 + len(feed.parts) for feed in self._waiting.feeds)):
            if not self._waiting.feeds or self._waiting.bytes <= bytes_max:
                return
            self._skip_one(next(iter(self._waiting.feeds)))
            self._take_all()

    def _skip_one(self, feed: Feed) -> None:
        """Let a feed go on that waits."""
        if not feed.is_in_step:
            self._take_up(feed, may_lag=True)
            return
        mark = feed.parts[0]
        other = self._streams.get(mark.stream) if isinstance(mark, Mark) else None
        if other is not None and isinstance(mark, Mark):
            missed = other.cursor.resume(mark.epoch, mark.n, may_lag=True)
            if missed != 0:
                self._sink.on_messages(mark.epoch, mark.n + 1, [], missed)
