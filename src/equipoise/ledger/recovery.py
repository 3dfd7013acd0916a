"""Close a ledger after the loss of its writer, so that all readers agree on its end.

It fences the bookies of the last segment, finds the last entry that may have been acknowledged, writes every entry up
to it to a full quorum again, then closes the node by compare-and-set. Two recoveries may run at once: the node decides.

Pure: events in, effects out. Always true:
    nothing is written before enough members are fenced that no write set can reach an ack quorum any more;
    an entry counts as absent only if enough members report that to exclude an acknowledgement: silence, damage
    and errors never mean absent;
    a failed recovery changes nothing but the state of the node.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from equipoise.errors import DamagedError
from equipoise.ledger.effects import (
    Add,
    Effect,
    FailureReason,
    Fence,
    LedgerFailed,
    Recovered,
    RecoveryRead,
    SetMetadata,
)
from equipoise.ledger.entry import NO_ENTRY, decode_entry
from equipoise.ledger.metadata import LedgerMetadata, LedgerState
from equipoise.ledger.wire import Code
from equipoise.ledger.writer import BUSY_DELAY_S, Replacement

__all__ = ["LedgerRecovery"]

_ABSENT = frozenset({Code.NO_ENTRY, Code.NO_LEDGER})


class LedgerRecovery:
    """One attempt. Begin with `start`; it ends with `Recovered` or `LedgerFailed`."""

    def __init__(self, metadata: LedgerMetadata, replacement: Replacement) -> None:
        # The node as read: reads go to the ensembles that the writer used.
        self.metadata = metadata
        self.is_over = False
        self._replacement = replacement
        # The node as it will be closed: with replacements for members that failed to store entries again.
        self._draft = metadata
        self._proposed: LedgerMetadata | None = None
        self._is_fencing = False
        # Indices of the last segment's members, by their replies.
        self._fenced: set[int] = set()
        self._lost: set[str] = set()
        self._confirmed = metadata.current.first - 1
        self._length = 0
        # The entry that is being read or written again; None before and after.
        self._entry: int | None = None
        self._absent: set[int] = set()
        self._silent: set[int] = set()
        self._body: bytes | None = None
        self._acks: set[int] = set()

    @property
    def last(self) -> int:
        """The last entry that is known to be stored by a quorum."""
        return self._confirmed

    # --- events

    def start(self) -> list[Effect]:
        if self.metadata.state is LedgerState.CLOSED:
            return self._end(Recovered(self.metadata))
        if self.metadata.state is LedgerState.IN_RECOVERY:
            return self._fence_all()
        self._proposed = replace(self.metadata, state=LedgerState.IN_RECOVERY)
        return [SetMetadata(self._proposed)]

    def metadata_set(self) -> list[Effect]:
        proposed, self._proposed = self._proposed, None
        if proposed is None or self.is_over:
            return []
        if proposed.state is LedgerState.CLOSED:
            return self._end(Recovered(proposed))
        self.metadata = self._draft = proposed
        return self._fence_all()

    def metadata_conflict(self, found: LedgerMetadata) -> list[Effect]:
        """The writer, another recovery or re-replication was first."""
        proposed = self._proposed
        if proposed is None or self.is_over:
            return []
        if found == proposed:
            return self.metadata_set()
        if found.state is LedgerState.CLOSED:
            return self._end(Recovered(found))
        if proposed.state is LedgerState.CLOSED:
            # The segments that were read are outdated: begin again with the present ones.
            return self._end(LedgerFailed(FailureReason.METADATA, self._confirmed + 1))
        # The writer changed its ensemble, or another recovery has begun.
        self.metadata = self._draft = found
        self._confirmed = found.current.first - 1
        self._proposed = None
        return self.start()

    def fence_answered(self, bookie: str, code: Code, body: bytes) -> list[Effect]:
        """A bookie of the last segment answered the fencing read of its last entry."""
        if self.is_over or not self._is_fencing or bookie not in self.metadata.current.members:
            return []
        if code is Code.WRONG_KEY:
            return self._fail(FailureReason.WRONG_KEY)
        if code is Code.BUSY:
            return [Fence(bookie)]
        if code is Code.OK:
            try:
                found = decode_entry(body, ledger=self.metadata.ledger)
            except DamagedError:
                return self.bookie_lost(bookie)
            self._confirmed = max(self._confirmed, found.confirmed)
            self._length = max(self._length, found.length)
        elif code not in _ABSENT:
            return self.bookie_lost(bookie)
        self._fenced.add(self.metadata.current.members.index(bookie))
        if not self.metadata.quorum.is_fenced_by(self._fenced):
            return []
        self._is_fencing = False
        return self._next()

    def read_answered(self, bookie: str, entry: int, code: Code, body: bytes) -> list[Effect]:
        """A bookie answered a recovery read."""
        members = self._members_read()
        if self.is_over or entry != self._entry or self._body is not None or bookie not in members:
            return []
        index = members.index(bookie)
        if code is Code.WRONG_KEY:
            return self._fail(FailureReason.WRONG_KEY)
        if code is Code.BUSY:
            return [RecoveryRead(bookie, entry)]
        if code is Code.OK:
            try:
                found = decode_entry(body, ledger=self.metadata.ledger, entry=entry)
            except DamagedError:
                return self._unknown(index)
            self._length = found.length
            self._body = body
            return self._write_again()
        if code not in _ABSENT:
            return self._unknown(index)
        self._absent.add(index)
        self._silent.discard(index)
        if len(self._absent) >= self.metadata.quorum.absent:
            return self._propose_close()
        return self._fail_if_undecidable()

    def add_answered(self, bookie: str, entry: int, code: Code) -> list[Effect]:
        """A bookie answered a recovery add."""
        members = self._draft.current.members
        if self.is_over or entry != self._entry or self._body is None or bookie not in members:
            return []
        if code is Code.WRONG_KEY:
            return self._fail(FailureReason.WRONG_KEY)
        if code is Code.BUSY:
            return [Add(bookie, entry, self._body, is_recovery=True, delay_s=BUSY_DELAY_S)]
        if code is not Code.OK:
            return self.bookie_lost(bookie)
        self._acks.add(members.index(bookie))
        if len(self._acks) < self.metadata.quorum.ack:
            return []
        self._confirmed = entry
        return self._next()

    def bookie_lost(self, bookie: str) -> list[Effect]:
        """The bookie will not reply: its entries are unknown."""
        if self.is_over or bookie in self._lost:
            return []
        self._lost.add(bookie)
        if self._is_fencing:
            members = self.metadata.current.members
            possible = {index for index, member in enumerate(members) if member not in self._lost}
            if not self.metadata.quorum.is_fenced_by(self._fenced | possible):
                return self._fail(FailureReason.TOO_FEW)
            return []
        if self._entry is None:
            return []
        if self._body is None:
            members = self._members_read()
            index = members.index(bookie) if bookie in members else None
            if index in self.metadata.quorum.write_set(self._entry) and index not in self._absent:
                return self._unknown(index)
            return []
        return self._replace(bookie)

    # --- inside

    def _fence_all(self) -> list[Effect]:
        self._is_fencing = True
        self._fenced.clear()
        self._lost.clear()
        return [Fence(member) for member in self.metadata.current.members]

    def _members_read(self) -> tuple[str, ...]:
        """The bookies to which the writer sent the present entry."""
        return () if self._entry is None else self.metadata.members_at(self._entry)

    def _next(self) -> list[Effect]:
        """Read the entry after the last known one."""
        entry = self._entry = self._confirmed + 1
        self._body = None
        self._absent, self._silent, self._acks = set(), set(), set()
        members = self._members_read()
        effects: list[Effect] = []
        for index in self.metadata.quorum.write_set(entry):
            if members[index] in self._lost:
                self._silent.add(index)
            else:
                effects.append(RecoveryRead(members[index], entry))
        return self._fail_if_undecidable() or effects

    def _unknown(self, index: int) -> list[Effect]:
        self._silent.add(index)
        return self._fail_if_undecidable()

    def _fail_if_undecidable(self) -> list[Effect]:
        """Fail once the remaining members can neither provide a copy nor prove that there is none."""
        quorum = self.metadata.quorum
        waiting = quorum.write - len(self._absent) - len(self._silent)
        if waiting > 0 or len(self._absent) >= quorum.absent:
            return []
        return self._fail(FailureReason.TOO_FEW)

    def _write_again(self) -> list[Effect]:
        assert self._entry is not None, "an entry was read"
        self._acks = set()
        members = self._draft.current.members
        indices = self.metadata.quorum.write_set(self._entry)
        effects = self._add_to(index for index in indices if members[index] not in self._lost)
        for index in indices:
            if members[index] in self._lost and not self.is_over:
                effects += self._replace(members[index])
        return effects

    def _add_to(self, indices: Iterable[int]) -> list[Effect]:
        assert self._entry is not None and self._body is not None, "an entry was read"
        members = self._draft.current.members
        return [Add(members[index], self._entry, self._body, is_recovery=True) for index in indices]

    def _replace(self, bookie: str) -> list[Effect]:
        """A member cannot store the entry: another takes its place in the node that will be closed."""
        assert self._entry is not None, "an entry is being written"
        members = self._draft.current.members
        if bookie not in members:
            return []
        index = members.index(bookie)
        if index not in self.metadata.quorum.write_set(self._entry):
            return []
        other = self._replacement({*members, *self._lost})
        if other is None:
            waiting = [
                at
                for at in self.metadata.quorum.write_set(self._entry)
                if members[at] not in self._lost and at not in self._acks
            ]
            if len(self._acks) + len(waiting) < self.metadata.quorum.ack:
                return self._fail(FailureReason.TOO_FEW)
            return []
        self._acks.discard(index)
        self._draft = self._draft.with_members(self._entry, (*members[:index], other, *members[index + 1 :]))
        return self._add_to((index,))

    def _propose_close(self) -> list[Effect]:
        self._entry = None
        length = 0 if self._confirmed == NO_ENTRY else self._length
        self._proposed = self._draft.closed_at(self._confirmed, length)
        return [SetMetadata(self._proposed)]

    def _fail(self, reason: FailureReason) -> list[Effect]:
        return self._end(LedgerFailed(reason, self._confirmed + 1))

    def _end(self, effect: Effect) -> list[Effect]:
        self.is_over = True
        self._entry = None
        return [effect]
