"""The pending replies of a session, in the order of its commands.

A handler returns the bytes of its reply, or a `Reply` that is completed once, when the outcome is known: from a quorum,
from another hub, from a check in another thread. A session may have many pending replies, and reads on meanwhile.

A command is pipelined or a fence:

    pipelined   PUBLISH, SPUBLISH, EQ.PUBLISH. It may run while earlier replies are pending, and later pipelined
                commands may run while its own reply is: messages queue for their positions by topic, and none depends
                on the reply to another.
    fence       every other command. It runs when all earlier replies are complete, and the next command runs when its
                own reply is. SUBSCRIBE is a fence because its confirmation precedes the messages, and the client must
                receive a message that it publishes after it; AUTH, HELLO, RESET, CLIENT REPLY and EQ.LINK, because
                they change the permissions and replies of the following commands; EQ.AFTER, because it applies to the
                next EQ.PUBLISH; QUIT, because it ends the connection. For all others a fence costs nothing: their
                reply could not be sent before the earlier ones anyway, and only one listing is held at a time.

Always true:
    replies are written in the order of their commands, whatever the order of completion;
    every reply ends: its handler completes it, it expires, or its session ends;
    the pending replies of one session are bounded by number and by the bytes of their commands.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

from equipoise.resp.replies import error

if TYPE_CHECKING:
    from equipoise.hub.data.ports import Timer

__all__ = [
    "LATE",
    "LOST",
    "NO_ROOM",
    "OWED_BYTES_MAX",
    "OWED_MAX",
    "REPLY_S",
    "OwedReplies",
    "Reply",
    "ReplyMode",
]

# Timeout of a pending reply, in seconds: longer than a handover or a failover usually takes, shorter than the timeouts
# of common Redis clients.
REPLY_S = 5.0
# Limits on the pending replies of one session: their number, and the bytes of their commands. Above, its input waits.
OWED_MAX = 1_000
OWED_BYTES_MAX = 16 * 1024 * 1024
# A session that reached the limit continues once so many replies are written, not after each: resuming its held
# commands costs as much as executing several.
OWED_STEP = 32

# Error texts of publishes: rejected, because the buffer is full; or accepted, with an unknown outcome.
NO_ROOM = "TRYAGAIN the topic is moving and the buffer of this hub is full (cluster.pending_bytes_max)"
LATE = (
    f"UNCERTAIN the messages have no position after {REPLY_S:.0f} s; they may or may not be delivered: "
    "publish them again only if duplicates do no harm"
)
LOST = (
    "UNCERTAIN the topic's home failed with messages in flight; they may or may not have been delivered: "
    "publish them again only if duplicates do no harm"
)
_EXPIRED = error(f"TRYAGAIN this hub could not carry out the command within {REPLY_S:.0f} s")


class ReplyMode(Enum):
    """The modes of CLIENT REPLY."""

    ON = "on"
    OFF = "off"
    # The next command's reply is omitted; then the mode is ON again.
    SKIP_NEXT = "skip"


class Reply:
    """One command's reply: created by its handler, completed once, possibly before the handler returns it."""

    __slots__ = ("_abandoned", "_expired", "_is_void", "_ready", "due_at", "is_muted", "pieces", "wait_s")

    def __init__(
        self,
        *,
        wait_s: float | None = REPLY_S,
        expired: Callable[[], bytes] | None = None,
        abandoned: Callable[[], object] | None = None,
    ) -> None:
        """`wait_s`: the timeout; None where another limit ends the wait. `expired` returns the reply after a timeout.

        `abandoned` is called when the outcome no longer matters: after a timeout, or when the session has ended.
        """
        self.wait_s = wait_s
        self._expired = expired
        self._abandoned = abandoned
        # The reply's bytes, long pieces written one by one; None until the reply is complete.
        self.pieces: tuple[bytes, ...] | None = None
        self._is_void = False
        self._ready: Callable[[], object] | None = None
        # Set by `owe`.
        self.due_at = float("inf")
        self.is_muted = False

    @property
    def is_wanted(self) -> bool:
        """Whether the outcome still matters to the client."""
        return self.pieces is None and not self._is_void

    def complete(self, *pieces: bytes) -> None:
        """The outcome is known. Callable from anywhere: the session writes it in a turn of its own.

        Does nothing if the reply has expired or its session has ended.
        """
        if self._is_void:
            return
        assert self.pieces is None, "a reply is completed once"
        self.pieces = pieces
        if self._ready is not None:
            self._ready()

    def when_abandoned(self, call: Callable[[], object]) -> None:
        """Set the call for when the outcome no longer matters."""
        self._abandoned = call

    def owe(self, ready: Callable[[], object], now: float, *, is_muted: bool) -> None:
        """A session has this reply pending: call `ready` when it is complete. A muted reply is not written."""
        self._ready = ready
        self.is_muted = is_muted
        if self.wait_s is not None:
            self.due_at = now + self.wait_s

    def expire(self) -> None:
        """The timeout has passed."""
        reply = self._expired() if self._expired is not None else _EXPIRED
        if self.is_wanted:
            self.complete(reply)
            self._abandon()

    def forget(self) -> None:
        """The session has ended."""
        if self.is_wanted:
            self._abandon()

    def _abandon(self) -> None:
        self._is_void = True
        if self._abandoned is not None:
            self._abandoned()


class OwedReplies:
    """The pending replies of one session, which owns it. Exists only while the first entry is not complete."""

    __slots__ = ("_bytes", "_entries", "is_fenced", "is_woken", "timer")

    def __init__(self, timer: Timer) -> None:
        # Runs while replies are pending.
        self.timer = timer
        self._entries: deque[tuple[Reply | bytes, int]] = deque()
        self._bytes = 0
        # Whether the last command is a fence whose reply is not complete.
        self.is_fenced = False
        # Whether the session has scheduled a turn to write complete replies.
        self.is_woken = False

    @property
    def may_grow(self) -> bool:
        """Whether a pipelined command may run."""
        return not self.is_fenced and len(self._entries) < OWED_MAX and self._bytes < OWED_BYTES_MAX

    @property
    def has_room(self) -> bool:
        """Whether a session that reached the limit may continue."""
        return self.may_grow and len(self._entries) <= max(OWED_MAX // 2, OWED_MAX - OWED_STEP)

    def add(self, reply: Reply | bytes, size: int) -> None:
        """Add the reply to a command of `size` bytes."""
        self._entries.append((reply, size))
        self._bytes += size

    def take(self) -> list[bytes]:
        """Remove and return the pieces that may be written now: those before the first incomplete reply."""
        ready: list[bytes] = []
        entries = self._entries
        while entries:
            reply, size = entries[0]
            if isinstance(reply, bytes):
                ready.append(reply)
            elif reply.pieces is None:
                break
            elif not reply.is_muted:
                ready += reply.pieces
            entries.popleft()
            self._bytes -= size
        return ready

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def is_empty(self) -> bool:
        return not self._entries

    def expire(self, now: float) -> None:
        """Complete the replies whose timeout has passed."""
        for reply, _ in list(self._entries):
            if isinstance(reply, Reply) and reply.pieces is None and reply.due_at <= now:
                reply.expire()

    def forget(self) -> None:
        """The session has ended."""
        for reply, _ in list(self._entries):
            if isinstance(reply, Reply):
                reply.forget()
        self._entries.clear()
