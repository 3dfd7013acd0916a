"""One XREAD BLOCK for all sessions with the same request: one watch, one pass, one reply.

Readers that follow a log block at the same id. Their reads differ only in the connection and in the time at which the
block ends, so a session joins a blocked read if it sends the same request. `hub/shell/_sockets.c` compares the bytes of
the requests, and lets the session join without parsing.

Always true:
    a session joins only while the read watches its logs: between a wake-up and the reply no session joins, so every
    member receives what its own read would have found;
    a member waits for this reply and no other (`Session.gathered`), or it is set apart, and waits for a `Reply`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

from equipoise.hub.data.reply import Reply
from equipoise.hub.logs.waiting_read import WaitingRead
from equipoise.log.read import LogRead, assemble
from equipoise.resp.replies import error

if TYPE_CHECKING:
    from equipoise.hub.data.ports import Timer
    from equipoise.hub.data.session import Session
    from equipoise.hub.logs.hub_logs import HubLogs
    from equipoise.hub.telemetry.stats import Stats

__all__ = ["SharedRead"]

# Timers have a resolution of milliseconds, and differences of times are inexact: a wait that ends within this time
# counts as ended.
TICK_S = 0.001


class SharedRead:
    """Owned by HubLogs while sessions may join (`shared`), and by its members until it is answered."""

    __slots__ = (
        "_apart",
        "_denial",
        "_logs",
        "_nothing",
        "_stats",
        "_timer",
        "_wait_s",
        "_waiting",
        "key",
        "members",
    )

    def __init__(
        self,
        logs: HubLogs,
        key: bytes,
        read: LogRead,
        proto: int,
        *,
        denial: Callable[[Session], str | None],
        stats: Stats,
    ) -> None:
        """`key`: the bytes of the request, then the RESP version. `denial`: why a member may no longer read, or None.

        The caller has checked that the read would block.
        """
        self.key = key
        # When each session began to wait, the earliest first.
        self.members: dict[Session, float] = {}
        self._logs = logs
        self._denial = denial
        self._stats = stats
        self._nothing = assemble([], proto)
        self._wait_s = (read.block_ms or 0) / 1_000
        # Replies of members that have sent further commands: the session, and since when it waits.
        self._apart: dict[Reply, tuple[Session, float]] = {}
        # Runs while a member waits for a limited time.
        self._timer: Timer | None = None
        self._waiting = WaitingRead(logs, read, proto, self._judge, may_wait=True, watched=self._watched)
        self._waiting.reply.owe(self._answered, 0.0, is_muted=False)

    def begin(self, first: Session) -> None:
        self.join(first)
        self._waiting.begin_watching()

    # --- members

    @property
    def sessions(self) -> int:
        return len(self.members) + len(self._apart)

    def join(self, session: Session) -> None:
        """The session has sent the request, and waits for no earlier reply."""
        session.gathered = self
        self.members[session] = session.last_at
        if self._wait_s and self._timer is None:
            self._timer = self._logs.call_later(self._wait_s, self._expire)

    def leave(self, session: Session) -> None:
        """The session was closed."""
        if session.gathered is self:
            session.gathered = None
            self.members.pop(session, None)
            self._end_if_alone()

    def set_apart(self, session: Session) -> None:
        """The session has sent further commands, whose replies must follow this one."""
        reply = Reply(wait_s=None)
        reply.when_abandoned(lambda: self._left(reply))
        self._apart[reply] = session, self.members.pop(session)
        session.gathered = None
        session.answer(reply, 0, is_muted=False)
        session.fence([])

    def _left(self, reply: Reply) -> None:
        """The session of a member that was set apart was closed."""
        if self._apart.pop(reply, None) is not None:
            self._end_if_alone()

    def _end_if_alone(self) -> None:
        if not self.members and not self._apart:
            self._stop()
            self._waiting.reply.forget()

    def _expire(self) -> None:
        """Reply to the members whose block time is over; during a pass they receive the result of the pass."""
        self._timer = None
        if self._waiting.is_passing:
            return
        until = self._logs.now() - self._wait_s + TICK_S
        for session, since in list(self.members.items()):
            if since > until:
                break
            self._write(session, self._nothing)
        for reply, (_, since) in list(self._apart.items()):
            if since <= until:
                self._complete(reply, self._nothing)
        self._end_if_alone()
        began = [*islice(self.members.values(), 1), *(since for _, since in self._apart.values())]
        if began:
            self._timer = self._logs.call_later(min(began) - until + TICK_S, self._expire)

    def _judge(self) -> str | None:
        """Access rules have changed: reply with an error to members that may no longer read."""
        for session in list(self.members):
            if (problem := self._denial(session)) is not None:
                self._write(session, error(problem))
        for reply, (session, _) in list(self._apart.items()):
            if (problem := self._denial(session)) is not None:
                self._complete(reply, error(problem))
        self._end_if_alone()
        return None

    # --- the log

    def _watched(self, is_watched: bool) -> None:
        """Sessions may join while the read watches its logs."""
        if is_watched:
            self._logs.shared.setdefault(self.key, self)
            if self._wait_s and self._timer is None:
                self._expire()
        elif self._logs.shared.get(self.key) is self:
            del self._logs.shared[self.key]

    def _answered(self) -> None:
        answer = b"".join(self._waiting.reply.pieces or ())
        self._stop()
        members, self.members = self.members, {}
        size = len(answer)
        for session in members:
            if session.gathered is self:
                session.gathered = None
                if not session.is_closing:
                    self._stats.reply_bytes += size
                    session.write(answer)
        for reply in list(self._apart):
            self._complete(reply, answer)

    def _stop(self) -> None:
        self._watched(False)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _write(self, session: Session, answer: bytes) -> None:
        """Send the reply to a member and remove it."""
        del self.members[session]
        session.gathered = None
        if not session.is_closing:
            self._stats.reply_bytes += len(answer)
            session.write(answer)

    def _complete(self, reply: Reply, answer: bytes) -> None:
        """Send the reply to a member that was set apart and remove it."""
        del self._apart[reply]
        if reply.is_wanted:
            reply.complete(answer)
