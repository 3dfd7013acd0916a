"""A local subscription: an async iterator of messages and gaps.

    async with bus.subscribe("scores") as scores:
        async for event in scores:
            ...

It starts when its context is entered or when it is first iterated, and then waits until the hub has confirmed every
name. It ends when its context is left or the bus closes (after received events have been taken), or when the hub
refuses
a name (with the error, also after received events).

inbox.py holds events that have not been taken, and drops messages when it is full.
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
    """Made by `Bus.subscribe` and `Bus.psubscribe`. Several tasks may iterate it; each event goes to one task."""

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
        # A dict for its order: names are subscribed in the given order.
        self._names = dict.fromkeys(names)
        self._is_pattern = is_pattern
        # The filter of messages; empty: none.
        self._where = where
        self._timeout_s = settings.request_timeout_s
        self._inbox = Inbox(settings.queue_messages_max, settings.queue_bytes_max)
        self._state = _State.NEW
        # The names not yet confirmed, and the future that waits for them.
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
        """Only the messages; gaps are skipped, for programs that tolerate losses."""
        return MessageIterator(self)

    def close(self) -> None:
        """End it. Received events can still be iterated; then the iteration ends."""
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
            # After a pause of this program the confirmation and the time-out may both be due: the confirmation counts.
            self._conclude_late(self._started)
        except BaseException:
            self.close()
            raise
        if self._state is _State.STARTING:
            self._state = _State.OPEN

    def _conclude_late(self, started: asyncio.Future[None]) -> None:
        """The time is up: return if all names are confirmed after all, otherwise raise the reason."""
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
            # Still there only if cancelled before an event.
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

    # Events of the channels.

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
