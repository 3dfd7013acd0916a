"""Publish each topic over one connection at a time, which keeps the publisher's order.

A topic has a last connection, which its last messages used, and a link for the next ones. While both are the same, the
cost is one comparison per publish. When they differ, the topic's messages wait, and no other's:

    the last connection is up      its hub replies once all messages that it received have positions (EQ.SETTLE)
    it is lost, same hub again     no query: the hub ends the former connection before it accepts the new one
    it is lost, another hub        that hub has the former connection ended, and replies once all messages over it have
                                   positions, or its hub is dead (EQ.SEVER)

Then the waiting messages are sent over the new link. A hub that knows neither command is a plain Redis: no waiting.

A topic with lanes has several streams, and another hub may put its messages into another stream, under a plan that this
client has not received. So the reply to EQ.SETTLE has the stream and its last position, and the first message over the
new link is tagged with it (EQ.AFTER): subscribers to both streams receive it after that position. The reply to EQ.SEVER
has no position, because a dead hub has none: so the first message follows the last positions of all of the topic's
streams, as known to the next hub.

While a topic is above its rate limit its hub delays its publishes (throttle.py). Further ones wait here, and the topic
does not change hubs.

Always true: messages of a topic are sent in the order in which they were published; at most a window of publishes
without receipt waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from equipoise.client.settings import ClientSettings
from equipoise.client.throttle import TopicThrottle
from equipoise.client.topic_publisher import TopicPublisher
from equipoise.client.wire.codec import encode_request, with_position
from equipoise.client.wire.connection import Connection
from equipoise.client.wire.link import Link
from equipoise.client.wire.requests import (
    NowaitLosses,
    NowaitTicket,
    Push,
    QueryRequest,
    Request,
    SyncRequest,
    Ticket,
)
from equipoise.errors import BackloggedError, DisconnectedError, EquipoiseError, UncertainError, WorldError

PING = encode_request(b"PING")


class Publishing:
    """Owned by one bus. `link_for` returns the link of a topic at its first publish."""

    def __init__(
        self, settings: ClientSettings, losses: NowaitLosses, link_for: Callable[[bytes], Link], base: Link
    ) -> None:
        self._messages_max = settings.in_flight_messages_max
        self._bytes_max = settings.in_flight_bytes_max
        self.losses = losses
        self._link_for = link_for
        self._base = base
        self._publishers: dict[bytes, TopicPublisher] = {}
        self._publishers_max = settings.routes_max
        # By former connection, the publishers that wait for its end.
        self._severing: dict[Connection, tuple[QueryRequest, list[TopicPublisher]]] = {}
        # Publishes without receipt that wait in publishers.
        self._held_messages = 0
        self._held_bytes = 0
        # The time of the last `expire`: accurate enough as the time of a publish.
        self._now = 0.0
        # The error of all later calls, once publishing has ended.
        self._end: EquipoiseError | None = None

    @property
    def publishers(self) -> Iterable[TopicPublisher]:
        return self._publishers.values()

    def __contains__(self, topic: bytes) -> bool:
        return topic in self._publishers

    @property
    def topics(self) -> Iterable[bytes]:
        return self._publishers.keys()

    # Calls of the bus.

    async def submit(self, topic: bytes, frame: bytes, size: int, timeout_s: float) -> object:
        """Send in order and return the reply. A cancelled call does not withdraw a sent message."""
        if self._end is not None:
            raise self._end.with_traceback(None)
        ticket = Ticket(frame, size, asyncio.get_running_loop().create_future())
        publisher = self._publishers.get(topic) or self._add(topic)
        publisher.used_at = self._now
        try:
            async with asyncio.timeout(timeout_s) as ticket.clock:
                self.put(publisher, ticket)
                return await ticket.future
        except TimeoutError:
            if ticket.future.cancelled():
                raise late(ticket, publisher.link, timeout_s) from None
            # After a pause of this program the reply and the time-out may both be due: the reply counts.
            return ticket.future.result()
        finally:
            if not ticket.is_sent:
                self.withdraw(ticket, publisher, publisher.link)

    def submit_nowait(self, topic: bytes, frame: bytes, size: int) -> None:
        publisher = self._publishers.get(topic) or self._add(topic)
        publisher.used_at = self._now
        outbox = publisher.link.outbox
        connection = outbox.connection
        if connection is None:
            raise self._end or DisconnectedError(
                "there is no connection to a hub now; publish() waits for one, publish_nowait() cannot"
            )
        if publisher.last_connection is connection and not publisher.waiting and publisher.throttle is None:
            outbox.put_nowait(frame, size)
            return
        if self._held_messages >= self._messages_max or self._held_bytes + size > self._bytes_max:
            raise BackloggedError(
                f"{self._held_messages} publishes ({self._held_bytes} bytes) wait while their topics change hubs, "
                "or are above their rate limits; "
                "await flush(), or use publish(), which waits"
            )
        ticket = NowaitTicket(frame, size, self.losses)
        self._hold(ticket)
        self.put(publisher, ticket)

    def put_back(self, topic: bytes, request: Request) -> None:
        """A message to a topic that is not durable: send it in order."""
        request.publisher = publisher = self._publishers.get(topic) or self._add(topic)
        publisher.waiting[request] = None
        self._hold(request)
        self._advance(publisher)

    def take_back(self, topic: bytes, ticket: Ticket) -> None:
        publisher = self._publishers.get(topic)
        if publisher is not None:
            self.withdraw(ticket, publisher, publisher.link)

    def withdraw(self, ticket: Ticket, publisher: TopicPublisher | None, link: Link) -> None:
        link.outbox.withdraw(ticket)
        if publisher is not None:
            publisher.waiting.pop(ticket, None)
            publisher.last_link.outbox.withdraw(ticket)

    # Lines.

    def _add(self, topic: bytes) -> TopicPublisher:
        if len(self._publishers) >= self._publishers_max:
            self._forget_first()
        publisher = self._publishers[topic] = TopicPublisher(topic, self._link_for(topic))
        publisher.last_connection, publisher.last_link = publisher.link.connection, publisher.link
        return publisher

    def _forget_first(self) -> None:
        for topic, publisher in self._publishers.items():
            if not publisher.waiting and publisher.throttle is None:
                del self._publishers[topic]
                return

    def put(self, publisher: TopicPublisher, request: Request) -> None:
        outbox = publisher.link.outbox
        request.publisher = publisher
        if (
            publisher.last_connection is not None
            and publisher.last_connection is outbox.connection
            and not publisher.waiting
            and publisher.throttle is None
        ):
            outbox.put(request)
        else:
            publisher.waiting[request] = None
            if publisher.throttle is not None:
                request.stand_still()
            self._advance(publisher)

    def _advance(self, publisher: TopicPublisher) -> None:
        """Switch the publisher to its wanted link, as far as that is possible now."""
        if publisher.throttle is not None and not self._pass_throttle(publisher, publisher.throttle):
            return
        connection, last = publisher.link.connection, publisher.last_connection
        if connection is not None and last is connection:
            # The wanted link is the last one again: the reply to the query does not matter.
            publisher.question = None
        if publisher.question is not None or connection is None:
            return
        if last is None and publisher.is_tag_due and not publisher.waiting:
            # Until there is a message to tag.
            return
        if last is not None and last is not connection and last.is_severed_by_hub:
            publisher.leave_unknown()
            self._advance(publisher)
        elif last is None or last is connection or last.is_severed:
            self._arrive(publisher, connection)
        elif not last.lost.done():
            self._settle(publisher, last)
        elif (last.link, last.hub) == (connection.link, connection.hub):
            self._arrive(publisher, connection)
        else:
            self._sever(publisher, last, connection)

    def _arrive(self, publisher: TopicPublisher, connection: Connection) -> None:
        publisher.last_connection, publisher.last_link = connection, publisher.link
        waiting, publisher.waiting = publisher.waiting, {}
        for request in waiting:
            self._send(publisher, request)

    def _send(self, publisher: TopicPublisher, request: Request) -> None:
        """Send the publisher's waiting messages."""
        self._release(request)
        if not request.is_over:
            request.go_on()
            if publisher.is_tag_due:
                self._tag(publisher, request)
            publisher.link.outbox.put(request)

    # A topic above its rate limit.

    def throttle(self, connection: Connection, topic: bytes, ahead: int) -> None:
        """The hub delays a publish to the topic: further ones wait here, except `ahead` of them."""
        publisher = self._publishers.get(topic)
        if publisher is None or publisher.last_connection is not connection:
            return
        if publisher.throttle is None:
            publisher.throttle = TopicThrottle(connection, topic)
            for request in publisher.waiting:
                request.stand_still()
        publisher.throttle.ahead = ahead

    def go_on(self, topic: bytes) -> None:
        """The hub has replied to a delayed publish."""
        publisher = self._publishers.get(topic)
        if publisher is not None and publisher.throttle is not None:
            self._advance(publisher)

    def _pass_throttle(self, publisher: TopicPublisher, throttle: TopicThrottle) -> bool:
        """Send what may wait at the hub; whether none waits there any more, so that the publisher is free."""
        is_there = publisher.link.connection is publisher.last_connection is throttle.connection
        to_send = throttle.room if is_there and publisher.waiting else 0
        if to_send:
            for request in list(publisher.waiting)[:to_send]:
                del publisher.waiting[request]
                self._send(publisher, request)

            def answered() -> None:
                throttle.is_counting = False
                if publisher.throttle is throttle:
                    self._advance(publisher)

            # The reply shows how many of them wait.
            throttle.is_counting = True
            publisher.link.outbox.put(SyncRequest(PING, answered))
        if throttle.is_on or (is_there and publisher.waiting):
            return False
        publisher.throttle = None
        for request in publisher.waiting:
            request.go_on()
        return True

    def _tag(self, publisher: TopicPublisher, request: Request) -> None:
        """Send the positions that the next message follows."""
        if request.frame == PING:
            return
        # A message not sent over an earlier connection has that form already.
        request.frame = with_position(request.frame)
        for tag in publisher.take_tags():
            publisher.link.outbox.put(SyncRequest(tag))

    def _hold(self, request: Request) -> None:
        """A request waits in its publisher."""
        if isinstance(request, NowaitTicket):
            self._held_messages += 1
            self._held_bytes += request.size

    def _release(self, request: Request) -> None:
        if isinstance(request, NowaitTicket):
            self._held_messages -= 1
            self._held_bytes -= request.size

    def _settle(self, publisher: TopicPublisher, last: Connection) -> None:
        def answered(push: Push | None) -> None:
            if publisher.question is question:
                publisher.question = None
                if push is not None or not last.lost.done():
                    publisher.last_connection = None
                if push is not None:
                    publisher.note(push)
                self._advance(publisher)

        frame = encode_request(b"EQ.SETTLE", publisher.topic)
        publisher.question = question = QueryRequest(frame, (b"eq.settled", publisher.topic), answered)
        last.expect(question)
        publisher.last_link.outbox.put(question)

    def _sever(self, publisher: TopicPublisher, last: Connection, connection: Connection) -> None:
        if last in self._severing:
            publisher.question, publishers = self._severing[last]
            publishers.append(publisher)
            return
        if self._base.name == last.link:
            # The hub accepts nothing more under that name.
            self._base.rename()

        def answered(push: Push | None) -> None:
            last.is_severed_by_hub = push is not None
            last.is_severed = push is not None or not connection.lost.done()
            _, publishers = self._severing.pop(last)
            for one in publishers:
                if one.question is question:
                    one.question = None
                    self._advance(one)

        frame = encode_request(b"EQ.SEVER", last.link, last.hub)
        publisher.question = question = QueryRequest(frame, (b"eq.severed", last.link), answered)
        self._severing[last] = (question, [publisher])
        connection.expect(question)
        publisher.link.outbox.put(question)

    # Events of the routing.

    def aim(self, topic: bytes, link: Link) -> bool:
        """Publish the topic over this link from now on, if it is up; whether it has switched."""
        publisher = self._publishers[topic]
        if link.connection is not None and publisher.link is not link:
            publisher.link = link
            self._advance(publisher)
        is_there = publisher.last_connection is link.connection or (
            publisher.last_connection is None and publisher.is_tag_due
        )
        return publisher.link is link and publisher.question is None and is_there

    def on_up(self, link: Link) -> None:
        for publisher in list(self._publishers.values()):
            if publisher.link is link and (publisher.waiting or publisher.last_connection is not None):
                self._advance(publisher)

    def on_down(self, link: Link, unsent: list[Request], *, is_base: bool) -> None:
        """A link is down: its topics use the base, even if that has to reconnect."""
        for request in reversed(unsent):
            publisher = request.publisher
            if isinstance(publisher, TopicPublisher):
                self._hold(request)
                publisher.waiting = {request: None, **publisher.waiting}
                publisher.tag_again()
            else:
                request.fail(UncertainError("the connection was lost before the answer came"))
        for publisher in list(self._publishers.values()):
            if publisher.link is link:
                publisher.link = link if is_base else self._base
                if publisher.waiting or not is_base:
                    self._advance(publisher)

    @property
    def links_in_use(self) -> set[Link]:
        return {
            link for publisher in self._publishers.values() for link in (publisher.link, publisher.last_link)
        }

    def expire(self, now: float, before: float) -> None:
        """Drop the topics without a publish since then."""
        self._now = now
        for topic, publisher in list(self._publishers.items()):
            is_idle = not publisher.waiting and publisher.question is None is publisher.throttle
            if publisher.used_at < before and is_idle:
                del self._publishers[topic]

    def end(self, error: EquipoiseError, unsent: Iterable[Request]) -> None:
        """Publishing has ended: fail waiting publishes, and later calls."""
        self._end = error
        waiting = [request for publisher in self._publishers.values() for request in publisher.waiting]
        self._publishers.clear()
        for request in (*unsent, *waiting):
            request.fail(error)


def late(ticket: Ticket, link: Link, timeout_s: float) -> WorldError:
    if ticket.is_sent:
        return UncertainError(
            f"no receipt within {timeout_s:g} s; the message may or may not have been delivered: "
            "publish it again only if a duplicate does no harm"
        )
    if link.connection is None:
        return DisconnectedError(
            f"no connection to a hub for {timeout_s:g} s, so the message was not sent; "
            "check that the hub runs and can be reached"
        )
    return BackloggedError(
        f"receipts of the hub were missing for {timeout_s:g} s, so the message was not sent; "
        "publish less at a time"
    )
