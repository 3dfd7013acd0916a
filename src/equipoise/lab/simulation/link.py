"""Model one direction of the network between two hosts.

A link delays segments by its latency, a random jitter, its bandwidth, and now and then a
retransmission: loss shows as delay, because TCP hides it. The transports keep the order within a
connection. While a link is cut no segment arrives and none is lost: segments wait and arrive after the
link heals, as retransmitted segments would.

The bandwidth of a link and of a network interface are both a `Pipe`: a queue with a rate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import ceil, inf
from random import Random
from typing import TYPE_CHECKING, Protocol

from equipoise.lab.simulation.timeline import Timeline
from equipoise.lab.simulation.topology import LinkSpec

if TYPE_CHECKING:
    from equipoise.lab.simulation.cpu import Cpu
    from equipoise.lab.simulation.outflow import Outflow

__all__ = ["LinkSpec", "Pipe", "SimulatedLink"]

# Size of one event. 64 KiB is the largest segment that the kernel gives to a network card (GSO).
SEGMENT_BYTES_MAX = 64 * 1024
# Over a pipe a segment lasts at most this long, so that connections share it evenly.
SEGMENT_S_MAX = 0.005
PACKET_BYTES = 1460
# Linux's smallest retransmission timeout. Its largest is 120 s; 2 s keeps the delay after a heal short
# enough for scenarios to check progress soon.
RETRANSMIT_S_MIN = 0.2
RETRANSMIT_S_MAX = 2.0


class Pipe:
    """A queue with a fixed service rate; when it is full, senders take turns."""

    __slots__ = ("_is_waking", "_queue_s_max", "_schedule", "free_at", "rate", "waiting")

    def __init__(self, rate: float, queue_bytes_max: int, schedule: Callable[[float, object], None]) -> None:
        self.rate = rate
        self.free_at = 0.0
        self.waiting: dict[Outflow, None] = {}
        self._queue_s_max = queue_bytes_max / rate
        self._schedule = schedule
        self._is_waking = False

    def is_full(self, now: float) -> bool:
        return self.free_at - now >= self._queue_s_max

    def must_wait(self, now: float, *, has_turn: bool, goes_first: bool) -> bool:
        """Whether a sender has to wait for its turn."""
        if goes_first:
            return self.free_at - now >= 2 * self._queue_s_max
        return self.is_full(now) or (bool(self.waiting) and not has_turn)

    def carry(self, first_byte_at: float, last_byte_at: float, size: int) -> float:
        """Time at which the last byte leaves, if the first and last byte reach the pipe at these times.

        Cut-through: bytes leave while later bytes still arrive, so that two pipes in a row delay a
        segment by the slower pipe and not by both.
        """
        begin = first_byte_at if first_byte_at > self.free_at else self.free_at
        if not size:
            # An empty segment takes no time and, even if it is sent later, delays no other segment.
            return begin if begin > last_byte_at else last_byte_at
        through_at = begin + size / self.rate
        self.free_at = through_at if through_at > last_byte_at else last_byte_at
        return self.free_at

    def ensure_wake(self, now: float) -> None:
        """If senders wait, schedule a wake-up of the next one for when the pipe has room."""
        if self.waiting and not self._is_waking:
            self._is_waking = True
            self._schedule(max(now, self.free_at - self._queue_s_max / 2), self._wake)

    def release(self) -> None:
        """Wake all waiting senders, because the pipe is removed."""
        waiting, self.waiting = self.waiting, {}
        for sender in waiting:
            sender.wake()

    def _wake(self) -> None:
        self._is_waking = False
        room = self._queue_s_max * self.rate / 2
        while self.waiting and room > 0:
            sender = next(iter(self.waiting))
            del self.waiting[sender]
            room -= min(sender.get_write_buffer_size(), SEGMENT_BYTES_MAX)
            sender.wake(has_turn=True)


class _Interfaces(Protocol):
    """The network interfaces of the host at either end."""

    @property
    def nic_in(self) -> Pipe | None: ...
    @property
    def nic_out(self) -> Pipe | None: ...
    @property
    def cpu(self) -> Cpu | None: ...


class SimulatedLink:
    """One direction between two hosts. Only the network changes it."""

    __slots__ = (
        "_draw",
        "_faults",
        "_jitter_s",
        "_loss",
        "_rate_min",
        "_timeline",
        "cut_at",
        "gather_s",
        "is_open",
        "is_plain",
        "latency_s",
        "pipe",
        "pipes",
        "segment_bytes_max",
        "senders",
        "source",
        "spec",
        "target",
    )

    def __init__(
        self,
        source: _Interfaces,
        target: _Interfaces,
        *,
        timeline: Timeline,
        random: Random,
        faults: Counter[str],
    ) -> None:
        self.source = source
        self.target = target
        self._timeline = timeline
        self._draw = random.random
        self._faults = faults
        # Time of the cut, or None while the link works.
        self.cut_at: float | None = None
        # The ends that send over this link.
        self.senders: dict[Outflow, None] = {}
        self.pipes: tuple[Pipe, ...] = ()
        # The pipe, if there is exactly one.
        self.pipe: Pipe | None = None
        self.shape(LinkSpec())

    def shape(self, spec: LinkSpec) -> None:
        """Change the properties of the link. Segments in flight keep their arrival times."""
        former = self.pipes
        self.spec = spec
        self.latency_s = spec.latency_s
        self._jitter_s = spec.jitter_s
        self._loss = spec.loss
        self.gather_s = spec.gather_s
        pipes = [] if self.source.nic_out is None else [self.source.nic_out]
        if spec.bandwidth_bytes_per_s is not None:
            pipes.append(Pipe(spec.bandwidth_bytes_per_s, spec.queue_bytes_max, self._timeline.add))
        self.pipes = tuple(pipes)
        self.pipe = pipes[0] if len(pipes) == 1 else None
        # Senders that wait for a removed pipe try the new one.
        for pipe in former:
            if pipe not in self.pipes:
                pipe.release()
        self._rate_min = min((pipe.rate for pipe in pipes), default=inf)
        self.segment_bytes_max = int(
            max(PACKET_BYTES, min(SEGMENT_BYTES_MAX, self._rate_min * SEGMENT_S_MAX))
        )
        self.refresh()

    def refresh(self) -> None:
        """Compute which fast paths a sender may use."""
        # Only a single pipe can delay a segment, and the sender checks it.
        self.is_open = self.cut_at is None and len(self.pipes) <= 1 and self.target.nic_in is None
        # The segment arrives exactly one latency later.
        self.is_plain = (
            self.is_open
            and self.pipe is None
            and not self.spec.jitter_s
            and not self.spec.loss
            and not self.gather_s
            and self.source.cpu is None
        )

    def window_bytes(self, round_trip_s: float) -> int:
        """Bytes that a connection may have in flight on this link."""
        if self._rate_min == inf:
            return self.spec.window_bytes
        return max(self.spec.window_bytes, int(2 * self._rate_min * round_trip_s))

    def arrival(self, start: float, size: int) -> float:
        """Time at which the last byte of a segment sent at `start` reaches the other host."""
        first_at = at = start
        for pipe in self.pipes:
            at = pipe.carry(first_at, at, size)
            first_at = at - size / pipe.rate
        at += self.latency_s
        if self._jitter_s:
            at += self._jitter_s * self._draw()
        # Accurate to a thousandth below 5 %, without `pow`, whose last digit depends on the platform.
        if self._loss and self._draw() < self._loss * (size // PACKET_BYTES + 1):
            at += self._loss_delay_s()
        if self.gather_s:
            at = ceil(at / self.gather_s) * self.gather_s
        return at

    def spread_s(self, size: int) -> float:
        """Time between the arrival of the first and the last byte of a segment."""
        return size / self._rate_min

    def heal_delay_s(self, now: float) -> float:
        """Time from healing at `now` until a sender that met the cut retransmits.

        The first retransmission follows after the timeout, each further one after twice the time.
        """
        assert self.cut_at is not None
        retry_at, timeout_s = self.cut_at, RETRANSMIT_S_MIN
        while retry_at < now:
            retry_at += timeout_s
            timeout_s = min(2 * timeout_s, RETRANSMIT_S_MAX)
        return retry_at - now

    def _loss_delay_s(self) -> float:
        """Extra delay of a segment with a lost packet."""
        timeout_s = max(RETRANSMIT_S_MIN, 2 * self.latency_s)
        delay_s = timeout_s
        while self._draw() < self._loss and timeout_s < RETRANSMIT_S_MAX:
            timeout_s *= 2
            delay_s += timeout_s
        self._faults["loss"] += 1
        return delay_s
