"""A local subscription: an async iterator of messages and gaps.

    async with bus.subscribe("scores") as scores:
        async for event in scores:
            ...

It starts when its context is entered or when it is first iterated, and then waits until the hub has
confirmed every name. It ends when its context is left, when the bus closes (both cleanly, after what was
received has been taken), or when the hub refuses a name (with the error, likewise after what was received).

What is kept while it is not iterated, and the rule when that is too much, is in inbox.py.
"""

from __future__ import annotations

import asyncio
from enum import Enum, auto
from types import TracebackType
from typing import Self

from equipoise.client.events import Event, Gap, Message
from equipoise.client.inbox import Batch, Inbox
from equipoise.client.routing.channel import Channel
from equipoise.client.routing.channels import Channels
from equipoise.client.settings import ClientSettings
from equipoise.client.wire.codec import decode_name
from equipoise.errors import ClosedError, DisconnectedError, EquipoiseError, MisuseError


class _State(Enum):
    NEW = auto()
    STARTING = auto()
    OPEN = auto()
    OVER = auto()


class Subscription:
    """Made by `Bus.subscribe` and `Bus.psubscribe`. Several tasks may iterate it; each event goes to one."""

    def __init__(
        self,
        channels: Channels,
        names: tuple[bytes, ...],
        *,
        is_pattern: bool,
        settings: ClientSettings,
        where: bytes = b"",
    ) -> None:
        self._channels = channels
        # A dict for its order: names are asked for as they were written.
        self._names = dict.fromkeys(names)
        self._is_pattern = is_pattern
        # A filter of the messages that are wanted; empty: all are.
        self._where = where
        self._timeout_s = settings.request_timeout_s
        self._inbox = Inbox(settings.queue_messages_max, settings.queue_bytes_max)
        self._state = _State.NEW
        # The names not yet confirmed, and who waits for that.
        self._unconfirmed: dict[bytes, None] = {}
        self._started: asyncio.Future[None] | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._error: EquipoiseError | None = None

    @property
    def pending(self) -> int:
        """Messages and gaps received and not yet taken."""
        return self._inbox.messages

    async def __aenter__(self) -> Self:
        await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if self._state is not _State.OPEN:
            await self._prepare()
        while (event := self._inbox.take()) is None:
            if self._state is _State.OVER:
                raise self._ending()
            await self._arrival()
        return event

    def messages(self) -> MessageIterator:
        """Only the messages; gaps are passed over, for those who can live with loss."""
        return MessageIterator(self)

    def close(self) -> None:
        """End it. What was received can still be iterated; then the iteration ends."""
        self.on_end(None)

    async def _start(self) -> None:
        if self._state is not _State.NEW:
            raise MisuseError("a subscription can be entered once; call subscribe() again")
        self._state = _State.STARTING
        self._started = asyncio.get_running_loop().create_future()
        self._unconfirmed = dict(self._names)
        for name in self._names:
            self._channels.want(name, self, is_pattern=self._is_pattern, where=self._where)
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._started
        except TimeoutError:
            # After a pause of this program the answer and the time-out may both be there: the answer counts.
            self._conclude_late(self._started)
        except BaseException:
            self.close()
            raise
        if self._state is _State.STARTING:
            self._state = _State.OPEN

    def _conclude_late(self, started: asyncio.Future[None]) -> None:
        """The time is up: return if all names have been confirmed all the same, or raise why not."""
        if not started.cancelled():
            started.result()
        elif self._state is _State.OVER:
            raise self._error or ClosedError("the bus was closed while the subscription started") from None
        elif self._unconfirmed:
            self.close()
            raise self._late() from None

    async def _prepare(self) -> None:
        if self._state is _State.NEW:
            await self._start()
        elif self._state is _State.STARTING:
            raise MisuseError(
                "the subscription is still starting in another task; wait for it before iterating"
            )

    async def _arrival(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            # Still there only if cancelled before anything came.
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _ending(self) -> BaseException:
        if self._error is not None:
            return self._error.with_traceback(None)
        return StopAsyncIteration()

    def _late(self) -> EquipoiseError:
        name = decode_name(next(iter(self._unconfirmed)))
        return DisconnectedError(
            f"the hub did not confirm the subscription to {name!r} within {self._timeout_s:g} s; "
            "check that the hub runs and can be reached"
        )

    # What the channels tell.

    def on_live(self, channel: Channel) -> None:
        self._unconfirmed.pop(channel.name, None)
        if not self._unconfirmed and self._started is not None and not self._started.done():
            self._started.set_result(None)

    def on_batch(self, batch: Batch) -> None:
        self._inbox.put(batch)
        if self._waiters:
            self._wake()

    def on_gap(self, gap: Gap) -> None:
        self._inbox.put_gap(gap)
        if self._waiters:
            self._wake()

    def on_end(self, error: EquipoiseError | None) -> None:
        if self._state is _State.OVER:
            return
        self._state = _State.OVER
        self._error = error
        for name in self._names:
            self._channels.leave(name, self, is_pattern=self._is_pattern, where=self._where)
        if self._started is not None and not self._started.done():
            self._started.set_exception(
                error or ClosedError("the bus was closed while the subscription started")
            )
        self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


class MessageIterator:
    """The messages of a subscription without its gaps."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        while True:
            event = await self._subscription.__anext__()
            if type(event) is Message:
                return event
