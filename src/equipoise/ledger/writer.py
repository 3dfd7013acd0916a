"""Append to one ledger: send each entry to its write set, acknowledge in order, replace bookies that fail.
Pure: events in, effects out. The layer above sends adds, sets the ledger's node by compare-and-set, and reports the
results as events.

Always true:
    an entry is acknowledged only if its ack quorum of the current ensemble has stored it, and all entries before it are
    acknowledged;
    no entry is acknowledged while the ensemble changes;
    after a replacement all adds in flight discard the acks of the replaced member before any of them is acknowledged
    (apache/bookkeeper#4097, #4651: otherwise an entry counts a bookie that recovery no longer reads);
    a fenced writer acknowledges no more entries.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from equipoise.errors import ClosedError
from equipoise.ledger.effects import Acknowledge, Add, Effect, FailureReason, LedgerFailed, SetMetadata
from equipoise.ledger.entry import NO_ENTRY, stored_bytes
from equipoise.ledger.metadata import LedgerMetadata, LedgerState
from equipoise.ledger.wire import Code

__all__ = ["BUSY_DELAY_S", "LedgerWriter", "Replacement"]

# Delay before an add is sent again to a busy bookie.
BUSY_DELAY_S = 0.05

# Chooses a bookie to replace a failed one, outside the given ones. None: there is none.
Replacement = Callable[[Collection[str]], str | None]

_FATAL = {Code.FENCED: FailureReason.FENCED, Code.WRONG_KEY: FailureReason.WRONG_KEY}


class _InFlight:
    """An entry that is not acknowledged yet."""

    __slots__ = ("acks", "body")

    def __init__(self, body: bytes) -> None:
        self.body = body
        # Ensemble indices of the members that have stored it.
        self.acks: set[int] = set()


class LedgerWriter:
    """The only writer of an open ledger. `failed` is set once it accepts no more entries."""

    def __init__(self, metadata: LedgerMetadata, replacement: Replacement) -> None:
        self._use_metadata(metadata)
        # The last acknowledged entry.
        self.confirmed = NO_ENTRY
        self.failed: FailureReason | None = None
        self._replacement = replacement
        self._length = 0
        self._next = 0
        self._in_flight: dict[int, _InFlight] = {}
        # Members that failed and are still in the ensemble.
        self._lost: set[str] = set()
        # Bookies that failed at any time: not chosen again until they reconnect.
        self._avoided: set[str] = set()
        # The proposed node, while it is being written to the store.
        self._proposed: LedgerMetadata | None = None
        self._is_closing = False

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    # --- events

    def append(self, payload: bytes) -> tuple[int, list[Add]]:
        """Append an entry. Returns its number and the adds to send. Raises ClosedError once the writer has failed."""
        if self.failed is not None or self._is_closing:
            raise ClosedError(
                f"ledger {self.metadata.ledger} accepts no more entries: {self.failed or 'closing'}"
            )
        number = self._next
        self._next = number + 1
        self._length += len(payload)
        body = stored_bytes(self.metadata.ledger, number, self.confirmed, self._length, payload)
        self._in_flight[number] = _InFlight(body)
        # While the ensemble changes, entries are held back: they are sent to the members of the new ensemble.
        if self._proposed is not None:
            return number, []
        members, lost = self.members, self._lost
        write_set = self._write_sets[number % len(self._write_sets)]
        return number, [Add(members[i], number, body) for i in write_set if members[i] not in lost]

    def add_answered(self, bookie: str, entry: int, code: Code) -> list[Effect]:
        """A bookie answered an add. Answers of former members are ignored."""
        if self.failed is not None or bookie not in self.members:
            return []
        if code in _FATAL:
            return self._fail(_FATAL[code])
        item = self._in_flight.get(entry)
        if code is Code.BUSY:
            return [] if item is None else [Add(bookie, entry, item.body, delay_s=BUSY_DELAY_S)]
        if code is not Code.OK:
            return self.bookie_lost(bookie)
        index = self.members.index(bookie)
        if item is None or index not in self._write_set(entry):
            return []
        item.acks.add(index)
        return self._advance()

    def bookie_lost(self, bookie: str) -> list[Effect]:
        """The connection broke, an answer timed out, or the bookie cannot store: its entries are unknown."""
        self._avoided.add(bookie)
        if self.failed is not None or bookie not in self.members:
            return []
        self._lost.add(bookie)
        return self._replace_lost()

    def bookie_back(self, bookie: str) -> list[Effect]:
        """The same bookie, with the entries that it had stored, is reachable again."""
        self._avoided.discard(bookie)
        if self.failed is not None:
            return []
        if bookie in self._lost and self._proposed is None:
            self._lost.discard(bookie)
            index = self.members.index(bookie)
            return [
                add
                for number, item in self._in_flight.items()
                if index in self._write_set(number) and index not in item.acks
                for add in self._adds(number, (index,))
            ]
        # The bookie may serve as the replacement that was missing.
        return self._replace_lost()

    def metadata_set(self) -> list[Effect]:
        """The node was written as proposed."""
        proposed, self._proposed = self._proposed, None
        if proposed is None:
            # The writer has failed since the proposal.
            return []
        if proposed.state is LedgerState.CLOSED:
            self._use_metadata(proposed)
            return self._fail(FailureReason.CLOSED)
        return self._use(proposed)

    def metadata_conflict(self, found: LedgerMetadata) -> list[Effect]:
        """The node had changed. The change may be our own proposal whose reply was lost."""
        proposed = self._proposed
        if proposed is None:
            return []
        if found == proposed:
            return self.metadata_set()
        if found.state is not LedgerState.OPEN:
            is_same = found.state is LedgerState.CLOSED is proposed.state and found.last == proposed.last
            self._use_metadata(found)
            return self._fail(FailureReason.CLOSED if is_same else FailureReason.FENCED)
        if found.current != self.metadata.current:
            return self._fail(FailureReason.METADATA)
        # Re-replication has changed an earlier segment: repeat the proposal on top of it.
        self._use_metadata(found)
        self._proposed = None
        return self._propose_close() if self._is_closing else self._replace_lost()

    def close(self) -> list[Effect]:
        """Close the ledger after the last acknowledged entry. Entries in flight are dropped."""
        if self.failed is not None or self._is_closing:
            return []
        self._is_closing = True
        return [] if self._proposed is not None else self._propose_close()

    # --- inside

    def _use_metadata(self, metadata: LedgerMetadata) -> None:
        self.metadata = metadata
        # Asked for with each entry.
        self.members = metadata.current.members
        self._write_sets = metadata.quorum.write_sets
        # The number of acks that an entry needs. Entry 0, the header, needs the whole write quorum: a fence without an
        # entry is not durable on bookies of Apache BookKeeper, so every member has an entry before the topic lists the
        # ledger.
        self._needed, self._needed_of_header = metadata.quorum.ack, metadata.quorum.write

    def _write_set(self, entry: int) -> tuple[int, ...]:
        return self._write_sets[entry % len(self._write_sets)]

    def _adds(self, entry: int, indices: Collection[int]) -> list[Add]:
        body, members = self._in_flight[entry].body, self.members
        return [Add(members[index], entry, body) for index in indices if members[index] not in self._lost]

    def _advance(self) -> list[Effect]:
        """Acknowledge entries in order, as far as their quorums are complete."""
        effects: list[Effect] = []
        while self._proposed is None and not self._is_closing:
            number = self.confirmed + 1
            item = self._in_flight.get(number)
            if item is None or len(item.acks) < (self._needed if number else self._needed_of_header):
                break
            self.confirmed = number
            del self._in_flight[number]
            effects.append(Acknowledge(number))
        return effects

    def _replace_lost(self) -> list[Effect]:
        """Propose an ensemble without the failed members, as far as there are replacements."""
        if self._proposed is not None or not self._lost or self._is_closing:
            return []
        members = list(self.members)
        for index, member in enumerate(members):
            if member in self._lost:
                other = self._replacement({*members, *self._lost, *self._avoided})
                if other is not None:
                    members[index] = other
        if tuple(members) == self.members:
            # There is no replacement: the ensemble stays, and works while the ack quorum answers.
            return []
        self._proposed = self.metadata.with_members(self.confirmed + 1, tuple(members))
        return [SetMetadata(self._proposed)]

    def _use(self, metadata: LedgerMetadata) -> list[Effect]:
        """The ensemble has changed: entries in flight are sent to the new members."""
        before = self.members
        self._use_metadata(metadata)
        changed = {index for index, member in enumerate(self.members) if member != before[index]}
        self._lost &= set(self.members)
        # All acks of replaced members are discarded before any entry is sent or acknowledged.
        for item in self._in_flight.values():
            item.acks -= changed
        if self._is_closing:
            return self._propose_close()
        if effects := self._replace_lost():
            return effects
        for number, item in self._in_flight.items():
            missing = [index for index in self._write_set(number) if index not in item.acks]
            effects += self._adds(number, missing)
        return effects + self._advance()

    def _propose_close(self) -> list[Effect]:
        self._proposed = self.metadata.closed_at(self.confirmed, self._length)
        return [SetMetadata(self._proposed)]

    def _fail(self, reason: FailureReason) -> list[Effect]:
        self.failed = reason
        self._proposed = None
        self._in_flight.clear()
        return [LedgerFailed(reason, self.confirmed + 1)]
