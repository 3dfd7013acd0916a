"""Every limit of a hub, exceeded over real sockets: one row each, and a healthy client at the same time."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from equipoise.access import Users, verify_secret
from equipoise.hub import Hub, Limits
from hub.live import TIMEOUT_S, Peer, live_hub, on_both_loops, on_uvloop, real_users
from hub.world import Error, pipeline, request
from support.polling import until

KIB = 1024
ALICE = 'create = ["*"]\npublish = ["*"]\nsubscribe = ["*"]'


@dataclass(frozen=True)
class Refused:
    """Bytes over a limit, the error, and whether the connection then ends."""

    limits: Limits
    sent: bytes
    said: str
    closes: bool = True
    is_stranger: bool = False


def _ps(*patterns: str) -> bytes:
    return request("PSUBSCRIBE", *patterns)


ROWS = {
    "payload": Refused(
        Limits(payload_bytes_max=100), request("ECHO", "x" * 101), "Protocol error: invalid bulk length"
    ),
    "arguments": Refused(
        Limits(args_max=16), request(*["a"] * 17), "Protocol error: invalid multibulk length"
    ),
    "announced arguments": Refused(Limits(), b"*2000000000\r\n", "Protocol error: invalid multibulk length"),
    "announced bytes": Refused(Limits(), b"*1\r\n$536870912\r\n", "Protocol error: invalid bulk length"),
    "count header": Refused(Limits(), b"*" + b"1" * 32, "Protocol error: too big mbulk count string"),
    "length header": Refused(Limits(), b"*1\r\n$" + b"1" * 32, "Protocol error: too big bulk count string"),
    "digits only": Refused(Limits(), b"*1_0\r\n", "Protocol error: invalid multibulk length"),
    "nesting": Refused(Limits(), b"*1\r\n*1\r\n", "Protocol error: expected '$', got '*'"),
    "typed line": Refused(Limits(), b"x" * 4 * KIB, "Protocol error: too big inline request"),
    "HTTP verb": Refused(
        Limits(), b"POST / HTTP/1.1\r\n", "Protocol error: this is a pub/sub hub, not an HTTP server"
    ),
    "HTTP version": Refused(
        Limits(), b"GET / HTTP/1.1\r\n", "Protocol error: this is a pub/sub hub, not an HTTP server"
    ),
    "HTTP header": Refused(
        Limits(), b"Host: hub\r\n", "Protocol error: this is a pub/sub hub, not an HTTP server"
    ),
    "input buffer": Refused(
        Limits(payload_bytes_max=KIB, input_slack_bytes=KIB),
        b"*1000\r\n" + b"$1000\r\n%b\r\n" % (b"x" * 1000) * 4,
        "Protocol error: request larger than the input limit",
    ),
    "topic name": Refused(
        Limits(topic_bytes_max=16),
        request("SUBSCRIBE", "t" * 17),
        "topic name longer than 16 bytes",
        closes=False,
    ),
    "subscriptions": Refused(
        Limits(subscriptions_max=2), request("SUBSCRIBE", *"abc"), "more than 2 subscriptions", closes=False
    ),
    "patterns": Refused(Limits(patterns_max=2), _ps("a*", "b*", "c*"), "more than 2 patterns", closes=False),
    "pattern bytes": Refused(Limits(), _ps("x" * 257), "pattern longer than 256 bytes", closes=False),
    "pattern wildcards": Refused(Limits(), _ps("?" * 9), "pattern with more than 8 wildcards", closes=False),
    "stranger's arguments": Refused(
        Limits(), b"*11\r\n", "Protocol error: unauthenticated multibulk length", is_stranger=True
    ),
    "stranger's payload": Refused(
        Limits(), b"*1\r\n$4097\r\n", "Protocol error: unauthenticated bulk length", is_stranger=True
    ),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_input_over_a_limit_is_rejected_with_an_error(row: Refused) -> None:
    @on_uvloop
    async def run() -> None:
        users = real_users(alice=ALICE) if row.is_stranger else None
        async with (
            live_hub(row.limits, users) as hub,
            Peer.connected(hub) as peer,
            Peer.connected(hub) as other,
        ):
            peer.send_raw(row.sent)
            refusal = await peer.read()
            assert isinstance(refusal, Error)
            assert row.said in refusal
            if row.closes:
                assert await peer.closed() == b""
            else:
                assert await peer.do("PING") == b"PONG"
            assert await other.do("PING") in (b"PONG", Error("NOAUTH Authentication required."))

    run()


# --- before authentication


@on_both_loops
async def test_an_unauthenticated_client_that_sends_too_much_is_disconnected() -> None:
    limits = Limits(unauthenticated_input_bytes_max=8 * KIB, unauthenticated_output_bytes_max=KIB * KIB)
    async with live_hub(limits, real_users(alice=ALICE)) as hub, Peer.connected(hub) as peer:
        peer.send_raw(request("PING") * 700)
        await peer.closed()
        await until(lambda: not hub.core.sessions)


@on_both_loops
async def test_an_unauthenticated_client_with_too_large_replies_is_disconnected() -> None:
    limits = Limits(unauthenticated_output_bytes_max=2 * KIB)
    async with live_hub(limits, real_users(alice=ALICE)) as hub, Peer.connected(hub) as peer:
        assert await peer.do("PING") == Error("NOAUTH Authentication required.")
        for _ in range(200):
            peer.send("PING")
        # A reset discards unread bytes, so no more may arrive.
        assert len(await peer.closed()) <= 2 * KIB


@on_both_loops
async def test_the_time_to_log_in_is_limited() -> None:
    async with (
        live_hub(Limits(unauthenticated_timeout_s=0.05), real_users(alice=ALICE)) as hub,
        Peer.connected(hub) as silent,
        Peer.connected(hub) as alice,
    ):
        assert await alice.do("AUTH", "alice", "alice") == b"OK"
        assert await silent.closed() == b""
        assert await alice.do("PING") == b"PONG"


@on_both_loops
async def test_logins_are_checked_and_a_wrong_one_is_rejected() -> None:
    async with live_hub(users=real_users(alice=ALICE)) as hub, Peer.connected(hub) as peer:
        peer.send_raw(
            pipeline([["AUTH", "alice", "wrong"], ["AUTH", "unknown", "x"], ["AUTH", "alice", "alice"]])
        )
        peer.send_raw(pipeline([["PING"], ["PUBLISH", "t", "x"]]))
        assert [str(await peer.read())[:9] for _ in range(2)] == ["WRONGPASS"] * 2
        assert [await peer.read() for _ in range(3)] == [b"OK", b"PONG", 0]
        assert await peer.do("AUTH", "alice", "alice") == b"OK"


@on_uvloop
async def test_logins_of_disconnected_clients_are_not_checked() -> None:
    """
    1. One login is being checked, and only one is checked at once.
    2. Fifty clients ask to be logged in and are cut, for the time they have for it is over.
    3. The next client does not wait for their checks.
    """
    is_free, checked = threading.Event(), 0

    def check(encoded: str, password: bytes) -> bool:
        nonlocal checked
        checked += 1
        return is_free.wait(TIMEOUT_S) and verify_secret(encoded, password)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("equipoise.hub.access.login.verify_secret", check)
        limits = Limits(authentications_max=1, login_check_timeout_s=0.5)
        async with live_hub(limits, real_users(alice=ALICE)) as hub, Peer.connected(hub) as first:
            first.send("AUTH", "alice", "wrong")
            await until(lambda: checked == 1)
            for _ in range(50):
                async with Peer.connected(hub) as stranger:
                    stranger.send("AUTH", "alice", "wrong")
                    await stranger.writer.drain()
            await until(lambda: hub.core.stats.commands == 51 and not hub.core.sessions)
            async with Peer.connected(hub) as alice:
                alice.send("AUTH", "alice", "alice")
                is_free.set()
                assert await alice.read() == b"OK"
            assert checked == 2


# --- how many connections


@on_both_loops
async def test_a_connection_over_the_limit_gets_an_error() -> None:
    async with (
        live_hub(Limits(connections_max=2)) as hub,
        Peer.connected(hub) as first,
        Peer.connected(hub) as second,
    ):
        assert await first.do("PING") == await second.do("PING") == b"PONG"
        async with Peer.connected(hub) as third:
            assert await third.read() == Error("ERR max number of clients reached")
            assert await third.closed() == b""
        second.writer.transport.abort()
        await until(lambda: hub.core.admission.count == 1)
        async with Peer.connected(hub) as fourth:
            assert await fourth.do("PING") == b"PONG"
            assert b"rejected_connections:1\r\n" in await fourth.do("INFO", "stats")


@on_both_loops
async def test_a_connection_over_the_limit_of_its_address_gets_an_error() -> None:
    limits = Limits(connections_per_address_max=1, loopback_is_exempt=False)
    async with live_hub(limits) as hub, Peer.connected(hub) as first:
        assert await first.do("PING") == b"PONG"
        async with Peer.connected(hub) as second:
            assert await second.read() == Error("ERR max number of clients per address reached (1)")
            assert await second.closed() == b""


@on_both_loops
async def test_connections_above_the_accept_rate_are_served_in_turn() -> None:
    limits = Limits(accepts_per_s=10, loopback_is_exempt=False)
    loop = asyncio.get_running_loop()
    async with live_hub(limits) as hub:
        async with asyncio.TaskGroup() as group:

            async def ping() -> float:
                async with Peer.connected(hub) as peer:
                    assert await peer.do("PING") == b"PONG"
                    return loop.time()

            began_at = loop.time()
            tasks = [group.create_task(ping()) for _ in range(13)]
        served_after = sorted(task.result() - began_at for task in tasks)
        assert served_after[-1] >= 0.25
        assert hub.core.stats.connections_paced == 3


@on_both_loops
async def test_waiting_to_be_accepted_does_not_use_up_the_time_to_log_in() -> None:
    limits = Limits(accepts_per_s=5, loopback_is_exempt=False, unauthenticated_timeout_s=0.15)
    async with live_hub(limits, real_users(alice=ALICE)) as hub:

        async def log_in() -> object:
            async with Peer.connected(hub) as peer:
                return await peer.do("AUTH", "alice", "alice")

        replies = await asyncio.gather(*(log_in() for _ in range(7)))
        assert replies == [b"OK"] * 7


# --- keepalive


@on_both_loops
async def test_dead_peers_are_probed_for() -> None:
    async with live_hub(Limits(keepalive_s=7)) as hub, Peer.connected(hub) as peer:
        await peer.do("PING")
        (session,) = hub.core.sessions.values()
        sock = session.wire.get_extra_info("socket")
        options = [
            sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
            sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
            sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL),
            sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT),
            sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT),
            sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY),
        ]
        assert options == [1, 7, 7, 2, 14_000, 1]


# --- output


Flood = Callable[[Hub, Peer], Awaitable[None]]


async def flood(hub: Hub, size: int, until: Callable[[], bool]) -> None:
    """Publish to topic t until something has happened."""
    async with Peer.connected(hub) as publisher, asyncio.timeout(20):
        while not until():
            publisher.send("PUBLISH", "t", b"x" * size)
            await publisher.read()


@on_both_loops
async def test_a_subscriber_that_does_not_read_is_cut_at_its_hard_limit() -> None:
    limits = Limits(output_bytes_max=256 * KIB, output_soft_bytes=256 * KIB)
    async with live_hub(limits) as hub, Peer.connected(hub) as slow, Peer.connected(hub) as healthy:
        await slow.do("SUBSCRIBE", "t")
        await healthy.do("SUBSCRIBE", "t")
        slow.stop_reading()
        drained = asyncio.create_task(healthy.closed())
        await flood(hub, 64 * KIB, lambda: hub.core.backlogs.cuts == 1)
        assert len(hub.core.sessions) == 2
        topic = hub.core.index.topics[b"t"]
        assert (topic.cuts, hub.core.backlogs.bytes) == (1, 0)
        assert topic.drops > 0
        drained.cancel()


@on_both_loops
async def test_a_subscriber_that_stays_behind_is_cut_after_its_soft_time() -> None:
    limits = Limits(output_bytes_max=64 * KIB * KIB, output_soft_bytes=64 * KIB, output_soft_s=0.05)
    async with live_hub(limits) as hub, Peer.connected(hub) as slow:
        await slow.do("SUBSCRIBE", "t")
        slow.stop_reading()
        await flood(hub, 256 * KIB, lambda: hub.core.backlogs.bytes > 64 * KIB)
        await until(lambda: hub.core.backlogs.cuts == 1)


@on_both_loops
async def test_all_together_hold_no_more_than_their_share_of_memory() -> None:
    hub_limits = Limits(output_bytes_max=64 * KIB * KIB, output_soft_bytes=64 * KIB * KIB)
    async with live_hub(hub_limits) as hub:
        hub.core.backlogs.bytes_max = 2 * KIB * KIB
        async with Peer.connected(hub) as one, Peer.connected(hub) as other:
            for peer in (one, other):
                await peer.do("SUBSCRIBE", "t")
                peer.stop_reading()
            await flood(hub, 64 * KIB, lambda: hub.core.backlogs.cuts == 1)
            assert hub.core.backlogs.bytes <= 2 * KIB * KIB + 128 * KIB


@on_both_loops
async def test_a_client_that_quits_without_reading_does_not_stay() -> None:
    async with live_hub() as hub, Peer.connected(hub) as slow:
        await slow.do("SUBSCRIBE", "t")
        slow.stop_reading()
        await flood(hub, 256 * KIB, lambda: hub.core.backlogs.bytes > 512 * KIB)
        slow.send("QUIT")
        await until(lambda: len(hub.core.sessions) <= 1 and not hub.core.backlogs.lagging)
        assert hub.core.admission.count >= 1


@pytest.mark.parametrize("users", [None, Users([])], ids=["open", "closed"])
def test_disconnected_clients_are_not_counted(users: Users | None) -> None:
    @on_uvloop
    async def run() -> None:
        async with live_hub(users=users) as hub:
            for _ in range(300):
                async with Peer.connected(hub) as peer:
                    peer.send_raw(b"\r\n")
            await until(lambda: hub.core.admission.count == 0)
            assert hub.core.sessions == {}

    run()
