"""The fold of a topic's ledgers into the state of its log, in several steps.

During a move, the closed ledgers and the acknowledged entries of the open one are folded while the former owner still
serves. After the release, only the end of the last ledger remains to be read.

Always true: `state` is the fold of all entries of `closed`, and of the entries below `_next` of the ledger after them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from equipoise.errors import LedgerError
from equipoise.ledger.log import FIRST_ENTRY, Ledgers
from equipoise.log.ids import EntryId
from equipoise.log.records import decode_run
from equipoise.log.topic_log import TopicLog
from equipoise.store.records.topic_logs import LogLedger

__all__ = ["LogFold", "closed_ledger"]

T = TypeVar("T")

# Most ledgers of one log that are read concurrently. A log that has moved often has many short ones.
_LEDGERS_AT_ONCE = 8


class LogFold:
    """Owned by one attempt to open a log. Unusable after an error."""

    def __init__(self, ledgers: Ledgers, topic: bytes) -> None:
        self.state = TopicLog()
        # The ledgers that are folded completely.
        self.closed: list[LogLedger] = []
        self._ledgers = ledgers
        self._topic = topic
        # The ledger after them: its number, and its first entry that is not folded.
        self._open = -1
        self._next = FIRST_ENTRY

    def is_start_of(self, parts: Sequence[LogLedger]) -> bool:
        """Whether a log with these ledgers begins with the folded ones."""
        folded = [part.ledger for part in self.closed]
        if self._open >= 0:
            folded.append(self._open)
        return [part.ledger for part in parts[: len(folded)]] == folded

    async def read_ahead(self, parts: Sequence[LogLedger]) -> None:
        """Fold the ledgers before the last one, and the acknowledged entries of the last. Fences no ledger."""
        if not parts:
            return
        *before, last = parts
        # A ledger that is not known to be closed has to be recovered by the owner.
        if any(part.last < 0 for part in before):
            return
        await self._add(before, [])
        confirmed = await self._ledgers.confirmed(last.ledger)
        self._open = last.ledger
        while self._next <= confirmed:
            self._apply(last.ledger, await self._ledgers.read(last.ledger, self._next, confirmed))

    async def complete(self, parts: Sequence[LogLedger], *, is_closed: bool) -> None:
        """Fold the rest of the ledgers. `is_closed`: the former owner has closed the last one, at its `last`.

        Otherwise the last one is recovered, as is each that is not known to be closed. Raises LedgerError, StoreError.
        """
        left = parts[len(self.closed) :]
        recovered = [part for part in left if part.last < 0 or (part is parts[-1] and not is_closed)]
        await self._add(left, recovered)

    async def _add(self, parts: Sequence[LogLedger], recovered: Sequence[LogLedger]) -> None:
        for start in range(0, len(parts), _LEDGERS_AT_ONCE):
            some = parts[start : start + _LEDGERS_AT_ONCE]
            begun = await _all(self._begin_reading(part, is_recovered=part in recovered) for part in some)
            for part, (last, payloads) in zip(some, begun, strict=True):
                await self._fold(part.ledger, last, payloads)
                self.closed.append(closed_ledger(part, last, self.state.last))
                self._open, self._next = -1, FIRST_ENTRY

    async def _begin_reading(self, part: LogLedger, *, is_recovered: bool) -> tuple[int, list[bytes]]:
        """The last entry of a ledger, and the payloads of its first entries that are not folded."""
        last = await self._ledgers.recover(part.ledger) if is_recovered else part.last
        first = self._next if part.ledger == self._open else FIRST_ENTRY
        if last < first - 1:
            raise LedgerError(part.ledger, f"ends at entry {last}, but entry {first - 1} was acknowledged")
        return last, await self._ledgers.read(part.ledger, first, last) if last >= first else []

    async def _fold(self, ledger: int, last: int, payloads: list[bytes]) -> None:
        """`payloads` are the first entries of the ledger that are not folded."""
        if ledger != self._open:
            self._next = FIRST_ENTRY
        self._apply(ledger, payloads)
        while self._next <= last:
            self._apply(ledger, await self._ledgers.read(ledger, self._next, last))

    def _apply(self, ledger: int, payloads: Sequence[bytes]) -> None:
        for payload in payloads:
            where = f"ledger {ledger}, entry {self._next}, of topic {self._topic!r}"
            self.state.apply_all(decode_run(payload, where))
            self._next += 1


def closed_ledger(part: LogLedger, last: int, last_id: EntryId) -> LogLedger:
    return LogLedger(part.ledger, part.epoch, last, *last_id)


async def _all(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of all coroutines. Raises the first problem, after all have ended."""
    found = await asyncio.gather(*work, return_exceptions=True)
    problems = [each for each in found if isinstance(each, BaseException)]
    if problems:
        raise problems[0]
    return [each for each in found if not isinstance(each, BaseException)]
