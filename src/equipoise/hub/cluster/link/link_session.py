"""The receiving end of one connection of a link: execute the frames in turns, and acknowledge them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from equipoise.errors import ProtocolError
from equipoise.hub.cluster.link.codec import decode, read_frames
from equipoise.hub.cluster.link.frames import Frame
from equipoise.resp import Publishes, RequestReader

if TYPE_CHECKING:
    from equipoise.hub.cluster.link.incoming import FrameReceiver, InLink, LinkHost, LinkWire

__all__ = ["LinkSession"]

# Executed bytes that are acknowledged at once, without a delay.
ACKNOWLEDGE_BYTES = 256 * 1024
# How long the frames of one chunk may occupy the loop, in seconds. Longer than a client's turn: each pass of the loop
# has one write per subscriber, so short turns would cost a hub with many subscribers most of its time.
LINK_TURN_S = 0.05


class LinkSession:
    """One connection of a link that another hub has dialled.

    After the handshake only frames are read from it, and only counts of executed bytes are written to it. A chunk may
    hold messages that take a hub with many subscribers seconds to deliver, so it is executed in turns.

    Any error voids the generation of the link. The bytes of a chunk count as executed only if all its frames were;
    after an error that number is unknown. So the sender receives an offset that it cannot have reached (`VOID_OFFSET`),
    begins the next generation, and both hubs repeat their requests. So losses are counted and reported as gaps, and no
    frame is executed twice.
    """

    def __init__(
        self,
        core: LinkHost,
        session: LinkWire,
        incoming: InLink,
        receiver: FrameReceiver,
        *,
        cut: Callable[[str], object],
        end: Callable[[str], object],
    ) -> None:
        """`cut` disconnects the session, with a reason for the log; `end` closes it with an error reply."""
        self._core = core
        self._session = session
        self._cut, incoming.end = cut, end
        self._incoming = incoming
        incoming.latest = self
        # The executor of frames; and by hub, the links in use.
        self._frames, self._heard, self._relays = receiver.frames, receiver.incoming, receiver.relays
        self._reader = RequestReader(core.link_limits)
        self._input_bytes_max = 2 * core.link_limits.payload_bytes_max + ACKNOWLEDGE_BYTES
        self._acknowledged = incoming.offset
        self._is_timed = False
        self._clock = core.shell.work_s
        # The rest of the current chunk; its size with earlier unread bytes; and the chunks received after it.
        self._steps: Iterator[None] | None = None
        self._unread = 0
        self._held: deque[bytes] = deque()

    def receive(self, data: bytes) -> None:
        """Execute the complete frames, in turns."""
        core = self._core
        core.stats.input_bytes += len(data)
        self._session.last_at = core.now()
        if not self.is_busy:
            self._take(data)
        else:
            # Transports may deliver data that they had read before reading was paused.
            self._held.append(data)

    @property
    def is_busy(self) -> bool:
        """Whether frames of the current chunk wait for their turn, so that the executed offset is not known."""
        return self._steps is not None

    def _take(self, data: bytes) -> bool:
        """Begin to execute a chunk; return whether it is finished already, and more may be executed."""
        if not self._is_heard:
            self._cut(f"the link from {self._incoming.id.hub} has restarted")
            return False
        self._unread = self._reader.buffered_bytes + len(data)
        done = 0
        if not self._reader.buffered_bytes and (done := self._execute_plain(data, 0)) == len(data):
            # By far the most frequent case under load: all of it was plain.
            self._executed(done)
            return True
        self._steps = self._execute(data, done)
        return self._run(self._steps)

    def _run(self, steps: Iterator[None]) -> bool:
        """Continue the chunk, to its end or until the turn is over; return whether more may be executed."""
        incoming, clock = self._incoming, self._clock
        until = clock() + LINK_TURN_S
        try:
            for _ in steps:
                if clock() > until:
                    self._session.wire.pause_reading()
                    self._acknowledge_soon()
                    self._core.shell.call_later(0, self._core.shell.turns.turn, self._go_on)
                    return False
        except ProtocolError as problem:
            self._steps, incoming.is_void = None, True
            self._cut(f"{incoming.id.hub} broke the protocol of links: {problem}")
            return False
        except Exception:
            # A fault of this hub. The frames before it must not be executed again, so the link restarts here, too.
            self._steps, incoming.is_void = None, True
            raise
        self._steps = None
        self._executed(self._unread - self._reader.buffered_bytes)
        return True

    def _executed(self, size: int) -> None:
        """A chunk is over, and so many bytes of it are executed."""
        self._incoming.offset += size
        if self._incoming.offset - self._acknowledged >= ACKNOWLEDGE_BYTES:
            self._acknowledge()
        else:
            self._acknowledge_soon()

    def _go_on(self) -> None:
        """Run the next turn. Data read from a closed connection is executed, too, because it is not resent."""
        if self._steps is None:
            return
        if not self._is_heard:
            self._steps = None
            self._cut(f"the link from {self._incoming.id.hub} has restarted")
            return
        try:
            may_come = self._run(self._steps)
            while may_come and self._held and not self._session.is_closing:
                may_come = self._take(self._held.popleft())
        except Exception:
            self._cut("an internal error")
            raise
        if may_come and not self._session.is_closing:
            self._session.wire.resume_reading()

    @property
    def _is_heard(self) -> bool:
        incoming = self._incoming
        return not incoming.is_void and self._heard.get(incoming.id.hub) is incoming

    def _execute(self, data: bytes, start: int) -> Iterator[None]:
        """Execute the frames of a chunk from `start` on. Raises ProtocolError for anything but valid frames."""
        reader = self._reader
        if not reader.buffered_bytes:
            while start < len(data) and (size := self._execute_plain(data, start)):
                start += size
                yield
            if start and not (data := data[start:]):
                return
            commands, size = read_frames(data, reader.limits)
            yield from self._execute_all(commands)
            if not (data := data[size:]):
                return
        yield from self._execute_all(reader.feed(data))
        while reader.has_more:
            yield from self._execute_all(reader.feed(b""))
        if reader.error is not None:
            raise ProtocolError(reader.error)
        if reader.buffered_bytes > self._input_bytes_max:
            raise ProtocolError("a frame is too long")

    def _execute_plain(self, data: bytes, start: int) -> int:
        """Have the compiled part execute plain frames from `start` on, a few at a time; return their bytes."""
        if self._relays is None:
            return 0
        incoming, limits = self._incoming, self._reader.limits
        try:
            return self._relays.execute(
                incoming.id.hub, incoming, data, start, limits.args_max, limits.payload_bytes_max
            )
        except Exception:
            # A fault of this hub, as in `_run`.
            incoming.is_void = True
            raise

    def _execute_all(self, commands: Sequence[Frame | list[bytes]] | Publishes) -> Iterator[None]:
        incoming, hub = self._incoming, self._incoming.id.hub
        if isinstance(commands, Publishes):
            raise ProtocolError("PUBLISH is not a link frame")
        for command in commands:
            if self._heard.get(hub) is not incoming:
                raise ProtocolError(f"a frame of {hub} that is ignored now")
            self._frames.execute(hub, decode(command) if isinstance(command, list) else command)
            yield

    def _acknowledge_soon(self) -> None:
        if not self._is_timed:
            self._is_timed = True
            self._core.shell.call_later(self._core.settings.cluster.ack_interval_s, self._on_timer)

    def _on_timer(self) -> None:
        self._is_timed = False
        self._acknowledge()

    def _acknowledge(self) -> None:
        """Send the count of executed bytes; during a chunk the same count again, to show that this hub is alive."""
        if self._session.is_closing:
            return
        if self.is_busy or self._acknowledged != self._incoming.offset:
            self._acknowledged = self._incoming.offset
            self._session.write(b":%d\r\n" % self._acknowledged)
