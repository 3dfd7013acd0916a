"""The public API of the client: publish and subscribe over links that reconnect.

    async with equipoise.connect("equipoise://localhost") as bus:
        await bus.publish("scores", "3:1")

routing/ decides which link serves a topic.
"""

from __future__ import annotations

import random
import ssl
from types import TracebackType
from typing import Any, Self, overload

from equipoise.client.durable_subscription import DurableSubscription, RetryOptions, Start, spell_start
from equipoise.client.events import Receipt
from equipoise.client.routing.router import ClientRouter
from equipoise.client.settings import ClientSettings, make_settings
from equipoise.client.subscription import Subscription
from equipoise.client.url import parse_address, parse_url
from equipoise.client.wire.codec import Name, Payload, encode_name, encode_payload, encode_publish
from equipoise.client.wire.dial import ClientDialer, make_tls
from equipoise.client.wire.log_link import LogLink
from equipoise.coordinates import Coordinate
from equipoise.errors import AddressError, ClosedError, EquipoiseError, LimitError, MisuseError
from equipoise.stream.position import Position


def connect(
    url: str,
    *,
    settings: ClientSettings | None = None,
    tls: ssl.SSLContext | None = None,
    rng: random.Random | None = None,
    **overrides: Any,
) -> Bus:
    """A bus for the hub at `url`; it connects when it is entered with `async with`.

    With several hosts in the URL, the first that replies is used, and again after each loss of its hub.

    `overrides` are fields of ClientSettings, on top of `settings`. `tls` replaces the context of the tls_* settings.
    `rng` determines the jitter of reconnections and the names of links, so no two buses may have equal sequences: a hub
    would treat them as one client. Raises AddressError and SettingsError.
    """
    parsed = parse_url(url)
    chosen = make_settings(settings, overrides)
    if tls is not None and not parsed.is_tls:
        raise MisuseError("a TLS context was given for a URL without TLS; write equipoises:// to encrypt")
    rng = rng or random.SystemRandom()
    dialer = ClientDialer(parsed, chosen, tls or make_tls(parsed, chosen))
    return Bus(ClientRouter(dialer, rng), chosen, rng)


class Bus:
    """Made by `connect`. Belongs to one event loop; any of its tasks may use it."""

    def __init__(self, routing: ClientRouter, settings: ClientSettings, rng: random.Random) -> None:
        self._routing = routing
        self._rng = rng
        # For acks of durable subscriptions; None until there is one.
        self._log_commands: LogLink | None = None
        self._durable: list[DurableSubscription] = []
        self._publishing = routing.publishing
        self._settings = settings
        self._is_entered = False
        self._is_closed = False

    @property
    def is_connected(self) -> bool:
        """Whether a hub of the URL is connected now. The connection may be lost at any time."""
        return self._routing.base.connection is not None

    @property
    def coordinate(self) -> Coordinate | None:
        """The network coordinate of this client; `distance_s` of two estimates the round trip between them.

        None while it is unknown, and if `coordinate_enabled` is False.
        """
        agent = self._routing.coordinate_agent
        return None if agent is None else agent.coordinate

    async def use_gateway(self, address: str | None, *, timeout_s: float | None = None) -> bool:
        """Use the gateway at `host:port` for the network from now on; None: no gateway.

        The client's coordinate is then the gateway's, with the round trip to it added; the hubs in use receive it at
        once. Returns whether the gateway has replied in time; if not, the client retries. Raises AddressError.
        """
        self._check_open()
        if address is not None and parse_address(address.encode()) is None:
            raise AddressError(f"{address!r} is not the address of a gateway; write it like host:6390")
        agent = self._routing.coordinate_agent
        if agent is None:
            raise MisuseError(
                "this client has no coordinate; connect with coordinate_enabled=True to use a gateway"
            )
        agent.use_gateway(address)
        return address is None or await agent.wait_guided(address, self._patience_s(timeout_s))

    async def __aenter__(self) -> Self:
        if self._is_entered:
            raise MisuseError("a bus can be entered once; call connect() again")
        self._is_entered = True
        try:
            await self._routing.open()
        except BaseException:
            self._is_closed = True
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
        else:
            # A program that fails or is cancelled does not wait for receipts; queued publishes are still sent.
            self._is_closed = True
            await self._close()

    async def close(self) -> None:
        """Wait a bounded time for the last receipts, end all subscriptions cleanly, disconnect.

        Raises the first failure of a publish without receipt that no flush has reported, after closing.
        """
        if self._is_closed:
            return
        self._is_closed = True
        failure: EquipoiseError | None = None
        try:
            if self._is_entered:
                await self._routing.flush(self._settings.close_timeout_s, is_last=True)
        except EquipoiseError as error:
            failure = error
        finally:
            await self._close()
        if failure is not None:
            raise failure

    async def _close(self) -> None:
        for subscription in self._durable:
            await subscription.close()
        if self._log_commands is not None:
            self._log_commands.close()
        await self._routing.close()

    async def publish(self, topic: Name, payload: Payload, *, timeout_s: float | None = None) -> Receipt:
        """Publish and wait for the receipt. Waits for room in the window, and for a reconnection, in order.

        While the topic is above its rate limit the time-out is paused; the hub rejects messages that wait too long.
        Raises LimitError, RefusedError (DeniedError if it is about permission), DisconnectedError or
        BackloggedError if it was not sent in time, UncertainError if it was sent and no receipt came. When
        cancelled, the message may or may not have been sent.

        A message to a durable topic is resent, within the time-out, until there is a receipt, and is stored once. The
        receipt then has its position and its id.
        """
        name, data = encode_name(topic), self._encode(payload)
        self._check_open()
        patience_s = self._patience_s(timeout_s)
        if self._routing.numbered.takes(name):
            return _receipt(await self._routing.numbered.submit(name, data, patience_s))
        frame = encode_publish(name, data)
        return _receipt(await self._publishing.submit(name, frame, len(data), patience_s))

    def publish_nowait(self, topic: Name, payload: Payload) -> None:
        """Publish without receipt. The next `flush` or `close` raises later errors.

        Raises LimitError, DisconnectedError without a connection, BackloggedError when the window is full.
        """
        name, data = encode_name(topic), self._encode(payload)
        self._check_open()
        if self._routing.numbered.takes(name):
            self._routing.numbered.submit_nowait(name, data)
            return
        self._publishing.submit_nowait(name, encode_publish(name, data), len(data))

    async def flush(self, *, timeout_s: float | None = None) -> None:
        """Wait until the hubs have acknowledged everything published so far.

        While a topic is above its rate limit the time-out is paused.
        Raises the first failure among publishes without receipt since the last flush.
        """
        self._check_open()
        await self._routing.flush(self._patience_s(timeout_s))

    @overload
    def subscribe(self, *topics: Name, where: str | None = None) -> Subscription: ...
    @overload
    def subscribe(
        self,
        *topics: Name,
        durable: str,
        group: str | None = None,
        start: Start = "end",
        ack_timeout_s: float | None = None,
        deliveries_max: int | None = None,
        dead_letter: str | None = None,
    ) -> DurableSubscription: ...
    def subscribe(
        self,
        *topics: Name,
        where: str | None = None,
        durable: str | None = None,
        group: str | None = None,
        start: Start = "end",
        ack_timeout_s: float | None = None,
        deliveries_max: int | None = None,
        dead_letter: str | None = None,
    ) -> Subscription | DurableSubscription:
        """Subscribe to topics by name; see Subscription.

        `where` is a filter, such as `symbol = 'YHOO' and volume > 150`: only matching messages are delivered. The hub
        rejects an invalid filter with a RefusedError when the subscription starts.

        `durable` names a durable subscription to one topic: it continues at its last position, in any process; see
        DurableSubscription. Several subscribers with different names share the messages of a `group`. `start` is the
        beginning of a new one: "beginning", "end", an id, a position (a number) or a time. A message that is not
        acknowledged within `ack_timeout_s` is delivered again; after `deliveries_max` deliveries it moves to the topic
        `dead_letter`, with the reason.
        """
        retries = RetryOptions(ack_timeout_s, deliveries_max, dead_letter)
        if where is not None and durable is not None:
            raise MisuseError(
                "a durable subscription has no filter: its position counts all messages of the topic"
            )
        if where is not None and not where.strip():
            raise MisuseError("the filter is empty; omit `where` to get all messages")
        if durable is not None:
            return self._subscribe_durably(topics, durable, group, start, retries)
        if group is not None or start != "end" or retries != RetryOptions():
            raise MisuseError("group, start and retries need a durable subscription: name it with durable=")
        return self._subscribe(topics, is_pattern=False, where=b"" if where is None else encode_name(where))

    def _subscribe_durably(
        self, topics: tuple[Name, ...], name: str, group: str | None, start: Start, retries: RetryOptions
    ) -> DurableSubscription:
        if len(topics) != 1:
            raise MisuseError("a durable subscription has one topic; subscribe to each separately")
        if not name or group == "":
            raise MisuseError("the name of a durable subscription, or of its group, must not be empty")
        if (retries.deliveries_max is None) != (retries.dead_letter is None):
            raise MisuseError(
                "deliveries_max and dead_letter need each other: name the topic for failed messages"
            )
        self._check_open()
        if self._log_commands is None:
            self._log_commands = self._routing.make_log_link()
        subscription = DurableSubscription(
            self._routing.make_log_link(),
            self._log_commands,
            self._settings,
            self._rng,
            topic=encode_name(topics[0]),
            name=encode_name(name),
            group=None if group is None else encode_name(group),
            start=spell_start(start),
            retries=retries,
        )
        self._durable = [each for each in self._durable if not each.is_over] + [subscription]
        return subscription

    def psubscribe(self, *patterns: Name) -> Subscription:
        """Subscribe to every topic, present or future, that matches a pattern such as `game.*`."""
        return self._subscribe(patterns, is_pattern=True)

    def _subscribe(self, names: tuple[Name, ...], *, is_pattern: bool, where: bytes = b"") -> Subscription:
        if not names:
            raise MisuseError("name at least one topic or pattern to subscribe to")
        encoded = tuple(encode_name(name) for name in names)
        self._check_open()
        channels = self._routing.channels
        return Subscription(channels, encoded, is_pattern=is_pattern, settings=self._settings, where=where)

    def _check_open(self) -> None:
        if not self._is_entered:
            raise MisuseError(
                "the bus is not connected yet; use it inside `async with equipoise.connect(…) as bus:`"
            )
        if self._is_closed:
            raise ClosedError("the bus is closed; call connect() again")

    def _encode(self, payload: Payload) -> bytes:
        data = encode_payload(payload)
        bytes_max = self._settings.payload_bytes_max
        if len(data) > bytes_max:
            raise LimitError(
                f"the payload has {len(data)} bytes, over payload_bytes_max = {bytes_max}; "
                "split it, or raise the limit here and on the hub"
            )
        return data

    def _patience_s(self, timeout_s: float | None) -> float:
        return self._settings.request_timeout_s if timeout_s is None else timeout_s


def _receipt(reply: object) -> Receipt:
    """Four words for a tagged message: see publishing.py; five from a durable topic."""
    words: list[Any] = reply if isinstance(reply, list) else [None, 0, 0, reply]
    receivers = words[3] if isinstance(words[3], int) else 0
    if len(words) < 5 or not words[2]:
        return Receipt(receivers)
    return Receipt(receivers, Position(words[1], words[2]), None if words[4] is None else words[4].decode())
