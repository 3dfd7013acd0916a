"""Measure a round trip on a connection that carries other things too.

A round trip counts only if the question waited behind nothing of our own: nothing unsent before it, little that is
without a receipt, little that came in before the answer. What else delays it, the filter of the estimator
passes over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

AHEAD_BYTES_MAX = 14_600
"""Publishes that may be under way before a probe: ten segments, which leave at once on every connection (RFC 6928)."""
BEHIND_BYTES_MAX = 65_536
"""What may come in before the answer: more has kept the line busy, or this program."""


class Lost:
    """In place of an answer: the connection was lost before it came."""


LOST = Lost()

# With the answer, which is a RefusedError if it is a refusal, or LOST; and the round trip, None if that does not count.
Answered = Callable[[object, float | None], None]


class ProbedConnection(Protocol):
    """A connection to a peer that may know its coordinate."""

    def measure(self, frame: bytes, answered: Answered) -> None:
        """Send a request at once and take the time until its reply."""

    def close(self) -> None: ...


class Probe:
    """A request whose round trip matters more than its answer. No flush waits for it."""

    __slots__ = ("_answered", "_began_at", "_clock", "_is_clear", "_read_bytes")

    def __init__(self, answered: Answered, clock: Callable[[], float]) -> None:
        self._answered = answered
        self._clock = clock
        self._is_clear = False
        self._began_at = 0.0
        self._read_bytes: Callable[[], int] = int

    def begin(self, read_bytes: Callable[[], int], *, is_clear: bool) -> None:
        """It is about to leave. `read_bytes`: what has come in so far on its connection, ever."""
        before = read_bytes()
        self._read_bytes = lambda: read_bytes() - before
        self._is_clear = is_clear
        self._began_at = self._clock()

    def settle(self, reply: object) -> None:
        took_s = self._clock() - self._began_at
        is_clear = self._is_clear and self._read_bytes() <= BEHIND_BYTES_MAX
        self._answered(reply, took_s if is_clear else None)

    def fail(self) -> None:
        """The connection is lost."""
        self._answered(LOST, None)
