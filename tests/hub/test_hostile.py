"""Hostile bytes: each input is answered or ends its connection, and other clients are not affected."""

from __future__ import annotations

import asyncio
import random

import pytest

from equipoise.hub import Hub, Limits
from hub.live import Peer, assert_quiet, live_hub, on_both_loops, on_uvloop, real_users, run_on
from hub.world import World, pipeline, request
from support.polling import until

# Pieces that mean something to a parser, in places where they should not be.
_SCRAPS = [
    b"*1\r\n",
    b"*3\r\n",
    b"*-1\r\n",
    b"*0\r\n",
    b"*2000000000\r\n",
    b"*99999999999999999999\r\n",
    b"$-1\r\n",
    b"$0\r\n\r\n",
    b"$4\r\nPING\r\n",
    b"$7\r\nPUBLISH\r\n",
    b"$1\r\nt\r\n",
    b"$536870912\r\n",
    b">3\r\n",
    b"~2000000000\r\n",
    b"%1\r\n",
    b"|1\r\n",
    b"=6\r\ntxt:ab\r\n",
    b"+OK\r\n",
    b":1\r\n",
    b"-ERR\r\n",
    b"_\r\n",
    b"#t\r\n",
    b",1.5\r\n",
    b"(12\r\n",
    b"\r\n",
    b"\n",
    b"\0",
    b'"',
    b"'",
    b"\\x",
    b"PING\r\n",
    b"SUBSCRIBE t\r\n",
    b"MULTI\r\n",
    b"EVAL x 0\r\n",
    b"GET / HTTP/1.1\r\n",
    b"CONFIG GET *\r\n",
    b"\xff\xfe\xfd",
    b"\x16\x03\x01\x02\x00\x01\x00",
]
_WORDS = [
    *(
        b"PING HELLO AUTH RESET QUIT CLIENT COMMAND CONFIG INFO PUBSUB SELECT ECHO EQ.LINK EQ.SUBSCRIBE"
    ).split(),
    *(b"SUBSCRIBE PSUBSCRIBE SSUBSCRIBE UNSUBSCRIBE PUNSUBSCRIBE SUNSUBSCRIBE PUBLISH SPUBLISH").split(),
    *(b"LIST KILL ID TYPE SETNAME SETINFO REPLY ON OFF SKIP DOCS GET CHANNELS NUMSUB HELP lib-name").split(),
    b"",
    b"*",
    b"[",
    b"\\",
    b"$x",
    b"t",
    b"0",
    b"-1",
    b"2",
    b"3",
    b"\xff" * 20,
    b"\xc3\x28",
    b"a b",
    b"x" * 300,
]


def garbage(rng: random.Random) -> bytes:
    kind = rng.randrange(4)
    if kind == 0:
        return rng.randbytes(rng.randint(1, 64))
    if kind == 1:
        return b"".join(rng.choices(_SCRAPS, k=rng.randint(1, 8)))
    sent = pipeline(rng.choices(_WORDS, k=rng.randint(1, 5)) for _ in range(rng.randint(1, 4)))
    if kind == 2:
        return sent
    flipped = bytearray(sent)
    for _ in range(rng.randint(1, 3)):
        flipped[rng.randrange(len(flipped))] = rng.randrange(256)
    return bytes(flipped)


@pytest.mark.parametrize("seed", range(4))
def test_no_bytes_raise_and_a_healthy_client_stays_served(seed: int) -> None:
    rng = random.Random(seed)
    world = World(limits=Limits(payload_bytes_max=2_000, input_slack_bytes=1_024))
    subscriber, publisher = world.client(3), world.client()
    subscriber.send("EQ.SUBSCRIBE", "healthy")
    subscriber.read()
    attacker = world.client()
    for n in range(1, 1_501):
        if not attacker.is_connected() or rng.random() < 0.02:
            attacker.wire.abort()
            attacker = world.client(rng.choice((2, 3)))
        attacker.send_raw(garbage(rng))
        world.advance(0.001)
        if not subscriber.is_connected():
            # The generator produced CLIENT KILL, which is allowed on a hub without users.
            subscriber, publisher = world.client(3), world.client()
            subscriber.send("EQ.SUBSCRIBE", "healthy")
            subscriber.read()
        if not n % 50:
            publisher = publisher if publisher.is_connected() else world.client()
            assert publisher.do("PUBLISH", "healthy", b"%d" % n) >= 1
            assert subscriber.read()[-1][-1] == b"%d" % n
    assert world.core.backlogs.bytes == 0


@pytest.mark.parametrize("loop_name", ["uvloop", "asyncio"])
def test_hostile_connections_end_without_an_exception_in_the_log(
    loop_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def attack(hub: Hub, rng: random.Random) -> None:
        async with Peer.connected(hub) as peer:
            for _ in range(rng.randint(1, 10)):
                if peer.writer.is_closing():
                    return
                peer.send_raw(garbage(rng))
                await asyncio.sleep(0)
            if rng.random() < 0.5 and not peer.writer.is_closing():
                peer.writer.write_eof()

    async def main() -> None:
        rng = random.Random(11)
        limits = Limits(payload_bytes_max=2_000, input_slack_bytes=1_024, unauthenticated_timeout_s=1)
        grants = 'create = ["*"]\npublish = ["*"]\nsubscribe = ["*"]'
        async with (
            live_hub(limits, real_users(alice=grants)) as hub,
            Peer.connected(hub) as subscriber,
            Peer.connected(hub) as publisher,
        ):
            for peer in (subscriber, publisher):
                assert await peer.do("AUTH", "alice", "alice") == b"OK"
            await subscriber.do("SUBSCRIBE", "healthy")
            for n in range(40):
                await asyncio.gather(*(attack(hub, rng) for _ in range(5)), return_exceptions=True)
                assert await publisher.do("PUBLISH", "healthy", str(n)) == 1
                assert await subscriber.read() == [b"message", b"healthy", b"%d" % n]
            await until(lambda: hub.core.admission.count == 2)

    run_on(loop_name, main)
    assert_quiet(caplog)


@on_both_loops
async def test_a_connection_that_drips_bytes_does_not_slow_the_others() -> None:
    """A request of a thousand words, byte by byte, beside a client that pings."""
    async with live_hub() as hub, Peer.connected(hub) as dripping, Peer.connected(hub) as other:
        dripping.send_raw(b"*1024\r\n" + b"$1\r\na\r\n" * 1_000)
        for byte in b"$1\r\na\r\n" * 24:
            dripping.send_raw(bytes([byte]))
            assert await other.do("PING") == b"PONG"
        assert "unknown command 'a'" in await dripping.read()


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(request("PUBSUB", "CHANNELS", b"*" * 500_000), id="pattern of stars"),
        pytest.param(request("PUBSUB", "CHANNELS", b"a*" * 250_000), id="pattern of pieces"),
        pytest.param(request("PUBSUB", "CHANNELS", b"[" * 500_000), id="pattern of classes"),
        pytest.param(request("CONFIG", "GET", *[b"*" * 900] * 1_000), id="config patterns"),
        pytest.param(request("PSUBSCRIBE", b"x" * 1_000_000), id="long pattern"),
        pytest.param(request("CLIENT", "SETNAME", b"x" * 1_000_000), id="long name"),
        pytest.param(request("HELLO", "3", "SETNAME", b"x" * 1_000_000), id="long hello"),
        pytest.param(request(b"x" * 1_000_000), id="long command"),
        pytest.param(request("CLIENT", "KILL", *[b"id", b"1"] * 500), id="many filters"),
        pytest.param(request("COMMAND", "DOCS", *[b"x" * 900] * 1_000), id="many names"),
        pytest.param(request("INFO", *[b"x" * 900] * 1_000), id="many sections"),
        pytest.param(request("SUBSCRIBE", *[b"%4000d" % i for i in range(500)]), id="long topics"),
        pytest.param(request("PSUBSCRIBE", *[b"*?%0240d" % i for i in range(1_000)]), id="long patterns"),
        pytest.param(request("EQ.LINK", b"x" * 1_000_000), id="long link"),
        pytest.param(request("AUTH", b"x" * 1_000_000, b"y"), id="long user"),
    ],
)
def test_large_arguments_are_dealt_with(sent: bytes) -> None:
    @on_uvloop
    async def run() -> None:
        async with live_hub() as hub, Peer.connected(hub) as peer, Peer.connected(hub) as other:
            peer.send_raw(sent)
            await peer.read()
            assert await other.do("PING") == b"PONG"

    run()
