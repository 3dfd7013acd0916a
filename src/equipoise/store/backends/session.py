"""Keep one session with a store alive across channels, and detect its end.

A driver, the subclass, provides channels: it calls `_on_connected` with each new one, `_on_suspended` when one is lost
and `_on_lost` when the server says that the session has ended.

Always true:
    at most one channel is in use, and it belongs to `session`;
    `_answered_at` is the time at which the last request with a reply was sent, so the server ends the session no sooner
    than `session_timeout_s` after it. At that time the guard here declares it lost.

A watch is a flag, raised by any possible change. Servers report a change once and then drop the watch (ZooKeeper's
watches). So `changed` arms it again before it returns, and no change between two reads is missed; `changed_to` arms it
together with the reads, which follow it. Without a connection no change is reported; the store raises all flags when
it reconnects.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Protocol, Self, TypeVar

from equipoise.errors import ClosedError, SessionLostError, StoreUnavailableError
from equipoise.store.backends.channel import ChannelGoneError, StoreChannel
from equipoise.store.contract import Answer, Read, SessionState, StoreSettings, WatchKind

__all__ = ["FlagWatch", "SessionKeeper", "Watches"]

T = TypeVar("T")
Arm = Callable[[str, WatchKind], Awaitable[None]]


class ArmAndRead(Protocol):
    """Arm a watch and read, in this order, over one connection."""

    async def __call__(self, reads: Sequence[Read], watch: Read | None = None) -> tuple[Answer, ...]: ...


class FlagWatch:
    """Made by `Watches.make`; the contract is `contract.Watch`."""

    def __init__(self, owner: Watches, path: str, kind: WatchKind, arm: Arm, read: ArmAndRead) -> None:
        self.path = path
        self.kind = kind
        self._owner = owner
        self._arm = arm
        self._read = read
        self._flag = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._owner.add(self)
        try:
            await self._arm(self.path, self.kind)
        except BaseException:
            self._owner.discard(self)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._owner.discard(self)

    def raise_flag(self) -> None:
        self._flag.set()

    async def changed(self, timeout_s: float | None = None) -> bool:
        try:
            async with asyncio.timeout(timeout_s):
                await self._told(lambda: self._arm(self.path, self.kind))
        except TimeoutError:
            return False
        return True

    async def changed_to(self, reads: Callable[[], Sequence[Read]]) -> tuple[Answer, ...]:
        return await self._told(lambda: self._read(reads(), Read(self.path, self.kind)))

    async def _told(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Wait for the flag and arm the watch; repeat if the store does not reply in time."""
        while True:
            await self._flag.wait()
            # Lowered before arming: later changes raise it again.
            self._flag.clear()
            try:
                return await ask()
            except StoreUnavailableError:
                # The next attempt waits for the store, too.
                self._flag.set()
            except BaseException:
                # The change has not been returned yet.
                self._flag.set()
                raise


class Watches:
    """All watches of a store, by kind and path."""

    def __init__(self) -> None:
        # Dictionaries keep the order in which watches were made; a set would wake readers in random order.
        self._watches: dict[tuple[WatchKind, str], dict[FlagWatch, None]] = {}

    def make(self, path: str, kind: WatchKind, arm: Arm, read: ArmAndRead) -> FlagWatch:
        return FlagWatch(self, path, kind, arm, read)

    def add(self, watch: FlagWatch) -> None:
        self._watches.setdefault((watch.kind, watch.path), {})[watch] = None

    def discard(self, watch: FlagWatch) -> None:
        watches = self._watches.get((watch.kind, watch.path))
        if watches is not None:
            watches.pop(watch, None)
            if not watches:
                del self._watches[watch.kind, watch.path]

    def raise_flags(self, path: str, kind: WatchKind) -> None:
        for watch in self._watches.get((kind, path), {}):
            watch.raise_flag()

    def raise_all(self) -> None:
        for watches in self._watches.values():
            for watch in watches:
                watch.raise_flag()


log = logging.getLogger("equipoise.store")

_LEVELS = {
    SessionState.CONNECTED: logging.INFO,
    SessionState.SUSPENDED: logging.WARNING,
    SessionState.LOST: logging.WARNING,
}
# Four pings in a session: one may be lost before a silent connection is closed at half time.
_BEATS_PER_SESSION = 4


class SessionKeeper(ABC):
    """Open with `open` or `async with`, close with `close`. Belongs to the loop on which it was opened."""

    # The part of the session time-out after which a silent connection is closed. A driver whose connection detects
    # that by itself sets 1.
    _silence_ratio = 0.5

    def __init__(self, settings: StoreSettings) -> None:
        self.settings = settings
        self._state = SessionState.LOST
        # 0 exactly before the first session and between LOST and the next one.
        self._session = 0
        self._answered_at = 0.0
        self._channel: StoreChannel | None = None
        # Set, and replaced, at every change of channel, session or `_is_closed`.
        self._turn = asyncio.Event()
        self._listeners: dict[object, Callable[[SessionState], None]] = {}
        self._watches = Watches()
        self._keepers: list[asyncio.Task[None]] = []
        self._is_closed = False

    # Methods of a driver.

    @abstractmethod
    def _start(self) -> None:
        """Start to provide channels, a first one and another after each loss, until `_stop`."""

    @abstractmethod
    async def _stop(self, is_graceful: bool) -> None:
        """Provide no more channels and release everything; gracefully: end the session at the server."""

    @abstractmethod
    def _drop(self, channel: StoreChannel) -> None:
        """Close this connection: it has been silent for too long."""

    @abstractmethod
    def _forget_session(self) -> None:
        """The session has ended: the next channel needs a new one. Requests in flight fail."""

    # Events of the driver.

    def _on_connected(self, channel: StoreChannel, asked_at: float) -> None:
        """`asked_at`: loop time at which the request was sent that opened or resumed the session."""
        if self._is_closed:
            return
        if self._session not in (0, channel.session):
            self._on_lost()
        self._session = channel.session
        self._answered_at = asked_at
        self._channel = channel
        self._move(SessionState.CONNECTED)
        # Changes without a channel were not reported.
        self._watches.raise_all()

    def _on_suspended(self, channel: StoreChannel) -> None:
        if self._channel is channel:
            self._channel = None
            self._move(SessionState.SUSPENDED)

    def _on_lost(self) -> None:
        if self._session != 0:
            self._channel = None
            self._session = 0
            self._forget_session()
            self._move(SessionState.LOST)

    def _on_changed(self, path: str, kind: WatchKind) -> None:
        self._watches.raise_flags(path, kind)

    # Public methods.

    @property
    def session(self) -> int:
        return self._session

    @property
    def state(self) -> SessionState:
        return self._state

    async def open(self) -> Self:
        """Connect. Raises StoreUnavailableError, and closes, if that takes longer than a request may."""
        self._start()
        self._keepers = [asyncio.create_task(self._beat()), asyncio.create_task(self._guard())]
        try:
            async with asyncio.timeout(self.settings.request_timeout_s):
                await self._wait_for_channel()
        except TimeoutError as problem:
            await self.close()
            raise self._unavailable() from problem
        except BaseException:
            await self.close()
            raise
        return self

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        is_graceful = self._channel is not None
        # Wakes all that wait for a channel or a change.
        self._pass_turn()
        self._watches.raise_all()
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        await self._stop(is_graceful)
        self._on_lost()

    def listen(self, listener: Callable[[SessionState], None]) -> Callable[[], None]:
        key = object()
        self._listeners[key] = listener

        def end() -> None:
            self._listeners.pop(key, None)

        return end

    # Internal.

    def _move(self, state: SessionState) -> None:
        self._pass_turn()
        if state is self._state:
            return
        self._state = state
        if not self._is_closed:
            log.log(_LEVELS[state], "the session with the store is %s", state)
        for listener in list(self._listeners.values()):
            listener(state)

    def _pass_turn(self) -> None:
        self._turn.set()
        self._turn = asyncio.Event()

    async def _wait_for_channel(self, session: int = 0) -> StoreChannel:
        """A channel of this session, or of any if it is 0. Raises SessionLostError as soon as that is impossible."""
        while True:
            if self._is_closed:
                raise ClosedError("the store is closed")
            if session not in (0, self._session):
                raise SessionLostError("the session ended before the reply to a write: read before you retry")
            if self._channel is not None:
                return self._channel
            await self._turn.wait()

    async def _beat(self) -> None:
        """Keep the session alive by pings."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self.settings.session_timeout_s / _BEATS_PER_SESSION)
            channel = self._channel
            if channel is None:
                continue
            asked_at = loop.time()
            try:
                async with asyncio.timeout(self.settings.session_timeout_s):
                    await channel.ping()
            except ChannelGoneError:
                self._on_suspended(channel)
            except SessionLostError:
                self._on_ended(channel)
            except TimeoutError:
                pass  # The guard handles it.
            else:
                self._on_answered(channel, asked_at)

    async def _guard(self) -> None:
        """Close a silent connection, and later declare the session lost."""
        loop = asyncio.get_running_loop()
        timeout_s = self.settings.session_timeout_s
        while True:
            if self._session == 0:
                await self._turn.wait()
                continue
            channel = self._channel
            ratio = 1.0 if channel is None else self._silence_ratio
            left_s = self._answered_at + timeout_s * ratio - loop.time()
            if left_s > 0:
                await asyncio.sleep(left_s)
            elif channel is not None and ratio < 1:
                self._drop(channel)
                self._on_suspended(channel)
            else:
                self._on_lost()

    def _on_answered(self, channel: StoreChannel, asked_at: float) -> None:
        if channel.session == self._session:
            self._answered_at = max(self._answered_at, asked_at)

    def _on_ended(self, channel: StoreChannel) -> None:
        if channel.session == self._session:
            self._on_lost()

    def _unavailable(self) -> StoreUnavailableError:
        return StoreUnavailableError(f"the store did not answer within {self.settings.request_timeout_s:g} s")
