"""Publishes of this hub's clients that wait for tokens of one topic, by connection.

They have no reply yet, so the hub can still reject them, and drops them if their client disconnects. Connections are
served round-robin, one message each: a client that pipelines a thousand messages gets no more of the envelope than one
that sends them singly.

Always true: a connection is in `turns` exactly while one of its commands waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from equipoise.hub.cluster.link.frames import Tag
from equipoise.hub.data.reply import LATE, Reply
from equipoise.limits import TurnRing
from equipoise.resp.replies import error
from equipoise.stream.submission import PAYLOAD_BYTES, SUBMISSION_BYTES

__all__ = ["ClientQueue", "PendingPublish", "PositionedReply"]


class PositionedReply(Reply):
    """The reply to EQ.PUBLISH: complete when all of its messages have their positions."""

    __slots__ = ("_is_lost", "_receipt", "left")

    def __init__(self, messages: int, receipt: Callable[[Tag, bool], bytes]) -> None:
        super().__init__(wait_s=None, expired=lambda: error(LATE))
        self.left = messages
        self._receipt = receipt
        self._is_lost = False

    def acked(self, at: Tag, is_lost: bool) -> None:
        self.left -= 1
        self._is_lost = self._is_lost or is_lost
        if not self.left and self.pieces is None:
            self.complete(self._receipt(at, self._is_lost))


class PendingPublish:
    """One command that waits for the tokens of its first or of its next message."""

    __slots__ = ("after", "came_at", "payloads", "reply", "sent", "session")

    def __init__(
        self, session: int, payloads: Sequence[bytes], after: Sequence[Tag], reply: Reply, now: int
    ) -> None:
        self.session = session
        self.payloads = payloads
        self.after = after
        self.reply = reply
        self.came_at = now
        # Number of messages sent so far.
        self.sent = 0

    @property
    def left(self) -> int:
        return len(self.payloads) - self.sent

    def complete(self, reply: bytes) -> None:
        """Complete the reply: one for all messages of EQ.PUBLISH, one for each of consecutive PUBLISHes."""
        is_one = isinstance(self.reply, PositionedReply)
        self.reply.complete(reply if is_one else reply * len(self.payloads))

    @property
    def size(self) -> int:
        """Bytes of memory."""
        return SUBMISSION_BYTES + PAYLOAD_BYTES * len(self.payloads) + sum(map(len, self.payloads))


class ClientQueue:
    """Commands of this hub's clients to one topic. Owned by its trunk's TopicLimit."""

    __slots__ = ("_commands", "_leading", "reported", "reported_to", "turns")

    def __init__(self, turns: TurnRing[int]) -> None:
        """`turns`: empty; it keeps the order in which connections were served before."""
        self._commands: dict[int, deque[PendingPublish]] = {}
        # First commands of connections that can still be rejected, each with the time at which it became first; the
        # oldest first.
        self._leading: dict[PendingPublish, int] = {}
        self.turns = turns
        # How many waiting connections were reported to the home, and the hub that received the report.
        self.reported = 0
        self.reported_to = ""

    def __len__(self) -> int:
        """Number of connections that wait."""
        return len(self._commands)

    @property
    def messages(self) -> int:
        return sum(one.left for commands in self._commands.values() for one in commands)

    def add(self, one: PendingPublish) -> bool:
        """Queue a command; return whether it is the first of its connection."""
        commands = self._commands.setdefault(one.session, deque())
        commands.append(one)
        self.turns.join(one.session)
        return len(commands) == 1

    def remove(self, one: PendingPublish) -> PendingPublish | None:
        """Remove a command; return the command that thereby becomes the first of its connection, if any."""
        commands = self._commands.get(one.session)
        if commands is None or one not in commands:
            return None
        was_first = commands[0] is one
        commands.remove(one)
        self._leading.pop(one, None)
        if not commands:
            del self._commands[one.session]
            self.turns.leave(one.session)
            return None
        return commands[0] if was_first else None

    def first(self) -> PendingPublish | None:
        """The first command of the connection whose turn it is."""
        session = self.turns.first
        return None if session is None else self._commands[session][0]

    def lead(self, one: PendingPublish, now: int) -> None:
        """The command has become the first of its connection: start its waiting time."""
        self._leading[one] = now

    def begun(self, one: PendingPublish) -> None:
        """A part of the command was sent: it cannot be rejected any more."""
        self._leading.pop(one, None)

    def overdue(self, since: int) -> PendingPublish | None:
        """A command that became the first of its connection before `since`, and of which nothing was sent.

        Checks only the command that has been first for the longest time, however many connections wait.
        """
        one, led_since = next(iter(self._leading.items()), (None, since))
        return one if led_since < since else None
