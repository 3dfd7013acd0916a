"""Keep the names subscribed on one link the same on both sides: here and on the hub.

Names are asked for one by one, so that a refusal concerns one name. A name that is wanted is asked for when
it is first wanted and again on every new connection; a peer that does not know positions is asked in plain
Redis words instead. A name the hub refuses, or takes away by itself, ends the subscriptions that want it.

Always true: a name is in the table exactly while some local subscription wants it. The order of requests is
the order in which names were first wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from equipoise.client.channel import AnyChannel, Listener, PatternChannel, TopicChannel
from equipoise.client.codec import decode_name, encode_request
from equipoise.client.connection import Connection
from equipoise.client.refusals import is_unknown_command
from equipoise.errors import DeniedError, EquipoiseError, ProtocolError, RefusedError

_SUBSCRIBE = (b"subscribe", b"psubscribe")
_UNSUBSCRIBE = (b"unsubscribe", b"punsubscribe")
_POSITIONED = b"eq."


class _Ask:
    """A request under way for one channel. Stale once the table holds another channel under that name."""

    __slots__ = ("channel", "name", "refuse", "verb")

    def __init__(self, verb: bytes, channel: AnyChannel, refuse: Callable[[RefusedError], None]) -> None:
        self.verb = verb
        self.channel = channel
        self.name = channel.name
        self.refuse = refuse


class Channels:
    """Owned by one link."""

    def __init__(self, pattern_topics_max: int) -> None:
        self._pattern_topics_max = pattern_topics_max
        self._topics: dict[bytes, TopicChannel] = {}
        self._patterns: dict[bytes, PatternChannel] = {}
        self._connection: Connection | None = None
        # Why no name can be wanted any more, once that is so.
        self._end: EquipoiseError | None = None
        self._handlers: dict[object, Callable[[Connection, list[object]], None]] = {
            b"eq.message": self._on_message,
            b"eq.pmessage": self._on_pattern_message,
            b"eq.opened": self._on_opened,
            b"message": self._on_plain_message,
            b"pmessage": self._on_plain_pattern_message,
        }
        for verb in _SUBSCRIBE:
            self._handlers[verb] = self._handlers[_POSITIONED + verb] = self._on_subscribed
        for verb in _UNSUBSCRIBE:
            self._handlers[verb] = self._handlers[_POSITIONED + verb] = self._on_unsubscribed

    # What the local subscriptions want.

    def want(self, name: bytes, listener: Listener, *, is_pattern: bool) -> None:
        if self._end is not None:
            raise self._end.with_traceback(None)
        table = self._table(is_pattern)
        channel = table.get(name)
        if channel is not None:
            channel.add(listener)
            return
        channel = PatternChannel(name, self._pattern_topics_max) if is_pattern else TopicChannel(name)
        table[name] = channel
        channel.add(listener)
        if self._connection is not None:
            self._subscribe(self._connection, channel)

    def leave(self, name: bytes, listener: Listener, *, is_pattern: bool) -> None:
        """Does nothing if the listener has already left or been ended."""
        table = self._table(is_pattern)
        channel = table.get(name)
        if channel is None or channel.listeners.pop(listener, None) is None or channel.listeners:
            return
        del table[name]
        if self._connection is not None:
            self._request(self._connection, _UNSUBSCRIBE[is_pattern], channel, _ignore)

    def _table(self, is_pattern: bool) -> dict[bytes, AnyChannel]:
        return cast("dict[bytes, AnyChannel]", self._patterns if is_pattern else self._topics)

    def _all(self) -> list[AnyChannel]:
        return [*self._topics.values(), *self._patterns.values()]

    # The connection under them.

    def attach(self, connection: Connection) -> None:
        self._connection = connection
        for channel in self._all():
            self._subscribe(connection, channel)

    def detach(self) -> None:
        self._connection = None
        for channel in self._all():
            channel.is_live = False

    def end(self, error: EquipoiseError, *, is_clean: bool) -> None:
        """End every subscription, with the error unless this is clean; refuse new ones with it."""
        self._end = error
        self._connection = None
        for channel in self._all():
            self._end_channel(channel, None if is_clean else error)

    def _end_channel(self, channel: AnyChannel, error: EquipoiseError | None) -> None:
        table = self._table(channel.is_pattern)
        if table.get(channel.name) is channel:
            del table[channel.name]
        listeners, channel.listeners = channel.listeners, {}
        for listener in listeners:
            listener.on_end(error)

    def _subscribe(self, connection: Connection, channel: AnyChannel) -> None:
        def refuse(error: RefusedError) -> None:
            self._on_refused(connection, channel, error)

        self._request(connection, _SUBSCRIBE[channel.is_pattern], channel, refuse)

    def _request(
        self, connection: Connection, verb: bytes, channel: AnyChannel, refuse: Callable[[RefusedError], None]
    ) -> None:
        if connection.has_positions:
            verb = _POSITIONED + verb
        connection.owed.add(_Ask(verb, channel, refuse))
        connection.send(encode_request(verb.upper(), channel.name))

    def _on_refused(self, connection: Connection, channel: AnyChannel, error: RefusedError) -> None:
        if self._table(channel.is_pattern).get(channel.name) is not channel:
            return
        if is_unknown_command(error) and "EQ." in error.text.upper():
            connection.has_positions = False
            self._subscribe(connection, channel)
            return
        self._end_channel(channel, error)

    # What the peer pushes.

    def on_push(self, connection: Connection, push: list[object]) -> None:
        handler = self._handlers.get(push[0])
        if handler is not None:
            try:
                handler(connection, push)
            except (IndexError, TypeError) as error:
                raise ProtocolError(f"a push of another shape than it should have: {push[:4]!r}") from error

    def _on_message(self, connection: Connection, push: list[object]) -> None:
        channel = self._topics.get(cast(bytes, push[1]))
        if channel is not None and channel.is_live:
            channel.receive(cast(int, push[2]), cast(int, push[3]), cast("list[bytes]", push[4:]))

    def _on_pattern_message(self, connection: Connection, push: list[object]) -> None:
        channel = self._patterns.get(cast(bytes, push[1]))
        if channel is not None and channel.is_live:
            epoch, n, payloads = cast(int, push[3]), cast(int, push[4]), cast("list[bytes]", push[5:])
            channel.receive(cast(bytes, push[2]), epoch, n, payloads)

    def _on_opened(self, connection: Connection, push: list[object]) -> None:
        channel = self._topics.get(cast(bytes, push[1]))
        if channel is not None and channel.is_live:
            channel.open(cast(int, push[2]), cast(int, push[3]), cast(int, push[4]))

    def _on_plain_message(self, connection: Connection, push: list[object]) -> None:
        channel = self._topics.get(cast(bytes, push[1]))
        if channel is not None and channel.is_live:
            channel.receive_plain(cast(bytes, push[2]))

    def _on_plain_pattern_message(self, connection: Connection, push: list[object]) -> None:
        channel = self._patterns.get(cast(bytes, push[1]))
        if channel is not None and channel.is_live:
            channel.receive_plain(cast(bytes, push[2]), cast(bytes, push[3]))

    def _on_subscribed(self, connection: Connection, push: list[object]) -> None:
        ask = connection.owed.confirm(cast(bytes, push[0]), push[1])
        if not isinstance(ask, _Ask):
            raise ProtocolError(f"a subscription was confirmed that nobody asked for: {push[1]!r}")
        channel = ask.channel
        if self._table(channel.is_pattern).get(channel.name) is not channel:
            return
        if isinstance(channel, PatternChannel):
            channel.confirm()
        elif push[0] == b"eq.subscribe":
            channel.confirm(cast(int, push[3]), cast(int, push[4]))
        else:
            channel.confirm_plain()

    def _on_unsubscribed(self, connection: Connection, push: list[object]) -> None:
        verb, name = cast(bytes, push[0]), cast(bytes, push[1])
        if connection.owed.confirm(verb, name) is not None:
            return
        # Nobody asked: the hub has taken the name away.
        channel = self._table(verb.endswith(_UNSUBSCRIBE[True])).get(name)
        if channel is not None:
            self._end_channel(channel, _revoked(name))


def _ignore(error: RefusedError) -> None:
    """A peer that refuses to unsubscribe goes on sending; what comes is for nobody and is dropped."""


def _revoked(name: bytes) -> DeniedError:
    return DeniedError(
        f"NOPERM the hub ended the subscription to {decode_name(name)!r}: the permission was revoked; ask "
        "whoever runs the hub to allow it in the hub's users file, or log in as another user"
    )
