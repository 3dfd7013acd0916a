"""Requests to a store over channels that reconnect: retries, and uncertain outcomes.

The contract is `contract.Store`. Always true: a write is sent under one session only; if that ends, the write raises
and is not sent again. `session` keeps sessions alive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from equipoise.errors import BadVersionError, NodeError, NodeExistsError, NoNodeError, SessionLostError
from equipoise.store.backends.channel import ChannelGoneError, StoreChannel
from equipoise.store.backends.session import SessionKeeper
from equipoise.store.contract import Answer, Node, Read, Watch, WatchKind, ancestors, check_data, check_path

__all__ = ["ConnectedStore"]

T = TypeVar("T")
# A request on a channel; the flag says that an earlier attempt may have been executed.
Attempt = Callable[[StoreChannel, bool], Awaitable[T]]


class ConnectedStore(SessionKeeper):
    """A store without its driver, which a subclass adds: memory, remote and ZooKeeper."""

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False) -> Node:
        check_path(path)
        check_data(path, data)

        async def attempt(channel: StoreChannel, in_doubt: bool) -> Node:
            try:
                return await channel.create(path, data, ephemeral)
            except NodeExistsError:
                # The first attempt may have succeeded though its reply was lost: check the owner of the node.
                found = await channel.get(path) if in_doubt else None
                owner = channel.session if ephemeral else 0
                if found is None or (found.data, found.owner, found.version) != (data, owner, 0):
                    raise
                return found

        return await self._write(attempt)

    async def get(self, path: str) -> Node:
        check_path(path)
        return await self._read(lambda channel: channel.get(path))

    async def find(self, path: str) -> Node | None:
        try:
            return await self.get(path)
        except NoNodeError:
            return None

    async def set(self, path: str, data: bytes, *, version: int | None) -> Node:
        check_path(path)
        check_data(path, data)

        async def attempt(channel: StoreChannel, in_doubt: bool) -> Node:
            try:
                return await channel.set(path, data, version)
            except BadVersionError:
                found = await channel.get(path) if in_doubt else None
                if version is None or found is None or (found.data, found.version) != (data, version + 1):
                    raise
                return found

        return await self._write(attempt)

    async def delete(self, path: str, *, version: int | None = None) -> None:
        check_path(path)

        async def attempt(channel: StoreChannel, in_doubt: bool) -> None:
            try:
                await channel.delete(path, version)
            except NoNodeError:
                if not in_doubt:
                    raise

        await self._write(attempt)

    async def children(self, path: str) -> tuple[str, ...]:
        check_path(path)
        return await self._read(lambda channel: channel.children(path))

    async def read(self, reads: Sequence[Read]) -> tuple[Answer, ...]:
        return await self._read_in_order(reads)

    async def sync(self) -> None:
        await self._read(lambda channel: channel.sync())

    async def ensure(self, path: str) -> None:
        check_path(path)
        if await self.find(path) is not None:
            return
        for ancestor in ancestors(path):
            try:
                await self.create(ancestor)
            except NodeExistsError:
                pass

    def watch(self, path: str, kind: WatchKind = WatchKind.DATA) -> Watch:
        check_path(path)
        return self._watches.make(path, kind, self._arm, self._read_in_order)

    async def _arm(self, path: str, kind: WatchKind) -> None:
        await self._read(lambda channel: channel.arm(path, kind))

    async def _read_in_order(self, reads: Sequence[Read], watch: Read | None = None) -> tuple[Answer, ...]:
        for read in reads:
            check_path(read.path)
        return await self._read(lambda channel: channel.read(reads, watch))

    async def _read(self, ask: Callable[[StoreChannel], Awaitable[T]]) -> T:
        """Retry until there is a reply or the time is up, over sessions."""
        try:
            async with asyncio.timeout(self.settings.request_timeout_s):
                while True:
                    channel = await self._wait_for_channel()
                    try:
                        return await self._answer(channel, lambda channel, _: ask(channel))
                    except (ChannelGoneError, SessionLostError):
                        continue
        except TimeoutError as problem:
            raise self._unavailable() from problem

    async def _write(self, attempt: Attempt[T]) -> T:
        """Retry until there is a reply or the time is up, under the session at the time of the call.

        Without one, under the first session from then on.
        """
        session, in_doubt = self._session, False
        try:
            async with asyncio.timeout(self.settings.request_timeout_s):
                while True:
                    channel = await self._wait_for_channel(session)
                    session = channel.session
                    try:
                        return await self._answer(channel, attempt, in_doubt)
                    except ChannelGoneError:
                        in_doubt = True
        except TimeoutError as problem:
            raise self._unavailable() from problem

    async def _answer(self, channel: StoreChannel, attempt: Attempt[T], in_doubt: bool = False) -> T:
        """Send the request once, and update the state of the session by the reply."""
        asked_at = asyncio.get_running_loop().time()
        try:
            answer = await attempt(channel, in_doubt)
        except NodeError:
            self._on_answered(channel, asked_at)
            raise
        except ChannelGoneError:
            self._on_suspended(channel)
            raise
        except SessionLostError:
            self._on_ended(channel)
            raise
        self._on_answered(channel, asked_at)
        return answer
