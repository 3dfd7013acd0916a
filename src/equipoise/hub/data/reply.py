"""The pending replies of a session, in the order of its commands.

A handler returns the bytes of its reply, or a `Reply` that is completed once, when the outcome is known: by a quorum,
by another hub, by a check beside the loop. A session owes many of them at once, and goes on reading meanwhile.

A command is pipelined or a fence:

    pipelined   PUBLISH, SPUBLISH, EQ.PUBLISH. It may run while earlier replies are owed, and later ones may run while
                its own is: messages queue for their positions by topic, and none depends on the reply to another.
    fence       every other command. It runs when all earlier replies are complete, and what follows runs when its own
                is. SUBSCRIBE has to, since its confirmation precedes the messages, and a message that the client
                publishes behind it has to reach the client; AUTH, HELLO, RESET, CLIENT REPLY and EQ.LINK, since they
                change how the following commands are judged and answered; EQ.AFTER, since it concerns the next
                EQ.PUBLISH; QUIT, since it ends the connection. For the others it costs nothing: their reply could
                not be sent before the earlier ones anyway, and only one listing is held at a time.

Always true:
    bytes leave in the order of their commands, whatever the order of completion;
    no reply waits for ever: it is completed by its handler, expires, or its session ends;
    what one session is owed is bounded by number and by the bytes of its commands.
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

# How long a command may wait for its outcome, in seconds: longer than a handover or a failover usually takes, shorter
# than the time-outs of common Redis clients.
REPLY_S = 5.0
# Replies that one session may be owed, and the bytes of their commands. Beyond, what it sends waits.
OWED_MAX = 1_000
OWED_BYTES_MAX = 16 * 1024 * 1024
# A session that owes as many as it may goes on once so many are written, not for each of them: looking at what it holds
# of its client's commands costs as much as executing several.
OWED_STEP = 32

# Error texts of publishes: refused, since too much waits already; or accepted, with an outcome that is not known.
NO_ROOM = "TRYAGAIN the topic is moving and the buffer of this hub is full (cluster.pending_bytes_max)"
LATE = (
    f"UNCERTAIN the messages have no position after {REPLY_S:.0f} s; they may or may not be delivered: "
    "publish them again only if duplicates do no harm"
)
LOST = (
    "UNCERTAIN the hub where the topic lived died with messages under way; they may or may not have been delivered: "
    "publish them again only if duplicates do no harm"
)
_EXPIRED = error(f"TRYAGAIN this hub could not carry out the command within {REPLY_S:.0f} s")


class ReplyMode(Enum):
    """CLIENT REPLY."""

    ON = "on"
    OFF = "off"
    # The next command's reply is left out, then ON again.
    SKIP_NEXT = "skip"


class Reply:
    """One command's reply: made by its handler, completed once. May be completed before it is returned."""

    __slots__ = ("_abandoned", "_expired", "_is_void", "_ready", "due_at", "is_muted", "pieces", "wait_s")

    def __init__(
        self,
        *,
        wait_s: float | None = REPLY_S,
        expired: Callable[[], bytes] | None = None,
        abandoned: Callable[[], object] | None = None,
    ) -> None:
        """`wait_s`: None where another limit ends the wait. `expired` gives the reply when the time is up.

        `abandoned` is called when the outcome is not waited for any more: the time is up, or the session has ended.
        """
        self.wait_s = wait_s
        self._expired = expired
        self._abandoned = abandoned
        # The reply's bytes, written one by one if they are long; None until it is complete.
        self.pieces: tuple[bytes, ...] | None = None
        self._is_void = False
        self._ready: Callable[[], object] | None = None
        # Set while a session owes it.
        self.due_at = float("inf")
        self.is_muted = False

    @property
    def is_wanted(self) -> bool:
        """Whether the outcome still matters to the client."""
        return self.pieces is None and not self._is_void

    def complete(self, *pieces: bytes) -> None:
        """The outcome is known. It takes effect in a turn of its own, so this may be called from anywhere.

        Does nothing if the reply has expired or its session has ended.
        """
        if self._is_void:
            return
        assert self.pieces is None, "a reply is completed once"
        self.pieces = pieces
        if self._ready is not None:
            self._ready()

    def when_abandoned(self, call: Callable[[], object]) -> None:
        """Call this when the outcome is not waited for any more."""
        self._abandoned = call

    def owe(self, ready: Callable[[], object], now: float, *, is_muted: bool) -> None:
        """A session owes it from now on, and is called when it is complete. A muted one is not written."""
        self._ready = ready
        self.is_muted = is_muted
        if self.wait_s is not None:
            self.due_at = now + self.wait_s

    def expire(self) -> None:
        """The time is up."""
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
    """What one session owes: there is one only while its first entry is not complete. Owned by the session."""

    __slots__ = ("_bytes", "_entries", "is_fenced", "is_woken", "timer")

    def __init__(self, timer: Timer) -> None:
        # Runs while anything is owed.
        self.timer = timer
        self._entries: deque[tuple[Reply | bytes, int]] = deque()
        self._bytes = 0
        # Whether the last command is a fence, and not complete.
        self.is_fenced = False
        # Whether the session is to look at it in a turn of its own.
        self.is_woken = False

    @property
    def may_grow(self) -> bool:
        """Whether a pipelined command may run."""
        return not self.is_fenced and len(self._entries) < OWED_MAX and self._bytes < OWED_BYTES_MAX

    @property
    def has_room(self) -> bool:
        """Whether a session that was held up may go on."""
        return self.may_grow and len(self._entries) <= max(OWED_MAX // 2, OWED_MAX - OWED_STEP)

    def add(self, reply: Reply | bytes, size: int) -> None:
        """The reply to a command of so many bytes."""
        self._entries.append((reply, size))
        self._bytes += size

    def take(self) -> list[bytes]:
        """The pieces that may be written now: of all replies before the first that is not complete."""
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
        """Complete those that have waited for too long."""
        for reply, _ in list(self._entries):
            if isinstance(reply, Reply) and reply.pieces is None and reply.due_at <= now:
                reply.expire()

    def forget(self) -> None:
        """The session has ended."""
        for reply, _ in list(self._entries):
            if isinstance(reply, Reply):
                reply.forget()
        self._entries.clear()
