"""What is asked of a hub, and what becomes of the answer.

A request has one reply, or fails with its connection. What it is for decides who hears of that: whoever awaits it, the
next flush, or nobody before a push has brought what the reply only promised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from equipoise.errors import EquipoiseError


class NowaitLosses:
    """What became of publishes without receipt that did not go well. Told by the next flush."""

    __slots__ = ("count", "first")

    def __init__(self) -> None:
        self.count = 0
        self.first: EquipoiseError | None = None

    def add(self, error: EquipoiseError, count: int = 1) -> None:
        self.first = self.first or error
        self.count += count

    def take(self) -> EquipoiseError | None:
        error, count = self.first, self.count
        self.first, self.count = None, 0
        if error is not None and count > 1:
            error.add_note(f"the first of {count} publishes without receipt that failed since the last flush")
        return error


class Request:
    """A request with one reply: a publish with its size, or anything else with size 0."""

    __slots__ = ("frame", "is_sent", "line", "size")

    def __init__(self, frame: bytes, size: int) -> None:
        self.frame = frame
        self.size = size
        self.is_sent = False
        # Where it waits again if its connection is lost before it is sent; None: it need not be sent then.
        self.line: object = None

    @property
    def is_over(self) -> bool:
        """Whether nobody wants the answer any more: then it need not be sent."""
        return False

    def settle(self, reply: object) -> None:
        raise AssertionError("one of the kinds below")

    def fail(self, error: EquipoiseError) -> None:
        raise AssertionError("one of the kinds below")


class Ticket(Request):
    """A request whose answer somebody awaits."""

    __slots__ = ("future",)

    def __init__(self, frame: bytes, size: int, future: asyncio.Future[object]) -> None:
        # All in one place: this is made for every message with a receipt.
        self.frame = frame
        self.size = size
        self.is_sent = False
        self.line = None
        self.future = future

    @property
    def is_over(self) -> bool:
        return self.future.done()

    def settle(self, reply: object) -> None:
        if self.future.done():
            return
        if isinstance(reply, Exception):
            self.future.set_exception(reply)
        else:
            self.future.set_result(reply)

    def fail(self, error: EquipoiseError) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class NowaitTicket(Request):
    """A publish without receipt that had to wait before it could be sent."""

    __slots__ = ("_losses",)

    def __init__(self, frame: bytes, size: int, losses: NowaitLosses) -> None:
        super().__init__(frame, size)
        self._losses = losses

    def settle(self, reply: object) -> None:
        if isinstance(reply, EquipoiseError):
            self._losses.add(reply)

    def fail(self, error: EquipoiseError) -> None:
        self._losses.add(error)


class Courtesy(Request):
    """Something whose reply tells only that all before it have come, if anybody cares. Nobody is told if none comes."""

    __slots__ = ("_answered",)

    def __init__(self, frame: bytes, answered: Callable[[], None] | None = None) -> None:
        super().__init__(frame, 0)
        self._answered = answered

    def settle(self, reply: object) -> None:
        if self._answered is not None:
            self._answered()

    def fail(self, error: EquipoiseError) -> None: ...


class Question(Request):
    """Something that a hub takes note of at once, and answers with a push later: `verb` and `name` begin that.

    `answered` is called once: with the push, or with None if the hub refuses the question or its connection is lost.
    """

    __slots__ = ("_answered", "_is_answered", "key")

    def __init__(
        self, frame: bytes, key: tuple[bytes, bytes], answered: Callable[[list[object] | None], None]
    ) -> None:
        super().__init__(frame, 0)
        self.key = key
        self._answered = answered
        self._is_answered = False

    @property
    def is_over(self) -> bool:
        return self._is_answered

    def answer(self, push: list[object] | None) -> None:
        if not self._is_answered:
            self._is_answered = True
            self._answered(push)

    def settle(self, reply: object) -> None:
        if isinstance(reply, Exception):
            self.answer(None)

    def fail(self, error: EquipoiseError) -> None:
        self.answer(None)
