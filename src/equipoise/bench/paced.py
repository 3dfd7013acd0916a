"""Latency under a paced load: from just before a publish is sent to when a subscriber's bytes are in hand.

Publisher and subscribers share one thread and one clock. The thread spins: it never sleeps, so no wake-up
of its own is in the figures, and it takes the time anew after every read, so a subscriber does not pay for
those read before it. The load is open: publishes leave at set times whatever the server does, and how late
they left is reported too.

Frames have equal lengths and arrive in order, so the n-th frame of a connection is the n-th publish: its
sending time is looked up by number, which is the time stamp a payload would carry, without the parsing.
"""

from __future__ import annotations

import gc
import select
import time
from dataclasses import dataclass, field

from equipoise.bench.audience import Audience
from equipoise.bench.cases import PacedCase
from equipoise.bench.dialects import Dialect
from equipoise.bench.driver import STALL_S_MAX, payload_of
from equipoise.bench.servers import Server
from equipoise.bench.statistics import percentile
from equipoise.errors import PeerError

# The first publishes warm caches on both sides and are left out.
WARM_UP_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class PacedSample:
    p50_us: float
    p99_us: float
    # How late the driver sent, at the 99th percentile: large values mean that the machine was busy elsewhere.
    driver_lag_p99_us: float


@dataclass(slots=True)
class _Trace:
    sent_ns: list[int] = field(default_factory=list)
    lag_ns: list[int] = field(default_factory=list)
    latency_ns: list[int] = field(default_factory=list)


def measure_paced(server: Server, case: PacedCase, audience: Audience) -> PacedSample:
    """Run the case once. Raises PeerError if the server cuts, drops or stalls."""
    gc.collect()
    gc.disable()
    try:
        trace = _drive(server.dialect, case, audience)
    except OSError as error:
        raise PeerError(f"connection lost: {error}") from error
    finally:
        gc.enable()
    warm_up = int(case.messages * WARM_UP_SHARE)
    latency = sorted(trace.latency_ns[warm_up * case.fanout :])
    lag = sorted(trace.lag_ns[warm_up:])
    return PacedSample(
        percentile(latency, 0.50) / 1e3, percentile(latency, 0.99) / 1e3, percentile(lag, 0.99) / 1e3
    )


def _drive(dialect: Dialect, case: PacedCase, audience: Audience) -> _Trace:
    payload = payload_of(case.payload_bytes)
    frame = dialect.publish([audience.topics[0]], payload, is_single=True)
    frame_bytes = len(dialect.deliver(audience.topics[0], payload))
    receipts_bytes_expected = len(dialect.receipt(1, case.fanout, is_single=True)) * case.messages
    receivers = {each.fileno(): each.recv_into for each in audience.subscribers}
    received = dict.fromkeys(receivers, 0)
    publisher, send = audience.publisher.fileno(), audience.publisher.send
    receivers[publisher] = audience.publisher.recv_into
    received[publisher] = 0
    buffer, now, trace = bytearray(1 << 16), time.perf_counter_ns, _Trace()
    interval_ns, outstanding = 1_000_000_000 // case.rate_per_s, case.messages * case.fanout
    with select.epoll() as epoll:
        for descriptor in receivers:
            epoll.register(descriptor, select.EPOLLIN)
        due_ns = now() + interval_ns
        deadline_ns = due_ns + interval_ns * case.messages + int(STALL_S_MAX * 1e9)
        while outstanding or received[publisher] < receipts_bytes_expected:
            time_ns = now()
            if time_ns >= due_ns and len(trace.sent_ns) < case.messages:
                trace.sent_ns.append(time_ns)
                trace.lag_ns.append(time_ns - due_ns)
                if send(frame) != len(frame):
                    raise PeerError("the server reads no more")
                due_ns += interval_ns
            if time_ns > deadline_ns:
                raise PeerError(f"stalled: {outstanding:,} deliveries are missing")
            for descriptor, _ in epoll.poll(0):
                count = receivers[descriptor](buffer)
                time_ns = now()
                if not count:
                    raise PeerError(f"cut: {outstanding:,} deliveries are missing")
                before = received[descriptor]
                received[descriptor] = before + count
                if descriptor != publisher:
                    for number in range(before // frame_bytes, (before + count) // frame_bytes):
                        trace.latency_ns.append(time_ns - trace.sent_ns[number])
                        outstanding -= 1
    return trace
