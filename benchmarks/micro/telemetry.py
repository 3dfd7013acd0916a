"""What does telemetry cost a hub with 10,000 active topics, and does serving it stall the loop?

    python benchmarks/micro/telemetry.py [--topics 10000] [--rate 10000] [--rounds 12] [--out FOLDER]

Estimate: reading and subtracting a row of counters takes some 0.45 µs if the topics are those of the last window, so
10,000 topics take 5 ms of each second; writing them as Arrow takes 0.3 µs each and sending them 0.7 ms, so a reader
costs 4 ms more. Together 0.9 % of a core; the aim is at most 3 %. A topic that misses a window takes 7 µs more.

Finding (2 cores busy with other work, Python 3.11, uvloop): 1.1 % for recording, 1.7 % with reading, where a fifth of
the topics misses each window; see docs/results/telemetry.md.

Method: three hubs side by side, one that records nothing, one that records, one that records and is read once a
second, all under the same load at the same time: each topic gets a message of 100 bytes once a second, 100 topics to a
send, and has one subscriber. The CPU time of each process (the kernel's clock of the process) is measured over rounds
of some seconds; the cost is the difference to the hub that records nothing, round by round, so that other work of the
machine affects all three. A PING with every send measures how long the loop delays a client.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import gc
import select
import socket
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import hiredis

from equipoise.profile import servers
from equipoise.profile.audience import open_socket
from equipoise.profile.environment import report_result
from equipoise.profile.meters import process_cpu_s, resident_bytes
from equipoise.profile.statistics import percentile
from equipoise.resp.replies import spell

TICK_S = 0.01
WARM_UP_S = 3.0
SUBSCRIPTIONS = 1_000
ASKED_BYTES = 2 * 1024 * 1024
AIM = 0.03
OFF, RECORDED, READ = "off", "recorded", "recorded and read"


@contextlib.contextmanager
def running(label: str) -> Iterator[servers.ServerUnderTest]:
    """A hub that records, or not."""
    kind = servers.KINDS["hub"]

    def command(binary: str, port: int, folder: Path) -> list[str]:
        words = kind.command(binary, port, folder)
        config = folder / "hub.toml"
        recorded = "false" if label == OFF else "true"
        config.write_text(config.read_text() + f"[telemetry]\nenabled = {recorded}\n")
        return words

    with servers.running(dataclasses.replace(kind, command=command)) as server:
        yield server


class Subject:
    """One hub under load: its connections and its measurements."""

    def __init__(self, label: str, server: servers.ServerUnderTest, topics: int) -> None:
        self.label = label
        self.server = server
        names = [b"game.tile.%05d" % i for i in range(topics)]
        self._subscribers = [
            self._subscribe(names[i : i + SUBSCRIPTIONS]) for i in range(0, topics, SUBSCRIPTIONS)
        ]
        self._publisher, self._prober, self._reader = (open_socket(server) for _ in range(3))
        for each in (*self._subscribers, self._publisher, self._prober, self._reader):
            each.setblocking(False)
        self._names = names
        self._unsent = b""
        self._at = 0
        self._pinged_ns = 0
        self.waits_us: list[float] = []
        self._incarnation = self._next = 0
        self._is_asking = False
        self._replies = hiredis.Reader()
        # Of the reading.
        self.records = self.reply_bytes = 0

    def _subscribe(self, names: list[bytes]) -> socket.socket:
        subscriber = open_socket(self.server)
        subscriber.sendall(b"".join(spell([b"SUBSCRIBE", name]) for name in names))
        got = b""
        while b":%d\r\n" % len(names) not in got:
            got = got[-64:] + subscriber.recv(1 << 16)
        return subscriber

    @property
    def sockets(self) -> dict[int, socket.socket]:
        listened = (*self._subscribers, self._publisher, self._prober, self._reader)
        return {each.fileno(): each for each in listened}

    def publish(self, count: int, payload: bytes) -> None:
        """To the next `count` topics, and ask for a sign of life; unless the hub has not read the last send yet."""
        if self._unsent:
            self._send()
            return
        names = self._names
        frames = [spell([b"PUBLISH", names[(self._at + i) % len(names)], payload]) for i in range(count)]
        self._at = (self._at + count) % len(names)
        if not self._pinged_ns:
            self._pinged_ns = time.perf_counter_ns()
            self._prober.send(b"PING\r\n")
        self._unsent = b"".join(frames)
        self._send()

    def _send(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._unsent = self._unsent[self._publisher.send(self._unsent) :]

    def ask(self) -> None:
        if self._is_asking:
            return
        self._is_asking = True
        words = [b"EQ.TELEMETRY", *(b"%d" % n for n in (self._incarnation, self._next, ASKED_BYTES))]
        self._reader.send(spell(words))

    def received(self, descriptor: int, data: memoryview) -> None:
        if descriptor == self._prober.fileno():
            self.waits_us.append((time.perf_counter_ns() - self._pinged_ns) / 1e3)
            self._pinged_ns = 0
        elif descriptor == self._reader.fileno():
            self._replies.feed(bytes(data))
            reply = self._replies.gets()
            if reply is not False:
                self._take(reply)

    def _take(self, reply: list[int]) -> None:
        self._is_asking = False
        incarnation, first, following, stream, end = reply
        if incarnation == self._incarnation:
            self.records += following - first
            self.reply_bytes += len(stream)  # type: ignore[arg-type]  # the one element that is bytes
        self._incarnation, self._next = incarnation, following
        if following < end:
            self.ask()

    def close(self) -> None:
        for each in self.sockets.values():
            each.close()


def drive(subjects: list[Subject], duration_s: float, per_tick: int, epoll: select.epoll) -> None:
    """Keep all of them under the same load for a while."""
    owners = {descriptor: subject for subject in subjects for descriptor in subject.sockets}
    sockets = {descriptor: each for subject in subjects for descriptor, each in subject.sockets.items()}
    buffer = bytearray(1 << 18)
    view = memoryview(buffer)
    payload = b"x" * 100
    due_s = time.monotonic()
    end_s, ask_s = due_s + duration_s, due_s + 0.5
    while (now_s := time.monotonic()) < end_s:
        if now_s >= due_s:
            # A late send is not made up for: a driver that was off the CPU would flood them all at once.
            due_s = max(due_s + TICK_S, now_s)
            for subject in subjects:
                subject.publish(per_tick, payload)
        if now_s >= ask_s:
            ask_s += 1.0
            for subject in subjects:
                if subject.label == READ:
                    subject.ask()
        for descriptor, _ in epoll.poll(max(0.0, min(due_s, end_s) - now_s)):
            size = sockets[descriptor].recv_into(buffer)
            if not size:
                raise SystemExit(f"the hub that is {owners[descriptor].label} cut a connection")
            owners[descriptor].received(descriptor, view[:size])


def measure(topics: int, rate_per_s: int, rounds: int, round_s: float) -> dict[str, object]:
    per_tick = max(1, round(rate_per_s * TICK_S))
    with contextlib.ExitStack() as stack, select.epoll() as epoll:
        hubs = [(label, stack.enter_context(running(label))) for label in (OFF, RECORDED, READ)]
        idle_bytes = {label: resident_bytes(server.pid) for label, server in hubs}
        subjects = [Subject(label, server, topics) for label, server in hubs]
        for subject in subjects:
            stack.callback(subject.close)
            for descriptor in subject.sockets:
                epoll.register(descriptor, select.EPOLLIN)
        gc.freeze()
        drive(subjects, WARM_UP_S, per_tick, epoll)
        for subject in subjects:
            subject.waits_us.clear()
            subject.records = subject.reply_bytes = 0
        used: dict[str, list[float]] = {subject.label: [] for subject in subjects}
        for _ in range(rounds):
            before = {subject.label: process_cpu_s(subject.server.pid) for subject in subjects}
            began_s = time.monotonic()
            drive(subjects, round_s, per_tick, epoll)
            elapsed_s = time.monotonic() - began_s
            for subject in subjects:
                cpu_s = process_cpu_s(subject.server.pid) - before[subject.label]
                used[subject.label].append(cpu_s / elapsed_s)
        return summary(subjects, used, idle_bytes, rounds * round_s)


def summary(
    subjects: list[Subject], used: dict[str, list[float]], idle_bytes: dict[str, int], elapsed_s: float
) -> dict[str, object]:
    found: dict[str, object] = {}
    for subject in subjects:
        costs = [own - off for own, off in zip(used[subject.label], used[OFF], strict=True)]
        waits_us = sorted(subject.waits_us)
        found[subject.label] = {
            "cpu_ratio": statistics.median(used[subject.label]),
            "cost_cpu_ratio": statistics.median(costs),
            "cost_cpu_ratio_range": [min(costs), max(costs)],
            "cpu_ratio_to_off": statistics.median(used[subject.label]) / statistics.median(used[OFF]),
            "ping_us_p50": percentile(waits_us, 0.5),
            "ping_us_p99": percentile(waits_us, 0.99),
            "ping_us_max": waits_us[-1],
            "idle_memory_bytes": idle_bytes[subject.label],
            "memory_bytes": resident_bytes(subject.server.pid),
            "records_per_s_read": subject.records / elapsed_s,
            "bytes_per_record_read": subject.reply_bytes / subject.records if subject.records else None,
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--rate", type=int, default=10_000, help="messages per second, to each hub")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=5.0, help="of a round")
    parser.add_argument("--out", type=Path, help="folder to keep the dated result in")
    options = parser.parse_args()
    found = {
        "topics": options.topics,
        "messages_per_s": options.rate,
        "rounds": options.rounds,
        "round_s": options.seconds,
        "aim_cost_cpu_ratio": AIM,
        "hubs": measure(options.topics, options.rate, options.rounds, options.seconds),
    }
    report_result("telemetry", found, options.out)


if __name__ == "__main__":
    main()
