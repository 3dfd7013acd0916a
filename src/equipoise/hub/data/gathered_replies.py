"""Shared replies of many sessions: XADDs of one loop turn that are committed together.

Most sessions send nothing before they receive their reply. So one object holds the pending replies of all these
sessions, and one timer serves all such objects. When a session sends more, or after one to two seconds, its reply is
set apart: it becomes an ordinary pending reply of the session (`reply`).

Always true: a session has a pending reply of this kind (`Session.gathered`) or pending replies in order, never both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.data.reply import REPLY_S, Reply

if TYPE_CHECKING:
    from equipoise.hub.data.ports import SharedReply, Shell
    from equipoise.hub.telemetry.stats import Stats

__all__ = ["GatheredReplies", "UnsettledReplies"]

# Age at which replies are set apart, and the interval of that check.
_APART_S = 1.0


class _Client(Protocol):
    """The interface of a session to its replies."""

    gathered: SharedReply | None

    @property
    def is_closing(self) -> bool: ...
    @property
    def write(self) -> Callable[[bytes], object]: ...
    def answer(self, reply: bytes | Reply, size: int, *, is_muted: bool) -> None: ...


class _Core(Protocol):
    """The interface of the hub to replies."""

    @property
    def shell(self) -> Shell: ...
    @property
    def stats(self) -> Stats: ...
    def now(self) -> float: ...


class GatheredReplies:
    """Referenced by its sessions, and by the caller of `settle`."""

    __slots__ = ("_apart", "_failed", "_late", "_rows", "_unsettled", "owed_at")

    def __init__(
        self,
        unsettled: UnsettledReplies,
        rows: Sequence[tuple[_Client, bytes, int]],
        *,
        late: bytes,
        failed: bytes,
    ) -> None:
        """`rows`: sessions without pending replies, each with its replies on success and its number of commands.

        `late`, `failed`: the reply to one command after a timeout, and after a failure.
        """
        self._unsettled = unsettled
        self._rows = rows
        self._late, self._failed = late, failed
        # The replies that have been set apart.
        self._apart: dict[_Client, Reply] = {}
        self.owed_at = unsettled.add(self)
        for session, _, _ in rows:
            session.gathered = self

    def settle(self, is_committed: bool) -> None:
        """The outcome is known. Call once."""
        self._unsettled.remove(self)
        size = 0
        for session, good, count in self._rows:
            reply = good if is_committed else self._failed * count
            if session.gathered is self:
                session.gathered = None
                if not session.is_closing:
                    size += len(reply)
                    session.write(reply)
            elif self._apart and (apart := self._apart.get(session)) is not None and apart.is_wanted:
                apart.complete(reply)
        self._unsettled.stats.reply_bytes += size

    def set_apart(self, session: _Client) -> None:
        """Make the session's reply an ordinary pending reply, in order."""
        count = next(count for other, _, count in self._rows if other is session)
        reply = self._apart[session] = Reply(expired=_repeated(self._late, count))
        session.gathered = None
        session.answer(reply, 0, is_muted=False)
        reply.due_at = self.owed_at + REPLY_S

    def leave(self, session: _Client) -> None:
        """The session has ended: nothing is written to it."""
        session.gathered = None

    def set_all_apart(self) -> None:
        for session, _, _ in self._rows:
            if session.gathered is self:
                self.set_apart(session)


class UnsettledReplies:
    """All gathered replies of a hub whose outcome is not known yet. Its timer runs while there are any."""

    def __init__(self, core: _Core) -> None:
        self._core = core
        self.stats = core.stats
        # In order of arrival.
        self._replies: dict[GatheredReplies, None] = {}
        self._is_watching = False

    def add(self, replies: GatheredReplies) -> float:
        """Register the replies; return the current time, from which they are pending."""
        self._replies[replies] = None
        if not self._is_watching:
            self._is_watching = True
            self._core.shell.call_later(_APART_S, self._check)
        return self._core.now()

    def remove(self, replies: GatheredReplies) -> None:
        self._replies.pop(replies, None)

    def _check(self) -> None:
        until = self._core.now() - _APART_S
        for replies in list(self._replies):
            if replies.owed_at > until:
                break
            # From now on each session has its own timer.
            del self._replies[replies]
            replies.set_all_apart()
        self._is_watching = bool(self._replies)
        if self._is_watching:
            self._core.shell.call_later(_APART_S, self._check)


def _repeated(reply: bytes, count: int) -> Callable[[], bytes]:
    return lambda: reply * count
