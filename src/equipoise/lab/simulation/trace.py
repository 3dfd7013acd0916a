"""Record one line per event, and fold the lines into a hash.

Two runs are identical exactly if their hashes are equal. An event is recorded as five numbers and rendered
as text only when needed, so that recording costs a tenth of a microsecond. The hash depends neither on the
Python version nor on the hash seed.

Columns of a line, separated by single spaces:
    time    virtual seconds, nine decimals
    kind    kind of the event, see `TraceKind`
    where   a host, or `host:port>host:port` for the receiving end of a connection, sender first
    detail  text that depends on the kind, with `_` for blanks, or `-`
    amount  bytes, or `-`
"""

from __future__ import annotations

import enum
import hashlib
import sys
from array import array
from typing import TextIO

__all__ = ["BATCH_NUMBERS", "Trace", "TraceKind"]

# Events are hashed in batches: large enough to make the hash cheap per event, small enough to keep
# the last lines of a failure in memory.
BATCH_EVENTS = 4096
FIELDS = 5
BATCH_NUMBERS = BATCH_EVENTS * FIELDS


class TraceKind(enum.IntEnum):
    """Kind of an event. The numbers are part of the hash: never renumber, only append."""

    CONNECT = 1
    ACCEPT = 2
    REFUSE = 3
    DELIVER = 4
    EOF = 5
    RESET = 6
    LOST = 7
    CUT = 8
    HEAL = 9
    PAUSE = 10
    THAW = 11
    CRASH = 12
    RESTART = 13
    CLOCK = 14
    SYNC = 15
    DISK = 16
    NOTE = 17


# The kinds whose subject is an end of a connection, not a host.
_END_KINDS = frozenset(
    {TraceKind.CONNECT, TraceKind.ACCEPT, TraceKind.DELIVER, TraceKind.EOF, TraceKind.RESET, TraceKind.LOST}
)
_BYTE_KINDS = frozenset({TraceKind.DELIVER, TraceKind.SYNC, TraceKind.DISK})
_NO_TEXT = -1


class Trace:
    """Owned by one simulation; written by the loop, the network, the hosts and `note`.

    `events` is the open batch, five numbers per event. Code on the hot path extends it directly.
    """

    def __init__(self, sink: TextIO | None = None) -> None:
        self.events: list[float] = []
        self._previous: list[float] = []
        self._hosts: list[str] = []
        self._ends: list[str] = []
        self._texts: list[str] = []
        self._numbers_hash = hashlib.blake2b(digest_size=16)
        self._names_hash = hashlib.blake2b(digest_size=16)
        self._sink = sink
        self._closed_events = 0

    @property
    def count(self) -> int:
        """Number of events so far."""
        return self._closed_events + len(self.events) // FIELDS

    def register_host(self, name: str) -> int:
        """Register a host name; events refer to it by the returned number."""
        self._names_hash.update(f"host {name}\n".encode())
        self._hosts.append(name)
        return len(self._hosts) - 1

    def register_end(self, label: str) -> int:
        """Register an end of a connection; events refer to it by the returned number."""
        self._names_hash.update(f"end {label}\n".encode())
        self._ends.append(label)
        return len(self._ends) - 1

    def add(
        self, time: float, kind: TraceKind, subject: int, *, text: str | None = None, amount: int = 0
    ) -> None:
        """Record an event; `subject` is an end or a host, depending on the kind."""
        number = _NO_TEXT
        if text is not None:
            number = len(self._texts)
            self._texts.append(text)
            self._names_hash.update(f"text {text}\n".encode())
        self.events.extend((time, kind, subject, number, amount))

    def roll(self) -> None:
        """Close the open batch. The loop calls this between two instants when the batch is full."""
        self._close_batch()

    def digest(self) -> str:
        """The hash of all events so far, in hexadecimal. Later events may still be added."""
        numbers = self._numbers_hash.copy()
        numbers.update(_packed(self.events))
        whole = hashlib.blake2b(numbers.digest(), digest_size=16)
        whole.update(self._names_hash.digest())
        return whole.hexdigest()

    def lines(self, count: int) -> list[str]:
        """The last events as text, oldest first: `count` of them, or the one to two batches kept."""
        kept = self._previous + self.events
        return self._render(kept[-count * FIELDS :] if count else [])

    def close(self) -> None:
        """Hash and write the open batch. The sink stays open, because the caller owns it."""
        self._close_batch()

    def _close_batch(self) -> None:
        events, self.events = self.events, []
        if not events:
            return
        self._numbers_hash.update(_packed(events))
        self._closed_events += len(events) // FIELDS
        self._previous = events
        if self._sink is not None:
            self._sink.writelines(line + "\n" for line in self._render(events))

    def _render(self, events: list[float]) -> list[str]:
        lines = []
        for start in range(0, len(events), FIELDS):
            time, number, subject, text, amount = events[start : start + FIELDS]
            kind = TraceKind(int(number))
            names = self._ends if kind in _END_KINDS else self._hosts
            detail = self._texts[int(text)].replace(" ", "_") if text >= 0 else "-"
            size = str(int(amount)) if kind in _BYTE_KINDS else "-"
            lines.append(f"{time:.9f} {kind.name.lower()} {names[int(subject)]} {detail} {size}")
        return lines


def _packed(events: list[float]) -> bytes:
    numbers = array("d", events)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()
