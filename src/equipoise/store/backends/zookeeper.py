"""A store in ZooKeeper, through kazoo.

Kazoo has threads of its own. Only this module bridges them: a request is passed to kazoo at once; its result and every
event return by `call_soon_threadsafe`.

One kazoo client is one session. Kazoo reconnects within a session; when the session has ended, by the server or by the
local clock, the client is stopped and another one started, so that no event of the old session can arrive.

ZooKeeper grants time-outs of 2 to 20 of its ticks, and kazoo does not return the granted one: configure a time-out in
that range, or the owner of a node may detect its loss late.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from kazoo import exceptions as kazoo  # type: ignore[import-untyped]  # kazoo ships no types
from kazoo.client import KazooClient  # type: ignore[import-untyped]  # as above
from kazoo.handlers.threading import KazooTimeoutError  # type: ignore[import-untyped]  # as above
from kazoo.protocol.states import KazooState  # type: ignore[import-untyped]  # as above

from equipoise.errors import (
    BadVersionError,
    EquipoiseError,
    MisuseError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionLostError,
    SettingsError,
    StoreError,
)
from equipoise.store.backends.channel import ChannelGoneError, StoreChannel
from equipoise.store.backends.retry import ConnectedStore
from equipoise.store.contract import Answer, Node, Read, StoreSettings, WatchKind
from equipoise.store.zookeeper_url import ZooKeeperAddress

__all__ = ["ZooKeeperStore"]

log = logging.getLogger("equipoise.store.backends.zookeeper")
# Kazoo logs a warning for every lost connection, even after a graceful close; relevant events are reported as states.
_kazoo_log = logging.getLogger("equipoise.store.backends.zookeeper.kazoo")
_kazoo_log.setLevel(logging.ERROR)

# From an immediate first attempt to one a second: a load that an ensemble in an election can stand from every hub.
_RECONNECTION = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_jitter": 0.2, "max_delay": 1.0}
# How long a client may take to get its first session before another is tried, and the factor for the next one. A
# server that opens its port too early loses the first packets, and kazoo would wait for a reply as long as for the end
# of a session.
_FIRST_TRY_S = 1.0
_NEXT_TRY_FACTOR = 8.0
# How long `close` waits for ZooKeeper's confirmation of the session's end.
_GOODBYE_TIMEOUT_S = 5.0
_ANY_VERSION = -1


class ZooKeeperStore(ConnectedStore):
    """Nodes under the address's root, which is created if necessary."""

    # Kazoo detects that by itself, at two thirds.
    _silence_ratio = 1.0

    def __init__(self, address: ZooKeeperAddress, *, settings: StoreSettings | None = None) -> None:
        super().__init__(settings or StoreSettings())
        self._address = address
        # Credentials and certificates of the last read.
        self._options: dict[str, Any] | None = None
        self._client: Any = None
        # The last provided channel; in use, suspended or about to be opened.
        self._kazoo_channel: _KazooChannel | None = None
        self._greeting: asyncio.Task[None] | None = None
        # Set while there is no session.
        self._impatience: asyncio.TimerHandle | None = None

    def _start(self, patience_s: float = _FIRST_TRY_S) -> None:
        loop = asyncio.get_running_loop()
        client = KazooClient(
            self._address.chroot,
            **self._client_options(),
            timeout=self.settings.session_timeout_s,
            connection_retry=_RECONNECTION,
            logger=_kazoo_log,
        )

        def on_state(state: str) -> None:
            """In kazoo's thread. The id is read here, where it belongs to this state."""
            session = client.client_id[0] if state == KazooState.CONNECTED else 0
            _call_from_thread(loop, lambda: self._hear(client, state, session))

        client.add_listener(on_state)
        self._client = client
        self._be_patient()
        self._impatience = loop.call_later(patience_s, self._try_another, client, patience_s)
        client.start_async()

    def _client_options(self) -> dict[str, Any]:
        """Read anew for each session. If a file cannot be read now, the earlier content is used."""
        try:
            self._options = self._address.client_options()
        except SettingsError as problem:
            if self._options is None:
                raise
            log.error("using the credentials read before: %s", problem)
        return self._options

    def _try_another(self, client: Any, waited_s: float) -> None:
        if client is self._client:
            _retire(client)
            self._start(waited_s * _NEXT_TRY_FACTOR)

    def _be_patient(self) -> None:
        if self._impatience is not None:
            self._impatience.cancel()
            self._impatience = None

    async def _stop(self, is_graceful: bool) -> None:
        client, self._client = self._client, None
        self._be_patient()
        if self._greeting is not None:
            self._greeting.cancel()
        if client is not None:
            retired = _retire(client)
            if is_graceful:
                try:
                    await asyncio.wait_for(retired.wait(), _GOODBYE_TIMEOUT_S)
                except TimeoutError:
                    pass  # The session ends by time-out instead.

    def _drop(self, channel: StoreChannel) -> None:
        """Kazoo closes it by itself."""

    def _forget_session(self) -> None:
        if self._kazoo_channel is not None:
            self._kazoo_channel.give_up()
        client, self._client = self._client, None
        if client is not None:
            _retire(client)
        if not self._is_closed:
            # A turn later, so that LOST is reported before the next CONNECTED.
            asyncio.get_running_loop().call_soon(self._start_again)

    def _start_again(self) -> None:
        if not self._is_closed and self._client is None:
            self._start()

    def _hear(self, client: Any, state: str, session: int) -> None:
        if client is not self._client:
            return
        # From its first connection on, kazoo keeps the session.
        self._be_patient()
        if state == KazooState.CONNECTED:
            channel = _KazooChannel(self, client, session)
            self._kazoo_channel = channel
            self._greeting = asyncio.create_task(self._greet(channel))
        elif state == KazooState.SUSPENDED and self._kazoo_channel is not None:
            self._kazoo_channel.give_up()
            self._on_suspended(self._kazoo_channel)
        elif state == KazooState.LOST:
            self._on_lost()

    async def _greet(self, channel: _KazooChannel) -> None:
        """Create the root before the channel is used."""
        asked_at = asyncio.get_running_loop().time()
        try:
            await channel.ensure_root()
        except (ChannelGoneError, SessionLostError):
            return  # Kazoo reports the next connection, or the end.
        except StoreError as problem:
            # The root may exist though this user may not create it; each request reports what is denied.
            log.error("%s", problem)
        if channel is self._kazoo_channel:
            self._on_connected(channel, asked_at)

    def changed(self, path: str, kind: WatchKind) -> None:
        self._on_changed(path, kind)


class _KazooChannel:
    """One connection of a kazoo client, as long as it lasts."""

    def __init__(self, store: ZooKeeperStore, client: Any, session: int) -> None:
        self.session = session
        self._store = store
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._asked: set[asyncio.Future[Any]] = set()
        self._is_gone = False
        # Kazoo keeps a set of callbacks per path: one object per watch keeps it from growing.
        self._callbacks: dict[tuple[WatchKind, str], Callable[[object], None]] = {}

    def give_up(self) -> None:
        """The connection is lost, or must not be used any more: fail all requests in flight."""
        self._is_gone = True
        for future in self._asked:
            if not future.done():
                future.set_exception(ChannelGoneError())

    async def ensure_root(self) -> None:
        await self._ask("/", lambda: self._client.ensure_path_async("/"))

    async def ping(self) -> None:
        await self._ask("/", lambda: self._client.exists_async("/"))

    async def sync(self) -> None:
        await self._ask("/", lambda: self._client.sync_async("/"))

    async def create(self, path: str, data: bytes, ephemeral: bool) -> Node:
        _, stat = await self._ask(
            path, lambda: self._client.create_async(path, data, ephemeral=ephemeral, include_data=True)
        )
        return _node(path, data, stat)

    async def get(self, path: str) -> Node:
        data, stat = await self._ask(path, lambda: self._client.get_async(path))
        return _node(path, data, stat)

    async def set(self, path: str, data: bytes, version: int | None) -> Node:
        expected = _ANY_VERSION if version is None else version
        stat = await self._ask(path, lambda: self._client.set_async(path, data, expected))
        return _node(path, data, stat)

    async def delete(self, path: str, version: int | None) -> None:
        expected = _ANY_VERSION if version is None else version
        await self._ask(path, lambda: self._client.delete_async(path, expected))

    async def children(self, path: str) -> tuple[str, ...]:
        names: list[str] = await self._ask(path, lambda: self._client.get_children_async(path))
        return tuple(sorted(names))

    async def arm(self, path: str, kind: WatchKind) -> None:
        callback = self._callback(path, kind)
        if kind is WatchKind.DATA:
            await self._ask(path, lambda: self._client.exists_async(path, watch=callback))
            return
        while True:
            try:
                await self._ask(path, lambda: self._client.get_children_async(path, watch=callback))
                return
            except NoNodeError:
                # ZooKeeper watches the children of existing nodes only; until the node exists, watch for its creation.
                if await self._ask(path, lambda: self._client.exists_async(path, watch=callback)) is None:
                    return

    async def read(self, reads: Sequence[Read], watch: Read | None = None) -> tuple[Answer, ...]:
        """ZooKeeper executes the requests of a session in order."""
        asked = list[asyncio.Future[Any]]()
        if watch is not None and watch.kind is WatchKind.DATA:
            path, callback = watch.path, self._callback(watch.path, watch.kind)
            asked.append(self._begin(path, lambda: self._client.exists_async(path, watch=callback)))
        elif watch is not None:
            # To watch the children of a missing node takes a second request after the reply to the first.
            await self.arm(watch.path, watch.kind)
        armed = len(asked)
        asked += [self._begin_read(read) for read in reads]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        for answer in answers[:armed]:
            if isinstance(answer, BaseException):
                raise answer
        return tuple(_answer(read, answer) for read, answer in zip(reads, answers[armed:], strict=True))

    def _begin_read(self, read: Read) -> asyncio.Future[Any]:
        path, client = read.path, self._client
        if read.kind is WatchKind.DATA:
            return self._begin(path, lambda: client.get_async(path))
        return self._begin(path, lambda: client.get_children_async(path))

    def _callback(self, path: str, kind: WatchKind) -> Callable[[object], None]:
        def on_event(_: object) -> None:
            """In kazoo's thread."""
            _call_from_thread(self._loop, lambda: self._told(path, kind))

        return self._callbacks.setdefault((kind, path), on_event)

    def _told(self, path: str, kind: WatchKind) -> None:
        self._callbacks.pop((kind, path), None)
        self._store.changed(path, kind)

    async def _ask(self, path: str, request: Callable[[], Any]) -> Any:
        return await self._begin(path, request)

    def _begin(self, path: str, request: Callable[[], Any]) -> asyncio.Future[Any]:
        """Pass a request to kazoo; requests are sent in the order of calls."""
        if self._is_gone:
            raise ChannelGoneError
        result = request()
        future: asyncio.Future[Any] = self._loop.create_future()
        self._asked.add(future)
        future.add_done_callback(self._asked.discard)
        result.rawlink(lambda done: _call_from_thread(self._loop, lambda: _settle(future, path, done)))
        return future


def _settle(future: asyncio.Future[Any], path: str, result: Any) -> None:
    if future.done():
        return
    problem = result.exception
    if problem is None:
        future.set_result(result.value)
    else:
        future.set_exception(_translated(path, problem))


def _translated(path: str, problem: BaseException) -> Exception:
    """The contract's error for a kazoo error."""
    node_errors: dict[type[BaseException], type[EquipoiseError]] = {
        kazoo.NodeExistsError: NodeExistsError,
        kazoo.NoNodeError: NoNodeError,
        kazoo.NotEmptyError: NotEmptyError,
        kazoo.BadVersionError: BadVersionError,
    }
    for theirs, ours in node_errors.items():
        if isinstance(problem, theirs):
            return ours(path)
    if isinstance(problem, kazoo.NoChildrenForEphemeralsError):
        return MisuseError(f"{path} cannot be created: its parent is ephemeral and cannot have children")
    if isinstance(problem, kazoo.SessionExpiredError):
        return SessionLostError("the session has ended")
    if isinstance(problem, kazoo.NoAuthError | kazoo.AuthFailedError):
        return StoreError(
            f"ZooKeeper denies access to {path}: give the store's address ?auth=FILE (user:password)"
        )
    gone = (
        kazoo.ConnectionLoss,
        kazoo.ConnectionClosedError,
        kazoo.OperationTimeoutError,
        kazoo.SessionMovedError,
        KazooTimeoutError,
    )
    if isinstance(problem, gone):
        return ChannelGoneError()
    return StoreError(f"ZooKeeper rejects a request for {path}: {type(problem).__name__} {problem}")


def _answer(read: Read, answer: Any) -> Answer:
    if isinstance(answer, NoNodeError):
        return None
    if isinstance(answer, BaseException):
        raise answer
    return _node(read.path, *answer) if read.kind is WatchKind.DATA else tuple(sorted(answer))


def _node(path: str, data: bytes, stat: Any) -> Node:
    return Node(path, data, stat.version, stat.czxid, stat.ephemeralOwner)


def _call_from_thread(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    """Once the loop is closed there is no caller left."""
    try:
        loop.call_soon_threadsafe(function)
    except RuntimeError:
        if not loop.is_closed():
            raise


def _retire(client: Any) -> asyncio.Event:
    """Stop a client in a thread, as that waits for its threads; sets the event when it is done."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def stop() -> None:
        try:
            client.stop()
            client.close()
        except Exception as problem:
            # Its threads wait for a connection that does not respond, and end with it.
            log.debug("a kazoo client did not stop: %s", problem)
        _call_from_thread(loop, done.set)

    threading.Thread(target=stop, name="equipoise-kazoo-retire", daemon=True).start()
    return done
