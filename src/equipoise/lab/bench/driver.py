"""Drive one server with a closed loop of pre-encoded publishes, and count the bytes that come out.

The driver never parses: it knows how many bytes each subscriber must receive and stops when all have arrived.
It spins on epoll instead of sleeping. To the server it looks like a subscriber on another machine: the server's
writes need not wake a process. Publishing is bounded: at most a window of sends are not yet acknowledged and
delivered to all (one, when publishing singly), so that no side has an ever growing backlog.

A run ends well only if every subscriber has received exactly its bytes.
"""

from __future__ import annotations

import gc
import math
import select
import socket
import time
from dataclasses import dataclass

from equipoise.errors import PeerError
from equipoise.lab.bench.cases import FanoutCase
from equipoise.profile.audience import LoadSubscribers, read_exactly
from equipoise.profile.dialects import ServerProtocol
from equipoise.profile.meters import process_cpu_s
from equipoise.profile.servers import ServerUnderTest

# Eight sends of 50: enough to keep each server busy in every pipelined case (with two, a server waits a fifth of
# the time for the driver), and well under the 1,000 unacknowledged publishes that a hub accepts.
WINDOW = 8
STALL_S_MAX = 10.0

# The work of a server after its last write (freeing memory, going back to sleep) belongs to the run too.
_TAIL_S = 0.005
_BUFFER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Load:
    """Pre-encoded sends, used in turn, and the size of their replies and deliveries."""

    sends: list[bytes]
    receipt: bytes
    delivery_bytes: int
    frames_per_send: int


@dataclass(frozen=True, slots=True)
class BenchSample:
    """One run of one case on one server."""

    cpu_us_per_delivery: float
    deliveries_per_s: float
    # CPU time over wall time; above 1 where a server uses several cores.
    server_busy: float


def make_load(case: FanoutCase, dialect: ServerProtocol, topics: list[bytes]) -> Load:
    payload = payload_of(case.payload_bytes)
    frames = math.lcm(case.batch, case.topics)
    order = [topics[i % len(topics)] for i in range(frames)]
    is_single = case.batch == 1
    return Load(
        sends=[
            dialect.publish(order[start : start + case.batch], payload, is_single=is_single)
            for start in range(0, frames, case.batch)
        ],
        receipt=dialect.receipt(case.batch, case.fanout, is_single=is_single),
        delivery_bytes=len(dialect.deliver(topics[0], payload)),
        frames_per_send=case.batch,
    )


def payload_of(size_bytes: int) -> bytes:
    return (b"0123456789abcdef" * (size_bytes // 16 + 1))[:size_bytes]


def rehearse(case: FanoutCase, dialect: ServerProtocol, audience: LoadSubscribers) -> None:
    """Publish once over all topics and compare every byte that every subscriber receives."""
    load = make_load(case, dialect, audience.topics)
    payload = payload_of(case.payload_bytes)
    for send in load.sends:
        audience.publisher.settimeout(STALL_S_MAX)
        audience.publisher.sendall(send)
        read_exactly(audience.publisher, load.receipt)
    passes = len(load.sends) * load.frames_per_send // case.topics
    for number, subscriber in enumerate(audience.subscribers):
        topic = audience.topics[number // case.fanout]
        read_exactly(subscriber, dialect.deliver(topic, payload) * passes)
        subscriber.setblocking(False)
    audience.publisher.setblocking(False)


def measure(
    server: ServerUnderTest, case: FanoutCase, audience: LoadSubscribers, *, window: int = WINDOW
) -> BenchSample:
    """Run the case once. Raises PeerError if the server cuts, drops, adds or stalls."""
    load = make_load(case, server.dialect, audience.topics)
    run = BenchRun(load, audience, sends=case.messages // case.batch)
    gc.collect()
    gc.disable()
    try:
        cpu_started_s, started_s = process_cpu_s(server.pid), time.perf_counter()
        run.drive(window=1 if case.batch == 1 else window)
        wall_s = time.perf_counter() - started_s
        time.sleep(_TAIL_S)
        cpu_s = process_cpu_s(server.pid) - cpu_started_s
    finally:
        gc.enable()
    run.check()
    return BenchSample(cpu_s * 1e6 / case.deliveries, case.deliveries / wall_s, cpu_s / wall_s)


class BenchRun:
    """Counters of one run. Only `drive` changes them."""

    def __init__(self, load: Load, audience: LoadSubscribers, *, sends: int) -> None:
        self._load = load
        self._sends = sends
        self._publisher = audience.publisher
        self._receipts_bytes_expected = sends * len(load.receipt)
        frames = sends * load.frames_per_send // len(audience.topics)
        self._subscriber_bytes_expected = frames * load.delivery_bytes
        self._received_bytes = {each.fileno(): 0 for each in audience.subscribers}
        self._received_bytes[audience.publisher.fileno()] = 0
        self._receivers = {each.fileno(): each.recv_into for each in audience.subscribers}
        self._receivers[audience.publisher.fileno()] = audience.publisher.recv_into

    def drive(self, window: int) -> None:
        with select.epoll() as epoll:
            for descriptor in self._receivers:
                epoll.register(descriptor, select.EPOLLIN)
            try:
                self._loop(epoll, window)
            except OSError as error:
                raise PeerError(f"connection lost: {error}") from error

    def _loop(self, epoll: select.epoll, window: int) -> None:
        # Local names, because this loop must cost less per frame than the measured servers.
        received, receivers, poll, now = self._received_bytes, self._receivers, epoll.poll, time.monotonic
        publisher, sends, total = self._publisher.fileno(), self._load.sends, self._sends
        receipt_bytes, buffer = len(self._load.receipt), bytearray(_BUFFER_BYTES)
        subscribers = len(receivers) - 1
        everything = subscribers * self._subscriber_bytes_expected
        per_send = everything // total
        sent = done = delivered_bytes = 0
        deadline = now() + STALL_S_MAX
        while done < total:
            while sent < total and sent - done < window:
                _send_all(self._publisher, sends[sent % len(sends)])
                sent += 1
            events = poll(0, subscribers + 1)
            if not events:
                if now() > deadline:
                    raise PeerError(f"stalled: {delivered_bytes:,} of {everything:,} bytes delivered")
                continue
            for descriptor, _ in events:
                count = receivers[descriptor](buffer)
                if not count:
                    raise PeerError(f"cut: {delivered_bytes:,} of {everything:,} bytes delivered")
                received[descriptor] += count
                if descriptor != publisher:
                    delivered_bytes += count
            done = min(received[publisher] // receipt_bytes, delivered_bytes // per_send)
            deadline = now() + STALL_S_MAX

    def check(self) -> None:
        """Raise PeerError unless every connection received exactly its bytes and none waits unread."""
        for descriptor, count in self._received_bytes.items():
            is_publisher = descriptor == self._publisher.fileno()
            expected = self._receipts_bytes_expected if is_publisher else self._subscriber_bytes_expected
            if count != expected:
                raise PeerError(f"a connection received {count:,} bytes instead of {expected:,}")
        poller = select.poll()
        for descriptor in self._receivers:
            poller.register(descriptor, select.POLLIN)
        if poller.poll(0):
            raise PeerError("received bytes that were not published, or a connection was closed")


def _send_all(publisher: socket.socket, data: bytes) -> None:
    """Send on a non-blocking socket, waiting for room where the kernel's buffer is full."""
    rest = memoryview(data)
    while True:
        try:
            rest = rest[publisher.send(rest) :]
        except BlockingIOError:
            pass
        if not rest:
            return
        room = select.poll()
        room.register(publisher, select.POLLOUT)
        if not room.poll(STALL_S_MAX * 1000):
            raise PeerError(f"the server reads no more: {len(rest)} bytes of a send are left")
