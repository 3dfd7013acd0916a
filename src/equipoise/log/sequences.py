"""The last sequence number of each producer, by which resent entries are deduplicated.

A producer numbers its entries within a run: 0, 1, 2 … without gaps. Run numbers increase. Only the last number of each
producer is stored: an entry with a number up to it is a duplicate, an entry that would leave a gap is refused.
"""

from __future__ import annotations

from collections import OrderedDict

from equipoise.log.errors import LogCommandError
from equipoise.log.ids import EntryId

__all__ = ["PRODUCERS_MAX", "ProducerSequences", "SequenceRow"]

# Maximum number of producers per log. Beyond it the producer that was idle for longest is evicted.
PRODUCERS_MAX = 10_000

# Producer, run, number, id of the entry.
SequenceRow = tuple[bytes, int, int, EntryId]


class ProducerSequences:
    """Owned by TopicLog."""

    __slots__ = ("_last",)

    def __init__(self, rows: tuple[SequenceRow, ...] = ()) -> None:
        # In order of the last entry: the producer that was idle for longest first.
        self._last: OrderedDict[bytes, tuple[int, int, EntryId]] = OrderedDict(
            (producer, (run, n, at)) for producer, run, n, at in rows
        )

    def known(self, producer: bytes, run: int, n: int, count: int = 1) -> tuple[bool, EntryId | None]:
        """Whether the entry is a duplicate, and its id if it is known. Raises LogCommandError for a gap.

        `count`: the entries of a batch; `n` is the number of its last one.
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
