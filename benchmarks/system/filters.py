"""What does it cost to send by filters, and what does it save against a server that knows none?

    python benchmarks/system/filters.py [--only delivery|peer] [--rounds 7] [--messages 5000] [--out benchmarks/results]

`delivery`: CPU time of a hub for messages, published singly, that 100 subscribers get: by name, or each by a filter of
its own that matches. In turns at one hub. Asked: at most × 1.5.

`peer`: ten subscribers, each of which wants 1, 10 or 50 in 100 messages of a topic. At a hub they subscribe by filters;
at Redis by name, and drop the others after a look at the JSON. CPU time of the server, and of the subscribers, which
are one process with ten connections and the same code.

Payloads are JSON objects of 125 bytes. CPU times only: other programs on the machine disturb little.

Estimate: a write of its own costs some 3 µs in the kernel, a match 10 µs for each message, a frame of its own 0.2 µs:
the filters' hundred cost × 1.1. A subscriber that drops a message has read it, parsed RESP and JSON: 3 µs. At 1 in 100
the hub saves nearly all of ten times that, and of ten writes.

Finding: docs/results/matching.md.
"""

from __future__ import annotations

import argparse
import json
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import hiredis

from equipoise.profile.audience import open_socket
from equipoise.profile.dialects import resp_array
from equipoise.profile.environment import report_result
from equipoise.profile.meters import process_cpu_s
from equipoise.profile.servers import KINDS, ServerUnderTest, running

SUBSCRIBERS = 100
FOLLOWERS = 10
BATCH = 50
SHARES = (1, 10, 50)
PAYLOAD_BYTES = 125
END = b"the-end"


def payload(number: int) -> bytes:
    facts = {"class": "STOCK", "symbol": "YHOO", "number": number, "bucket": number % 100, "note": ""}
    text = json.dumps(facts)
    return (text[:-2] + "." * (PAYLOAD_BYTES - len(text)) + text[-2:]).encode()


# delivery


class Audience:
    """Subscribers of one topic and its publisher. Reads what comes, and looks at nothing."""

    def __init__(
        self, server: ServerUnderTest, topic: bytes, patterns: Sequence[bytes], stack: ExitStack
    ) -> None:
        self._pid = server.pid
        self._topic = topic
        self._publisher = stack.enter_context(open_socket(server))
        self._poll = select.epoll()
        stack.callback(self._poll.close)
        self._sockets: dict[int, socket.socket] = {}
        # What each message is to a subscriber, beside its payload.
        self._frame_bytes = 0
        for pattern in patterns:
            subscriber = stack.enter_context(open_socket(server))
            is_filter = pattern != topic
            subscriber.sendall(resp_array(b"PSUBSCRIBE" if is_filter else b"SUBSCRIBE", pattern))
            subscriber.recv(4096)
            names = [b"pmessage", pattern, topic] if is_filter else [b"message", topic]
            self._frame_bytes += len(resp_array(*names, payload(0)))
            subscriber.setblocking(False)
            self._sockets[subscriber.fileno()] = subscriber
            self._poll.register(subscriber, select.EPOLLIN)

    def run(self, messages: int) -> float:
        """Seconds of the hub's CPU for a message: published singly, each when the one before has come to all."""
        began = process_cpu_s(self._pid)
        for number in range(messages):
            self._publisher.sendall(resp_array(b"PUBLISH", self._topic, payload(number % 100)))
            left = self._frame_bytes
            while left > 0:
                for descriptor, _ in self._poll.poll(10):
                    left -= len(self._sockets[descriptor].recv(1 << 16))
            reply = self._publisher.recv(64)
            assert reply == b":%d\r\n" % len(self._sockets), reply
        return (process_cpu_s(self._pid) - began) / messages


def delivery(rounds: int, messages: int) -> dict[str, Any]:
    filters = [b"$filter quotes class = 'STOCK' and number > -%d" % (i + 1) for i in range(SUBSCRIBERS)]
    with ExitStack() as stack:
        hub = stack.enter_context(running(KINDS["hub"]))
        by_name = Audience(hub, b"names", [b"names"] * SUBSCRIBERS, stack)
        by_filter = Audience(hub, b"quotes", filters, stack)
        for audience in (by_name, by_filter):
            audience.run(messages // 10)
        pairs = [(by_name.run(messages), by_filter.run(messages)) for _ in range(rounds)]
    return {
        "messages": messages,
        "subscribers": SUBSCRIBERS,
        "by_name_us": [round(name * 1e6, 1) for name, _ in pairs],
        "by_filter_us": [round(filter * 1e6, 1) for _, filter in pairs],
        "ratio": round(median(filter / name for name, filter in pairs), 3),
    }


# peer


def follow(port: int, share: int, *, is_filter: bool) -> None:
    """The subscribers, as a process of its own: prints its CPU time once all have seen the end."""
    windows = [(i * 7 % (101 - share), i * 7 % (101 - share) + share) for i in range(FOLLOWERS)]
    poll = select.epoll()
    ends: dict[int, tuple[socket.socket, Any, int, int]] = {}
    for low, high in windows:
        connection = socket.create_connection(("127.0.0.1", port))
        text = b"$filter quotes bucket >= %d and bucket < %d" % (low, high)
        ask = resp_array(b"PSUBSCRIBE", text) if is_filter else resp_array(b"SUBSCRIBE", b"quotes")
        connection.sendall(ask + resp_array(b"SUBSCRIBE", END))
        reader = hiredis.Reader()
        for _ in range(2):
            while reader.gets() is False:
                reader.feed(connection.recv(4096))
        ends[connection.fileno()] = connection, reader, low, high
        poll.register(connection, select.EPOLLIN)
    print("ready", flush=True)
    began, kept, over = time.process_time(), 0, 0
    while over < FOLLOWERS:
        for descriptor, _ in poll.poll():
            connection, reader, low, high = ends[descriptor]
            reader.feed(connection.recv(1 << 16))
            while (push := reader.gets()) is not False:
                if push[-2] == END:
                    over += 1
                elif low <= json.loads(push[-1])["bucket"] < high:
                    kept += 1
    print(json.dumps({"cpu_s": time.process_time() - began, "kept": kept}), flush=True)
    for connection, *_ in ends.values():
        connection.close()


@contextmanager
def following(server: ServerUnderTest, share: int, *, is_filter: bool) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, __file__, "--follow", str(server.port), str(share), str(int(is_filter))]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def one_peer(server: ServerUnderTest, share: int, messages: int, *, is_filter: bool) -> tuple[float, float]:
    """Microseconds of CPU for a message: of the server, and of all subscribers together."""
    with following(server, share, is_filter=is_filter) as process, open_socket(server) as publisher:
        began = process_cpu_s(server.pid)
        for first in range(0, messages, BATCH):
            batch = [resp_array(b"PUBLISH", b"quotes", payload(first + i)) for i in range(BATCH)]
            publisher.sendall(b"".join(batch))
            left = BATCH
            while left > 0:
                left -= publisher.recv(1 << 16).count(b"\n")
        publisher.sendall(resp_array(b"PUBLISH", END, b"0"))
        out, _ = process.communicate(timeout=120)
        server_s = process_cpu_s(server.pid) - began
    found = json.loads(out)
    assert found["kept"] == FOLLOWERS * messages * share // 100, found
    return server_s / messages * 1e6, found["cpu_s"] / messages * 1e6


def peer(rounds: int, messages: int) -> list[dict[str, Any]]:
    rows = []
    messages -= messages % 100
    with running(KINDS["hub"]) as hub, running(KINDS["redis"]) as redis:
        for share in SHARES:
            pairs = [
                (
                    one_peer(hub, share, messages, is_filter=True),
                    one_peer(redis, share, messages, is_filter=False),
                )
                for _ in range(rounds)
            ]
            row = {
                "share": share,
                "hub_us": round(median(own[0] for own, _ in pairs), 1),
                "hub_subscribers_us": round(median(own[1] for own, _ in pairs), 1),
                "redis_us": round(median(other[0] for _, other in pairs), 1),
                "redis_subscribers_us": round(median(other[1] for _, other in pairs), 1),
                "ratio": round(median(sum(own) / sum(other) for own, other in pairs), 3),
            }
            print(row, flush=True)
            rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=("delivery", "peer"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--messages", type=int, default=5_000)
    parser.add_argument("--out", type=Path, help="folder to keep the result in")
    parser.add_argument("--follow", nargs=3, type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.follow:
        port, share, is_filter = arguments.follow
        follow(port, share, is_filter=bool(is_filter))
        return
    found: dict[str, Any] = {}
    if arguments.only in (None, "delivery"):
        found["delivery"] = delivery(arguments.rounds, arguments.messages)
        print(found["delivery"], flush=True)
    if arguments.only in (None, "peer"):
        found["peer"] = peer(arguments.rounds, arguments.messages)
    report_result("filters", found, arguments.out)


if __name__ == "__main__":
    main()
