"""Slow, dead and half-open subscribers do not affect healthy ones, which get everything in order."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from equipoise.hub import Hub, Limits
from hub.live import TIMEOUT_S, Peer, assert_quiet, live_hub, on_both_loops, run_on
from hub.world import request
from support.polling import until

KIB = 1024
MESSAGES = 600
STUCK = 3
TIGHT = Limits(output_bytes_max=512 * KIB, output_soft_bytes=256 * KIB, output_soft_s=0.2)


@asynccontextmanager
async def subscribed_socket(hub: Hub, name: str) -> AsyncIterator[socket.socket]:
    """Subscribed and, from then on, not reading; its kernel buffer holds little, so that it is full soon."""
    loop = asyncio.get_running_loop()
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * KIB)
        sock.setblocking(False)
        await loop.sock_connect(sock, ("127.0.0.1", hub.port))
        await loop.sock_sendall(sock, request("SUBSCRIBE", name))
        async with asyncio.timeout(TIMEOUT_S):
            assert b"subscribe" in await loop.sock_recv(sock, 100)
        yield sock


async def publish_all(hub: Hub, name: str, count: int = MESSAGES) -> None:
    """More than the kernel's buffers hold for a client that does not read."""
    async with Peer.connected(hub) as publisher:
        for start in range(0, count, 50):
            for i in range(start, start + 50):
                publisher.send("PUBLISH", name, b"%06d" % i + b"x" * 14 * KIB)
            for _ in range(50):
                await publisher.read()


async def receive_all(peer: Peer, count: int = MESSAGES) -> list[int]:
    return [int((await peer.read())[2][:6]) for _ in range(count)]


@pytest.mark.parametrize("loop_name", ["uvloop", "asyncio"])
def test_healthy_subscribers_get_everything_though_others_are_slow_or_dead(
    loop_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            hub = await stack.enter_async_context(live_hub(TIGHT))
            healthy = [await stack.enter_async_context(Peer.connected(hub)) for _ in range(5)]
            for peer in healthy:
                await peer.do("SUBSCRIBE", "t")
            for _ in range(STUCK):
                await stack.enter_async_context(subscribed_socket(hub, "t"))
            half_open = await stack.enter_async_context(subscribed_socket(hub, "t"))
            half_open.shutdown(socket.SHUT_WR)
            reset = await stack.enter_async_context(subscribed_socket(hub, "t"))
            reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            reading = [asyncio.create_task(receive_all(peer)) for peer in healthy]
            publishing = asyncio.create_task(publish_all(hub, "t"))
            await until(lambda: hub.core.index.topics[b"t"].n > 100)
            reset.close()
            await publishing
            for numbers in await asyncio.gather(*reading):
                assert numbers == list(range(MESSAGES))
            await until(lambda: len(hub.core.sessions) == len(healthy))
            assert hub.core.backlogs.cuts == STUCK
            assert hub.core.backlogs.bytes == 0

    run_on(loop_name, main)
    assert_quiet(caplog)


@on_both_loops
async def test_a_slow_reader_within_its_limits_gets_everything() -> None:
    limits = Limits(output_bytes_max=8 * KIB * KIB, output_soft_bytes=8 * KIB * KIB)
    async with live_hub(limits) as hub, Peer.connected(hub) as slow:
        await slow.do("SUBSCRIBE", "t")
        slow.stop_reading()
        await publish_all(hub, "t", 500)
        await until(lambda: hub.core.backlogs.lagging)
        slow.writer.transport.resume_reading()  # type: ignore[attr-defined]  # a socket's transport has it
        assert await receive_all(slow, 500) == list(range(500))
        await until(lambda: not hub.core.backlogs.lagging)
        assert hub.core.backlogs.bytes == 0


@on_both_loops
async def test_a_client_that_closes_its_side_gets_its_replies_and_is_gone() -> None:
    async with live_hub() as hub, Peer.connected(hub) as peer:
        peer.send_raw(request("SUBSCRIBE", "t") + request("PING"))
        peer.writer.write_eof()
        assert await peer.closed() == (
            b"*3\r\n$9\r\nsubscribe\r\n$1\r\nt\r\n:1\r\n*2\r\n$4\r\npong\r\n$0\r\n\r\n"
        )
        await until(lambda: not hub.core.sessions)
        assert not hub.core.index.topics[b"t"].members


@on_both_loops
async def test_a_half_open_subscriber_is_not_sent_messages_for_ever() -> None:
    """
    1. A subscriber has much unsent, closes its side and does not read.
    2. It is no longer a subscriber, though its connection still has buffered output.
    """
    async with live_hub() as hub, subscribed_socket(hub, "t") as sock:
        await publish_all(hub, "t", 500)
        await until(lambda: hub.core.backlogs.lagging)
        sock.shutdown(socket.SHUT_WR)
        await until(lambda: not hub.core.index.topics[b"t"].members)
        assert not hub.core.backlogs.lagging


@on_both_loops
async def test_stopping_ends_every_connection_and_leaves_no_state() -> None:
    async with live_hub() as hub, subscribed_socket(hub, "t"):
        await publish_all(hub, "t", 500)
        async with Peer.connected(hub) as idle:
            await idle.do("SUBSCRIBE", "other")
            await hub.stop()
            assert await idle.closed() == b""
        assert hub.core.admission.count == 0
        assert hub.core.backlogs.bytes == 0
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        assert not tasks


@on_both_loops
async def test_a_stopped_hub_accepts_no_connections() -> None:
    async with live_hub() as hub:
        await hub.stop()
        with pytest.raises(ConnectionError):
            async with Peer.connected(hub) as peer:
                await peer.do("PING")
