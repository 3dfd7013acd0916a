"""Latency under a paced load: from before the publish is sent until the subscriber has the bytes.

Publisher and subscribers share one thread and one clock. The thread spins and never sleeps, so the figures include
no wake-up of the driver. It reads the clock after every read, so the latency of a subscriber does not include the
reads before it. The load is open: publishes leave at fixed times regardless of the server, and the driver does not
send a burst after a delay.

A sample is invalid if the driver was off the CPU. Between two clock reads the driver does a few microseconds of work;
after a much longer interval it drops the affected deliveries and reports their share.

Frames have equal lengths and arrive in order, so the n-th frame of a connection is the n-th publish. The driver looks
up its sending time by number instead of parsing a time stamp in the payload.
"""

from __future__ import annotations

import gc
import select
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from equipoise.errors import PeerError
from equipoise.lab.bench.cases import PacedCase
from equipoise.lab.bench.driver import STALL_S_MAX, payload_of
from equipoise.profile.audience import LoadSubscribers
from equipoise.profile.dialects import ServerProtocol
from equipoise.profile.servers import ServerUnderTest
from equipoise.profile.statistics import percentile

# The first publishes warm caches on both sides and are not counted.
WARM_UP_SHARE = 0.1


# Longest interval between two clock reads in which the driver counts as running: five times the duration of one
# turn of the loop with 20 readable sockets.
STEP_NS_MAX = 250_000


@dataclass(frozen=True, slots=True)
class PacedSample:
    p50_us: float
    p99_us: float
    # Share of deliveries dropped because the driver was off the CPU: large on a busy machine.
    left_out: float


@dataclass(slots=True)
class _Trace:
    # Sending time of each publish; None where the driver was off the CPU while sending.
    sent_ns: list[int | None] = field(default_factory=list)
    # One per delivery, in order of arrival; None for a dropped delivery.
    latency_ns: list[int | None] = field(default_factory=list)


def measure_paced(server: ServerUnderTest, case: PacedCase, audience: LoadSubscribers) -> PacedSample:
    """Run the case once. Raises PeerError if the server disconnects, drops or stalls, or if no delivery is valid."""
    gc.collect()
    gc.disable()
    try:
        trace = _Paced(server.dialect, case, audience).drive()
    except OSError as error:
        raise PeerError(f"connection lost: {error}") from error
    finally:
        gc.enable()
    kept = trace.latency_ns[int(case.messages * WARM_UP_SHARE) * case.fanout :]
    timed = sorted(latency for latency in kept if latency is not None)
    if not timed:
        raise PeerError("no delivery could be timed: the machine is too busy")
    return PacedSample(
        percentile(timed, 0.50) / 1e3, percentile(timed, 0.99) / 1e3, 1 - len(timed) / len(kept)
    )


class _Paced:
    """One run. `drive` may be called once."""

    def __init__(self, dialect: ServerProtocol, case: PacedCase, audience: LoadSubscribers) -> None:
        payload = payload_of(case.payload_bytes)
        self._case = case
        self._publisher = audience.publisher
        self._frame = dialect.publish([audience.topics[0]], payload, is_single=True)
        self._delivery_bytes = len(dialect.deliver(audience.topics[0], payload))
        self._receipts_bytes = len(dialect.receipt(1, case.fanout, is_single=True)) * case.messages
        self._receivers = {each.fileno(): each.recv_into for each in audience.subscribers}
        self._receivers[audience.publisher.fileno()] = audience.publisher.recv_into
        self._trace = _Trace()

    def drive(self) -> _Trace:
        with select.epoll() as epoll:
            for descriptor in self._receivers:
                epoll.register(descriptor, select.EPOLLIN)
            self._loop(epoll)
        return self._trace

    def _loop(self, epoll: select.epoll) -> None:
        now, trace, receivers, buffer = time.perf_counter_ns, self._trace, self._receivers, bytearray(1 << 16)
        publisher, messages = self._publisher.fileno(), self._case.messages
        received = dict.fromkeys(receivers, 0)
        interval_ns, outstanding = 1_000_000_000 // self._case.rate_per_s, messages * self._case.fanout
        looked_ns = now()
        due_ns = looked_ns + interval_ns
        deadline_ns = looked_ns + 4 * interval_ns * messages + int(STALL_S_MAX * 1e9)
        while outstanding or received[publisher] < self._receipts_bytes:
            if looked_ns >= due_ns and len(trace.sent_ns) < messages:
                looked_ns = self._publish(now)
                due_ns += interval_ns
                if due_ns < looked_ns:
                    due_ns = looked_ns + interval_ns
            if looked_ns > deadline_ns:
                raise PeerError(f"stalled: {outstanding:,} deliveries are missing")
            for descriptor, _ in epoll.poll(0):
                count = receivers[descriptor](buffer)
                before_ns, looked_ns = looked_ns, now()
                if not count:
                    raise PeerError(f"cut: {outstanding:,} deliveries are missing")
                before = received[descriptor]
                received[descriptor] = after = before + count
                if descriptor != publisher:
                    is_timed = looked_ns - before_ns <= STEP_NS_MAX
                    frames = range(before // self._delivery_bytes, after // self._delivery_bytes)
                    self._note(frames, looked_ns if is_timed else None)
                    outstanding -= len(frames)
            looked_ns = now()

    def _publish(self, now: Callable[[], int]) -> int:
        started_ns = now()
        if self._publisher.send(self._frame) != len(self._frame):
            raise PeerError("the server reads no more")
        ended_ns = now()
        self._trace.sent_ns.append(started_ns if ended_ns - started_ns <= STEP_NS_MAX else None)
        return ended_ns

    def _note(self, frames: range, arrived_ns: int | None) -> None:
        for number in frames:
            sent_ns = self._trace.sent_ns[number]
            if sent_ns is None or arrived_ns is None:
                self._trace.latency_ns.append(None)
            else:
                self._trace.latency_ns.append(arrived_ns - sent_ns)
