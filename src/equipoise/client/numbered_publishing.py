"""Publish to durable topics with sequence numbers, so that a resent message is stored once.

Hubs announce that there are durable topics (`eq.durable`). From then on messages to a topic are numbered and sent in
batches, one at a time (EQ.APPEND); a batch is resent, over any hub, until there is a reply or no caller waits for it
any more. If the topic is not durable, its messages are published without numbers, from the first one on.

    batch ──acknowledged──►  receipts                    no reply, UNCERTAIN, TRYAGAIN ──►  the same batch again
          ──NOTDURABLE──►  not a durable topic           given up in doubt, OUTOFORDER ──►  a new run, numbered from 0

Always true:
    one batch per topic is in flight, and earlier messages are in the log before it;
    a batch given up in doubt cannot follow one of a later run: the log rejects a lower run.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from typing import NamedTuple

from equipoise.client.publishing import Publishing, late
from equipoise.client.settings import ClientSettings
from equipoise.client.wire.codec import encode_publish, encode_request
from equipoise.client.wire.error_replies import is_unknown_command
from equipoise.client.wire.link import Link
from equipoise.client.wire.requests import NowaitTicket, Request, Ticket
from equipoise.errors import BackloggedError, EquipoiseError, RefusedError, UncertainError

__all__ = ["NumberedPublishing"]

# Limits of one batch.
BATCH_MESSAGES_MAX, BATCH_BYTES_MAX = 1_000, 1024 * 1024
# Between two attempts with the same batch, in seconds.
_AGAIN_S, _AGAIN_S_MAX = 0.02, 0.5


class _Message(NamedTuple):
    request: Request
    payload: bytes
    # When it is given up.
    due_at: float


class _NumberedTopic:
    """One topic. `worker` sends while there are messages."""

    __slots__ = ("added", "answered", "batch", "name", "next", "problem", "queue", "run", "waiters", "worker")

    def __init__(self, name: bytes) -> None:
        self.name = name
        # Messages in flight, and those that wait behind them.
        self.batch: list[_Message] = []
        self.queue: deque[_Message] = deque()
        self.run = 0
        # The number of the next message in the run.
        self.next = 0
        self.worker: asyncio.Task[None] | None = None
        # Why the present batch was rejected, if it certainly was.
        self.problem: EquipoiseError | None = None
        # Messages added so far, and those with replies; and waiters by the number of replies they need.
        self.added = self.answered = 0
        self.waiters: list[tuple[int, asyncio.Future[None]]] = []


class NumberedPublishing:
    """Owned by one bus."""

    def __init__(
        self, publishing: Publishing, settings: ClientSettings, rng: random.Random, base: Link
    ) -> None:
        self._publishing = publishing
        self._base = base
        self._settings = settings
        self._rng = rng
        # Identifies this client in a log; empty until needed.
        self._publisher = b""
        # The version of the specs announced by hubs; None: no topic is known to be durable.
        self._version: int | None = None
        # Topics that are not durable under these specs.
        self._plain: set[bytes] = set()
        self._topics: dict[bytes, _NumberedTopic] = {}
        # Waiting messages without receipt.
        self._held_messages = self._held_bytes = 0

    def learn(self, version: int) -> None:
        """A hub has announced that there are durable topics, under this version of the specs."""
        if version != self._version:
            self._version = version
            self._plain.clear()
        self._publisher = self._publisher or self._rng.randbytes(8).hex().encode()

    def takes(self, topic: bytes) -> bool:
        return self._version is not None and topic not in self._plain

    async def submit(self, topic: bytes, payload: bytes, timeout_s: float) -> object:
        """Send in order, with retries, and return the receipt. A cancelled call does not withdraw a sent message."""
        loop = asyncio.get_running_loop()
        ticket = Ticket(encode_publish(topic, payload), len(payload), loop.create_future())
        known = self._topics.get(topic) or self._add(topic)
        try:
            async with asyncio.timeout(timeout_s) as ticket.clock:
                self._put(known, _Message(ticket, payload, loop.time() + timeout_s))
                return await ticket.future
        except TimeoutError:
            if ticket.future.cancelled():
                if known.problem is not None and not ticket.is_sent:
                    raise known.problem.with_traceback(None) from None
                raise late(ticket, self._base, timeout_s) from None
            return ticket.future.result()
        finally:
            if not ticket.is_sent:
                self._publishing.take_back(topic, ticket)

    def submit_nowait(self, topic: bytes, payload: bytes) -> None:
        size, settings = len(payload), self._settings
        is_full = self._held_bytes + size > settings.in_flight_bytes_max
        if self._held_messages >= settings.in_flight_messages_max or is_full:
            raise BackloggedError(
                f"{self._held_messages} publishes ({self._held_bytes} bytes) to durable topics have no receipt yet; "
                "await flush(), or use publish(), which waits"
            )
        self._held_messages += 1
        self._held_bytes += size
        ticket = NowaitTicket(encode_publish(topic, payload), size, self._publishing.losses)
        due_at = asyncio.get_running_loop().time() + settings.request_timeout_s
        self._put(self._topics.get(topic) or self._add(topic), _Message(ticket, payload, due_at))

    async def flush(self, timeout_s: float) -> None:
        """Wait until all earlier publishes have replies. Raises UncertainError."""
        waiting: list[asyncio.Future[None]] = []
        for topic in self._topics.values():
            if topic.answered < topic.added:
                waiting.append(asyncio.get_running_loop().create_future())
                topic.waiters.append((topic.added, waiting[-1]))
        if waiting and (await asyncio.wait(waiting, timeout=timeout_s))[1]:
            raise UncertainError(
                f"messages to durable topics have no receipt after {timeout_s:g} s; they may or may not be stored"
            )

    def end(self, error: EquipoiseError) -> list[asyncio.Task[None]]:
        """Stop sending: fail waiting messages; returns the tasks that are still ending."""
        workers = [topic.worker for topic in self._topics.values() if topic.worker is not None]
        for topic in self._topics.values():
            for message in (*topic.batch, *topic.queue):
                message.request.fail(error)
        self._topics.clear()
        self._version = None
        for worker in workers:
            worker.cancel()
        return workers

    # One topic.

    def _add(self, topic: bytes) -> _NumberedTopic:
        known = self._topics[topic] = _NumberedTopic(topic)
        return known

    def _put(self, topic: _NumberedTopic, message: _Message) -> None:
        topic.queue.append(message)
        topic.added += 1
        if topic.worker is None:
            work = self._serve(topic)
            topic.worker = asyncio.get_running_loop().create_task(work, name="equipoise-numbered")

    async def _serve(self, topic: _NumberedTopic) -> None:
        # All messages of this turn of the loop form one batch.
        await asyncio.sleep(0)
        while topic.queue:
            self._next_batch(topic)
            if topic.batch:
                await self._send(topic)
        topic.worker = None

    def _next_batch(self, topic: _NumberedTopic) -> None:
        size, topic.problem = 0, None
        while topic.queue and len(topic.batch) < BATCH_MESSAGES_MAX:
            message = topic.queue[0]
            size += len(message.payload)
            if topic.batch and size > BATCH_BYTES_MAX:
                break
            topic.queue.popleft()
            if message.request.is_over:
                self._answered(topic, message)
            else:
                topic.batch.append(message)

    async def _send(self, topic: _NumberedTopic) -> None:
        """Send the batch until there is a reply, or it is given up."""
        is_doubtful, pause_s = False, _AGAIN_S
        while topic.batch:
            outcome = await self._try(topic)
            if isinstance(outcome, list):
                self._settle(topic, outcome)
                return
            is_doubtful |= isinstance(outcome, UncertainError)
            topic.problem = None if is_doubtful else outcome
            for message in topic.batch:
                message.request.is_sent = is_doubtful
            if not isinstance(outcome, RefusedError) or outcome.code == "TRYAGAIN":
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _AGAIN_S_MAX)
                if all(_is_over(message) for message in topic.batch):
                    self._give_up(topic, outcome, is_doubtful=is_doubtful)
            elif outcome.code == "NOTDURABLE" or is_unknown_command(outcome):
                self._go_plain(topic, is_doubtful=is_doubtful)
            elif outcome.code == "OUTOFORDER" and not is_doubtful:
                # The log has dropped this publisher's state, or was deleted.
                topic.run, topic.next = topic.run + 1, 0
            else:
                self._give_up(topic, outcome, is_doubtful=is_doubtful)

    async def _try(self, topic: _NumberedTopic) -> list[object] | EquipoiseError:
        words = (b"EQ.APPEND", topic.name, self._publisher, b"%d" % topic.run, b"%d" % topic.next)
        frame = encode_request(*words, *[message.payload for message in topic.batch])
        for message in topic.batch:
            message.request.is_sent = True
        try:
            timeout_s = self._settings.request_timeout_s
            reply = await self._publishing.submit(topic.name, frame, len(frame), timeout_s)
        except EquipoiseError as error:
            return error
        return reply if isinstance(reply, list) else UncertainError(f"the hub answered {reply!r}")

    def _settle(self, topic: _NumberedTopic, reply: list[object]) -> None:
        """Receipts from that of the last message, each with its own position and id."""
        stream, epoch, n, receivers, last_id = reply
        ms, _, seq = (last_id if isinstance(last_id, bytes) else b"").partition(b"-")
        batch, topic.batch = topic.batch, []
        topic.next += len(batch)
        for behind, message in zip(reversed(range(len(batch))), batch, strict=True):
            own_id = b"%b-%d" % (ms, int(seq) - behind) if seq else None
            own_n = n - behind if isinstance(n, int) and n else 0
            message.request.settle([stream, epoch, own_n, receivers, own_id])
            self._answered(topic, message)

    def _give_up(self, topic: _NumberedTopic, error: EquipoiseError, *, is_doubtful: bool) -> None:
        batch, topic.batch = topic.batch, []
        if is_doubtful:
            topic.run, topic.next = topic.run + 1, 0
        for message in batch:
            message.request.fail(_uncertain() if is_doubtful else error)
            self._answered(topic, message)

    def _go_plain(self, topic: _NumberedTopic, *, is_doubtful: bool) -> None:
        """The topic is not durable: waiting messages are published as to any other topic."""
        self._plain.add(topic.name)
        if is_doubtful:
            self._give_up(topic, _uncertain(), is_doubtful=True)
        waiting, topic.batch = [*topic.batch, *topic.queue], []
        topic.queue.clear()
        for message in waiting:
            self._answered(topic, message)
            self._publishing.put_back(topic.name, message.request)

    def _answered(self, topic: _NumberedTopic, message: _Message) -> None:
        topic.answered += 1
        if isinstance(message.request, NowaitTicket):
            self._held_messages -= 1
            self._held_bytes -= message.request.size
        while topic.waiters and topic.waiters[0][0] <= topic.answered:
            future = topic.waiters.pop(0)[1]
            if not future.done():
                future.set_result(None)


def _is_over(message: _Message) -> bool:
    return message.request.is_over or asyncio.get_running_loop().time() >= message.due_at


def _uncertain() -> UncertainError:
    return UncertainError(
        "no receipt came in time, however often the message was sent; it may or may not be stored: look before you "
        "publish it again"
    )
