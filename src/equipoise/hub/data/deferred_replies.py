"""Replies out of command order, for clients that requested them (EQ.DEFER).

A smart client publishes all of its topics over one connection, and replies come in order. So that a topic which waits
for tokens does not hold up the others, its command is answered at once by a push that names topic and number
(`eq.deferred`), and the reply itself follows in a push of that number (`eq.reply`) when the outcome is known.

Always true: a session has at most DEFERRED_MAX such replies outstanding; beyond, its commands are answered in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from equipoise.resp.replies import bulk, integer, push

if TYPE_CHECKING:
    from equipoise.hub.data.ports import Shell
    from equipoise.hub.data.reply import Reply

__all__ = ["DEFERRED_MAX", "DeferredReplies"]

# As many as a session may be owed in order.
DEFERRED_MAX = 1_000


class _Client(Protocol):
    """The session, as far as replies go."""

    @property
    def is_closing(self) -> bool: ...
    @property
    def write(self) -> Callable[[bytes], object]: ...


class DeferredReplies:
    """Owned by one session. `forget` ends it."""

    __slots__ = ("_complete", "_last", "_questions", "_replies", "_session", "_shell")

    def __init__(self, session: _Client, shell: Shell) -> None:
        self._session = session
        self._shell = shell
        # By number, with its topic; and the numbers of those that are complete and not written.
        self._replies: dict[int, tuple[bytes, Reply]] = {}
        self._complete: list[int] = []
        # What is to be done when all of some numbers are complete.
        self._questions: list[tuple[set[int], Callable[[], object]]] = []
        self._last = 0

    @property
    def has_room(self) -> bool:
        return len(self._replies) < DEFERRED_MAX

    def defer(self, reply: Reply, topic: bytes, ahead: int, now: float) -> bytes:
        """What stands in the place of the reply. `ahead`: publishes of the topic that the client may let wait here."""
        self._last = number = self._last + 1
        self._replies[number] = (topic, reply)
        reply.owe(lambda: self._completed(number), now, is_muted=False)
        return push((bulk(b"eq.deferred"), bulk(topic), integer(number), integer(ahead)), 3)

    def after(self, topic: bytes, call: Callable[[], object]) -> None:
        """Call when the publishes to the topic that are outstanding now are complete."""
        numbers = {n for n, (name, reply) in self._replies.items() if name == topic and reply.pieces is None}
        if numbers:
            self._questions.append((numbers, call))
        else:
            call()

    def _completed(self, number: int) -> None:
        """Several that are complete in one turn are written together, behind what is being answered in order."""
        self._complete.append(number)
        if len(self._complete) == 1:
            self._shell.call_later(0, self._write)
        if self._questions:
            self._answer_questions(number)

    def _answer_questions(self, number: int) -> None:
        questions, self._questions = self._questions, []
        for numbers, call in questions:
            numbers.discard(number)
            if numbers:
                self._questions.append((numbers, call))
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
        """The session has ended, or wants no replies of this kind any more: what waits is not published."""
        replies, self._replies = self._replies, {}
        questions, self._questions = self._questions, []
        for _, reply in replies.values():
            reply.forget()
        for _, call in questions:
            call()
