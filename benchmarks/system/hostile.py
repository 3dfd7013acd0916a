"""How does a hostile client affect the latency of other clients?

A hub process; a publisher and a subscriber that measure how long a message takes, 200 times a second, from one
address; an attacker in a process of its own, from another address. With each attack off and on by turns. What counts
is the ratio of the 99th percentiles, and what the hub's memory grows by beside what its settings allow.

So that the ratio is the hub's and not the machine's: each window with the attack is compared with the windows without
it right before and after, and the median of these ratios is taken; the hub has a core of its own, as an attacker on
another machine would leave it; on two cores the attacker shares the other one with the meter, at the lowest priority,
and a message counts as received when the kernel had it from the hub, not when the meter got to run.

Estimate: an attacker that uses much of the hub's time is served in pieces of some 60 µs, after all others; so other
clients wait for one piece, and for what a hub does before it knows. The ratio stays near 1.5 where the attack fills
the hub's core, and below where it does not. All attacks with three rounds take three minutes.

    python benchmarks/system/hostile.py [--rounds 5] [--only NAME …] [--out benchmarks/results]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import selectors
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from equipoise.client.wire.codec import encode_request
from equipoise.profile.environment import report_result

ATTACKER = "127.0.0.2"
MEASURED_S = 1.5
INTERVAL_S = 0.005
MIB = 1024 * 1024
# As the description of patterns_hub_max has it.
PATTERN_BYTES = 1_000
_SO_TIMESTAMPNS = 35
SETTINGS = """
[limits]
loopback_is_exempt = false
connections_per_address_max = 512
input_total_share = 0.01
"""


# --- attacks: each prepares itself, says so, and goes on until it is ended


def connect(port: int) -> socket.socket:
    made = socket.socket()
    made.bind((ATTACKER, 0))
    made.settimeout(20)
    made.connect(("127.0.0.1", port))
    return made


def ready() -> None:
    print("ready", flush=True)


def paced(per_s: float, step: Callable[[int], None]) -> None:
    began = time.perf_counter()
    number = 0
    while True:
        step(number)
        number += 1
        time.sleep(max(0.0, began + number / per_s - time.perf_counter()))


def drain(sock: socket.socket) -> None:
    with contextlib.suppress(BlockingIOError):
        while sock.recv(1 << 16):
            pass


def patterns(port: int) -> None:
    """Twenty connections with a thousand patterns each that match nothing; one more changes one 100 times a second."""
    held = []
    for i in range(19):
        sock = connect(port)
        held.append(sock)
        sock.sendall(encode_request(b"PSUBSCRIBE", *(b"*idle%d.%d" % (i, n) for n in range(1_000))))
        time.sleep(0.1)
        sock.setblocking(False)
        drain(sock)
    churning = connect(port)
    churning.setblocking(False)
    ready()

    def change(number: int) -> None:
        churning.sendall(encode_request(b"PUNSUBSCRIBE" if number % 2 else b"PSUBSCRIBE", b"*churned"))
        drain(churning)

    paced(100, change)


def connections(port: int) -> None:
    """Opens a connection and closes it, 700 times a second."""
    ready()

    def one(number: int) -> None:
        with contextlib.suppress(OSError):
            connect(port).close()

    paced(700, one)


def unfinished(port: int) -> None:
    """A hundred requests of a megabyte that lack their last bytes; a byte a second for each."""
    begun = b"*3\r\n$7\r\nPUBLISH\r\n$1\r\nt\r\n$%d\r\n" % MIB + b"x" * (MIB - 1_000)
    socks: list[socket.socket] = []

    def fill(number: int) -> None:
        if len(socks) < 100:
            sock = connect(port)
            with contextlib.suppress(OSError):
                sock.sendall(begun)
                socks.append(sock)
            return
        with contextlib.suppress(OSError):
            socks[number % 100].sendall(b"x")

    ready()
    paced(100, fill)


def names(port: int) -> None:
    """Subscribes to topics with names of 4 kB, 500 a second, on connection after connection."""
    socks: list[socket.socket] = []
    ready()

    def one(number: int) -> None:
        if number % 5_000 == 0:
            socks.append(connect(port))
            socks[-1].setblocking(False)
        with contextlib.suppress(OSError):
            socks[-1].sendall(encode_request(b"SUBSCRIBE", b"%08d" % number + b"n" * 4_000))
        drain(socks[-1])

    paced(500, one)


def inline(port: int) -> None:
    """Commands as plain lines, as fast as the hub takes them."""
    sock = connect(port)
    ready()
    while True:
        sock.sendall(b"PING\r\n" * 500)
        received = 0
        while received < 500 * len(b"+PONG\r\n"):
            received += len(sock.recv(1 << 16))


def floods(port: int) -> None:
    """Sixty connections, each with commands as plain lines, as fast as the hub takes them."""
    watched = selectors.DefaultSelector()
    for _ in range(60):
        sock = connect(port)
        sock.setblocking(False)
        watched.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE)
    ready()
    while True:
        for key, events in watched.select():
            flooding = key.fileobj
            assert isinstance(flooding, socket.socket)
            with contextlib.suppress(BlockingIOError):
                if events & selectors.EVENT_READ:
                    flooding.recv(1 << 16)
                if events & selectors.EVENT_WRITE:
                    flooding.send(b"PING\r\n" * 5_000)


def severs(port: int) -> None:
    """Ends links that were never there, as fast as the hub takes them."""
    sock = connect(port)
    sock.sendall(encode_request(b"HELLO", b"3"))
    sock.recv(1 << 16)
    ready()
    number = 0
    while True:
        batch = b"".join(
            encode_request(b"EQ.SEVER", b"link-that-never-was-%d" % (number + i), b"127.0.0.1:%d" % port)
            for i in range(200)
        )
        number += 200
        sock.sendall(batch)
        # One line at least comes for each.
        received = 0
        while received < 200:
            received += sock.recv(1 << 16).count(b"\n")


def transactions(port: int) -> None:
    """Two hundred transactions of a megabyte that are never run."""
    message = encode_request(b"PUBLISH", b"t", b"x" * 100_000)
    socks: list[socket.socket] = []
    ready()

    def one(number: int) -> None:
        if len(socks) < 200:
            sock = connect(port)
            socks.append(sock)
            with contextlib.suppress(OSError):
                sock.sendall(encode_request(b"MULTI") + message * 10)

    paced(100, one)


def greedy(port: int) -> None:
    """Asks for long replies, and reads none of them."""
    ready()

    def one(number: int) -> None:
        with contextlib.suppress(OSError):
            sock = connect(port)
            sock.setblocking(False)
            sock.sendall(encode_request(b"COMMAND") * 200)
            held.append(sock)
            del held[:-20]

    held: list[socket.socket] = []
    paced(20, one)


ATTACKS: dict[str, Callable[[int], None]] = {
    attack.__name__: attack
    for attack in (
        patterns,
        connections,
        unfinished,
        names,
        inline,
        floods,
        severs,
        transactions,
        greedy,
    )
}


# --- measuring


class Meter:
    """A publisher and a subscriber of one topic."""

    def __init__(self, port: int) -> None:
        self._subscriber = socket.create_connection(("127.0.0.1", port), 20)
        self._subscriber.sendall(encode_request(b"SUBSCRIBE", b"measured"))
        self._subscriber.recv(4096)
        self._subscriber.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self._publisher = socket.create_connection(("127.0.0.1", port), 20)

    def close(self) -> None:
        self._subscriber.close()
        self._publisher.close()

    def taken_s(self, lasts_s: float) -> list[float]:
        """How long each message of this time took, from being sent until the kernel had it for the subscriber."""
        message = encode_request(b"PUBLISH", b"measured", b"x" * 16)
        size = len(b"*3\r\n$7\r\nmessage\r\n$8\r\nmeasured\r\n$16\r\n" + b"x" * 16 + b"\r\n")
        taken_s: list[float] = []
        until = time.perf_counter() + lasts_s
        while (began := time.perf_counter()) < until:
            sent_at_ns = time.time_ns()
            self._publisher.sendall(message)
            received = 0
            while received < size:
                data, notes, _, _ = self._subscriber.recvmsg(size - received, 64)
                received += len(data)
            taken_s.append((stamp_ns(notes) - sent_at_ns) / 1e9)
            self._publisher.recv(64)
            time.sleep(max(0.0, INTERVAL_S - (time.perf_counter() - began)))
        return taken_s


def stamp_ns(notes: list[tuple[int, int, bytes]]) -> int:
    """When the kernel received what was read: the meter itself may have waited for its core longer than for the hub."""
    for level, kind, data in notes:
        if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
            seconds, nanoseconds = struct.unpack("qq", data[:16])
            return int(seconds * 10**9 + nanoseconds)
    return time.time_ns()


def p99_ms(taken_s: list[float]) -> float:
    return 1e3 * statistics.quantiles(taken_s, n=100)[98]


def share_cores(hub_pid: int) -> None:
    """One core for the hub, the others for this process and what it starts."""
    first, *others = sorted(os.sched_getaffinity(0))
    if others:
        os.sched_setaffinity(hub_pid, {first})
        os.sched_setaffinity(0, set(others))


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def counted_bytes(port: int) -> int:
    """What the hub counts against the limits of its settings, with the size of a pattern that its setting states."""
    with socket.create_connection(("127.0.0.1", port), 20) as asking:
        asking.sendall(encode_request(b"INFO"))
        received = asking.recv(1 << 16)
        size = int(received[1 : received.index(b"\r")])
        while len(received) < size:
            received += asking.recv(1 << 16)
    facts = dict(line.split(":", 1) for line in received.decode().splitlines() if ":" in line)
    held = sum(int(facts[name]) for name in ("unfinished_input_bytes", "topics_bytes", "unsent_bytes"))
    return held + PATTERN_BYTES * int(facts["pubsub_patterns"])


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def hub() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    with tempfile.TemporaryDirectory(prefix="equipoise-hostile-") as folder:
        settings = Path(folder) / "hub.toml"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        settings.write_text(f"port = {port}\n{SETTINGS}")
        command = [sys.executable, "-m", "equipoise.cli.main", "hub", "--config", str(settings)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(200):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                time.sleep(0.1)
            yield process, port
        finally:
            process.terminate()
            process.wait(20)


def run_one(name: str, rounds: int) -> dict[str, Any]:
    """The attack off and on by turns, at a hub of its own; off once more at the end."""
    off: list[list[float]] = []
    on: list[list[float]] = []
    shares: dict[str, list[float]] = {"off": [], "on": []}
    cores = os.sched_getaffinity(0)
    with hub() as (process, port), contextlib.closing(Meter(port)) as meter:
        share_cores(process.pid)

        def measure(state: str) -> list[float]:
            began, used_s = time.perf_counter(), cpu_s(process.pid)
            taken_s = meter.taken_s(MEASURED_S)
            shares[state].append((cpu_s(process.pid) - used_s) / (time.perf_counter() - began))
            return taken_s

        meter.taken_s(1.0)
        before = most = resident_bytes(process.pid)
        counted = 0
        off.append(measure("off"))
        for _ in range(rounds):
            with attacking(name, port):
                on.append(measure("on"))
                most = max(most, resident_bytes(process.pid))
                counted = max(counted, counted_bytes(port))
            off.append(measure("off"))
    os.sched_setaffinity(0, cores)
    ratios = [
        2 * p99_ms(with_it) / (p99_ms(earlier) + p99_ms(later))
        for with_it, earlier, later in zip(on, off, off[1:], strict=False)
    ]
    return {
        "p99_ms_off": statistics.median(map(p99_ms, off)),
        "p99_ms_on": statistics.median(map(p99_ms, on)),
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        # Of all messages with the attack to all without.
        "ratio_of_all": p99_ms(list(chain.from_iterable(on))) / p99_ms(list(chain.from_iterable(off))),
        # CPU time of the hub, as a share of a core: on a busy machine it is more reliable than latencies.
        "cpu_share_off": statistics.median(shares["off"]),
        "cpu_share_on": statistics.median(shares["on"]),
        "memory_grown_bytes": most - before,
        "memory_counted_bytes": counted,
        "load_average": os.getloadavg()[0],
    }


@contextlib.contextmanager
def attacking(name: str, port: int) -> Iterator[None]:
    """The attack goes on for as long as the block; after it the hub has a moment to let go of what it held."""
    command = [sys.executable, __file__, "--attack", name, "--port", str(port)]
    attacker = subprocess.Popen(command, stdout=subprocess.PIPE, preexec_fn=lambda: os.nice(19))
    assert attacker.stdout is not None
    try:
        attacker.stdout.readline()
        yield
    finally:
        attacker.kill()
        attacker.wait()
        attacker.stdout.close()
        time.sleep(0.5)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", choices=list(ATTACKS), default=list(ATTACKS))
    parser.add_argument("--out", type=Path, help="folder to keep the dated result in")
    parser.add_argument("--attack", choices=list(ATTACKS), help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.attack:
        ATTACKS[chosen.attack](chosen.port)
        return
    report_result("hostile", {name: run_one(name, chosen.rounds) for name in chosen.only}, chosen.out)


if __name__ == "__main__":
    main()
