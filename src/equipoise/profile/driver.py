"""One load on one hub: publishes at a fixed rate and measures their delay.

One thread sends and receives on one clock, and spins. Each payload begins with its send time; as all frames of a
connection are equally long, the times are found without parsing, in a sample of the frames. Samples while the driver
itself was off its core are left out. A load that the driver cannot send at its rate is no measurement of the hub:
`is_paced` is False.

A profile sweeps shapes of load, each at rising rates.
"""

from __future__ import annotations

import gc
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from equipoise.errors import PeerError
from equipoise.profile.audience import close_all, open_socket, prepare_publisher, subscribe_all, topic_names
from equipoise.profile.meters import process_cpu_s
from equipoise.profile.servers import ServerUnderTest
from equipoise.profile.statistics import percentile

__all__ = [
    "FULL",
    "QUICK",
    "SHAPES",
    "SHAPES_QUICK",
    "LoadConnections",
    "LoadPace",
    "LoadShape",
    "Measured",
    "crew_of",
    "measure",
    "rates",
]


class LoadShape(msgspec.Struct, frozen=True):
    """A load without its rate."""

    topics: int
    # Of each topic. All producers publish to all topics, by turns; a consumer has one topic.
    producers: int
    consumers: int
    payload_bytes: int

    @property
    def label(self) -> str:
        return f"{self.topics} topics, {self.producers} → {self.consumers}, {self.payload_bytes} B"


class LoadPace(msgspec.Struct, frozen=True):
    """The length of each load, and the increase of rates."""

    warm_s: float
    seconds: float
    factor: float


# One parameter at a time is varied around ten topics with ten consumers each.
SHAPES = (
    LoadShape(10, 1, 10, 128),
    LoadShape(1, 1, 10, 128),
    LoadShape(100, 1, 2, 128),
    LoadShape(10, 8, 10, 128),
    LoadShape(10, 1, 1, 128),
    LoadShape(2, 1, 100, 128),
    LoadShape(10, 1, 10, 1_024),
    LoadShape(10, 1, 10, 8_192),
)
# Fan-out and size have the largest influence on costs.
SHAPES_QUICK = (SHAPES[0], SHAPES[4], SHAPES[5], SHAPES[6])
FULL = LoadPace(warm_s=0.5, seconds=2.0, factor=1.6)
QUICK = LoadPace(warm_s=0.3, seconds=0.7, factor=2.2)

# The first rate, in publications per second: a light load for any hub.
RATE_MIN = 500.0
# Above this the driver itself is the limit.
RATE_MAX = 400_000.0


def rates(factor: float) -> list[float]:
    """Publications per second, of all topics together, rising."""
    found = [RATE_MIN]
    while found[-1] * factor <= RATE_MAX:
        found.append(found[-1] * factor)
    return found


# Hexadecimal digits of a time in nanoseconds.
_STAMP_BYTES = 16
# A larger interval between two readings of the clock means that the driver was away: it reads a chunk in a tenth of
# this.
_STEP_NS_MAX = 1_000_000
# Latency samples per second; more would slow down the driver.
_SAMPLES_PER_S = 20_000
# Less than this part of the due messages was sent: the driver, or a hub that stopped reading, is too slow.
_PACED_MIN = 0.95
# Messages in flight at the end arrive within this, or the hub is far behind.
_DRAIN_S = 1.0
_BUFFER_BYTES = 1 << 18
# Of one send: the kernel's buffer accepts this at once, almost always.
_BATCH_MAX = 64


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The measurements of one load."""

    shape: LoadShape
    publications_per_s: float
    deliveries_per_s: float
    in_bytes_per_s: float
    out_bytes_per_s: float
    cpu_ratio: float
    p50_ms: float
    p95_ms: float
    # Share of the samples that were left out because the driver was away.
    left_out: float
    is_paced: bool


@dataclass(frozen=True, slots=True)
class LoadConnections:
    """The connections of one shape."""

    shape: LoadShape
    producers: list[socket.socket]
    # By descriptor.
    consumers: dict[int, socket.socket]
    # By topic, the beginning of a publication, up to the time.
    heads: list[bytes]
    tail: bytes
    delivery_bytes: int


@contextmanager
def crew_of(server: ServerUnderTest, shape: LoadShape) -> Iterator[LoadConnections]:
    """All clients connected and subscribed. Raises PeerError or DisconnectedError."""
    names = topic_names(shape.topics)
    sockets: list[socket.socket] = []
    try:
        subscribe_all(server, [name for name in names for _ in range(shape.consumers)], sockets)
        consumers = {each.fileno(): each for each in sockets}
        producers = [open_socket(server) for _ in range(shape.producers)]
        sockets += producers
        for each in producers:
            prepare_publisher(each, server.dialect, is_single=False)
        for each in sockets:
            each.setblocking(False)
        payload = b"0" * shape.payload_bytes
        frames = [server.dialect.publish([name], payload, is_single=False) for name in names]
        after = shape.payload_bytes + 2
        yield LoadConnections(
            shape,
            producers,
            consumers,
            [frame[: len(frame) - after] for frame in frames],
            payload[_STAMP_BYTES:] + b"\r\n",
            len(server.dialect.deliver(names[0], payload)),
        )
    finally:
        close_all(sockets)


def measure(server: ServerUnderTest, crew: LoadConnections, rate_per_s: float, pace: LoadPace) -> Measured:
    """Raises PeerError if the hub disconnects a client."""
    run = _Run(crew, rate_per_s)
    gc.collect()
    gc.disable()
    try:
        run.drive(pace.warm_s)
        run.begin()
        cpu_s, began_s = process_cpu_s(server.pid), time.perf_counter()
        run.drive(pace.seconds)
        took_s = time.perf_counter() - began_s
        cpu_s = process_cpu_s(server.pid) - cpu_s
        found = run.found(took_s, cpu_s / took_s)
        run.drain()
    except OSError as problem:
        raise PeerError(f"connection lost: {problem}") from problem
    finally:
        gc.enable()
    return found


class _Run:
    """Counters of one load."""

    def __init__(self, crew: LoadConnections, rate_per_s: float) -> None:
        self._crew = crew
        self._rate_per_s = rate_per_s
        deliveries_per_s = rate_per_s * crew.shape.consumers
        # Every n-th frame is a sample.
        self._every = max(1, round(deliveries_per_s / _SAMPLES_PER_S))
        self._received = dict.fromkeys(crew.consumers, 0)
        self._receivers: dict[int, Callable[[bytearray], int]] = {
            fd: each.recv_into for fd, each in crew.consumers.items()
        }
        self._answers = {each.fileno(): each.recv_into for each in crew.producers}
        self._buffer = bytearray(_BUFFER_BYTES)
        # Remainders of sends that the kernel did not accept at once, by producer.
        self._rest = [b""] * len(crew.producers)
        self._turn = 0
        self._sent = self._sent_before = 0
        self._received_before = 0
        self._latency_ns: list[int] = []
        self._looks = 0

    def begin(self) -> None:
        """Count from here on."""
        self._latency_ns, self._looks = [], 0
        self._sent_before, self._received_before = self._sent, sum(self._received.values())

    def found(self, took_s: float, cpu_ratio: float) -> Measured:
        shape = self._crew.shape
        sent = self._sent - self._sent_before
        received_bytes = sum(self._received.values()) - self._received_before
        ordered = sorted(self._latency_ns)
        if not ordered:
            raise PeerError(
                "no delivery could be timed: the machine is too busy, or the hub does not deliver"
            )
        return Measured(
            shape=shape,
            publications_per_s=sent / took_s,
            deliveries_per_s=received_bytes / self._crew.delivery_bytes / took_s,
            in_bytes_per_s=sent * shape.payload_bytes / took_s,
            out_bytes_per_s=received_bytes / took_s,
            cpu_ratio=cpu_ratio,
            p50_ms=percentile(ordered, 0.50) / 1e6,
            p95_ms=percentile(ordered, 0.95) / 1e6,
            left_out=1 - len(ordered) / self._looks,
            is_paced=sent >= _PACED_MIN * self._rate_per_s * took_s,
        )

    def drive(self, seconds: float) -> None:
        began_ns = time.perf_counter_ns()
        end_ns, rate_per_ns = began_ns + int(seconds * 1e9), self._rate_per_s / 1e9
        sent_before = self._sent
        with self._polling() as epoll:
            looked_ns = began_ns
            while looked_ns < end_ns:
                due = int((looked_ns - began_ns) * rate_per_ns) - (self._sent - sent_before)
                if due > 0:
                    self._publish(min(due, _BATCH_MAX))
                looked_ns = self._receive(epoll, time.perf_counter_ns())

    def drain(self) -> None:
        """Receive messages in flight, so that none is left for the next load."""
        end_ns = time.perf_counter_ns() + int(_DRAIN_S * 1e9)
        expected = self._sent * self._crew.shape.consumers * self._crew.delivery_bytes
        with self._polling() as epoll:
            looked_ns = time.perf_counter_ns()
            while looked_ns < end_ns and (sum(self._received.values()) < expected or any(self._rest)):
                self._publish(0)
                looked_ns = self._receive(epoll, looked_ns)

    @contextmanager
    def _polling(self) -> Iterator[select.epoll]:
        with select.epoll() as epoll:
            for descriptor in (*self._receivers, *self._answers):
                epoll.register(descriptor, select.EPOLLIN)
            yield epoll

    def _publish(self, count: int) -> None:
        """This many publications by the next producer; none while it has unsent ones."""
        crew, at = self._crew, self._turn % len(self._crew.producers)
        self._turn += 1
        data = self._rest[at]
        if not data:
            heads, first = crew.heads, self._sent
            stamp = b"%016x" % time.perf_counter_ns()
            body = stamp + crew.tail
            data = b"".join([heads[(first + i) % len(heads)] + body for i in range(count)])
            self._sent += count
        if data:
            try:
                self._rest[at] = data[crew.producers[at].send(data) :]
            except BlockingIOError:
                self._rest[at] = data

    def _receive(self, epoll: select.epoll, looked_ns: int) -> int:
        now = time.perf_counter_ns
        for descriptor, _ in epoll.poll(0):
            answers = self._answers.get(descriptor)
            count = (answers or self._receivers[descriptor])(self._buffer)
            before_ns, looked_ns = looked_ns, now()
            if not count:
                raise PeerError("the hub closed a connection: it could not keep up")
            if answers is None:
                self._note(descriptor, count, looked_ns if looked_ns - before_ns <= _STEP_NS_MAX else None)
        return now()

    def _note(self, descriptor: int, count: int, at_ns: int | None) -> None:
        size, payload = self._crew.delivery_bytes, self._crew.shape.payload_bytes
        begin = self._received[descriptor]
        end = self._received[descriptor] = begin + count
        # The first sampled frame at or after `begin`, and the offset of its time.
        step = self._every * size
        at = -(-begin // step) * step + size - 2 - payload
        while at + _STAMP_BYTES <= end:
            self._looks += 1
            if at_ns is not None:
                stamp = self._buffer[at - begin : at - begin + _STAMP_BYTES]
                self._latency_ns.append(at_ns - int(stamp, 16))
            at += step
