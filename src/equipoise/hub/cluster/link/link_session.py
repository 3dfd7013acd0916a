"""The receiving end of one connection of a link: frames are read, executed in turns, and acknowledged.

A chunk may hold messages that take a hub with many subscribers seconds to deliver. Frames have turns like a client's
commands: between two turns the hub serves everything else, control links among it (`control_links`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from equipoise.errors import ProtocolError
from equipoise.hub.cluster.link.codec import decode, read_frames
from equipoise.resp import Publishes, RequestReader

if TYPE_CHECKING:
    from equipoise.hub.cluster.link.frame import Frame
    from equipoise.hub.cluster.link.link import InLink
    from equipoise.hub.data.ports import Shell, Wire
    from equipoise.hub.settings import HubSettings
    from equipoise.hub.telemetry.stats import Stats
    from equipoise.resp import RequestLimits

__all__ = ["FrameExecutor", "FrameReceiver", "LinkSession"]

# Acknowledged at once: the sender keeps no more than this for want of an ack.
ACKNOWLEDGE_BYTES = 256 * 1024
# How long the frames of one chunk may keep the loop. Longer than a client's turn: subscribers get what they are owed
# with one write in each pass, so short turns would cost a hub with many of them most of its time.
LINK_TURN_S = 0.05


class FrameExecutor(Protocol):
    def execute(self, peer: str, frame: Frame) -> None:
        """Do what a frame of a live peer says. Raises ProtocolError if no hub can mean that."""


class FrameReceiver(Protocol):
    """The cluster."""

    @property
    def frames(self) -> FrameExecutor: ...
    @property
    def incoming(self) -> dict[str, InLink]:
        """By hub, the present generation of its link to this one."""


class LinkHost(Protocol):
    """What a connection of a link needs of the hub."""

    @property
    def link_limits(self) -> RequestLimits: ...
    @property
    def settings(self) -> HubSettings: ...
    @property
    def shell(self) -> Shell: ...
    @property
    def stats(self) -> Stats: ...
    def now(self) -> float: ...


class LinkWire(Protocol):
    """The session that has become a link."""

    last_at: float
    is_closing: bool
    write: Callable[[bytes], object]
    wire: Wire


class LinkSession:
    """One connection of a link that another hub has dialled.

    After the greeting nothing but frames is read from it, and nothing but further counts of executed bytes is written
    to it. Any error voids the generation of the link. The bytes of a chunk count as executed only if all of its frames
    were, and where an error stopped it that number is not known. So the sender gets an offset that it cannot have
    reached (`VOID_OFFSET`), begins the next generation, and both hubs ask each other again for what they need. That way
    losses are counted and reported as gaps, and nothing is executed twice.
    """

    def __init__(
        self,
        core: LinkHost,
        session: LinkWire,
        incoming: InLink,
        receiver: FrameReceiver,
        cut: Callable[[str], object],
    ) -> None:
        """`cut` ends the session, for a reason."""
        self._core = core
        self._session = session
        self._cut = incoming.cut = cut
        self._incoming = incoming
        incoming.latest = self
        # Where frames go, and by hub the links that are heard.
        self._frames, self._heard = receiver.frames, receiver.incoming
        self._reader = RequestReader(core.link_limits)
        self._input_bytes_max = 2 * core.link_limits.payload_bytes_max + ACKNOWLEDGE_BYTES
        self._acknowledged = incoming.offset
        self._is_timed = False
        self._clock = core.shell.work_s
        # What is left of the present chunk, how much of it was unread before, and what has come behind it.
        self._steps: Iterator[None] | None = None
        self._unread = 0
        self._held: deque[bytes] = deque()

    def receive(self, data: bytes) -> None:
        """Execute the frames that are complete, by turns."""
        core = self._core
        core.stats.input_bytes += len(data)
        self._session.last_at = core.now()
        if not self.is_busy:
            self._take(data)
        else:
            # Transports may bring what they had read before reading was paused.
            self._held.append(data)

    @property
    def is_busy(self) -> bool:
        """Whether frames of the present chunk wait for their turn: how much of it is executed is not known yet."""
        return self._steps is not None

    def _take(self, data: bytes) -> bool:
        """Begin to execute a chunk; whether that is over already, and more may come."""
        if not self._is_heard:
            self._cut(f"the link from {self._incoming.id.hub} has restarted")
            return False
        self._unread = self._reader.buffered_bytes + len(data)
        self._steps = self._execute(data)
        return self._run(self._steps)

    def _run(self, steps: Iterator[None]) -> bool:
        """Go on with the chunk: to its end, or until the turn is over. Whether more may come."""
        incoming, clock = self._incoming, self._clock
        until = clock() + LINK_TURN_S
        try:
            for _ in steps:
                if clock() > until:
                    self._session.wire.pause_reading()
                    self._acknowledge_soon()
                    self._core.shell.call_later(0, self._go_on)
                    return False
        except ProtocolError as problem:
            self._steps, incoming.is_void = None, True
            self._cut(f"{incoming.id.hub} broke the protocol of links: {problem}")
            return False
        except Exception:
            # A fault of this hub. The frames before it must not come again, so the link begins anew here, too.
            self._steps, incoming.is_void = None, True
            raise
        self._steps = None
        incoming.offset += self._unread - self._reader.buffered_bytes
        if incoming.offset - self._acknowledged >= ACKNOWLEDGE_BYTES:
            self._acknowledge()
        else:
            self._acknowledge_soon()
        return True

    def _go_on(self) -> None:
        """The next turn. What was read of a connection that is lost is executed, too: it does not come again."""
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

    def _execute(self, data: bytes) -> Iterator[None]:
        """Raises ProtocolError for anything but frames that this hub can read."""
        reader = self._reader
        if not reader.buffered_bytes:
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
        """While a chunk is executed the count stays what it was: the sender learns that this hub is alive."""
        if self._session.is_closing:
            return
        if self.is_busy or self._acknowledged != self._incoming.offset:
            self._acknowledged = self._incoming.offset
            self._session.write(b":%d\r\n" % self._acknowledged)
