"""The registered bookies of a region, and a connection to each bookie in use.

A new connection is used only if the bookie's registration is unchanged once it is established: another bookie at an old
address, or an emptied disk under an old name, does not have the acknowledged entries (apache/bookkeeper#4812).
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import msgspec

from equipoise.clock import is_uvloop
from equipoise.errors import DisconnectedError, StoreError
from equipoise.ledger.registration import BookieFacts, local_socket
from equipoise.ledger_client.bookie_link import BookieLink
from equipoise.store.contract import Watch
from equipoise.store.records.bookies import BookiesStore

__all__ = ["BookieAccess", "BookiePool", "ReplicationSettings"]

log = logging.getLogger("equipoise.ledger_client")


class ReplicationSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Timeouts and rates of a client of bookies."""

    # A later answer counts as lost: slow disks sync in tenths of a second, failing ones in seconds.
    answer_timeout_s: float = 2.0
    connect_timeout_s: float = 2.0
    # After a read timed out at a bookie, other members of a ledger are read first for this time.
    silence_s: float = 10.0
    # Delay before a failed connect, or a failed write of a node, is retried.
    retry_s: float = 0.2
    # Appends fail after this time without any progress; recovery decides whether they are stored.
    append_timeout_s: float = 10.0
    # Limit for copying closed ledgers to the site of their owner: a tenth of a gigabit line, in bytes per second.
    copy_bytes_per_s: float = 12_500_000.0


@dataclass(frozen=True, slots=True)
class BookieAccess:
    """The login of this process at bookies with TLS, and the CA that it trusts."""

    user: str
    password: str = field(repr=False)
    tls_ca: str

    def context(self) -> ssl.SSLContext:
        """Loaded for each connection, so that certificates can be replaced while processes run. Raises OSError."""
        return ssl.create_default_context(cafile=self.tls_ca or None)


class BookiePool:
    """One per process. Call `start` before use and `close` at the end."""

    def __init__(
        self,
        bookies: BookiesStore,
        settings: ReplicationSettings | None = None,
        access: BookieAccess | None = None,
    ) -> None:
        self.settings = settings or ReplicationSettings()
        self._access = access
        self._bookies = bookies
        self._known: dict[str, BookieFacts] = {}
        self._links: dict[str, BookieLink] = {}
        self._connecting: dict[str, asyncio.Task[BookieLink | None]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        # Bookies at which a read timed out, and when. For a while they are read last.
        self._silent: dict[str, float] = {}

    @property
    def known(self) -> Mapping[str, BookieFacts]:
        """The registered bookies by name, as of the last read of the store."""
        return self._known

    async def start(self) -> None:
        await self.refresh()
        for watch in (self._bookies.watch_available, self._bookies.watch_read_only):
            self._tasks.append(asyncio.create_task(self._follow(watch)))

    async def close(self) -> None:
        tasks = [*self._tasks, *self._connecting.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for link in list(self._links.values()):
            link.abort()

    async def refresh(self) -> None:
        self._known = await self._bookies.load()

    async def _follow(self, watch: Callable[[], Watch]) -> None:
        problem = ""
        while True:
            try:
                async with watch() as watching:
                    while True:
                        await self.refresh()
                        problem = ""
                        await watching.changed()
            except StoreError as error:
                if str(error) != problem:
                    problem = str(error)
                    log.warning("bookies: %s", error)
            await asyncio.sleep(self.settings.retry_s)

    # --- which members to read from

    def note_silent(self, name: str) -> None:
        """Record that a read timed out at the bookie, or that it is unreachable."""
        self._silent[name] = asyncio.get_running_loop().time()

    def is_silent(self, name: str) -> bool:
        """Whether to read from the bookie last: otherwise each window of a long read would wait for it again."""
        at = self._silent.get(name)
        return at is not None and asyncio.get_running_loop().time() < at + self.settings.silence_s

    # --- connections

    def open_link(self, name: str) -> BookieLink | None:
        """The connection if it is established."""
        link = self._links.get(name)
        return link if link is not None and link.is_open else None

    async def link(self, name: str) -> BookieLink:
        """The connection, established if needed. Raises DisconnectedError if that fails."""
        link = self.open_link(name)
        if link is not None:
            return link
        task = self._connecting.get(name)
        if task is None:
            task = self._connecting[name] = asyncio.create_task(self._connect(name))
            task.add_done_callback(partial(self._connected, name))
        found = await asyncio.shield(task)
        if found is None or not found.is_open:
            raise DisconnectedError(f"bookie {name} cannot be reached")
        return found

    def _connected(self, name: str, task: asyncio.Task[BookieLink | None]) -> None:
        self._connecting.pop(name, None)

    async def _connect(self, name: str) -> BookieLink | None:
        before = self._known.get(name)
        if before is None:
            with suppress(StoreError):
                await self.refresh()
            before = self._known.get(name)
        if before is None:
            return None
        try:
            async with asyncio.timeout(self.settings.connect_timeout_s):
                link = await self._open(before)
        except (OSError, TimeoutError):
            return None
        except DisconnectedError as error:
            log.warning("bookie %s: %s", name, error)
            return None
        try:
            await self.refresh()
        except StoreError:
            link.abort()
            return None
        after = self._known.get(name)
        if after is None or (after.directory, after.host, after.port) != (
            before.directory,
            before.host,
            before.port,
        ):
            link.abort()
            return None
        self._links[name] = link
        return link

    async def _open(self, facts: BookieFacts) -> BookieLink:
        """Connect and log in. Raises OSError, or DisconnectedError with the reason."""
        access = self._access
        if facts.is_secured and access is None:
            raise DisconnectedError(
                "it requires a login over TLS: give --cluster-user, --cluster-password-file and --link-tls-ca"
            )
        loop = asyncio.get_running_loop()

        def made() -> BookieLink:
            return BookieLink(partial(self._lost, facts.name), timeout_s=self.settings.answer_timeout_s)

        local = "" if facts.is_secured else local_socket(facts.host, facts.directory)
        if local and sys.platform == "linux" and is_uvloop(loop):
            # No such socket: an earlier release, or Apache BookKeeper.
            with suppress(OSError):
                return (await loop.create_unix_connection(made, sock=_connect_local(local)))[1]
        _, link = await loop.create_connection(
            made,
            facts.host,
            facts.port,
            ssl=access.context() if facts.is_secured and access is not None else None,
        )
        if facts.is_secured and access is not None:
            try:
                await link.log_in(access.user, access.password)
            except BaseException:
                link.abort()
                raise
        return link

    def _lost(self, name: str, link: BookieLink) -> None:
        if self._links.get(name) is link:
            del self._links[name]


def _connect_local(name: str) -> socket.socket:
    """Connect to a Unix socket without waiting. Raises OSError."""
    found = socket.socket(socket.AF_UNIX)
    try:
        found.setblocking(False)
        found.connect(name)
    except OSError:
        found.close()
        raise
    return found
