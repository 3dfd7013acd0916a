"""A bookie writes and syncs in its loop while the disk is fast, else in a thread."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from bookie.rig import KEY, Rig, stored
from equipoise.bookie.server import BookieServer
from equipoise.disk import DirectoryDisk
from equipoise.errors import DiskFailedError
from equipoise.ledger.registration import BookieFacts, local_socket
from equipoise.ledger.wire import Code, decode_answer, encode_add
from equipoise.ledger_client.bookie_pool import BookiePool
from hub.live import on_uvloop

LEDGER = 7
# Longer than any sync of a test takes, on any machine.
ALWAYS_S = 1e6


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._entry = 0

    async def add(self, count: int = 1) -> list[Code]:
        """Several in one piece."""
        for _ in range(count):
            self._writer.write(encode_add(KEY, stored(LEDGER, self._entry)))
            self._entry += 1
        codes = []
        for _ in range(count):
            size = int.from_bytes(await self._reader.readexactly(4), "big")
            answer = decode_answer(await self._reader.readexactly(size))
            codes.append(getattr(answer, "code", Code.UNKNOWN))
        return codes

    async def close(self) -> None:
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


class Served:
    def __init__(self, server: BookieServer, port: int, running: asyncio.Task[None]) -> None:
        self.server, self.port, self.running = server, port, running
        self.clients: list[Client] = []

    async def client(self) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port))
        self.clients.append(client)
        return client


@asynccontextmanager
async def served(folder: Path, loop_sync_s: float, local: str = "") -> AsyncIterator[Served]:
    rig = Rig(DirectoryDisk(folder / "b1"))
    server = BookieServer(rig.disk, rig.engine, loop_sync_s=loop_sync_s)
    port = await server.bind("127.0.0.1", 0, local=local)
    await server.accept()
    found = Served(server, port, asyncio.create_task(server.run()))
    try:
        yield found
    finally:
        for client in found.clients:
            await client.close()
        found.running.cancel()
        await asyncio.gather(found.running, return_exceptions=True)
        await server.close()
        rig.engine.segments.close()


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each sync of a segment, whether it was made in the loop's thread."""
    found: list[bool] = []
    original: Callable[[int], None] = os.fdatasync
    loop_thread = threading.get_ident()

    def sync(descriptor: int) -> None:
        found.append(threading.get_ident() == loop_thread)
        original(descriptor)

    monkeypatch.setattr(os, "fdatasync", sync)
    return found


@on_uvloop
async def test_a_fast_disk_is_synced_in_the_loop_after_the_first_group(
    tmp_path: Path, syncs: list[bool]
) -> None:
    async with served(tmp_path, ALWAYS_S) as found:
        client = await found.client()
        for count in (1, 1, 20):
            assert await client.add(count) == [Code.OK] * count
        assert syncs[0] is False and set(syncs[1:]) == {True}


@on_uvloop
async def test_a_setting_forbids_syncs_in_the_loop(tmp_path: Path, syncs: list[bool]) -> None:
    async with served(tmp_path, 0.0) as found:
        client = await found.client()
        for _ in range(3):
            assert await client.add() == [Code.OK]
        assert syncs and not any(syncs)


@on_uvloop
async def test_after_two_slow_syncs_a_thread_executes_the_next(
    tmp_path: Path, syncs: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path, 0.2) as found:
        client = await found.client()
        await client.add()
        # Whatever the machine did: the last group was quick.
        found.server._sync_s.append(0.0)
        counted = os.fdatasync

        def slow(descriptor: int) -> None:
            time.sleep(0.3)
            counted(descriptor)

        monkeypatch.setattr(os, "fdatasync", slow)
        before = len(syncs)
        for _ in range(3):
            await client.add()
        assert syncs[before:] == [True, True, False]


@on_uvloop
async def test_a_bookie_on_loopback_is_reached_by_a_unix_socket_too(tmp_path: Path) -> None:
    local = local_socket("127.0.0.1", str(tmp_path))
    async with served(tmp_path, ALWAYS_S, local) as found:
        pool = BookiePool(None)  # type: ignore[arg-type]  # the store is not asked for a connection
        facts = BookieFacts(name="b1", host="127.0.0.1", port=1, directory=str(tmp_path))
        link = await pool._open(facts)
        answers: asyncio.Queue[Code] = asyncio.Queue()
        link.add(LEDGER, 0, KEY, stored(LEDGER, 0), answers.put_nowait)
        assert await answers.get() is Code.OK
        link.abort()
        # Without such a socket: TCP.
        other = await pool._open(replace(facts, port=found.port, directory="another"))
        other.add(LEDGER, 1, KEY, stored(LEDGER, 1), answers.put_nowait)
        assert await answers.get() is Code.OK
        other.abort()


@pytest.mark.parametrize("host", ["10.0.0.1", "0.0.0.0", "bookie.example"])
def test_a_bookie_beyond_loopback_has_no_unix_socket(host: str) -> None:
    assert local_socket(host, "salt") == "" and "salt" not in local_socket("::1", "salt")


@on_uvloop
async def test_while_the_thread_uses_the_disk_the_loop_does_not(tmp_path: Path, syncs: list[bool]) -> None:
    async with served(tmp_path, ALWAYS_S) as found:
        client = await found.client()
        await client.add()
        free = threading.Event()
        other = asyncio.create_task(found.server.in_thread(free.wait))
        await asyncio.sleep(0)
        adding = asyncio.create_task(client.add())
        done, _ = await asyncio.wait([adding], timeout=0.1)
        assert not done
        free.set()
        assert await adding == [Code.OK]
        await other
        assert syncs[-1] is False


@on_uvloop
async def test_a_failed_sync_in_the_loop_ends_the_bookie_without_a_reply(
    tmp_path: Path, syncs: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path, ALWAYS_S) as found:
        client = await found.client()
        await client.add()

        def fail(descriptor: int) -> None:
            raise OSError(errno.EIO, "broken")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", fail)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await client.add()
            with pytest.raises(DiskFailedError):
                await asyncio.wait_for(found.running, 30)
        assert not found.server.connections
