"""For how long does Python's garbage collector stop a hub that has many topics while messages flow?

One hub in a process of its own. A client subscribes to TOPICS topics, so that all stay, another publishes to them in
turn, pipelined, for some seconds. The hub's metrics are read at both ends. Asked: no pause above 1 ms while messages
flow, at 200,000 topics too.

Estimate: a young collection looks at 500 to 1,500 new objects, 0.05 ms; one of everything would take 75 ms at 200,000
topics, and runs only while no message flows. A hub that another process keeps from its core is paused for longer by the
clock: pauses by CPU time are counted beside it.

    python benchmarks/system/pauses.py [--topics 200000] [--seconds 20] [--out benchmarks/results]

Finding: docs/results/limits.md.
"""

from __future__ import annotations

import argparse
import re
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path

from equipoise.profile.dialects import resp_array
from equipoise.profile.environment import report_result

CHUNK = 200
# Of a connection, at most, as a hub has it without settings.
SUBSCRIPTIONS = 10_000
METRICS = (
    "gc_pauses_total",
    "gc_pauses_long_total",
    "gc_pauses_long_cpu_total",
    "gc_pause_seconds_total",
    "gc_pause_seconds_max",
)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def read_metrics(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as page:
        text = page.read().decode()
    found = {name: re.search(rf"^equipoise_hub_{name}(?:\{{.*\}})? (\S+)$", text, re.M) for name in METRICS}
    return {name: float(match[1]) for name, match in found.items() if match is not None}


def exchange(connection: socket.socket, commands: bytes, replies: int) -> None:
    """Send, and read until so many replies have come; each of them has one colon, and nothing else has."""
    connection.sendall(commands)
    while replies > 0:
        got = connection.recv(1 << 20)
        if not got:
            raise SystemExit("the hub has closed the connection")
        if got.startswith(b"-") or b"\r\n-" in got:
            raise SystemExit(f"the hub refuses: {got[:200]!r}")
        replies -= got.count(b":")


def measure(port: int, metrics_port: int, topics: int, seconds: float) -> dict[str, float]:
    names = [b"topic.%07d" % n for n in range(topics)]
    chunks = [names[start : start + CHUNK] for start in range(0, topics, CHUNK)]
    with ExitStack() as opened:
        publisher = opened.enter_context(socket.create_connection(("127.0.0.1", port)))
        subscribers: dict[int, socket.socket] = {}
        for number, chunk in enumerate(chunks):
            at = number * CHUNK // SUBSCRIPTIONS
            if at not in subscribers:
                subscribers[at] = opened.enter_context(socket.create_connection(("127.0.0.1", port)))
            exchange(subscribers[at], resp_array(b"SUBSCRIBE", *chunk), len(chunk))
        before, sent = read_metrics(metrics_port), 0
        until = time.monotonic() + seconds
        for number, chunk in cycle(enumerate(chunks)):
            exchange(publisher, b"".join(resp_array(b"PUBLISH", name, b"x") for name in chunk), len(chunk))
            read_away(subscribers[number * CHUNK // SUBSCRIPTIONS])
            sent += len(chunk)
            if time.monotonic() >= until:
                break
        after = read_metrics(metrics_port)
    return {
        "topics": topics,
        "messages": sent,
        "pauses": after["gc_pauses_total"] - before["gc_pauses_total"],
        "pauses_above_1_ms": after["gc_pauses_long_total"] - before["gc_pauses_long_total"],
        "pauses_above_1_ms_of_cpu": after["gc_pauses_long_cpu_total"] - before["gc_pauses_long_cpu_total"],
        "pause_ms_sum": round(1e3 * (after["gc_pause_seconds_total"] - before["gc_pause_seconds_total"]), 3),
        "pause_ms_max_since_start": round(1e3 * after["gc_pause_seconds_max"], 3),
        "pauses_above_1_ms_while_topics_were_made": before["gc_pauses_long_total"],
    }


def read_away(subscriber: socket.socket) -> None:
    subscriber.setblocking(False)
    try:
        while subscriber.recv(1 << 20):
            pass
    except BlockingIOError:
        pass
    finally:
        subscriber.setblocking(True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--topics", type=int, default=200_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--out", type=Path, help="folder to keep the dated result in")
    options = parser.parse_args()
    port, metrics_port = free_port(), free_port()
    words = ("hub", "--name", "pauses", "--port", str(port), "--metrics-port", str(metrics_port))
    process = subprocess.Popen([sys.executable, "-m", "equipoise.cli.main", *words])
    try:
        wait_for(port)
        found = measure(port, metrics_port, options.topics, options.seconds)
    finally:
        process.terminate()
        process.wait(30)
    report_result("pauses", found, options.out)


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the hub did not start")


if __name__ == "__main__":
    main()
