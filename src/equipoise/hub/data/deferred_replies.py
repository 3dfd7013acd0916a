"""Replies out of command order, for clients that requested them (EQ.DEFER).

A smart client publishes to all its topics over one connection, and replies are sent in order. So that a topic which
waits for tokens does not delay the others, the hub replies at once with a push of a topic and a number (`eq.deferred`).
When the outcome is known, the hub sends the reply in a push with the same number (`eq.reply`).

Always true: a session has at most DEFERRED_MAX such replies outstanding; further commands get their replies in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from equipoise.resp.replies import bulk, integer, push

if TYPE_CHECKING:
    from equipoise.hub.data.ports import Shell
    from equipoise.hub.data.reply import Reply

__all__ = ["DEFERRED_MAX", "DeferredReplies"]

# As many as `OWED_MAX`, the pending replies in order of one session.
DEFERRED_MAX = 1_000


class _Client(Protocol):
    """The interface of a session to its replies."""

    @property
    def is_closing(self) -> bool: ...
    @property
    def write(self) -> Callable[[bytes], object]: ...


class DeferredReplies:
    """Owned by one session. `forget` ends it."""

    __slots__ = ("_awaited", "_complete", "_last", "_replies", "_session", "_shell")

    def __init__(self, session: _Client, shell: Shell) -> None:
        self._session = session
        self._shell = shell
        # Topic and reply by number; and the numbers of replies that are complete and not written.
        self._replies: dict[int, tuple[bytes, Reply]] = {}
        self._complete: list[int] = []
        # Calls to make when all replies of a set of numbers are complete.
        self._awaited: list[tuple[set[int], Callable[[], object]]] = []
        self._last = 0

    @property
    def has_room(self) -> bool:
        return len(self._replies) < DEFERRED_MAX

    def defer(self, reply: Reply, topic: bytes, ahead: int, now: float) -> bytes:
        """The push in place of the reply. `ahead`: publishes of the topic that the client may have pending here."""
        self._last = number = self._last + 1
        self._replies[number] = (topic, reply)
        reply.owe(lambda: self._completed(number), now, is_muted=False)
        return push((bulk(b"eq.deferred"), bulk(topic), integer(number), integer(ahead)), 3)

    def after(self, topic: bytes, call: Callable[[], object]) -> None:
        """Call when the publishes to the topic that are outstanding now are complete."""
        numbers = {n for n, (name, reply) in self._replies.items() if name == topic and reply.pieces is None}
        if numbers:
            self._awaited.append((numbers, call))
        else:
            call()

    def _completed(self, number: int) -> None:
        """Replies completed in one turn are written together, behind the replies in order of that turn."""
        self._complete.append(number)
        if len(self._complete) == 1:
            self._shell.call_later(0, self._write)
        if self._awaited:
            self._call_completed(number)

    def _call_completed(self, number: int) -> None:
        awaited, self._awaited = self._awaited, []
        for numbers, call in awaited:
            numbers.discard(number)
            if numbers:
                self._awaited.append((numbers, call))
            else:
                call()

    def _write(self) -> None:
        complete, self._complete = self._complete, []
        frames: list[bytes] = []
        for number in complete:
            _, reply = self._replies.pop(number, (b"", None))
            if reply is not None and reply.pieces is not None:
                frames.append(push((bulk(b"eq.reply"), integer(number), b"".join(reply.pieces)), 3))
        if frames and not self._session.is_closing:
            self._session.write(b"".join(frames))

    def forget(self) -> None:
        """The session has ended, or has switched deferred replies off: pending publishes are abandoned."""
        replies, self._replies = self._replies, {}
        awaited, self._awaited = self._awaited, []
        for _, reply in replies.values():
            reply.forget()
        for _, call in awaited:
            call()
