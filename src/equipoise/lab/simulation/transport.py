"""One end of a simulated connection: receive, open, close.

The order of calls on a protocol is asyncio's: connection_made; data_received any number of times;
eof_received at most once; connection_lost once. While reading is paused only connection_lost is
called, and after it no method is called.

As with TCP, an end that closes while it has unread or incoming bytes answers with a reset.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from contextvars import Context
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from equipoise.lab.simulation.outflow import Control, Outflow, OutflowLoop
from equipoise.lab.simulation.server import SimulatedSocket
from equipoise.lab.simulation.trace import TraceKind

if TYPE_CHECKING:
    from equipoise.lab.simulation.incarnation import Incarnation
    from equipoise.lab.simulation.link import SimulatedLink
    from equipoise.lab.simulation.server import SimulatedServer
    from equipoise.lab.simulation.trace import Trace

__all__ = ["SimulatedTransport"]

# Read size of asyncio and uvloop.
READ_BYTES_MAX = 256 * 1024


class _Connections(Protocol):
    def forget(self, end: SimulatedTransport) -> None: ...


class _Loop(OutflowLoop, Protocol):
    @property
    def network(self) -> _Connections: ...
    @property
    def network_random(self) -> Random: ...
    @property
    def split(self) -> float: ...
    @property
    def trace(self) -> Trace: ...
    def record(self, kind: TraceKind, subject: int, *, text: str | None = None, amount: int = 0) -> None: ...


class SimulatedTransport(Outflow):
    """One end of a connection. The network creates both ends; the loop calls `_run` once per token."""

    __slots__ = (
        "_cancelled",
        "_held",
        "_is_paused",
        "_receive",
        "due",
        "factory",
        "is_cut_off",
        "is_queued",
        "number",
        "server",
        "waiter",
    )

    loop: _Loop
    peer: SimulatedTransport

    def __init__(
        self,
        loop: _Loop,
        incarnation: Incarnation,
        link: SimulatedLink,
        context: Context,
        *,
        factory: Callable[[], asyncio.BaseProtocol],
        extra: dict[str, Any],
    ) -> None:
        super().__init__(loop, incarnation, link, context, extra)
        self._cancelled = False
        self.factory = factory
        # The trace's number for this end.
        self.number = 0
        # On the accepting side, the server that counts this connection until it is lost.
        self.server: SimulatedServer | None = None
        # On the connecting side, the future that `create_connection` waits for.
        self.waiter: asyncio.Future[None] | None = None
        # True while the link towards this end is cut: arriving tokens are counted in `undelivered`.
        self.is_cut_off = False
        # Whether this end is in the loop's queue; and, on a host with `reads_all`, the tokens that arrived since.
        self.is_queued = False
        self.due = 0
        self._is_paused = False
        # Tokens that arrived while reading was paused.
        self._held = 0
        self._receive: Callable[[bytes], object] = _ignore

    # The interface of asyncio's Transport.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return SimulatedSocket(self) if name == "socket" else super().get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol
        if isinstance(protocol, asyncio.BufferedProtocol):
            self._receive = self._receive_buffered
        elif isinstance(protocol, asyncio.Protocol):
            self._receive = protocol.data_received
        else:
            self._receive = getattr(protocol, "data_received", _ignore)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.protocol  # type: ignore[return-value]  # None once lost, as in asyncio

    def is_reading(self) -> bool:
        return not self._is_paused and not self.is_closing_flag

    def pause_reading(self) -> None:
        if not self.is_closing_flag:
            self._is_paused = True

    def resume_reading(self) -> None:
        if self.is_closing_flag or not self._is_paused:
            return
        self._is_paused = False
        held, self._held = self._held, 0
        for _ in range(held):
            self.loop.enqueue(self.incarnation, self)

    def close(self) -> None:
        if self.is_closing_flag:
            return
        self.is_closing_flag = True
        if not self._outgoing:
            self.finish(None)

    def abort(self) -> None:
        self.is_closing_flag = True
        self.finish(None)

    # Called by the loop, the network and the host.

    def _run(self) -> None:
        """Deliver one piece of the queue, or all due pieces on a host with `reads_all`, unless reading is paused."""
        arriving = self.arriving
        self.is_queued = False
        if self.due:
            self._gather()
        if self._is_paused and not self.is_closing_flag:
            self._hold()
            return
        if not arriving:
            return
        data = arriving.popleft()
        if type(data) is not bytes:
            self._control(data)  # type: ignore[arg-type]  # what is not bytes is a Control
            return
        loop = self.loop
        if loop.split and len(data) > 1 and loop.network_random.random() < loop.split:
            data = self._split(data)
        size = len(data)
        sender = self.peer
        if self.link.cut_at is not None:
            # A cut delays the acknowledgement until `Network.heal`.
            sender.unacknowledged += size
        else:
            sender.in_flight -= size
            if sender.is_stalled:
                sender.wake()
        if self.is_closing_flag:
            self._refuse()
            return
        cpu = self.incarnation.cpu
        if cpu is not None:
            cpu.charge_received(data)
        loop.trace.events.extend((loop.now, 4, self.number, -1, size))
        try:
            self.context.run(self._receive, data)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self.fail(error, "Fatal error: protocol.data_received() call failed.")

    def finish(self, error: BaseException | None, *, farewell: bool = True) -> None:
        """Close the socket: notify the peer if `farewell`, and schedule connection_lost of the protocol."""
        if self.is_finished:
            return
        self.is_finished = self.is_closing_flag = True
        self.discard_buffer()
        if farewell and (self._held or not self.has_sent_fin):
            self.has_sent_fin = True
            self.transmit(Control.RESET if self._held else Control.FIN, 0)
        self.loop.call_soon(self._lose, error, context=self.context)

    def fail(self, error: BaseException, message: str) -> None:
        """End the connection because the protocol raised."""
        self.report(error, message)
        self.is_closing_flag = True
        self.finish(error)

    def reset(self) -> None:
        """Handle a reset by the peer or the network."""
        if self.waiter is not None and self.protocol is None and not self.waiter.done():
            self.waiter.set_exception(_reset_error())
        self.loop.record(TraceKind.RESET, self.number)
        self.finish(_reset_error(), farewell=False)

    def reset_midway(self, keep_bytes: int) -> None:
        """Deliver the first `keep_bytes` of the data in flight and then a reset, both now."""
        prefix = b"".join(piece for piece in self.arriving if type(piece) is bytes)[:keep_bytes]
        openings = [piece for piece in self.arriving if piece in (Control.CONNECTED, Control.ACCEPTED)]
        self.arriving.clear()
        self.arriving.extend(openings)
        if prefix:
            self.arriving.append(prefix)
        self.arriving.append(Control.RESET)
        self.undelivered = self._held = 0
        for _ in self.arriving:
            self.loop.enqueue(self.incarnation, self)

    def drop(self) -> None:
        """The host has crashed: drop this end without a call to the protocol."""
        self.is_closing_flag = self.is_finished = True
        self.discard_buffer()
        self.protocol = None
        self._receive = _ignore

    def answer_dead(self) -> None:
        """Data arrived for an end of a dead program: a host that is up answers with a reset."""
        if self.incarnation.host.is_up and not self.peer.is_finished:
            self.transmit(Control.RESET, 0)

    # Private.

    def _gather(self) -> None:
        """Merge the due pieces up to the size of one read; other connections have a turn before the rest."""
        due, self.due = self.due, 0
        arriving = self.arriving
        pieces: list[bytes] = []
        size = 0
        while arriving and type(piece := arriving[0]) is bytes and size + len(piece) <= READ_BYTES_MAX:
            if len(pieces) > due:
                break
            pieces.append(piece)
            size += len(piece)
            arriving.popleft()
        if pieces:
            arriving.appendleft(b"".join(pieces))
            due -= len(pieces) - 1
        for _ in range(due):
            self.loop.enqueue(self.incarnation, self)

    def _hold(self) -> None:
        self._held += 1
        # A reset discards unread data and does not wait for reading to resume.
        if self.arriving and self.arriving[-1] is Control.RESET and self._held >= len(self.arriving):
            self.arriving.clear()
            self._held = 0
            self.reset()

    def _split(self, data: bytes) -> bytes:
        """Return the first part of a piece; the rest goes back to the front of the queue and is delivered next."""
        at = 1 + int(self.loop.network_random.random() * (len(data) - 1))
        self.arriving.appendleft(data[at:])
        self.loop.enqueue(self.incarnation, self)
        return data[:at]

    def _refuse(self) -> None:
        """Bytes arrived after close(): answer with a reset, or mark that one is due."""
        if not self.is_finished:
            self._held += 1
        elif not self.peer.is_finished:
            self.transmit(Control.RESET, 0)

    def _control(self, what: Control) -> None:
        if what is Control.RESET:
            if not self.is_finished:
                self.reset()
        elif what is Control.CONNECTED or what is Control.ACCEPTED:
            self._open(what)
        elif not self.is_closing_flag:
            self._eof()

    def _eof(self) -> None:
        self.loop.record(TraceKind.EOF, self.number)
        try:
            keep_open = self.context.run(getattr(self.protocol, "eof_received", _nothing))
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self.fail(error, "Fatal error: protocol.eof_received() call failed.")
        else:
            if not keep_open:
                self.close()

    def _open(self, what: Control) -> None:
        """Create the protocol, call connection_made, and then complete `create_connection`."""
        waiter, server = self.waiter, self.server
        if (waiter is not None and waiter.done()) or (server is not None and not server.is_serving()):
            self.finish(None)
            return
        self.loop.record(TraceKind.CONNECT if what is Control.CONNECTED else TraceKind.ACCEPT, self.number)
        try:
            protocol = self.context.run(self.factory)
            self.set_protocol(protocol)
            if server is not None:
                server.attach(self)
            self.context.run(protocol.connection_made, self)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self._fail_opening(error)
            return
        if waiter is not None:
            waiter.set_result(None)

    def _fail_opening(self, error: BaseException) -> None:
        if self.waiter is not None:
            self.waiter.set_exception(error)
            self.finish(None)
        else:
            self.fail(error, "Error on transport creation for incoming connection")

    def _lose(self, error: BaseException | None) -> None:
        self.loop.record(TraceKind.LOST, self.number)
        protocol, self.protocol = self.protocol, None
        self._receive = _ignore
        try:
            if protocol is not None:
                protocol.connection_lost(error)  # type: ignore[arg-type]  # asyncio passes what it has
        finally:
            if self.server is not None:
                self.server.detach(self)
            self.loop.network.forget(self)

    def _receive_buffered(self, data: bytes) -> None:
        protocol = self.protocol
        assert isinstance(protocol, asyncio.BufferedProtocol)
        view = memoryview(data)
        while view:
            buffer = memoryview(protocol.get_buffer(len(view)))
            if not len(buffer):
                raise RuntimeError("get_buffer() returned an empty buffer")
            count = min(len(buffer), len(view))
            buffer[:count] = view[:count]
            protocol.buffer_updated(count)
            view = view[count:]

    def _drained(self) -> None:
        if self.is_closing_flag:
            self.finish(None)
        else:
            super()._drained()


def _reset_error() -> ConnectionResetError:
    return ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")


def _ignore(_data: bytes) -> None:
    """Receiver before a protocol exists and after it is gone."""


def _nothing() -> None:
    """The eof_received of a protocol without one."""
