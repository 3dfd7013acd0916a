"""What does a rate limit cost, and which other publishers does a publisher above its limit delay?

    python benchmarks/system/limits.py [--only cost|beside|turns|stalls] [--rounds 15] [--out benchmarks/results]

One live hub of a cluster, in a process of its own, and this program.

`cost`: CPU time of the hub per delivery, of topics with a limit that is never reached against topics without one, in
turns, with the driver of `equipoise bench fanout`. Asked: at most × 1.05, × 1.10 with 50 topics.

`beside`: the time from publishing to arrival on a topic without limit (97 messages per second, so that they meet every
moment between two tokens), beside a publisher that offers 100 times what its topic's limit admits, and beside the same
program that floods a server which reads nothing, in turns. Asked: p99 at most × 1.1.

`turns`: the same limited topic, r = 100/s, flooded by one publisher; another uses half of r. Asked: it waits for at
most 10/r at p99.

`stalls`: 10,000 messages per second over 1,000 connections, evenly spaced, with a hub that stands still for 20 ms every
second (SIGSTOP). The limit is what the arrivals need, judged by when they were sent, which is when loopback's kernel
stamped them. Counted: messages that had to wait. Asked: less than 0.1 %.

Estimate: a bucket costs 0.3 µs per run of messages; a delivery 0.1 to 3 µs.

Finding: docs/results/limits.md.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median
from typing import Any

from equipoise.lab.bench.cases import FanoutCase, fanout_case
from equipoise.lab.bench.driver import measure, rehearse
from equipoise.profile.audience import (
    LoadSubscribers,
    close_all,
    open_socket,
    prepare_publisher,
    subscribe_all,
)
from equipoise.profile.dialects import Resp2, resp_array
from equipoise.profile.environment import keep
from equipoise.profile.servers import ServerUnderTest

START_S = 60.0
# The hub knows that it alone numbers the topics a lease after its start.
LEASE_S = 6.0
HUGE = 1_000_000
PING_S = 3.0


class Cluster:
    """A store, one hub, and commands of an operator."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._environment = {**os.environ, "EQUIPOISE_STORE": ""}
        self._log = (folder / "up.log").open("wb")
        self._process = subprocess.Popen(
            self._words("up", "--hubs", "1", "--no-pipeline"),
            stdout=self._log,
            stderr=self._log,
            env=self._environment,
            cwd=folder,
        )

    def _words(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "equipoise.cli.main", *words]

    def run(self, *words: str) -> str:
        done = subprocess.run(
            self._words(*words), cwd=self._folder, env=self._environment, capture_output=True, check=False
        )
        if done.returncode:
            raise RuntimeError(done.stderr.decode() or done.stdout.decode())
        return done.stdout.decode()

    def server(self) -> ServerUnderTest:
        """The hub, once it is there."""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            try:
                rows = [row for row in json.loads(self.run("hubs", "ls", "--json")) if row.get("address")]
            except (RuntimeError, json.JSONDecodeError):
                rows = []
            if rows:
                port = int(rows[0]["address"].rpartition(":")[2])
                return ServerUnderTest("hub", Resp2(), process_at(port), port)
            time.sleep(0.5)
        raise SystemExit(f"the system did not start: {(self._folder / 'up.log').read_text()[-2000:]}")

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


def process_at(port: int) -> int:
    """The process that INFO of the hub names."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(resp_array(b"INFO", b"server"))
        text = connection.recv(1 << 16).decode()
    return next(int(line.partition(":")[2]) for line in text.splitlines() if line.startswith("process_id:"))


# cost


@contextmanager
def audience(server: ServerUnderTest, names: list[bytes], fanout: int) -> Iterator[LoadSubscribers]:
    sockets: list[socket.socket] = []
    try:
        subscribe_all(server, [name for name in names for _ in range(fanout)], sockets)
        publisher = open_socket(server)
        sockets.append(publisher)
        prepare_publisher(publisher, server.dialect, is_single=False)
        for each in sockets:
            each.setblocking(False)
        yield LoadSubscribers(publisher, sockets[:-1], names)
    finally:
        close_all(sockets)


def cost(server: ServerUnderTest, rounds: int) -> list[dict[str, Any]]:
    cases = [
        fanout_case(*shape, run_s=0.3)
        for shape in ((1, 100, 50, 1), (10, 100, 50, 1), (10, 100, 1, 1), (10, 100, 50, 50))
    ]
    return [one_cost(server, case, rounds) for case in cases]


def one_cost(server: ServerUnderTest, case: FanoutCase, rounds: int) -> dict[str, Any]:
    names = {kind: [f"{kind}.{n:05d}".encode() for n in range(case.topics)] for kind in ("plain", "limit")}
    with (
        audience(server, names["plain"], case.fanout) as plain,
        audience(server, names["limit"], case.fanout) as limited,
    ):
        for each in (plain, limited):
            rehearse(case, server.dialect, each)
        pairs = [
            (
                measure(server, case, plain).cpu_us_per_delivery,
                measure(server, case, limited).cpu_us_per_delivery,
            )
            for _ in range(rounds)
        ]
    return {
        "case": case.label,
        "plain_us": round(min(pair[0] for pair in pairs), 4),
        "limited_us": round(min(pair[1] for pair in pairs), 4),
        "ratio_of_minima": round(min(pair[1] for pair in pairs) / min(pair[0] for pair in pairs), 3),
        "median_ratio": round(median(limited / plain for plain, limited in pairs), 3),
    }


# beside, turns


class Pinger(threading.Thread):
    """Publishes at set times, and notes how long each message takes to come back by its subscription."""

    def __init__(self, port: int, topic: str, rate: float, seconds: float) -> None:
        super().__init__()
        self._port, self._topic, self._rate, self._seconds = port, topic, rate, seconds
        self.took: list[float] = []

    def run(self) -> None:
        with (
            socket.create_connection(("127.0.0.1", self._port)) as subscriber,
            socket.create_connection(("127.0.0.1", self._port)) as publisher,
        ):
            publisher.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            subscriber.sendall(resp_array(b"SUBSCRIBE", self._topic.encode()))
            subscriber.recv(1 << 16)
            began = time.perf_counter()
            for n in range(int(self._rate * self._seconds)):
                time.sleep(max(0.0, began + n / self._rate - time.perf_counter()))
                sent = time.perf_counter()
                publisher.sendall(resp_array(b"PUBLISH", self._topic.encode(), b"%08d" % n))
                answer = publisher.recv(1 << 16)
                while b"%08d" % n not in (got := subscriber.recv(1 << 16)) and not answer.startswith(b"-"):
                    pass
                self.took.append(time.perf_counter() - sent)
                del got


SPAWNED = multiprocessing.get_context("spawn")


def flood(port: int, topic: str, rate: float, over: Event) -> None:
    """Pipeline publishes to a topic, so many per second, whatever is answered. Port 0: to a server that reads nothing.

    In a process of its own, so that the measuring one is not held up.
    """
    with socket.create_server(("127.0.0.1", 0)) as unread:
        port = port or unread.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as publisher:
            publisher.setblocking(False)
            chunk = resp_array(b"PUBLISH", topic.encode(), b"x" * 100) * max(1, int(rate / 100))
            left = b""
            while not over.wait(0.01):
                try:
                    left = left or chunk
                    left = left[publisher.send(left) :]
                except BlockingIOError:
                    pass
                try:
                    publisher.recv(1 << 16)
                except BlockingIOError:
                    pass


def p99(values: list[float]) -> float:
    return sorted(values)[int(0.99 * (len(values) - 1))]


def pinged(topic: str, rate: float, *, port: int, flooded: str, is_hub_flooded: bool) -> list[float]:
    """What messages to a topic take beside a flood: of another topic of the hub, or of a server beside it."""
    over = SPAWNED.Event()
    flooding = SPAWNED.Process(target=flood, args=(port if is_hub_flooded else 0, flooded, 10_000.0, over))
    flooding.start()
    time.sleep(1.0)
    pinger = Pinger(port, topic, rate, PING_S)
    pinger.start()
    pinger.join()
    over.set()
    flooding.join()
    return pinger.took


def beside(server: ServerUnderTest, rounds: int) -> list[dict[str, Any]]:
    alone: list[float] = []
    with_flood: list[float] = []
    ratios = []
    for _ in range(rounds):
        one, other = (
            pinged("quiet", 97.0, port=server.port, flooded="slow.flood", is_hub_flooded=is_hub_flooded)
            for is_hub_flooded in (False, True)
        )
        alone, with_flood = alone + one, with_flood + other
        ratios.append(p99(other) / p99(one))
    return [
        {
            "case": "p99 of another topic",
            "alone_ms": round(1e3 * p99(alone), 3),
            "beside_ms": round(1e3 * p99(with_flood), 3),
            "ratio": round(p99(with_flood) / p99(alone), 3),
            "median_ratio": round(median(ratios), 3),
        }
    ]


def turns(server: ServerUnderTest, rounds: int) -> list[dict[str, Any]]:
    alone, waits = (
        [
            took
            for _ in range(rounds)
            for took in pinged(
                topic, 50.0, port=server.port, flooded="slow.busy", is_hub_flooded=is_hub_flooded
            )
        ]
        for topic, is_hub_flooded in (("slow.polite", False), ("slow.busy", True))
    )
    return [
        {
            "case": "p99 of a publisher that uses half of r = 100/s beside a flood of its topic",
            "alone_ms": round(1e3 * p99(alone), 3),
            "beside_ms": round(1e3 * p99(waits), 3),
            "asked_ms": 100.0,
        }
    ]


# stalls


def stalls(server: ServerUnderTest, rounds: int) -> list[dict[str, Any]]:
    return [one_stall(server, is_stalled=is_stalled, seconds=float(rounds)) for is_stalled in (False, True)]


def one_stall(server: ServerUnderTest, *, is_stalled: bool, seconds: float) -> dict[str, Any]:
    """Messages whose publish was held back: those that a full bucket, judged by when they were sent, would not hold."""
    before = envelope(server.port, "even")
    sockets = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(1_000)]
    for each in sockets:
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        each.setblocking(False)
    message = resp_array(b"PUBLISH", b"even", b"x" * 100)
    sent = 0
    over = threading.Event()
    stopper = threading.Thread(target=lambda: stand_still(server.pid, over), daemon=True)
    if is_stalled:
        stopper.start()
    began = time.perf_counter()
    try:
        while (now := time.perf_counter() - began) < seconds:
            due = int(now * 10_000)
            # What this program could not send in time is not sent at all: it would be a burst of its own.
            sent_now = min(due - sent, 5)
            for n in range(sent_now):
                sockets[(sent + n) % 1_000].send(message)
            sent = due if due - sent > 5 else sent + sent_now
            time.sleep(0.0001)
    finally:
        over.set()
    drain(sockets)
    after = envelope(server.port, "even")
    for each in sockets:
        each.close()
    admitted = after["admitted"] - before.get("admitted", 0)
    return {
        "case": "10,000/s over 1,000 connections" + (", stalls of 20 ms" if is_stalled else ""),
        "admitted": int(admitted),
        "delayed": int(after["delayed"] - before.get("delayed", 0)),
        "share": round((after["delayed"] - before.get("delayed", 0)) / max(1.0, admitted), 5),
    }


def stand_still(pid: int, over: threading.Event) -> None:
    while not over.wait(1.0):
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.02)
        os.kill(pid, signal.SIGCONT)


def drain(sockets: list[socket.socket]) -> None:
    deadline = time.monotonic() + 2.0
    while time.monotonic() < deadline:
        readable, _, _ = select.select(sockets[:500], [], [], 0.1)
        for each in readable:
            each.recv(1 << 16)
        if not readable:
            return


def envelope(port: int, topic: str) -> dict[str, float]:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(resp_array(b"EQ.ENVELOPE", topic.encode()))
        words = connection.recv(1 << 16).split(b"\r\n")
    found = [word for word in words if word and word[:1] not in b"*$_"]
    return {name.decode(): float(number) for name, number in zip(found[::2], found[1::2], strict=False)}


PARTS: dict[str, Callable[[ServerUnderTest, int], list[dict[str, Any]]]] = {
    "cost": cost,
    "beside": beside,
    "turns": turns,
    "stalls": stalls,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", choices=list(PARTS))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path, help="folder to keep the dated result in")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        system = Cluster(Path(folder))
        try:
            server = system.server()
            system.run("topics", "set", "limit.*", "--rate", f"{HUGE}/s", "--burst", str(HUGE))
            system.run("topics", "set", "slow.*", "--rate", "100/s", "--burst", "10")
            system.run("topics", "set", "even", "--rate", "11000/s", "--burst", "50")
            time.sleep(LEASE_S)
            names = [options.only] if options.only else list(PARTS)
            rows = {name: PARTS[name](server, options.rounds) for name in names}
        finally:
            system.stop()
    kept = keep("limits", {"rounds": options.rounds, **rows}, options.out)
    if options.json:
        print(kept)
        return
    for name, found in rows.items():
        for row in found:
            print(f"{name}: " + ", ".join(f"{key} {value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
