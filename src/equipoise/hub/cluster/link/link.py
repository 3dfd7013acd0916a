"""Links between hubs: frames in order, exactly once, across reconnections.

Each hub has one outgoing link to each other hub, and a control link if it has control messages for it. Both ends count
the bytes of whole frames. The sender buffers frames until the receiver has executed them; after a reset the receiver
sends its offset, and the sender resumes from there. A link belongs to one incarnation of both hubs: a restart of a hub
is a new link, and frames in flight are void. They are also void when the sender's buffer is full, and when the receiver
finds an error: then the next generation of the link begins, and both hubs repeat their requests.

Pure: `dialer` makes the connections, `frame_dispatch` executes the frames.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from equipoise.errors import ProtocolError
from equipoise.hub.cluster.link.capability import RESEND
from equipoise.hub.cluster.link.codec import decode, encode, read_frames
from equipoise.hub.cluster.link.failover_frames import ANY_SEQUENCE
from equipoise.hub.cluster.link.frames import Frame, FromFrame
from equipoise.resp import Publishes, RequestReader

if TYPE_CHECKING:
    from equipoise.hub.cluster.link.incoming import FrameReceiver, InLink, LinkHost, LinkWire
    from equipoise.stream.submission import Submission

__all__ = ["LinkSession", "OutLink", "name_origin"]

Send = Callable[[bytes], object]

# Executed bytes that are acknowledged at once, without a delay.
ACKNOWLEDGE_BYTES = 256 * 1024
# How long the frames of one chunk may occupy the loop, in seconds. Longer than a client's turn: each pass of the loop
# has one write per subscriber, so short turns would cost a hub with many subscribers most of its time.
LINK_TURN_S = 0.05


class OutLink:
    """The sending end. A member of audiences: `write` takes whole frames, which are sent in order.

    Always true: `_kept` followed by `_unsent` holds the bytes from `base` to `end`; bytes before `base` have been
    executed; bytes after `written_to` were never written to a connection.
    """

    __slots__ = (
        "_bytes_max",
        "_kept",
        "_overflowed",
        "_send",
        "_unsent",
        "base",
        "capabilities",
        "connections",
        "differences",
        "end",
        "generation",
        "hub",
        "incarnation",
        "is_awaited",
        "is_control",
        "is_fallen",
        "is_held",
        "is_over",
        "is_paused",
        "is_unreachable",
        "voided",
        "written_to",
    )

    def __init__(
        self,
        hub: str,
        incarnation: int,
        bytes_max: int,
        overflowed: Callable[[OutLink], None],
        *,
        is_control: bool = False,
    ) -> None:
        self.hub = hub
        self.incarnation = incarnation
        # Whether it is a control link (`control_links`).
        self.is_control = is_control
        # The hub's announced capabilities; and the limits that differ from this hub's, as text.
        self.capabilities: frozenset[str] = frozenset()
        self.differences = ""
        self.generation = 1
        self._bytes_max, self._overflowed = bytes_max, overflowed
        self._kept: deque[bytes] = deque()
        self._unsent: deque[bytes] = deque()
        self._send: Send | None = None
        self.is_paused = False
        # Held: the peer acknowledges nothing, so frames wait here, and can be resent elsewhere if the peer is dead.
        # Unreachable: the last attempt to connect failed, or the connection became silent.
        self.is_held = self.is_unreachable = False
        # Whether streams hold messages until the link has room.
        self.is_awaited = False
        # Whether the peer is dead or has a new incarnation: no more frames are sent.
        self.is_over = False
        # Whether this generation is void, including frames written until the next one begins.
        self.is_fallen = False
        self.base = self.end = self.written_to = 0
        # Number of connections so far.
        self.connections = 0
        # Number of abandoned generations, because the buffer was full or the receiver found an error.
        self.voided = 0

    @property
    def kept_bytes(self) -> int:
        return self.end - self.base

    @property
    def is_full(self) -> bool:
        """Whether ingress messages should wait in their streams; the rest of the buffer is for other frames."""
        return self.is_fallen or 2 * (self.end - self.base) > self._bytes_max

    @property
    def is_connected(self) -> bool:
        return self._send is not None

    def can(self, capability: str) -> bool:
        """Whether the hub has the capability; True for the empty one."""
        return not capability or capability in self.capabilities

    def send(self, frame: Frame) -> bool:
        """Write a frame, if the hub has its capability; return whether it has."""
        if frame.capability and frame.capability not in self.capabilities:
            return False
        self.write(encode(frame))
        return True

    def write(self, data: bytes) -> None:
        if self.is_over or self.is_fallen:
            return
        self.end += len(data)
        if self._send is not None and not self.is_paused and not self.is_held:
            self._kept.append(data)
            self.written_to = self.end
            self._send(data)
        else:
            self._unsent.append(data)
        if self.end - self.base > self._bytes_max:
            self.fall()

    def resume(self, offset: int, send: Send) -> bool:
        """A connection is up; the receiver has executed `offset` bytes. False if that is impossible or all is void."""
        self._unsent.extendleft(reversed(self._kept))
        self._kept.clear()
        if self.is_over or not self.base <= offset <= self.written_to:
            return False
        self._drop(self._unsent, offset)
        self._send = send
        self.connections += 1
        self.is_paused = self.is_held = False
        self._pump()
        return True

    def acknowledge(self, offset: int) -> bool:
        """The receiver has executed `offset` bytes. False if that is impossible."""
        if offset > self.written_to:
            return False
        self._drop(self._kept, offset)
        if self.is_held:
            self.is_held = False
            self._pump()
        return True

    def hold(self) -> None:
        """The peer has acknowledged nothing for a while: send no more until it does."""
        self.is_held = True

    def suspend(self) -> None:
        """The connection is closed."""
        self._send = None

    def pause(self) -> None:
        """The connection's buffer is full: frames wait here."""
        self.is_paused = True

    def unpause(self) -> None:
        self.is_paused = False
        self._pump()

    def end_for_good(self) -> list[bytes]:
        """The peer is dead. Return the bytes that were never written to a connection: it cannot have received them."""
        self.is_over = True
        self._send = None
        fresh_bytes = self.end - self.written_to
        fresh: list[bytes] = []
        while self._unsent and fresh_bytes > 0:
            piece = self._unsent.pop()
            fresh_bytes -= len(piece)
            if fresh_bytes >= 0:
                fresh.append(piece)
        self._clear()
        fresh.reverse()
        return fresh

    def fall(self) -> None:
        """Void this generation; the cluster then begins the next one."""
        if not self.is_fallen:
            self.is_fallen = True
            self.generation += 1
            self.voided += 1
            self._clear()
            self._overflowed(self)

    def _clear(self) -> None:
        self._kept.clear()
        self._unsent.clear()
        self._send = None
        self.is_held = False
        self.base = self.end = self.written_to = 0

    def _pump(self) -> None:
        unsent, kept = self._unsent, self._kept
        at = self.end - sum(map(len, unsent))
        while unsent and not self.is_paused and not self.is_held and self._send is not None:
            piece = unsent.popleft()
            kept.append(piece)
            at += len(piece)
            self.written_to = max(self.written_to, at)
            self._send(piece)

    def _drop(self, pieces: deque[bytes], offset: int) -> None:
        """Drop the bytes before `offset`. A piece may hold several frames, so it may be cut."""
        while pieces and self.base + len(pieces[0]) <= offset:
            self.base += len(pieces.popleft())
        if pieces and self.base < offset:
            pieces[0] = pieces[0][offset - self.base :]
            self.base = offset


def name_origin(links: Sequence[OutLink], key: bytes, item: Submission, last: int = -1) -> None:
    """Send following hubs the origin of the next messages (FROM), up to the `last`."""
    if links:
        sequence = item.sequence + (last if last >= 0 else len(item.payloads) - 1)
        frame = encode(FromFrame(key, *item.path[0], sequence if item.sequence else ANY_SEQUENCE))
        for link in links:
            if link.can(RESEND):
                link.write(frame)


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
        cut: Callable[[str], object],
    ) -> None:
        """`cut` disconnects the session, with a reason."""
        self._core = core
        self._session = session
        self._cut = incoming.cut = cut
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
        self._steps = self._execute(data)
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
        incoming.offset += self._unread - self._reader.buffered_bytes
        if incoming.offset - self._acknowledged >= ACKNOWLEDGE_BYTES:
            self._acknowledge()
        else:
            self._acknowledge_soon()
        return True

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

    def _execute(self, data: bytes) -> Iterator[None]:
        """Execute the frames of a chunk. Raises ProtocolError for anything but valid frames."""
        reader = self._reader
        if not reader.buffered_bytes:
            done = 0
            while self._relays is not None and done < len(data) and (size := self._execute_plain(data, done)):
                done += size
                yield
            if done and not (data := data[done:]):
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
        """Have the compiled part execute plain frames from `start` on; return how many bytes they had."""
        assert self._relays is not None, "there is one"
        incoming, limits = self._incoming, self._reader.limits
        return self._relays.execute(
            incoming.id.hub, incoming, data, start, limits.args_max, limits.payload_bytes_max
        )

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
