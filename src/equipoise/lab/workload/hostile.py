"""Hostile clients: connections that send what no client should.

Each attack is one connection, or a crowd of connections, that lasts a while and then closes. It reads and ignores the
hub's replies, or does not read them at all.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress

from equipoise.client.wire.codec import encode_request

__all__ = ["ATTACKS", "attack"]

CROWD = 40


async def attack(host: str, port: int, *, rng: random.Random, lasts_s: float) -> None:
    """Draw one kind of attack and run it."""
    name = list(ATTACKS)[int(rng.random() * len(ATTACKS))]
    make = ATTACKS[name]
    count = CROWD if name == "crowd" else 1
    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(_one(host, port, make(rng), lasts_s))


async def _one(host: str, port: int, pieces: list[bytes], lasts_s: float) -> None:
    """Connect, send the pieces one by one over the duration, and disconnect."""
    loop = asyncio.get_running_loop()
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(lasts_s):
            transport, protocol = await loop.create_connection(_Deaf, host, port)
        try:
            for piece in pieces:
                if protocol.is_lost:
                    return
                transport.write(piece)
                await asyncio.sleep(lasts_s / len(pieces))
        finally:
            transport.abort()


class _Deaf(asyncio.Protocol):
    """Reads and ignores all data."""

    is_lost = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True


def _noise(rng: random.Random) -> list[bytes]:
    return [rng.randbytes(1 + int(rng.random() * 200)) for _ in range(5)]


def _announced(rng: random.Random) -> list[bytes]:
    """Counts and lengths far above any valid request."""
    count = b"%d" % int(10 ** (3 + rng.random() * 9))
    return [b"*" + count + b"\r\n", b"*2\r\n$" + count + b"\r\n", b"$" + count + b"\r\n"]


def _endless(rng: random.Random) -> list[bytes]:
    """A payload with a large announced length, which is then sent in part."""
    size = 100_000 + int(rng.random() * 1_000_000)
    head = b"*3\r\n$7\r\nPUBLISH\r\n$7\r\nhostile\r\n$%d\r\n" % size
    return [head, *([b"x" * 8192] * 40)]


def _unfinished(rng: random.Random) -> list[bytes]:
    """A valid command, byte by byte, without its last byte."""
    command = encode_request(b"PUBLISH", b"hostile", b"y" * 30)
    return [bytes([byte]) for byte in command[:-1]]


def _greedy(rng: random.Random) -> list[bytes]:
    """Many requests with large replies."""
    return [encode_request(b"ECHO", b"z" * 500) * 40 for _ in range(10)]


def _web(rng: random.Random) -> list[bytes]:
    return [b"GET / HTTP/1.1\r\nHost: hub\r\n\r\n", b"POST / HTTP/1.1\r\n\r\n"]


def _nested(rng: random.Random) -> list[bytes]:
    return [b"*1\r\n" * 100, b"*2\r\n:1\r\n$-1\r\n", b"*-1\r\n*0\r\n\r\n", b"%1\r\n+a\r\n+b\r\n"]


def _globs(rng: random.Random) -> list[bytes]:
    """Patterns that would cost a naive matcher exponential time."""
    return [encode_request(b"PSUBSCRIBE", b"a*" * 120 + b"b"), encode_request(b"PSUBSCRIBE", b"*" * 5000)]


def _guesses(rng: random.Random) -> list[bytes]:
    return [encode_request(b"AUTH", b"ann", b"%d" % number) for number in range(5)]


def _idle(rng: random.Random) -> list[bytes]:
    return [b"*"]


ATTACKS: dict[str, Callable[[random.Random], list[bytes]]] = {
    "noise": _noise,
    "announced": _announced,
    "endless": _endless,
    "unfinished": _unfinished,
    "greedy": _greedy,
    "web": _web,
    "nested": _nested,
    "globs": _globs,
    "guesses": _guesses,
    "crowd": _idle,
}
