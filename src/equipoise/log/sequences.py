"""The last sequence number of each producer, by which resent entries are dropped.

A producer numbers its entries within runs: 0, 1, 2 … without a gap; the runs rise. Of each producer the last number
is enough, however many entries it has added: what is not beyond it has been added, and what leaves a gap is refused.
"""

from __future__ import annotations

from collections import OrderedDict

from equipoise.log.errors import LogCommandError
from equipoise.log.ids import EntryId

__all__ = ["PRODUCERS_MAX", "ProducerSequences", "SequenceRow"]

# Producers that one log remembers. Beyond them the one that has been silent for longest is forgotten.
PRODUCERS_MAX = 10_000

# Producer, run, number, id of the entry.
SequenceRow = tuple[bytes, int, int, EntryId]


class ProducerSequences:
    """Owned by a TopicLog."""

    __slots__ = ("_last",)

    def __init__(self, rows: tuple[SequenceRow, ...] = ()) -> None:
        # The one that was silent for longest first.
        self._last: OrderedDict[bytes, tuple[int, int, EntryId]] = OrderedDict(
            (producer, (run, n, at)) for producer, run, n, at in rows
        )

    def known(self, producer: bytes, run: int, n: int, count: int = 1) -> tuple[bool, EntryId | None]:
        """Whether the entry was added before, and its id if that is remembered. Raises LogCommandError for a gap.

        `count`: of a batch, whose last entry is number `n`.
        """
        last = self._last.get(producer)
        if last is not None and (run, n) <= last[:2]:
            return True, last[2] if (run, n) == last[:2] else None
        expected = last[1] + 1 if last is not None and last[0] == run else 0
        first = n + 1 - count
        if first != expected:
            raise LogCommandError(
                f"OUTOFORDER the next number of the producer in run {run} is {expected}, not {first}: send the entries "
                f"from there on"
            )
        return False, None

    def advance(self, producer: bytes, run: int, n: int, at: EntryId) -> None:
        self._last[producer] = run, n, at
        self._last.move_to_end(producer)
        while len(self._last) > PRODUCERS_MAX:
            self._last.popitem(last=False)

    def rows(self) -> tuple[SequenceRow, ...]:
        return tuple((producer, *last) for producer, last in self._last.items())
