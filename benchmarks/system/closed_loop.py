"""Closed-loop publishers that wait for each reply, servers that run for a while, and ratios of pairs.

Shared by the benchmarks of durable topics.
"""

from __future__ import annotations

import selectors
import socket
import statistics
import time
from collections.abc import Callable
from pathlib import Path

HOST = "127.0.0.1"
PAYLOAD = b"x" * 1_000


def command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def connect(port: int) -> socket.socket:
    made = socket.create_connection((HOST, port))
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def cpu_us(pid: int) -> float:
    """CPU time of a process and of its children that live, from Linux's /proc."""
    tasks = Path(f"/proc/{pid}/task")
    own = sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1_000
    children = (tasks / str(pid) / "children").read_text().split()
    return own + sum(cpu_us(int(child)) for child in children)


def answered_per_s(sockets: list[socket.socket], requests: list[bytes], count: int) -> float:
    """Each answer has two lines, in RESP as in NATS."""
    with selectors.DefaultSelector() as selector:
        held = [b""] * len(sockets)
        for number, each in enumerate(sockets):
            selector.register(each, selectors.EVENT_READ, number)
        began_at, sent, answered = time.monotonic(), 0, 0
        for each, request in zip(sockets, requests, strict=True):
            each.sendall(request)
            sent += 1
        while answered < sent:
            for key, _ in selector.select():
                number = key.data
                held[number] += sockets[number].recv(65_536)
                if b"PING\r\n" in held[number]:
                    held[number] = held[number].replace(b"PING\r\n", b"")
                    sockets[number].sendall(b"PONG\r\n")
                if held[number].count(b"\r\n") < 2:
                    continue
                if held[number][:1] not in (b"$", b"M"):
                    raise SystemExit(f"refused: {held[number]!r}")
                held[number] = b""
                answered += 1
                if sent < count:
                    sockets[number].sendall(requests[number])
                    sent += 1
        return answered / (time.monotonic() - began_at)


def hub_rate(port: int, publishers: int, count: int, topic: bytes = b"bench") -> float:
    """XADDs of 1 kB that a hub, or Redis, acknowledges per second."""
    sockets = [connect(port) for _ in range(publishers)]
    try:
        request = command(b"XADD", topic, b"*", b"f", PAYLOAD)
        return answered_per_s(sockets, [request] * publishers, count)
    finally:
        close_all(sockets)


def close_all(sockets: list[socket.socket]) -> None:
    for each in sockets:
        each.close()


def in_turns(pairs: int, first: Callable[[], float], second: Callable[[], float]) -> dict[str, object]:
    """Values of both, and the ratios of the first to the second."""
    ones, others = list[float](), list[float]()
    for number in range(pairs):
        for kept, measure in ((ones, first), (others, second))[:: 1 if number % 2 else -1]:
            kept.append(measure())
    ratios = [one / other for one, other in zip(ones, others, strict=True)]
    return {"equipoise": ones, "other": others, "ratios": ratios, "median": statistics.median(ratios)}


def say(name: str, found: dict[str, object], unit: str) -> None:
    ones, others, ratios = found["equipoise"], found["other"], found["ratios"]
    assert isinstance(ones, list) and isinstance(others, list) and isinstance(ratios, list)
    print(
        f"{name}: {statistics.median(ones):,.1f} and {statistics.median(others):,.1f} {unit}, "
        f"median ratio {found['median']:.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
        flush=True,
    )
