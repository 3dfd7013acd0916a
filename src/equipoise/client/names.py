"""Keep the names subscribed over one link the same on both sides: here and at its hub.

Names are asked for one by one, so that a refusal concerns one name. A name that is wanted here is asked for when it is
first wanted and again on every new connection; a peer that does not know positions is asked in plain Redis words
instead. What it means that a name is refused or taken away is left to channels.py, which also decides what is wanted
over which link.

Always true: a name is in the table exactly while it is wanted over this link. The order of requests is the order in
which names were first wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, cast

from equipoise.client.channel import AnyChannel, PatternChannel, TopicChannel
from equipoise.client.codec import encode_request
from equipoise.client.connection import Connection
from equipoise.client.refusals import is_unknown_command
from equipoise.errors import ProtocolError, RefusedError

_SUBSCRIBE = (b"subscribe", b"psubscribe")
_UNSUBSCRIBE = (b"unsubscribe", b"punsubscribe")
_POSITIONED = b"eq."


class NamesOwner(Protocol):
    """Whoever decides what is subscribed where."""

    def on_refused(self, names: Names, channel: AnyChannel, error: RefusedError | None) -> None:
        """The hub will not serve the name; None: any more."""

    def on_home(self, push: list[object]) -> None:
        """A hub says where a topic lives."""


class _Seat:
    """A name wanted over this link. Live while the hub has confirmed it on the present connection."""

    __slots__ = ("channel", "is_live")

    def __init__(self, channel: AnyChannel) -> None:
        self.channel = channel
        self.is_live = False


class _Ask:
    """A request under way for one seat. Stale once the table holds another one under that name."""

    __slots__ = ("name", "refuse", "seat", "verb")

    def __init__(self, verb: bytes, seat: _Seat, refuse: Callable[[RefusedError], None]) -> None:
        self.verb = verb
        self.seat = seat
        self.name = seat.channel.name
        self.refuse = refuse


class Names:
    """Owned by one link."""

    def __init__(self, owner: NamesOwner) -> None:
        self._owner = owner
        self._topics: dict[bytes, _Seat] = {}
        self._patterns: dict[bytes, _Seat] = {}
        self._connection: Connection | None = None
        self._handlers: dict[object, Callable[[Connection, list[object]], None]] = {
            b"eq.message": self._on_message,
            b"eq.pmessage": self._on_pattern_message,
            b"eq.opened": self._on_opened,
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
        return len(self._topics) + len(self._patterns)

    def want(self, channel: AnyChannel) -> None:
        seat = self._table(channel.is_pattern)[channel.name] = _Seat(channel)
        if self._connection is not None:
            self._subscribe(self._connection, seat)

    def leave(self, name: bytes) -> None:
        """Want a topic no longer. Does nothing if it is not wanted here."""
        self._leave(name, is_pattern=False)

    def leave_pattern(self, name: bytes) -> None:
        self._leave(name, is_pattern=True)

    def channels(self) -> list[AnyChannel]:
        return [seat.channel for seat in (*self._topics.values(), *self._patterns.values())]

    def _leave(self, name: bytes, *, is_pattern: bool) -> None:
        seat = self._table(is_pattern).pop(name, None)
        if seat is not None and self._connection is not None:
            self._request(self._connection, _UNSUBSCRIBE[is_pattern], seat, _ignore)

    def _table(self, is_pattern: bool) -> dict[bytes, _Seat]:
        return self._patterns if is_pattern else self._topics

    # The connection under them.

    def attach(self, connection: Connection) -> None:
        self._connection = connection
        for table in (self._topics, self._patterns):
            for seat in list(table.values()):
                self._subscribe(connection, seat)

    def detach(self) -> None:
        self._connection = None
        for table in (self._topics, self._patterns):
            for seat in table.values():
                seat.is_live = False

    def _subscribe(self, connection: Connection, seat: _Seat) -> None:
        def refuse(error: RefusedError) -> None:
            self._on_refused(connection, seat, error)

        self._request(connection, _SUBSCRIBE[seat.channel.is_pattern], seat, refuse)

    def _request(
        self, connection: Connection, verb: bytes, seat: _Seat, refuse: Callable[[RefusedError], None]
    ) -> None:
        if connection.has_positions:
            verb = _POSITIONED + verb
        connection.owed.add(_Ask(verb, seat, refuse))
        connection.send(encode_request(verb.upper(), seat.channel.name))

    def _is_current(self, seat: _Seat) -> bool:
        return self._table(seat.channel.is_pattern).get(seat.channel.name) is seat

    def _on_refused(self, connection: Connection, seat: _Seat, error: RefusedError) -> None:
        if not self._is_current(seat):
            return
        if is_unknown_command(error) and "EQ." in error.text.upper():
            connection.has_positions = False
            self._subscribe(connection, seat)
            return
        self._drop(seat)
        self._owner.on_refused(self, seat.channel, error)

    def _drop(self, seat: _Seat) -> None:
        """The hub has nothing under this name any more."""
        del self._table(seat.channel.is_pattern)[seat.channel.name]

    # What the peer pushes.

    def on_push(self, connection: Connection, push: list[object]) -> None:
        handler = self._handlers.get(push[0])
        if handler is not None:
            try:
                handler(connection, push)
            except (IndexError, TypeError) as error:
                raise ProtocolError(f"a push of another shape than it should have: {push[:4]!r}") from error

    def _on_message(self, connection: Connection, push: list[object]) -> None:
        seat = self._topics.get(cast(bytes, push[1]))
        if seat is not None and seat.is_live:
            channel = cast(TopicChannel, seat.channel)
            channel.merge.receive(self, cast(int, push[2]), cast(int, push[3]), cast("list[bytes]", push[4:]))

    def _on_pattern_message(self, connection: Connection, push: list[object]) -> None:
        seat = self._patterns.get(cast(bytes, push[1]))
        if seat is not None and seat.is_live:
            epoch, n, payloads = cast(int, push[3]), cast(int, push[4]), cast("list[bytes]", push[5:])
            cast(PatternChannel, seat.channel).receive(cast(bytes, push[2]), epoch, n, payloads)

    def _on_opened(self, connection: Connection, push: list[object]) -> None:
        seat = self._topics.get(cast(bytes, push[1]))
        if seat is not None and seat.is_live:
            epoch, after_epoch, after_n = cast(int, push[2]), cast(int, push[3]), cast(int, push[4])
            cast(TopicChannel, seat.channel).merge.opened(self, epoch, after_epoch, after_n)

    def _on_here(self, connection: Connection, push: list[object]) -> None:
        """The peer is one hub among others, known to them by this address."""
        connection.hub = bytes(cast(bytes, push[1]))
        connection.is_among = True

    def _on_plain_message(self, connection: Connection, push: list[object]) -> None:
        seat = self._topics.get(cast(bytes, push[1]))
        if seat is not None and seat.is_live:
            cast(TopicChannel, seat.channel).receive_plain(cast(bytes, push[2]))

    def _on_plain_pattern_message(self, connection: Connection, push: list[object]) -> None:
        seat = self._patterns.get(cast(bytes, push[1]))
        if seat is not None and seat.is_live:
            cast(PatternChannel, seat.channel).receive_plain(cast(bytes, push[2]), cast(bytes, push[3]))

    def _on_subscribed(self, connection: Connection, push: list[object]) -> None:
        ask = connection.owed.confirm(cast(bytes, push[0]), push[1])
        if not isinstance(ask, _Ask):
            raise ProtocolError(f"a subscription was confirmed that nobody asked for: {push[1]!r}")
        seat, channel = ask.seat, ask.seat.channel
        if not self._is_current(seat):
            return
        seat.is_live = True
        if isinstance(channel, PatternChannel):
            channel.confirm()
        elif push[0] == b"eq.subscribe":
            position = cast(int, push[3]), cast(int, push[4])
            channel.merge.confirmed(self, *position, may_lag=connection.is_among)
        else:
            channel.confirm_plain()

    def _on_unsubscribed(self, connection: Connection, push: list[object]) -> None:
        verb, name = cast(bytes, push[0]), cast(bytes, push[1])
        if connection.owed.confirm(verb, name) is not None:
            return
        # Nobody asked: the hub has taken the name away.
        seat = self._table(verb.endswith(_UNSUBSCRIBE[True])).get(name)
        if seat is not None:
            self._drop(seat)
            self._owner.on_refused(self, seat.channel, None)


def _ignore(error: RefusedError) -> None:
    """A peer that refuses to unsubscribe goes on sending; what comes is for nobody and is dropped."""
