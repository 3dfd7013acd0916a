"""Links between hubs: frames in order, exactly once, across reconnections.

Each hub has one outgoing link to each other hub. Both ends count the bytes of whole frames. The sender keeps what it
has written until the receiver has executed it; after a reset the receiver says how far it has got, and the sender
goes on from there. A link belongs to one incarnation of both hubs: a restart is a new link, and what was in flight is
void. It is void, too, when the sender has to keep more than it may, and when the receiver met an error in it: then the
next generation of the link begins, and both hubs ask each other again for what they need.

Pure: connections are made by `dialer`, frames are executed by `frame_dispatch`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from equipoise.errors import ProtocolError
from equipoise.hub.cluster.link.capability import RESEND
from equipoise.hub.cluster.link.codec import decode, encode, read_frames
from equipoise.hub.cluster.link.failover_frames import ANY_SEQUENCE
from equipoise.hub.cluster.link.frames import Frame, FromFrame
from equipoise.resp import Publishes, RequestReader

if TYPE_CHECKING:
    from equipoise.hub.data.ports import Shell
    from equipoise.hub.settings import HubSettings
    from equipoise.hub.telemetry.stats import Stats
    from equipoise.resp import RequestLimits
    from equipoise.stream.submission import Submission

__all__ = [
    "VOID_OFFSET",
    "FrameExecutor",
    "FrameReceiver",
    "InLink",
    "LinkId",
    "LinkSession",
    "OutLink",
    "name_origin",
]

Send = Callable[[bytes], object]
# Beyond what any sender has written: a sender that has to go on there begins the next generation. The first release
# does so, too.
VOID_OFFSET = (1 << 63) - 1
# Acknowledged at once: the sender keeps no more than this for want of an ack.
ACKNOWLEDGE_BYTES = 256 * 1024


class LinkId(NamedTuple):
    """One generation of a link, as the sender names it."""

    hub: str
    incarnation: int
    generation: int


class OutLink:
    """The sending end. A member of audiences: `write` takes whole frames, and all that is written goes out in order.

    Always true: `_kept` followed by `_unsent` holds the bytes from `base` to `end`; what lies before `base` has been
    executed; what lies after `written_to` has never been given to a connection.
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
        "is_fallen",
        "is_held",
        "is_over",
        "is_paused",
        "is_unreachable",
        "voided",
        "written_to",
    )

    def __init__(
        self, hub: str, incarnation: int, bytes_max: int, overflowed: Callable[[OutLink], None]
    ) -> None:
        self.hub = hub
        self.incarnation = incarnation
        # What the hub has announced to understand; the limits in which it differs from this one.
        self.capabilities: frozenset[str] = frozenset()
        self.differences = ""
        self.generation = 1
        self._bytes_max, self._overflowed = bytes_max, overflowed
        self._kept: deque[bytes] = deque()
        self._unsent: deque[bytes] = deque()
        self._send: Send | None = None
        self.is_paused = False
        # The peer acknowledges nothing: what is written waits here, so that it can go elsewhere if the peer is dead.
        # Unreachable: the last attempt to connect failed, or the connection fell silent.
        self.is_held = self.is_unreachable = False
        # Messages wait elsewhere until there is room.
        self.is_awaited = False
        # The peer is dead or a new one: nothing goes here any more.
        self.is_over = False
        # All that was written is void, and so is what is written until the next generation has begun.
        self.is_fallen = False
        self.base = self.end = self.written_to = 0
        # Connections that it has had.
        self.connections = 0
        # Generations that were given up: for want of room, or because the receiver met an error.
        self.voided = 0

    @property
    def kept_bytes(self) -> int:
        return self.end - self.base

    @property
    def is_full(self) -> bool:
        """Whether messages on their way in should wait elsewhere: what is left is for frames that cannot."""
        return self.is_fallen or 2 * (self.end - self.base) > self._bytes_max

    @property
    def is_connected(self) -> bool:
        return self._send is not None

    def can(self, capability: str) -> bool:
        """Whether the hub understands frames that need the capability; every hub understands those that need none."""
        return not capability or capability in self.capabilities

    def send(self, frame: Frame) -> bool:
        """Write a frame, if the hub understands it; whether it does."""
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
        """A connection is up and the receiver has executed `offset` bytes. False if that cannot be, or all is void."""
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
        """The receiver has executed `offset` bytes. False if that cannot be."""
        if offset > self.written_to:
            return False
        self._drop(self._kept, offset)
        if self.is_held:
            self.is_held = False
            self._pump()
        return True

    def hold(self) -> None:
        """The peer has acknowledged nothing for a while: give it no more before it does."""
        self.is_held = True

    def suspend(self) -> None:
        """The connection is gone."""
        self._send = None

    def pause(self) -> None:
        """The connection is full; what is written waits here."""
        self.is_paused = True

    def unpause(self) -> None:
        self.is_paused = False
        self._pump()

    def end_for_good(self) -> list[bytes]:
        """The peer is gone. What no connection was ever given is returned: the peer cannot have seen it."""
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
        """All that was written is void, until the cluster begins the next generation of the link."""
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
        """Forget what lies before `offset`. A piece may hold several frames, so it may be cut."""
        while pieces and self.base + len(pieces[0]) <= offset:
            self.base += len(pieces.popleft())
        if pieces and self.base < offset:
            pieces[0] = pieces[0][offset - self.base :]
            self.base = offset


def name_origin(links: Sequence[OutLink], key: bytes, item: Submission, last: int = -1) -> None:
    """Say to the hubs that follow a topic where the messages come from that are written next, up to the `last`."""
    if links:
        sequence = item.sequence + (last if last >= 0 else len(item.payloads) - 1)
        frame = encode(FromFrame(key, *item.path[0], sequence if item.sequence else ANY_SEQUENCE))
        for link in links:
            if link.can(RESEND):
                link.write(frame)


class InLink:
    """The receiving end: which generation of the link this is, and how many bytes of it have been executed."""

    __slots__ = ("connections", "cut", "id", "is_void", "offset")

    def __init__(self, link: LinkId) -> None:
        self.id = link
        self.offset = 0
        # An error has stopped it: nothing more of this generation is executed.
        self.is_void = False
        # Connections that it has had; what ends the latest of them, for a reason.
        self.connections = 0
        self.cut: Callable[[str], object] = lambda reason: None

    @property
    def resume_at(self) -> int:
        """Where the sender has to go on."""
        return VOID_OFFSET if self.is_void else self.offset


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
        # Where frames go, and by hub the links that are heard.
        self._frames, self._heard = receiver.frames, receiver.incoming
        self._reader = RequestReader(core.link_limits)
        self._input_bytes_max = 2 * core.link_limits.payload_bytes_max + ACKNOWLEDGE_BYTES
        self._acknowledged = incoming.offset
        self._is_timed = False

    def receive(self, data: bytes) -> None:
        """Execute the frames that are complete. A chunk takes no longer than one of a client's."""
        core, incoming = self._core, self._incoming
        core.stats.input_bytes += len(data)
        self._session.last_at = core.now()
        if incoming.is_void or self._heard.get(incoming.id.hub) is not incoming:
            self._cut(f"the link from {incoming.id.hub} has restarted")
            return
        unread = self._reader.buffered_bytes + len(data)
        try:
            self._execute(data)
        except ProtocolError as problem:
            incoming.is_void = True
            self._cut(f"{incoming.id.hub} broke the protocol of links: {problem}")
            return
        except Exception:
            # A fault of this hub. The frames before it must not come again, so the link begins anew here, too.
            incoming.is_void = True
            raise
        incoming.offset += unread - self._reader.buffered_bytes
        if incoming.offset - self._acknowledged >= ACKNOWLEDGE_BYTES:
            self._acknowledge()
        elif not self._is_timed:
            self._is_timed = True
            core.shell.call_later(core.settings.cluster.ack_interval_s, self._on_timer)

    def _execute(self, data: bytes) -> None:
        """Raises ProtocolError for anything but frames that this hub can read."""
        reader = self._reader
        if not reader.buffered_bytes:
            commands, size = read_frames(data, reader.limits)
            self._execute_all(commands)
            if not (data := data[size:]):
                return
        self._execute_all(reader.feed(data))
        while reader.has_more:
            self._execute_all(reader.feed(b""))
        if reader.error is not None:
            raise ProtocolError(reader.error)
        if reader.buffered_bytes > self._input_bytes_max:
            raise ProtocolError("a frame is too long")

    def _execute_all(self, commands: Sequence[Frame | list[bytes]] | Publishes) -> None:
        incoming, hub = self._incoming, self._incoming.id.hub
        if isinstance(commands, Publishes):
            raise ProtocolError("PUBLISH is not a link frame")
        for command in commands:
            if self._heard.get(hub) is not incoming:
                raise ProtocolError(f"a frame of {hub} that is ignored now")
            self._frames.execute(hub, decode(command) if isinstance(command, list) else command)

    def _on_timer(self) -> None:
        self._is_timed = False
        self._acknowledge()

    def _acknowledge(self) -> None:
        if self._acknowledged != self._incoming.offset and not self._session.is_closing:
            self._acknowledged = self._incoming.offset
            self._session.write(b":%d\r\n" % self._acknowledged)
