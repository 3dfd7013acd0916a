"""Publish each topic over one link at a time, so that a publisher is never overtaken by itself.

A line holds what is to be known of one topic: the connection that its last messages went to (its *way*), and the link
that the next ones are to go to. As long as the two are the same, publishing costs nothing more than a look. When they
are not, the topic's messages wait, and no other's:

    the way is up                  its hub is asked whether all that it took has a position (EQ.SETTLE)
    it is lost, same hub again     nothing: the hub has ended the former connection before it took the new one
    it is lost, another hub        that hub is asked to have the former connection ended, and to say when all that came
                                   over it has a position, or that its hub is dead (EQ.SEVER)

Then what waited is sent the new way. A hub that knows neither question is a plain Redis, and nothing is waited for.

A topic with lanes has several streams, and another hub may give its messages to another one, under plans that this
client has not heard of. So the answer to EQ.SETTLE names the stream and the position that was reached there, and the
first message of the new way is tagged with it (EQ.AFTER): whoever gets both streams sees it after that.

Always true: messages of a topic are sent in the order in which they were published; at most a window of publishes
without receipt waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from equipoise.client.settings import ClientSettings
from equipoise.client.wire.codec import encode_request, with_position
from equipoise.client.wire.connection import Connection
from equipoise.client.wire.link import Link
from equipoise.client.wire.requests import Courtesy, NowaitLosses, NowaitTicket, Question, Request, Ticket
from equipoise.errors import BackloggedError, DisconnectedError, EquipoiseError, UncertainError, WorldError

_PING = encode_request(b"PING")
TAGS_MAX = 8
"""Streams whose positions are sent along: the latest of them are all that can matter."""


class Line:
    """One topic. Owned by Publishing."""

    __slots__ = ("is_due", "link", "question", "tags", "topic", "used_at", "waiting", "way", "way_link")

    def __init__(self, topic: bytes, link: Link) -> None:
        self.topic = topic
        # Where the next messages are to go.
        self.link = link
        # Where the last ones went; None if that does not matter any more.
        self.way: Connection | None = None
        self.way_link = link
        # What was asked so that the line may change its way: what is published waits for the answer.
        self.question: object = None
        self.waiting: dict[Request, None] = {}
        # By stream, the positions reached in those used before, the latest last; and whether the next message must say.
        self.tags: dict[bytes, tuple[int, int]] = {}
        self.is_due = False
        self.used_at = 0.0


class Publishing:
    """Owned by one bus. `link_for` says which link serves a topic that is published to for the first time."""

    def __init__(
        self, settings: ClientSettings, losses: NowaitLosses, link_for: Callable[[bytes], Link], base: Link
    ) -> None:
        self._messages_max = settings.in_flight_messages_max
        self._bytes_max = settings.in_flight_bytes_max
        self._losses = losses
        self._link_for = link_for
        self._base = base
        self._lines: dict[bytes, Line] = {}
        self._lines_max = settings.routes_max
        # Who waits for a former connection to be ended, by that connection.
        self._severing: dict[Connection, tuple[Question, list[Line]]] = {}
        # Publishes without receipt that wait in lines.
        self._held_messages = 0
        self._held_bytes = 0
        # When `expire` was last called: near enough to when anything was used.
        self._now = 0.0
        # Why nothing will ever be sent again, once that is so.
        self._end: EquipoiseError | None = None

    def __contains__(self, topic: bytes) -> bool:
        return topic in self._lines

    @property
    def topics(self) -> Iterable[bytes]:
        return self._lines.keys()

    # What the bus asks for.

    async def submit(self, topic: bytes, frame: bytes, size: int, timeout_s: float) -> object:
        """Send in turn and return the reply. When cancelled, what has been sent stays sent."""
        if self._end is not None:
            raise self._end.with_traceback(None)
        ticket = Ticket(frame, size, asyncio.get_running_loop().create_future())
        line = self._lines.get(topic) or self._add(topic)
        line.used_at = self._now
        self._put(line, ticket)
        try:
            async with asyncio.timeout(timeout_s):
                return await ticket.future
        except TimeoutError:
            if ticket.future.cancelled():
                raise _late(ticket, line.link, timeout_s) from None
            # After a pause of this program the answer and the time-out may both be there: the answer counts.
            return ticket.future.result()
        finally:
            if not ticket.is_sent:
                self._withdraw(ticket, line, line.link)

    def submit_nowait(self, topic: bytes, frame: bytes, size: int) -> None:
        line = self._lines.get(topic) or self._add(topic)
        line.used_at = self._now
        outbox = line.link.outbox
        way = outbox.connection
        if way is None:
            raise self._end or DisconnectedError(
                "there is no connection to a hub now; publish() waits for one, publish_nowait() cannot"
            )
        if line.way is way and not line.waiting:
            outbox.put_nowait(frame, size)
            return
        if self._held_messages >= self._messages_max or self._held_bytes + size > self._bytes_max:
            raise BackloggedError(
                f"{self._held_messages} publishes ({self._held_bytes} bytes) wait while their topics change hubs; "
                "await flush() or use publish(), which waits by itself"
            )
        ticket = NowaitTicket(frame, size, self._losses)
        self._hold(ticket)
        self._put(line, ticket)

    async def flush(self, links: Sequence[Link], timeout_s: float) -> None:
        """Wait until everything submitted so far is answered; raise the first failure without receipt."""
        loop = asyncio.get_running_loop()
        # Answers come in order, so the answer to a ping says that all before it have come.
        pings: list[tuple[Ticket, Line | None, Link]] = []
        for link in links:
            if link.connection is not None and link.outbox.is_busy:
                pings.append((Ticket(_PING, 0, loop.create_future()), None, link))
                link.outbox.put(pings[-1][0])
        for line in self._lines.values():
            if line.waiting:
                pings.append((Ticket(_PING, 0, loop.create_future()), line, line.link))
                self._put(line, pings[-1][0])
        try:
            await self._answers_to(pings, timeout_s)
        except UncertainError as error:
            raise self._losses.take() or error from None
        loss = self._losses.take()
        if loss is not None:
            raise loss

    async def _answers_to(self, pings: list[tuple[Ticket, Line | None, Link]], timeout_s: float) -> None:
        failures: list[EquipoiseError] = []
        try:
            if pings:
                await asyncio.wait([ticket.future for ticket, _, _ in pings], timeout=timeout_s)
        finally:
            for ticket, line, link in pings:
                if ticket.future.cancel():
                    self._withdraw(ticket, line, link)
                    failures.append(_late(ticket, link, timeout_s))
                elif isinstance(error := ticket.future.exception(), EquipoiseError):
                    failures.append(error)
        if failures:
            raise failures[0]

    def _withdraw(self, ticket: Ticket, line: Line | None, link: Link) -> None:
        link.outbox.withdraw(ticket)
        if line is not None:
            line.waiting.pop(ticket, None)
            line.way_link.outbox.withdraw(ticket)

    # Lines.

    def _add(self, topic: bytes) -> Line:
        if len(self._lines) >= self._lines_max:
            self._forget_first()
        line = self._lines[topic] = Line(topic, self._link_for(topic))
        line.way, line.way_link = line.link.connection, line.link
        return line

    def _forget_first(self) -> None:
        for topic, line in self._lines.items():
            if not line.waiting:
                del self._lines[topic]
                return

    def _put(self, line: Line, request: Request) -> None:
        outbox = line.link.outbox
        request.line = line
        if line.way is not None and line.way is outbox.connection and not line.waiting:
            outbox.put(request)
        else:
            line.waiting[request] = None
            self._advance(line)

    def _advance(self, line: Line) -> None:
        """Bring the line to the link that it is to use, as far as that is possible now."""
        connection, way = line.link.connection, line.way
        if connection is not None and way is connection:
            # Back to where it was, whatever was asked meanwhile.
            line.question = None
        if line.question is not None or connection is None:
            return
        if way is None and line.is_due and not line.waiting:
            # Until there is a message to tag.
            return
        if way is None or way is connection or way.is_severed:
            self._arrive(line, connection)
        elif not way.lost.done():
            self._settle(line, way)
        elif (way.link, way.hub) == (connection.link, connection.hub):
            self._arrive(line, connection)
        else:
            self._sever(line, way, connection)

    def _arrive(self, line: Line, connection: Connection) -> None:
        line.way, line.way_link = connection, line.link
        waiting, line.waiting = line.waiting, {}
        for request in waiting:
            self._release(request)
            if not request.is_over:
                if line.is_due:
                    self._tag(line, request)
                line.link.outbox.put(request)

    def _tag(self, line: Line, request: Request) -> None:
        """Say ahead of the message which positions it comes after."""
        frame = with_position(request.frame)
        if frame == request.frame:
            # A ping.
            return
        line.is_due = False
        request.frame = frame
        for stream, (epoch, n) in line.tags.items():
            words = (b"EQ.AFTER", line.topic, stream, b"%d" % epoch, b"%d" % n)
            line.link.outbox.put(Courtesy(encode_request(*words)))

    def _hold(self, request: Request) -> None:
        """A request waits in its line."""
        if isinstance(request, NowaitTicket):
            self._held_messages += 1
            self._held_bytes += request.size

    def _release(self, request: Request) -> None:
        if isinstance(request, NowaitTicket):
            self._held_messages -= 1
            self._held_bytes -= request.size

    def _settle(self, line: Line, way: Connection) -> None:
        def answered(push: list[object] | None) -> None:
            if line.question is question:
                line.question = None
                if push is not None or not way.lost.done():
                    line.way = None
                if push is not None:
                    self._note(line, push)
                self._advance(line)

        frame = encode_request(b"EQ.SETTLE", line.topic)
        line.question = question = Question(frame, (b"eq.settled", line.topic), answered)
        way.expect(question)
        line.way_link.outbox.put(question)

    def _note(self, line: Line, push: list[object]) -> None:
        """Keep the position that was reached in the stream that the old way led to."""
        stream, epoch, n = push[2:5]
        if not isinstance(stream, bytes) or not isinstance(epoch, int) or not isinstance(n, int) or not epoch:
            return
        line.tags.pop(stream, None)
        line.tags[stream] = (epoch, n)
        if len(line.tags) > TAGS_MAX:
            del line.tags[next(iter(line.tags))]
        line.is_due = True

    def _sever(self, line: Line, way: Connection, connection: Connection) -> None:
        if way in self._severing:
            line.question, lines = self._severing[way]
            lines.append(line)
            return
        if self._base.name == way.link:
            # The hub will take nothing more under that name.
            self._base.rename()

        def answered(push: list[object] | None) -> None:
            way.is_severed = push is not None or not connection.lost.done()
            _, lines = self._severing.pop(way)
            for one in lines:
                if one.question is question:
                    one.question = None
                    self._advance(one)

        frame = encode_request(b"EQ.SEVER", way.link, way.hub)
        line.question = question = Question(frame, (b"eq.severed", way.link), answered)
        self._severing[way] = (question, [line])
        connection.expect(question)
        line.link.outbox.put(question)

    # What the routing tells.

    def aim(self, topic: bytes, link: Link) -> bool:
        """Publish the topic over this link from now on, if it is up; whether it is there."""
        line = self._lines[topic]
        if link.connection is not None and line.link is not link:
            line.link = link
            self._advance(line)
        is_there = line.way is link.connection or (line.way is None and line.is_due)
        return line.link is link and line.question is None and is_there

    def on_up(self, link: Link) -> None:
        for line in list(self._lines.values()):
            if line.link is link and (line.waiting or line.way is not None):
                self._advance(line)

    def on_down(self, link: Link, unsent: list[Request], *, is_base: bool) -> None:
        """A link is down: its topics go by the base, which may be down itself, and will be up again."""
        for request in reversed(unsent):
            line = request.line
            if isinstance(line, Line):
                self._hold(request)
                line.waiting = {request: None, **line.waiting}
            else:
                request.fail(UncertainError("the connection was lost before the answer came"))
        for line in list(self._lines.values()):
            if line.link is link:
                line.link = link if is_base else self._base
                if line.waiting or not is_base:
                    self._advance(line)

    @property
    def links_in_use(self) -> set[Link]:
        return {link for line in self._lines.values() for link in (line.link, line.way_link)}

    def expire(self, now: float, before: float) -> None:
        """Forget the topics that were last published to before then."""
        self._now = now
        for topic, line in list(self._lines.items()):
            if line.used_at < before and not line.waiting and line.question is None:
                del self._lines[topic]

    def end(self, error: EquipoiseError, unsent: Iterable[Request]) -> None:
        """Nothing will be sent any more: tell those who wait, and whoever comes."""
        self._end = error
        waiting = [request for line in self._lines.values() for request in line.waiting]
        self._lines.clear()
        for request in (*unsent, *waiting):
            request.fail(error)


def _late(ticket: Ticket, link: Link, timeout_s: float) -> WorldError:
    if ticket.is_sent:
        return UncertainError(
            f"no receipt came within {timeout_s:g} s; the message may or may not have been delivered: "
            "publish it again only if a duplicate does no harm"
        )
    if link.connection is None:
        return DisconnectedError(
            f"no connection to a hub for {timeout_s:g} s, so the message was not sent; "
            "check that the hub runs and can be reached"
        )
    return BackloggedError(
        f"the hub was too slow with receipts for {timeout_s:g} s, so the message was not sent; "
        "publish less at a time"
    )
