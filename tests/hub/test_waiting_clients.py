"""Clients that disconnect while their command waits: real sockets notice it, a paused transport would not."""

from __future__ import annotations

import asyncio
import socket
import struct

import pytest

from hub.live import Peer, live_hub, run_on
from hub.world import request
from support.polling import until


async def leave_while_waiting(behind: bytes, *, is_reset: bool) -> None:
    """A hub that knows no other hub yet confirms no subscription, so the subscription waits."""
    loop = asyncio.get_running_loop()
    async with live_hub() as hub:
        hub.join_cluster()
        sock = socket.create_connection(("127.0.0.1", hub.port))
        sock.setblocking(False)
        await loop.sock_sendall(sock, request("SUBSCRIBE", "t"))
        await until(lambda: any(session.is_busy for session in hub.core.sessions.values()))
        await loop.sock_sendall(sock, behind)
        if is_reset:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
        before = loop.time()
        await until(lambda: not hub.core.sessions)
        assert loop.time() - before < 3.0, "before the subscription expires"
        async with Peer.connected(hub) as other:
            assert await other.do("PING") == b"PONG"


@pytest.mark.parametrize("loop_name", ["uvloop", "asyncio"])
@pytest.mark.parametrize("is_reset", [False, True], ids=["fin", "rst"])
@pytest.mark.parametrize("behind", [b"", request("ECHO", "x" * 200_000)], ids=["silent", "paused"])
def test_a_client_that_leaves_while_its_subscription_waits_is_noticed(
    loop_name: str, is_reset: bool, behind: bytes
) -> None:
    run_on(loop_name, lambda: leave_while_waiting(behind, is_reset=is_reset))
