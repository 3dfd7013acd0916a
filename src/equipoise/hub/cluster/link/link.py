"""Links between hubs: frames in order, exactly once, across reconnections.

Each hub has one outgoing link to each other hub, and a control link if it has control messages for it. Both ends count
the bytes of whole frames. The sender buffers frames until the receiver has executed them; after a reset the receiver
sends its offset, and the sender resumes from there. A link belongs to one incarnation of both hubs: a restart of a hub
is a new link, and frames in flight are void. They are also void when the sender's buffer is full, and when the receiver
finds an error: then the next generation of the link begins, and both hubs repeat their requests.

Pure: `dialer` makes the connections, `link_session` receives the frames, `frame_dispatch` executes them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from equipoise.hub.cluster.link.capability import RESEND
from equipoise.hub.cluster.link.codec import encode
from equipoise.hub.cluster.link.failover_frames import ANY_SEQUENCE
from equipoise.hub.cluster.link.frames import Frame, FromFrame

if TYPE_CHECKING:
    from equipoise.stream.submission import Submission

__all__ = ["OutLink", "name_origin"]

Send = Callable[[bytes], object]


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
