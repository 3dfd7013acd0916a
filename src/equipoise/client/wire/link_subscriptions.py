"""Keep the names subscribed over one link the same on both sides: here and at its hub.

Names are asked for one by one, so that a refusal concerns one name. A name that is wanted here is asked for when it is
first wanted and again on every new connection; a peer that does not know positions is asked in plain Redis words
instead. What it means that a name is refused or taken away is left to channels.py, which also decides what is wanted
over which link.

Always true: a name is in the table of its kind exactly while it is wanted over this link. The order of requests is the
order in which names were first wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, cast

from equipoise.client.routing.channel import AnyChannel, PatternChannel, TopicChannel
from equipoise.client.wire.codec import encode_request
from equipoise.client.wire.connection import Connection
from equipoise.client.wire.error_replies import is_unknown_command
from equipoise.client.wire.requests import Courtesy
from equipoise.errors import ProtocolError, RefusedError
from equipoise.stream.position import TRUNK

TOPIC, PATTERN, OWN = range(3)
"""Kinds of subscription: all streams of a topic, those of all topics that match, some streams of a topic."""
_SUBSCRIBE = (b"subscribe", b"psubscribe", b"own")
_UNSUBSCRIBE = (b"unsubscribe", b"punsubscribe", b"notown")
_POSITIONED = b"eq."
_PING = encode_request(b"PING")


class NamesOwner(Protocol):
    """Whoever decides what is subscribed where."""

    def on_refused(self, seat: NameSeat, error: RefusedError | None) -> None:
        """The hub will not serve the name; None: any more."""

    def on_home(self, push: list[object]) -> None:
        """A hub says where a topic lives."""


class NameSeat:
    """A name wanted over one link. Live while the hub has confirmed it on the present connection."""

    __slots__ = ("channel", "elsewhere", "is_live", "is_own", "kind", "left_out", "names")

    def __init__(
        self, names: Names, channel: AnyChannel, kind: int, elsewhere: Iterable[bytes] | None
    ) -> None:
        self.names = names
        self.channel = channel
        self.kind = kind
        self.is_own = kind == OWN
        # Of some streams: all but these; None: those that the hub numbers, and such as begin later.
        self.elsewhere = None if elsewhere is None else set(elsewhere)
        # Those that the hub leaves out: of those above the ones that it knew.
        self.left_out: set[bytes] = set()
        self.is_live = False

    def leave(self) -> None:
        self.names.leave(self)


class _Ask:
    """A request under way for one seat. Stale once the table holds another one under that name."""

    __slots__ = ("name", "refuse", "seat", "verb")

    def __init__(self, verb: bytes, seat: NameSeat, refuse: Callable[[RefusedError], None]) -> None:
        self.verb = verb
        self.seat = seat
        self.name = seat.channel.name
        self.refuse = refuse


class Names:
    """Owned by one link."""

    def __init__(self, owner: NamesOwner) -> None:
        self._owner = owner
        self._tables: tuple[dict[bytes, NameSeat], ...] = ({}, {}, {})
        self._topics, self._patterns, self._owns = self._tables
        self._connection: Connection | None = None
        self._handlers: dict[object, Callable[[Connection, list[object]], None]] = {
            b"eq.message": self._on_message,
            b"eq.lmessage": self._on_lane_message,
            b"eq.pmessage": self._on_pattern_message,
            b"eq.lpmessage": self._on_lane_pattern_message,
            b"eq.gap": self._on_gap,
            b"eq.opened": self._on_opened,
            b"eq.trunk": lambda connection, push: self._begin(push, TRUNK, 2),
            b"eq.lane": lambda connection, push: self._begin(push, cast(bytes, push[2]), 3),
            b"eq.ended": self._on_ended,
            b"eq.after": self._on_after,
            b"eq.home": lambda connection, push: self._owner.on_home(push),
            b"eq.here": self._on_here,
            b"eq.settled": lambda connection, push: connection.answer(push),
            b"eq.severed": lambda connection, push: connection.answer(push),
            b"message": self._on_plain_message,
            b"pmessage": self._on_plain_pattern_message,
        }
        for verb in _SUBSCRIBE:
            self._handlers[verb] = self._handlers[_POSITIONED + verb] = self._on_subscribed
        for verb in _UNSUBSCRIBE:
            self._handlers[verb] = self._handlers[_POSITIONED + verb] = self._on_unsubscribed

    # What is wanted.

    def __len__(self) -> int:
        return sum(map(len, self._tables))

    def want(
        self, channel: AnyChannel, *, is_own: bool = False, elsewhere: Iterable[bytes] | None = None
    ) -> NameSeat:
        """The seat under this name, made if need be. Is to be told to the channel before anything can come over it."""
        kind = OWN if is_own else PATTERN if channel.is_pattern else TOPIC
        known = self._tables[kind].get(channel.name)
        if known is not None:
            return known
        seat = self._tables[kind][channel.name] = NameSeat(self, channel, kind, elsewhere)
        if self._connection is not None:
            self._subscribe(self._connection, seat)
        return seat

    def leave(self, seat: NameSeat) -> None:
        """Want it no longer. Does nothing if it is not wanted any more."""
        if self._is_current(seat):
            self._drop(seat)
            if self._connection is not None:
                self._request(self._connection, _UNSUBSCRIBE[seat.kind], seat, _ignore)

    def seats(self) -> list[NameSeat]:
        return [seat for table in self._tables for seat in table.values()]

    # The connection under them.

    def attach(self, connection: Connection) -> None:
        self._connection = connection
        for seat in self.seats():
            self._subscribe(connection, seat)

    def detach(self) -> None:
        self._connection = None
        for seat in self.seats():
            seat.is_live = False

    def _subscribe(self, connection: Connection, seat: NameSeat) -> None:
        def refuse(error: RefusedError) -> None:
            self._on_refused(connection, seat, error)

        self._request(connection, _SUBSCRIBE[seat.kind], seat, refuse)
        channel = seat.channel
        if isinstance(channel, TopicChannel) and connection.is_among:
            # Behind its answer the hub says which streams there are; the answer to a ping says that it has. It matters
            # to the seats to come, whose hubs may know of others.
            connection.submit(Courtesy(_PING, lambda: self._on_greeted(seat)))

    def _request(
        self, connection: Connection, verb: bytes, seat: NameSeat, refuse: Callable[[RefusedError], None]
    ) -> None:
        words = [seat.channel.name]
        if verb == _SUBSCRIBE[OWN] and seat.elsewhere is not None:
            words += [b"ELSEWHERE", *sorted(seat.elsewhere)]
        if connection.has_positions:
            verb = _POSITIONED + verb
        connection.owed.add(_Ask(verb, seat, refuse))
        connection.send(encode_request(verb.upper(), *words))

    def _is_current(self, seat: NameSeat) -> bool:
        return self._tables[seat.kind].get(seat.channel.name) is seat

    def _on_refused(self, connection: Connection, seat: NameSeat, error: RefusedError) -> None:
        if not self._is_current(seat):
            return
        if is_unknown_command(error) and "EQ." in error.text.upper() and not seat.is_own:
            connection.has_positions = False
            self._subscribe(connection, seat)
            return
        self._drop(seat)
        self._owner.on_refused(seat, error)

    def _on_greeted(self, seat: NameSeat) -> None:
        if seat.is_live and self._is_current(seat) and isinstance(seat.channel, TopicChannel):
            seat.channel.merge.greeted(seat)

    def _drop(self, seat: NameSeat) -> None:
        """Nothing comes under this name any more."""
        del self._tables[seat.kind][seat.channel.name]
        seat.is_live = False

    def _live(self, name: object, stream: object) -> list[tuple[NameSeat, TopicChannel]]:
        """The seats, up to two, that what the hub pushes about a stream of a topic is for."""
        found: list[tuple[NameSeat, TopicChannel]] = []
        whole, part = self._topics.get(cast(bytes, name)), self._owns.get(cast(bytes, name))
        if whole is not None and whole.is_live:
            found.append((whole, cast(TopicChannel, whole.channel)))
        if part is not None and part.is_live and stream not in part.left_out:
            found.append((part, cast(TopicChannel, part.channel)))
        return found

    # What the peer pushes.

    def on_push(self, connection: Connection, push: list[object]) -> None:
        handler = self._handlers.get(push[0])
        if handler is not None:
            try:
                handler(connection, push)
            except (IndexError, TypeError) as error:
                raise ProtocolError(f"a push of another shape than it should have: {push[:4]!r}") from error

    def _on_message(self, connection: Connection, push: list[object]) -> None:
        # Spelled out: this runs once per push.
        name = cast(bytes, push[1])
        epoch, n, payloads = cast(int, push[2]), cast(int, push[3]), cast("list[bytes]", push[4:])
        seat = self._topics.get(name)
        if seat is not None and seat.is_live:
            cast(TopicChannel, seat.channel).merge.receive(seat, TRUNK, epoch, n, payloads)
        seat = self._owns.get(name) if self._owns else None
        if seat is not None and seat.is_live and TRUNK not in seat.left_out:
            cast(TopicChannel, seat.channel).merge.receive(seat, TRUNK, epoch, n, payloads)

    def _on_lane_message(self, connection: Connection, push: list[object]) -> None:
        for seat, channel in self._live(push[1], push[2]):
            epoch, n, payloads = cast(int, push[3]), cast(int, push[4]), cast("list[bytes]", push[5:])
            channel.merge.receive(seat, cast(bytes, push[2]), epoch, n, payloads)

    def _begin(self, push: list[object], stream: bytes, at: int) -> None:
        """The hub brings a stream from a position on."""
        name = cast(bytes, push[1])
        part = self._owns.get(name)
        if part is not None and stream in part.left_out and name not in self._topics:
            # It would not say so of one that it leaves out: this is the next of that name.
            _bring(part, stream)
        for seat, channel in self._live(name, stream):
            channel.merge.begin(seat, stream, cast(int, push[at]), cast(int, push[at + 1]))

    def _on_opened(self, connection: Connection, push: list[object]) -> None:
        for seat, channel in self._live(push[1], TRUNK):
            epoch, after_epoch, after_n = cast(int, push[2]), cast(int, push[3]), cast(int, push[4])
            channel.merge.opened(seat, epoch, after_epoch, after_n)

    def _on_ended(self, connection: Connection, push: list[object]) -> None:
        name, stream = cast(bytes, push[1]), cast(bytes, push[2])
        part = self._owns.get(name)
        if part is not None:
            # Whoever left it out is told only that its hub is dead; and the next of that name is left out nowhere.
            _bring(part, stream)
        for seat, channel in self._live(name, stream):
            channel.merge.ended(seat, stream, cast(int, push[3]), cast(int, push[4]))

    def _on_after(self, connection: Connection, push: list[object]) -> None:
        for seat, channel in self._live(push[1], push[2]):
            stream, other = cast(bytes, push[2]), cast(bytes, push[3])
            channel.merge.depends(seat, stream, other, cast(int, push[4]), cast(int, push[5]))

    def _on_pattern_message(self, connection: Connection, push: list[object]) -> None:
        self._receive_by_pattern(push, TRUNK, 3)

    def _on_lane_pattern_message(self, connection: Connection, push: list[object]) -> None:
        self._receive_by_pattern(push, cast(bytes, push[3]), 4)

    def _receive_by_pattern(self, push: list[object], stream: bytes, at: int) -> None:
        seat = self._patterns.get(cast(bytes, push[1]))
        if seat is not None and seat.is_live:
            epoch, n, payloads = (
                cast(int, push[at]),
                cast(int, push[at + 1]),
                cast("list[bytes]", push[at + 2 :]),
            )
            cast(PatternChannel, seat.channel).receive(cast(bytes, push[2]), stream, epoch, n, payloads)

    def _on_gap(self, connection: Connection, push: list[object]) -> None:
        seat = self._patterns.get(cast(bytes, push[1]))
        if seat is not None and seat.is_live:
            cast(PatternChannel, seat.channel).lose(cast("bytes | None", push[2]))

    def _on_here(self, connection: Connection, push: list[object]) -> None:
        """The peer is one hub among others, known to them by this address; none: it does not know it yet."""
        if push[1] is not None:
            connection.hub = bytes(cast(bytes, push[1]))
        connection.is_among = True

    def _on_plain_message(self, connection: Connection, push: list[object]) -> None:
        for _, channel in self._live(push[1], TRUNK):
            channel.receive_plain(cast(bytes, push[2]))

    def _on_plain_pattern_message(self, connection: Connection, push: list[object]) -> None:
        seat = self._patterns.get(cast(bytes, push[1]))
        if seat is not None and seat.is_live:
            cast(PatternChannel, seat.channel).receive_plain(cast(bytes, push[2]), cast(bytes, push[3]))

    def _on_subscribed(self, connection: Connection, push: list[object]) -> None:
        verb = cast(bytes, push[0])
        ask = connection.owed.confirm(verb, push[1])
        if not isinstance(ask, _Ask):
            raise ProtocolError(f"a subscription was confirmed that nobody asked for: {push[1]!r}")
        seat, channel = ask.seat, ask.seat.channel
        if not self._is_current(seat):
            return
        seat.is_live = True
        if isinstance(channel, PatternChannel):
            channel.confirm()
        elif not verb.startswith(_POSITIONED):
            channel.confirm_plain(seat)
        elif not seat.is_own:
            position = cast(int, push[3]), cast(int, push[4])
            channel.merge.begin(seat, TRUNK, *position, may_lag=connection.is_among)
        else:
            seat.left_out = set(cast("list[bytes]", push[6:]))
            if push[3] is not None and push[3] not in seat.left_out:
                channel.merge.begin(seat, cast(bytes, push[3]), cast(int, push[4]), cast(int, push[5]))

    def _on_unsubscribed(self, connection: Connection, push: list[object]) -> None:
        verb, name = cast(bytes, push[0]), cast(bytes, push[1])
        if connection.owed.confirm(verb, name) is not None:
            return
        # Nobody asked: the hub has taken the name away.
        seat = self._tables[_UNSUBSCRIBE.index(verb.removeprefix(_POSITIONED))].get(name)
        if seat is not None:
            self._drop(seat)
            self._owner.on_refused(seat, None)


def _bring(seat: NameSeat, stream: bytes) -> None:
    """The hub leaves the stream out no longer."""
    seat.left_out.discard(stream)
    if seat.elsewhere is not None:
        seat.elsewhere.discard(stream)


def _ignore(error: RefusedError) -> None:
    """A peer that refuses to unsubscribe goes on sending; what comes is for nobody and is dropped."""
