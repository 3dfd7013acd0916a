"""Limits of unauthenticated clients at the dashboard's server: connections, streams, and time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from equipoise.web.app import EVENT_SHARED, STREAMS_PER_PEER_MAX
from equipoise.web.facts import ClusterFacts
from equipoise.web.peer_slots import PeerSlots
from equipoise.web.serving import PER_PEER_MAX, REQUEST_S
from web.site_world import REFRESH_S, TOKEN, Site, play

PATIENCE_S = 30.0
ASK = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def port_of(site: Site) -> int:
    return int(site.address.rpartition(":")[2])


async def opened(site: Site, sent: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(site))
    writer.write(sent)
    return reader, writer


async def ended(reader: asyncio.StreamReader) -> None:
    try:
        while await reader.read(65536):
            pass
    except ConnectionError:
        pass


def test_slots_are_limited_in_total_and_per_peer() -> None:
    slots = PeerSlots(3, 2)
    assert [slots.take(peer) for peer in "aaabb"] == [True, True, False, True, False]
    slots.give_back("a")
    assert slots.take("b")
    assert not slots.take("c")
    assert slots.total == 3


@pytest.mark.parametrize("sent", [b"", ASK[:20], ASK + ASK[:20]], ids=["silent", "half", "second half"])
def test_a_connection_without_a_whole_request_is_closed_soon(sent: bytes) -> None:
    async def scenario(site: Site) -> None:
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        reader, writer = await opened(site, sent)
        async with asyncio.timeout(REQUEST_S + PATIENCE_S):
            await ended(reader)
        # Timers may be early by the resolution of the clock.
        assert loop.time() - began_at >= REQUEST_S - 0.1
        writer.transport.abort()

    play(scenario)


def test_silent_connections_block_others_for_two_seconds_at_most() -> None:
    """
    1. Twice as many connections are opened as one address may have, without a request.
    2. Those above the bound are closed at once, the others after two seconds; then requests are answered.
    """

    async def scenario(site: Site) -> None:
        silent = [await opened(site) for _ in range(2 * PER_PEER_MAX)]
        async with asyncio.timeout(REQUEST_S + PATIENCE_S):
            await asyncio.gather(*(ended(reader) for reader, _ in silent))
        assert (await site.ask("/healthz"))[0] == 200
        for _, writer in silent:
            writer.transport.abort()

    play(scenario)


def test_the_streams_of_one_address_are_limited_and_released() -> None:
    asked = f"GET /api/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()

    async def head(reader: asyncio.StreamReader) -> bytes:
        return await reader.readline()

    async def scenario(site: Site) -> None:
        streams = [await opened(site, asked) for _ in range(STREAMS_PER_PEER_MAX)]
        for reader, _ in streams:
            assert b" 200 " in await head(reader)
        reader, writer = await opened(site, asked)
        assert b" 503 " in await head(reader)
        writer.transport.abort()
        for _, one in streams:
            one.transport.abort()
        async with asyncio.timeout(PATIENCE_S):
            while True:
                reader, writer = await opened(site, asked)
                answer = await head(reader)
                writer.transport.abort()
                if b" 200 " in answer:
                    return
                await asyncio.sleep(0.05)

    play(scenario, token=TOKEN)


def test_all_open_pages_get_one_encoded_overview(monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0
    overview = ClusterFacts.overview

    def counted(facts: ClusterFacts) -> Any:
        nonlocal made
        made += 1
        return overview(facts)

    async def events(reader: asyncio.StreamReader, count: int) -> None:
        found = 0
        while found < count:
            line = await reader.readline()
            if line.startswith(b"data: "):
                json.loads(line[6:])
                found += 1

    async def scenario(site: Site) -> None:
        monkeypatch.setattr(ClusterFacts, "overview", counted)
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        asked = b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
        streams = [await opened(site, asked) for _ in range(10)]
        await asyncio.gather(*(events(reader, 4) for reader, _ in streams))
        # However long that took, there was one for each time that one is shared for, and not forty.
        assert made <= 1 + (loop.time() - began_at) / (EVENT_SHARED * REFRESH_S)
        for _, writer in streams:
            writer.transport.abort()

    play(scenario)
