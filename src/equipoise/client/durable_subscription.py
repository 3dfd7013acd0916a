"""A durable subscription: messages of one topic's log, at least once, in order, from its position on.

    async with bus.subscribe("orders", durable="billing", start="beginning") as orders:
        async for message in orders:
            store(message.payload, message.id)
            await orders.ack(message)

Deliveries and acknowledgements are recorded in the log, so any hub may own the topic, and any process may subscribe.
The subscription attaches under its name before it reads, and again each time its connection is lost or an outcome is
uncertain: then it reads its pending messages, skips those it still has, and continues with new ones. If another client
attaches under the same name, this subscription ends with DisplacedError.

Always true:
    messages that were not delivered before are in the order of the log;
    a message without ack is delivered again, to the next process that attaches under the name;
    at most a window of messages is without ack: the hub delivers no more, and iterating waits.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeAlias

from equipoise.client.events import DurableMessage, Gap, GapReason
from equipoise.client.settings import ClientSettings
from equipoise.client.wire.codec import decode_name
from equipoise.client.wire.dial import Backoff
from equipoise.client.wire.error_replies import is_permanent
from equipoise.client.wire.log_link import LogLink
from equipoise.errors import (
    ClosedError,
    DeniedError,
    DisconnectedError,
    DisplacedError,
    EquipoiseError,
    MisuseError,
    RefusedError,
    UncertainError,
)
from equipoise.log.errors import LogCommandError
from equipoise.log.ids import ID_MIN, before, parse_id, spell_id
from equipoise.resp.replies import spell

__all__ = ["DurableSubscription", "RetryOptions", "Start", "spell_start"]

log = logging.getLogger("equipoise.client")

# Prefetched for the iterating task, in messages and in bytes of payload.
AHEAD_MESSAGES = 1_000
AHEAD_BYTES = 8 * 1024 * 1024
# How long a read waits at the hub, in seconds: a vanished hub is detected after this time and a time-out.
READ_S = 2.0
# Delay of the next request to a hub that has delivered a window of messages.
WINDOW_S = 0.2

Start: TypeAlias = str | int | datetime
"""Where a new durable subscription begins: `"beginning"`, `"end"`, the id of a message, or a time."""


@dataclass(frozen=True, slots=True)
class RetryOptions:
    """Redelivery: after which time, how often at most, and to which topic afterwards."""

    ack_timeout_s: float | None = None
    deliveries_max: int | None = None
    dead_letter: str | None = None

    def words(self) -> list[bytes]:
        """As words of EQ.GROUP SET; None if nothing is set."""
        words: list[bytes] = []
        if self.ack_timeout_s is not None:
            words += [b"ACKTIMEOUT", b"%d" % max(1, round(self.ack_timeout_s * 1_000))]
        if self.deliveries_max is not None:
            words += [b"DELIVERIES", b"%d" % self.deliveries_max]
        if self.dead_letter is not None:
            words += [b"DEADLETTER", self.dead_letter.encode()]
        return words


def spell_start(start: Start) -> bytes:
    """The id, or `#` and the number, after which to begin. Raises MisuseError."""
    if isinstance(start, int) and start >= 1:
        return b"#%d" % (start - 1)
    if isinstance(start, datetime):
        ms = max(0, int(start.timestamp() * 1_000))
        return spell_id(before((ms, 0)) or ID_MIN)
    if start in ("beginning", "end"):
        return b"0" if start == "beginning" else b"$"
    try:
        return spell_id(before(parse_id(str(start).encode())) or ID_MIN)
    except LogCommandError:
        raise MisuseError(
            f"start={start!r}: it is 'beginning', 'end', the id of a message such as '1700000000000-0', its number "
            f"from 1, or a datetime"
        ) from None


class DurableSubscription:
    """Made by `Bus.subscribe(topic, durable=name)`. Several tasks may iterate it and acknowledge."""

    def __init__(
        self,
        reads: LogLink,
        commands: LogLink,
        settings: ClientSettings,
        rng: random.Random,
        *,
        topic: bytes,
        name: bytes,
        group: bytes | None,
        start: bytes,
        retries: RetryOptions,
    ) -> None:
        self._reads = reads
        self._commands = commands
        self._timeout_s = settings.request_timeout_s
        self._backoff = Backoff(settings.reconnect_first_s, settings.reconnect_max_s, rng)
        self._topic = topic
        self._shown = decode_name(topic)
        self._name = name
        self._group = group or name
        self._options = [b"START", start] if group is None else [b"SHARED", b"START", start]
        self._retries = retries.words()
        self._client = rng.randbytes(8).hex().encode()
        self._serial = 0
        self._consumer = b""
        # Received and not taken; and all received whose ack or refusal is not confirmed.
        self._inbox: deque[DurableMessage | Gap] = deque()
        self._inbox_bytes = 0
        self._in_hand: set[str] = set()
        self._task: asyncio.Task[None] | None = None
        self._started = asyncio.Event()
        self._changed = asyncio.Event()
        self._is_over = False
        self._error: EquipoiseError | None = None
        self._is_undurable = False
        reads.on_undurable = self._note_undurable

    @property
    def pending(self) -> int:
        """Messages and gaps received and not yet taken."""
        return len(self._inbox)

    @property
    def is_over(self) -> bool:
        """Whether receiving has ended."""
        return self._is_over

    # Iterating.

    async def __aenter__(self) -> Self:
        await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> DurableMessage | Gap:
        if self._task is None:
            await self._start()
        while not self._inbox:
            if self._is_over:
                raise StopAsyncIteration if self._error is None else self._error.with_traceback(None)
            self._changed.clear()
            await self._changed.wait()
        event = self._inbox.popleft()
        if isinstance(event, DurableMessage):
            self._inbox_bytes -= len(event.payload)
        self._changed.set()
        return event

    async def close(self) -> None:
        """Stop reading. Received messages can still be iterated and acknowledged, while the bus is open."""
        self.end(None)
        if self._task is not None:
            await asyncio.wait([self._task])

    def end(self, error: EquipoiseError | None) -> None:
        """Stop reading, at once."""
        if not self._is_over:
            self._is_over, self._error = True, error
            if self._task is not None and error is None:
                self._task.cancel()
            self._reads.close()
            self._started.set()
            self._changed.set()

    # Acknowledging.

    async def ack(self, *messages: DurableMessage, timeout_s: float | None = None) -> None:
        """Acknowledge these messages, so that they are not delivered again. Waits until that is recorded; retries."""
        if not messages:
            return
        ids = [message.id.encode() for message in messages]
        await self._settle((b"XACK", self._topic, self._group, *ids), timeout_s)
        self._in_hand.difference_update(message.id for message in messages)
        self._changed.set()

    async def ack_up_to(self, message: DurableMessage, *, timeout_s: float | None = None) -> None:
        """Acknowledge this message, and all received ones with smaller ids."""
        at = parse_id(message.id.encode())
        done = [held for held in self._in_hand if parse_id(held.encode()) <= at]
        for i in range(0, len(done), AHEAD_MESSAGES):
            ids = [held.encode() for held in done[i : i + AHEAD_MESSAGES]]
            await self._settle((b"XACK", self._topic, self._group, *ids), timeout_s)
        self._in_hand.difference_update(done)
        self._changed.set()

    async def nack(
        self,
        *messages: DurableMessage,
        delay_s: float = 0.0,
        reason: str = "",
        timeout_s: float | None = None,
    ) -> None:
        """Reject these messages: they are delivered again after the delay, marked as redelivered.

        After the maximum number of deliveries a message moves to the dead-letter topic, with the reason.
        """
        if not messages:
            return
        delay_ms = b"%d" % max(0, round(delay_s * 1_000))
        ids = [message.id.encode() for message in messages]
        words = (b"EQ.GROUP", b"NACK", self._topic, self._group, delay_ms, reason.encode(), *ids)
        await self._settle(words, timeout_s)
        self._in_hand.difference_update(message.id for message in messages)
        self._changed.set()

    async def _settle(self, words: Sequence[bytes], timeout_s: float | None) -> None:
        """Retry until there is a reply: the request is idempotent. Raises the last error when the time is up."""
        loop = asyncio.get_running_loop()
        patience_s = self._timeout_s if timeout_s is None else timeout_s
        due_at = loop.time() + patience_s
        while True:
            try:
                await self._commands.ask(*words, timeout_s=max(0.01, due_at - loop.time()))
                return
            except (RefusedError, DisconnectedError, UncertainError) as error:
                if not _is_passing(error) or loop.time() >= due_at:
                    raise
            await asyncio.sleep(min(0.1, max(0.0, due_at - loop.time())))

    # Reading.

    async def _start(self) -> None:
        if self._task is not None:
            raise MisuseError("a subscription can be entered once; call subscribe() again")
        self._task = asyncio.get_running_loop().create_task(self._run(), name="equipoise-durable")
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._started.wait()
        except TimeoutError:
            await self.close()
            raise DisconnectedError(
                f"{decode_name(self._name)!r} could not attach to {self._shown!r} within {self._timeout_s:g} s"
            ) from None
        except BaseException:
            self.end(None)
            raise
        if self._error is not None:
            raise self._error

    async def _run(self) -> None:
        try:
            while not self._is_over:
                try:
                    await self._attach()
                    await self._read_pending()
                    while True:
                        await self._read_new()
                except (RefusedError, DisconnectedError, UncertainError) as error:
                    if not _is_passing(error):
                        raise
                    log.info("durable subscription to %s: %s; attaching again", self._shown, error)
                    self._reads.drop()
                await asyncio.sleep(self._backoff.next_s())
        except RefusedError as error:
            self.end(self._explain(error))
        except EquipoiseError as error:
            self.end(None if isinstance(error, ClosedError) else error)
        except Exception as error:
            log.exception("the durable subscription to %s failed", self._shown)
            self.end(EquipoiseError(f"the client failed: {error!r}; please report this"))

    def _note_undurable(self, topic: bytes) -> None:
        if not self._is_undurable:
            self._is_undurable = True
            log.warning(
                "topic %s is not durable: this subscription receives what is added with XADD, and nothing that is "
                "published; see `equipoise topics set --durable`",
                self._shown,
            )

    def _explain(self, error: RefusedError) -> EquipoiseError:
        if error.code == "DISPLACED":
            return DisplacedError(
                f"another client has subscribed to {self._shown!r} as {decode_name(self._name)!r}; a "
                "durable subscription has one active client: use group= to share its messages"
            )
        return error

    async def _ask(self, *words: bytes, wait_s: float = 0.0) -> Any:
        return await self._reads.ask(*words, timeout_s=self._timeout_s + wait_s)

    async def _attach(self) -> None:
        self._serial += 1
        who = (self._topic, self._group, self._name, self._client, b"%d" % self._serial)
        answer = await self._ask(b"EQ.GROUP", b"ATTACH", *who, *self._options)
        self._consumer = answer[0]
        if self._retries:
            await self._ask(b"EQ.GROUP", b"SET", self._topic, self._group, *self._retries)
        self._backoff.reset()

    async def _read_pending(self) -> None:
        """The messages that an earlier connection, or process, received without acknowledging them."""
        last = b"0-0"
        while True:
            # The present set: messages acknowledged on the other connection before the reply may be in the reply.
            in_hand = frozenset(self._in_hand)
            rows = _rows(await self._ask(*self._read_words(AHEAD_MESSAGES), last))
            if not rows:
                break
            last = rows[-1][0]
            self._take([row for row in rows if row[0].decode() not in in_hand])
            trimmed = [at for at, fields, _ in rows if fields is None]
            if trimmed:
                await self._ask(b"XACK", self._topic, self._group, *trimmed)
            await self._room()
        self._started.set()

    async def _read_new(self) -> None:
        await self._room()
        count = max(1, AHEAD_MESSAGES - len(self._inbox))
        try:
            reply = await self._ask(*self._read_words(count, is_waiting=True), b">", wait_s=READ_S)
        except RefusedError as error:
            if error.code != "WINDOW":
                raise
            await asyncio.sleep(WINDOW_S)
            return
        self._take(_rows(reply))

    def _read_words(self, count: int, *, is_waiting: bool = False) -> tuple[bytes, ...]:
        block = (b"BLOCK", b"%d" % (READ_S * 1_000)) if is_waiting else ()
        group = (b"EQ.READGROUP", b"GROUP", self._group, self._consumer, b"COUNT", b"%d" % count)
        return (*group, *block, b"STREAMS", self._topic)

    async def _room(self) -> None:
        while len(self._inbox) >= AHEAD_MESSAGES or self._inbox_bytes >= AHEAD_BYTES:
            self._changed.clear()
            await self._changed.wait()

    def _take(self, rows: list[Any]) -> None:
        for at, fields, number in rows:
            if fields is None:
                # Trimmed: this many before delivery; or this one since.
                missed = number if at == b"0-0" else 1
                self._inbox.append(Gap(self._shown, missed, GapReason.TRIMMED))
                continue
            payload = fields[1] if len(fields) == 2 and fields[0] == b"payload" else spell(fields)
            self._inbox.append(DurableMessage(self._shown, payload, at.decode(), number))
            self._inbox_bytes += len(payload)
            self._in_hand.add(at.decode())
        if rows:
            self._changed.set()


def _rows(reply: Any) -> list[Any]:
    """The entries of the one topic: RESP3 has a map."""
    if not reply:
        return []
    return list(next(iter(reply.values())))


def _is_passing(error: EquipoiseError) -> bool:
    """Whether the next attempt may succeed."""
    if isinstance(error, RefusedError):
        return error.code in ("TRYAGAIN", "STALE", "LOADING") and not isinstance(error, DeniedError)
    return not is_permanent(error)
