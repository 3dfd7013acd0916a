"""Ledgers in memory, with the fencing of real ones, for the simulator and tests.

One `MemoryLedgers` is the content of all bookies of a region: hubs that share it share the ledgers. Nothing is durable
beyond it. An entry is stored when it is appended and acknowledged when `schedule` runs the acknowledgement, so crashes
and recoveries may fall between the two; `keep` decides which of the entries in between a recovery finds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from equipoise.errors import LedgerError, LimitError
from equipoise.ledger.effects import FailureReason
from equipoise.ledger.entry import PAYLOAD_BYTES_MAX
from equipoise.ledger.log import EPOCH_KEY, READ_BYTES_MAX, TOPIC_KEY, Completion, OpenLedger
from equipoise.ledger.metadata import LedgerMetadata, LedgerState, Segment
from equipoise.ledger.quorum import Quorum

__all__ = ["MemoryLedgers"]


class _Stored:
    """The stored state of one ledger."""

    __slots__ = ("confirmed", "entries", "is_fenced", "metadata")

    def __init__(self, metadata: LedgerMetadata, header: bytes) -> None:
        self.metadata = metadata
        self.entries = [header]
        self.confirmed = 0
        self.is_fenced = False

    @property
    def is_closed(self) -> bool:
        return self.metadata.state is LedgerState.CLOSED

    def close_at(self, last: int) -> None:
        del self.entries[last + 1 :]
        self.confirmed = last
        self.is_fenced = True
        self.metadata = self.metadata.closed_at(last, sum(map(len, self.entries)))


class MemoryLedgers:
    """Implements `Ledgers`. `schedule` runs a call later and in order, such as `loop.call_soon`."""

    def __init__(
        self,
        schedule: Callable[[Callable[[], None]], object],
        *,
        keep: Callable[[int], int] = lambda unacknowledged: unacknowledged,
        first_ledger: int = 1,
    ) -> None:
        self._schedule = schedule
        # Given the number of entries without an acknowledgement: how many of them a recovery finds.
        self._keep = keep
        self._next = first_ledger
        self._stored: dict[int, _Stored] = {}

    @property
    def ledgers(self) -> tuple[int, ...]:
        """The ids of all ledgers that are not deleted."""
        return tuple(self._stored)

    async def create(self, topic: bytes, epoch: int, quorum: Quorum) -> OpenLedger:
        ledger = self._next
        self._next += 1
        members = tuple(f"memory-{index}" for index in range(quorum.ensemble))
        custom = ((TOPIC_KEY, topic), (EPOCH_KEY, str(epoch).encode()))
        metadata = LedgerMetadata(ledger, quorum, (Segment(0, members),), b"", custom=custom)
        self._stored[ledger] = _Stored(metadata, b"")
        return _MemoryLedger(self._stored[ledger], self._schedule)

    async def recover(self, ledger: int) -> int:
        stored = self._find(ledger)
        if not stored.is_closed:
            unacknowledged = len(stored.entries) - 1 - stored.confirmed
            stored.close_at(stored.confirmed + min(max(self._keep(unacknowledged), 0), unacknowledged))
        return stored.metadata.last

    async def confirmed(self, ledger: int) -> int:
        return self._find(ledger).confirmed

    async def read(
        self, ledger: int, first: int, last: int, *, bytes_max: int = READ_BYTES_MAX
    ) -> list[bytes]:
        stored = self._find(ledger)
        if not 0 <= first <= last <= stored.confirmed:
            raise LedgerError(
                ledger, f"entries {first} to {last} are not acknowledged, {stored.confirmed} is the last"
            )
        found, size = [stored.entries[first]], len(stored.entries[first])
        for payload in stored.entries[first + 1 : last + 1]:
            size += len(payload)
            if size > bytes_max:
                break
            found.append(payload)
        return found

    async def metadata(self, ledger: int) -> LedgerMetadata:
        return self._find(ledger).metadata

    def relocate(self, ledgers: Sequence[int], is_wanted: Callable[[], bool]) -> None:
        """There is one site."""

    async def delete(self, ledger: int) -> None:
        stored = self._stored.pop(ledger, None)
        if stored is not None:
            stored.is_fenced = True

    def _find(self, ledger: int) -> _Stored:
        if ledger not in self._stored:
            raise LedgerError(ledger, FailureReason.DELETED)
        return self._stored[ledger]


class _MemoryLedger:
    """The writer's side of one ledger."""

    def __init__(self, stored: _Stored, schedule: Callable[[Callable[[], None]], object]) -> None:
        self._stored = stored
        self._schedule = schedule
        self._in_flight: dict[int, Completion] = {}
        self.ledger = stored.metadata.ledger
        self.confirmed = 0
        self.failed: LedgerError | None = None

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    def append(self, payload: bytes, completion: Completion) -> int:
        if self.failed is not None:
            raise self.failed
        if len(payload) > PAYLOAD_BYTES_MAX:
            raise LimitError(
                f"an entry of {len(payload)} bytes; at most {PAYLOAD_BYTES_MAX} fit into a frame"
            )
        number = self.confirmed + len(self._in_flight) + 1
        if not self._stored.is_fenced:
            self._stored.entries.append(payload)
        self._in_flight[number] = completion
        self._schedule(self._settle)
        return number

    async def close(self) -> int:
        if self.failed is None:
            if not self._stored.is_fenced:
                self._stored.close_at(self.confirmed)
            elif self._stored.metadata.last != self.confirmed:
                self._fail(FailureReason.FENCED)
                raise LedgerError(self.ledger, FailureReason.FENCED)
            self._fail(FailureReason.CLOSED)
        if self.failed is not None and self.failed.reason != FailureReason.CLOSED:
            raise self.failed
        return self.confirmed

    def _settle(self) -> None:
        """Answer the oldest append in flight; all of them once another process has fenced the ledger."""
        if not self._in_flight:
            return
        if self._stored.is_fenced:
            self._fail(FailureReason.FENCED)
            return
        self.confirmed += 1
        self._stored.confirmed = self.confirmed
        self._in_flight.pop(self.confirmed)(self.confirmed)

    def _fail(self, reason: FailureReason) -> None:
        self.failed = LedgerError(self.ledger, reason)
        waiting, self._in_flight = self._in_flight, {}
        for completion in waiting.values():
            completion(self.failed)
