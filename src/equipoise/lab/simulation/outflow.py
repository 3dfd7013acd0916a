"""Send: the writing half of a simulated connection.

A program writes into a buffer. At the end of its turn the loop calls `pump`, which sends the buffer
as one segment, or as several where the window or a pipe is too small. Data that the receiving program
has not read counts against the window. When the window is full the data stays in the buffer, and above
the high-water mark the protocol has to pause writing. This is the whole back-pressure.

A segment in flight is a piece at the end of the peer's `arriving` queue plus a token in the timeline
for the time at which one more piece leaves the queue. The queue alone determines the order.
"""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import Context
from typing import TYPE_CHECKING, Any, Protocol, TypeVarTuple

if TYPE_CHECKING:
    from equipoise.lab.simulation.incarnation import Incarnation, Runnable
    from equipoise.lab.simulation.link import SimulatedLink
    from equipoise.lab.simulation.timeline import Timeline

__all__ = ["Control", "Outflow", "OutflowLoop"]

Ts = TypeVarTuple("Ts")

HIGH_WATER_BYTES = 64 * 1024  # as in asyncio and uvloop


class Control(enum.Enum):
    """Items on a connection beside bytes."""

    CONNECTED = "connected"
    ACCEPTED = "accepted"
    FIN = "fin"
    RESET = "reset"


class OutflowLoop(Protocol):
    """The part of the loop that senders use."""

    @property
    def now(self) -> float: ...
    @property
    def timeline(self) -> Timeline: ...
    @property
    def dirty(self) -> list[Outflow]:
        """Transports written to in the current turn."""

    def enqueue(self, incarnation: Incarnation, item: Runnable) -> None: ...
    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle: ...
    def call_exception_handler(self, context: dict[str, Any]) -> None: ...


class _Wake:
    """A wake-up in the sender's ready queue: the window or a pipe has room again."""

    __slots__ = ("_cancelled", "_outflow", "has_turn", "is_queued")

    def __init__(self, outflow: Outflow) -> None:
        self._cancelled = False
        self._outflow = outflow
        self.is_queued = False
        # True if a pipe woke the sender, which then need not queue for it again.
        self.has_turn = False

    def _run(self) -> None:
        self.is_queued = False
        has_turn, self.has_turn = self.has_turn, False
        self._outflow.pump(has_turn)


class Outflow(asyncio.Transport):
    """The writing half. `SimulatedTransport` adds reading, opening and closing."""

    __slots__ = (
        "_departs_at",
        "_high",
        "_is_protocol_paused",
        "_last_arrival",
        "_low",
        "_outgoing",
        "_outgoing_bytes",
        "_wake",
        "arriving",
        "context",
        "has_sent_fin",
        "in_flight",
        "incarnation",
        "is_closing_flag",
        "is_eof_written",
        "is_finished",
        "is_stalled",
        "link",
        "loop",
        "peer",
        "protocol",
        "unacknowledged",
        "undelivered",
        "window",
    )

    peer: Outflow

    def __init__(
        self,
        loop: OutflowLoop,
        incarnation: Incarnation,
        link: SimulatedLink,
        context: Context,
        extra: dict[str, Any],
    ) -> None:
        super().__init__(extra)
        self.loop = loop
        self.incarnation = incarnation
        self.link = link
        self.context = context
        self.protocol: asyncio.BaseProtocol | None = None
        self.window = link.spec.window_bytes
        # Sent bytes that the receiving program has not read.
        self.in_flight = 0
        # The part of `in_flight` that was read, but whose acknowledgement a cut delays.
        self.unacknowledged = 0
        # Pieces sent by the peer and not yet read by this end's protocol, in order.
        self.arriving: deque[bytes | Control] = deque()
        # Number of the last pieces in `arriving` that a cut delays.
        self.undelivered = 0
        # True while bytes wait in the buffer for the window to open.
        self.is_stalled = False
        self.is_eof_written = False
        self.is_closing_flag = False
        # True once connection_lost was called or is scheduled: the socket is closed.
        self.is_finished = False
        self.has_sent_fin = False
        self._outgoing: list[bytes | memoryview] = []
        self._outgoing_bytes = 0
        self._departs_at = 0.0
        self._last_arrival = 0.0
        self._high = HIGH_WATER_BYTES
        self._low = HIGH_WATER_BYTES // 4
        self._is_protocol_paused = False
        self._wake: _Wake | None = None

    # The interface of asyncio's WriteTransport.

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if type(data) is not bytes:
            if not isinstance(data, bytes | bytearray | memoryview):
                raise TypeError(f"data must be a bytes-like object, not {type(data).__name__!r}")
            data = bytes(data)
        if self.is_eof_written:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self.is_closing_flag or not data:
            return
        if not self._outgoing:
            self.loop.dirty.append(self)
        self._outgoing.append(data)
        self._outgoing_bytes += len(data)
        cpu = self.incarnation.cpu
        if cpu is not None:
            cpu.charge_written(data)
            self._departs_at = cpu.free_at
        if self._outgoing_bytes > self._high:
            self._relieve()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview[Any]]) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        if self.is_eof_written or self.is_closing_flag:
            return
        self.is_eof_written = True
        if not self._outgoing:
            self._send_fin()

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return self._outgoing_bytes

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = HIGH_WATER_BYTES if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._high, self._low = high, low
        self._maybe_pause()

    def is_closing(self) -> bool:
        return self.is_closing_flag

    # Called by the loop, the peer and the pipes.

    def pump(self, has_turn: bool = False) -> None:
        """Send as much as allowed. Only this end's own host calls it, through the loop."""
        size = self._outgoing_bytes
        link = self.link
        # Fast path for the common case: a single segment that nothing delays.
        if (
            0 < size <= link.segment_bytes_max
            and link.is_open
            and self.in_flight + size <= self.window
            and ((pipe := link.pipe) is None or not (pipe.waiting or pipe.is_full(self.loop.now)))
        ):
            outgoing = self._outgoing
            data = outgoing[0] if len(outgoing) == 1 else b"".join(outgoing)
            outgoing.clear()
            self._outgoing_bytes = 0
            self.in_flight += size
            self.is_stalled = False
            arriving = self.peer.arriving
            now = at = self.loop.now
            if link.is_plain:
                at += link.latency_s
            else:
                at = link.arrival(at if at > self._departs_at else self._departs_at, size)
            if link.gather_s and now < at <= self._last_arrival and arriving and type(arriving[-1]) is bytes:
                # Data that arrives at the same time as the last piece is part of that piece.
                arriving[-1] += data
            else:
                arriving.append(data if type(data) is bytes else bytes(data))
                if at < self._last_arrival:
                    at = self._last_arrival
                self._last_arrival = at
                self.loop.timeline.add(at, self.peer)
        elif size:
            self._pump_pieces(has_turn)
        if not self._outgoing and (self.is_closing_flag or self.is_eof_written):
            self._drained()
        if self._is_protocol_paused and self._outgoing_bytes <= self._low:
            self._resume_protocol()

    def wake(self, *, has_turn: bool = False) -> None:
        """Schedule `pump` on this end's host: never while the host is paused or dead."""
        wake = self._wake
        if wake is None:
            wake = self._wake = _Wake(self)
        wake.has_turn = wake.has_turn or has_turn
        if not wake.is_queued:
            wake.is_queued = True
            self.loop.enqueue(self.incarnation, wake)

    def transmit(self, piece: bytes | Control, size: int) -> None:
        """Send one piece to the peer."""
        peer = self.peer
        link = self.link
        peer.arriving.append(piece)
        self.in_flight += size
        if link.cut_at is not None:
            peer.undelivered += 1
        else:
            self._schedule_arrival(size, max(self.loop.now, self._departs_at))

    def send_again(self, at: float) -> None:
        """Retransmit data that a cut delayed, beginning at the time `at`."""
        peer = self.peer
        held_up, peer.undelivered = peer.undelivered, 0
        if held_up:
            for piece in list(peer.arriving)[-held_up:]:
                self._schedule_arrival(len(piece) if type(piece) is bytes else 0, at)

    def delay_arrivals_until(self, at: float) -> None:
        """Delay the arrival of all later data until `at`."""
        self._last_arrival = max(self._last_arrival, at)

    def discard_buffer(self) -> None:
        self._outgoing.clear()
        self._outgoing_bytes = 0
        self.is_stalled = False
        for pipe in self.link.pipes:
            pipe.waiting.pop(self, None)

    # Private to this half.

    def _schedule_arrival(self, size: int, start: float) -> None:
        link = self.link
        at = max(link.arrival(start, size), self._last_arrival)
        self._last_arrival = at
        self.loop.timeline.add(at, self.peer if link.target.nic_in is None else (self.peer, size))

    def _pump_pieces(self, has_turn: bool) -> None:
        link = self.link
        now = self.loop.now
        pipes = link.pipes if link.cut_at is None else ()
        while self._outgoing:
            room = self.window - self.in_flight
            self.is_stalled = room <= 0
            if self.is_stalled:
                break
            first = link.spec.goes_first
            full = [p for p in pipes if p.must_wait(now, has_turn=has_turn, goes_first=first)]
            if full:
                full[0].waiting[self] = None
                break
            # One segment per turn while others wait for the same pipe.
            has_turn = has_turn and not any(p.waiting for p in pipes)
            piece = self._take(min(room, link.segment_bytes_max))
            self.transmit(piece, len(piece))
        for pipe in pipes:
            pipe.ensure_wake(now)

    def _take(self, size_max: int) -> bytes:
        """Remove up to `size_max` bytes from the front of the buffer."""
        if self._outgoing_bytes <= size_max:
            piece = b"".join(self._outgoing)
            self._outgoing.clear()
        else:
            taken, count = 0, 0
            parts: list[bytes | memoryview] = []
            while taken < size_max:
                part = self._outgoing[count]
                need = size_max - taken
                if len(part) > need:
                    view = memoryview(part)
                    parts.append(view[:need])
                    self._outgoing[count] = view[need:]
                    break
                parts.append(part)
                taken += len(part)
                count += 1
            del self._outgoing[:count]
            piece = b"".join(parts)
        self._outgoing_bytes -= len(piece)
        return piece

    def _drained(self) -> None:
        if self.is_eof_written and not self.has_sent_fin:
            self._send_fin()

    def _send_fin(self) -> None:
        self.has_sent_fin = True
        self.transmit(Control.FIN, 0)

    def _relieve(self) -> None:
        if not self._is_protocol_paused:
            self.pump()
            self._maybe_pause()

    def _maybe_pause(self) -> None:
        if self._outgoing_bytes <= self._high or self._is_protocol_paused or self.is_closing_flag:
            return
        self._is_protocol_paused = True
        try:
            self.protocol.pause_writing()  # type: ignore[union-attr]  # a writer has a protocol
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self.report(error, "protocol.pause_writing() failed")

    def _resume_protocol(self) -> None:
        self._is_protocol_paused = False
        if self.protocol is not None and not self.is_finished:
            self.loop.call_soon(self.protocol.resume_writing, context=self.context)

    def report(self, error: BaseException, message: str) -> None:
        """Report an error of the protocol to the loop's exception handler."""
        self.loop.call_exception_handler(
            {"message": message, "exception": error, "transport": self, "protocol": self.protocol}
        )
