"""What does the client cost per message, in seconds of its own processor time?

    python benchmarks/micro/client.py [--seconds 2] [--json]

Estimate: hiredis parses a payload inside a batched push in 0.06 µs and an integer reply in 0.06 µs; making a
Message and passing it through `async for` should cost about 1 µs, encoding and accounting a publish about 2 µs. So
half a million received and a quarter of a million published per second of processor time would be near what Python
allows; the aims are 200,000 and 80,000.

Finding (2 cores shared with other work, Python 3.11, uvloop): 400,000 to 460,000 received in batches of 50, 150,000
to 190,000 one per push, 420,000 to 550,000 published without receipt, 70,000 to 100,000 with.

Method: the client and a peer without logic run in separate processes on loopback. The peer sends batches of 50 payloads
of 100 bytes (then single ones) from one pre-encoded buffer as fast as the client reads, or replies to every publish
without parsing it. Only the processor time of the client's process counts, uvloop's included.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import socket
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection

import uvloop

import equipoise
from equipoise.errors import BackloggedError

PAYLOAD = b"x" * 100
PUBLISH = b"*3\r\n$7\r\nPUBLISH\r\n$5\r\nbench\r\n$100\r\n" + PAYLOAD + b"\r\n"
EPOCH = 1
CHUNK_BYTES = 256 * 1024


def read_to(peer: socket.socket, data: bytes, end: bytes) -> tuple[bytes, bytes]:
    """Read until `end` has arrived; return the bytes before it and the bytes after it."""
    while end not in data:
        data += peer.recv(CHUNK_BYTES)
    before, _, after = data.partition(end)
    return before, after


def greet(peer: socket.socket) -> bytes:
    """Reply to HELLO and the CLIENT commands after it, the last of which sends the version; return the bytes after."""
    _, rest = read_to(peer, b"", b"HELLO\r\n$1\r\n3\r\n")
    peer.sendall(b"%1\r\n+server\r\n+peer\r\n")
    courtesies, rest = read_to(peer, rest, equipoise.__version__.encode() + b"\r\n")
    peer.sendall(b"+OK\r\n" * courtesies.count(b"*"))
    return rest


def serve_messages(listener: socket.socket, batch: int) -> None:
    """Confirm one subscription, then send messages until the client goes."""
    peer, _ = listener.accept()
    read_to(peer, greet(peer), b"EQ.SUBSCRIBE\r\n$5\r\nbench\r\n")
    peer.sendall(b">5\r\n$12\r\neq.subscribe\r\n$5\r\nbench\r\n:1\r\n:%d\r\n:0\r\n" % EPOCH)
    n = 1
    try:
        while True:
            frames = []
            for _ in range(max(1, 1000 // batch)):
                frames.append(
                    b">%d\r\n$10\r\neq.message\r\n$5\r\nbench\r\n:%d\r\n:%d\r\n" % (4 + batch, EPOCH, n)
                )
                frames.append((b"$100\r\n" + PAYLOAD + b"\r\n") * batch)
                n += batch
            peer.sendall(b"".join(frames))
    except OSError:
        return


def serve_receipts(listener: socket.socket) -> None:
    """Answer every publish by its length, and the ping of a flush after it."""
    peer, _ = listener.accept()
    data = greet(peer)
    try:
        while True:
            publishes = data.count(PUBLISH)
            pings = data.count(b"PING\r\n")
            data = data[publishes * len(PUBLISH) + pings * len(b"*1\r\n$4\r\nPING\r\n") :]
            peer.sendall(b":1\r\n" * publishes + b"+PONG\r\n" * pings)
            more = peer.recv(CHUNK_BYTES)
            if not more:
                return
            data += more
    except OSError:
        return


async def receive(url: str, seconds: float) -> float:
    """Messages per second of processor time, taken one by one through the iterator."""
    async with (
        equipoise.connect(url, coordinate_enabled=False) as bus,
        bus.subscribe("bench") as subscription,
    ):
        count = missed = 0
        began, until = time.process_time(), time.monotonic() + seconds
        async for event in subscription:
            if isinstance(event, equipoise.Gap):
                missed += 1
            count += 1
            if count % 4096 == 0 and time.monotonic() > until:
                break
        assert missed == 0, "the client fell behind its own socket"
        return count / (time.process_time() - began)


async def publish_nowait(url: str, seconds: float) -> float:
    async with equipoise.connect(url, coordinate_enabled=False) as bus:
        count = 0
        began, until = time.process_time(), time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                for _ in range(500):
                    bus.publish_nowait("bench", PAYLOAD)
                    count += 1
            except BackloggedError:
                await bus.flush()
        await bus.flush()
        return count / (time.process_time() - began)


async def publish(url: str, seconds: float) -> float:
    """With receipts, by 100 tasks at once."""
    async with equipoise.connect(url, coordinate_enabled=False) as bus:
        until = time.monotonic() + seconds
        counts = [0]

        async def one() -> None:
            while time.monotonic() < until:
                await bus.publish("bench", PAYLOAD)
                counts[0] += 1

        began = time.process_time()
        await asyncio.gather(*(one() for _ in range(100)))
        return counts[0] / (time.process_time() - began)


def run_client(
    measure: Callable[[str, float], Awaitable[float]], url: str, seconds: float, result: Connection
) -> None:
    async def main() -> float:
        return await measure(url, seconds)

    result.send(uvloop.run(main()))


def measured(
    measure: Callable[[str, float], Awaitable[float]],
    serve: Callable[..., None],
    *peer_args: int,
    seconds: float,
) -> float:
    spawn = multiprocessing.get_context("fork")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"equipoise://127.0.0.1:{listener.getsockname()[1]}"
        mine, theirs = spawn.Pipe()
        peer = spawn.Process(target=serve, args=(listener, *peer_args), daemon=True)
        client = spawn.Process(target=run_client, args=(measure, url, seconds, theirs), daemon=True)
        peer.start()
        client.start()
        rate = float(mine.recv()) if mine.poll(seconds + 12) else float("nan")
        client.join(5)
        peer.terminate()
        peer.join(5)
    return rate


def main() -> None:
    parser = argparse.ArgumentParser(description="Messages per second of the client's processor time.")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each row")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = {
        "received, batches of 50": measured(receive, serve_messages, 50, seconds=options.seconds),
        "received, one per push": measured(receive, serve_messages, 1, seconds=options.seconds),
        "published without receipt": measured(publish_nowait, serve_receipts, seconds=options.seconds),
        "published with receipt": measured(publish, serve_receipts, seconds=options.seconds),
    }
    if options.json:
        print(json.dumps({name: round(rate) for name, rate in rows.items()}))
        return
    for name, rate in rows.items():
        print(f"{name:<28}{rate:>12,.0f} messages per second of processor time")


if __name__ == "__main__":
    main()
