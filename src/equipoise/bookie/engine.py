"""The bookie without sockets: requests in, groups of frames to write, answers out.

Adds and fences wait in a queue. `take` places waiting requests into one group of frames; the layer above writes and
syncs it, then `commit` makes it visible and returns the answers. Reads without a fence are answered at once.

Always true:
    an add or a fence is answered with OK only after its frame, and the ledger's key and fence, are durable;
    a fencing read is answered after everything placed before it is durable, whatever the answer is;
    an ordinary add placed after a fence is refused, and so is one to a deleted ledger;
    damage is answered "unknown", never "no entry"; while a damaged region may have held any frame, ordinary adds are
    refused, for the region may have held a fence;
    memory grows with the number of ledgers and with the open segment, not with the stored data.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from equipoise.bookie.frame import (
    FRAME_OVERHEAD_BYTES,
    LEDGER_FRAME_BYTES,
    FrameKind,
    LedgerMark,
    encode_mark,
    frame_head,
)
from equipoise.bookie.segment_index import Located
from equipoise.bookie.segments import SealedSegment, Segments
from equipoise.bookie.settings import BookieSettings
from equipoise.errors import DamagedError, DiskFailedError
from equipoise.ledger.entry import NO_ENTRY
from equipoise.ledger.wire import (
    LAST_ENTRY,
    AddRequest,
    BatchRequest,
    Code,
    Flag,
    ReadRequest,
    encode_add_answer,
    encode_batch_answer,
    encode_read_answer,
)

__all__ = ["BookieEngine", "Group", "KeepMark"]

Token = TypeVar("Token")

# Limits of one batch read: its turn of the loop delays adds of other clients for some milliseconds.
BATCH_COUNT_MAX = 512
BATCH_BYTES_MAX = 1024 * 1024
_PRIVILEGED = Flag.RECOVERY | Flag.HIGH_PRIORITY


class _Ledger:
    """The state of a ledger in memory."""

    __slots__ = ("is_fence_durable", "is_fenced", "key", "last")

    def __init__(self, key: bytes, *, is_fenced: bool = False, last: int = NO_ENTRY) -> None:
        self.key = key
        self.is_fenced = is_fenced
        self.is_fence_durable = is_fenced
        self.last = last


@dataclass(frozen=True, slots=True)
class KeepMark:
    """Write the key and fence of a ledger into the open segment, before the segment that has them is removed."""

    ledger: int


class Group(Generic[Token]):
    """Frames that are written and synced together."""

    __slots__ = ("end", "entries", "offset", "parts", "refused", "waiting")

    def __init__(self, offset: int) -> None:
        self.offset = self.end = offset
        # Heads of frames, and bodies.
        self.parts: list[bytes | memoryview] = []
        # Entries that become visible: ledger, entry, location.
        self.entries: list[tuple[int, int, Located]] = []
        # Adds and fencing reads in the order of arrival, with the receivers of the answers.
        self.waiting: list[tuple[Token, AddRequest | ReadRequest | KeepMark]] = []
        # Answers of requests that were refused while the group was assembled.
        self.refused: list[tuple[Token, bytes]] = []

    @property
    def data(self) -> bytes:
        return b"".join(self.parts)


class BookieEngine(Generic[Token]):
    """One bookie's ledgers. `Token` identifies the receiver of an answer in the layer above."""

    def __init__(self, segments: Segments, deleted: array[int], settings: BookieSettings) -> None:
        self.segments = segments
        # No ordinary adds: the disk is nearly full, or damage has not been repaired.
        self.is_full = False
        # The disk had no room for the next segment, and still has none.
        self.lacks_segment = False
        # Set by an operator: no ordinary adds until the bookie is empty.
        self.is_draining = False
        self.damaged_reads = 0
        # How often all waiting requests were refused because the disk was full.
        self.refusals = 0
        self.queued_bytes = 0
        self._settings = settings
        self._deleted = deleted
        self._ledgers: dict[int, _Ledger] = {}
        self._queue: deque[tuple[Token, AddRequest | ReadRequest | KeepMark]] = deque()
        for segment in segments.sealed:
            for row in segment.index.rows():
                self._learn(row.ledger, row.key, is_fenced=row.is_fenced, last=row.last)

    def _learn(self, ledger: int, key: bytes, *, is_fenced: bool, last: int) -> None:
        if self.is_deleted(ledger):
            return
        known = self._ledgers.setdefault(ledger, _Ledger(key))
        known.is_fenced = known.is_fence_durable = known.is_fenced or is_fenced
        known.last = max(known.last, last)

    # --- facts

    @property
    def is_read_only(self) -> bool:
        return self.is_full or self.lacks_segment or self.is_draining or self.segments.has_doubt

    @property
    def has_work(self) -> bool:
        return bool(self._queue)

    @property
    def needs_spare(self) -> bool:
        """Whether the open segment is half full."""
        return self.segments.open.end * 2 > self._settings.segment_bytes

    @property
    def ledgers(self) -> tuple[int, ...]:
        return tuple(self._ledgers)

    def is_deleted(self, ledger: int) -> bool:
        at = bisect_left(self._deleted, ledger)
        return at < len(self._deleted) and self._deleted[at] == ledger

    # --- requests

    def submit(
        self, token: Token, request: AddRequest | ReadRequest | BatchRequest | KeepMark
    ) -> bytes | None:
        """Accept a request. Returns its answer, or None if the answer comes with the commit of a group."""
        if isinstance(request, AddRequest):
            code = self._admissible(request)
            if code is not Code.OK:
                return encode_add_answer(code, request.ledger, request.entry)
            self.queued_bytes += len(request.body)
        elif isinstance(request, ReadRequest):
            return self._submit_read(token, request)
        elif isinstance(request, BatchRequest):
            return self._read_batch(request)
        self._queue.append((token, request))
        return None

    def _admissible(self, request: AddRequest) -> Code:
        if request.entry < 0:
            return Code.BAD_REQUEST
        if FRAME_OVERHEAD_BYTES + LEDGER_FRAME_BYTES + len(request.body) > self._settings.segment_bytes:
            return Code.BAD_REQUEST
        if self.is_read_only and not request.flags & _PRIVILEGED:
            return Code.READ_ONLY
        if self.queued_bytes > self._settings.queue_bytes_max:
            return Code.BUSY
        return Code.OK

    def _submit_read(self, token: Token, request: ReadRequest) -> bytes | None:
        if request.key is None:
            return self._read(request)
        known = self._ledgers.get(request.ledger)
        if known is not None and known.key != request.key:
            return encode_read_answer(Code.WRONG_KEY, request.ledger, request.entry)
        if known is not None and known.is_fence_durable:
            return self._read(request)
        self._queue.append((token, request))
        return None

    def _read(self, request: ReadRequest) -> bytes:
        code, body = self._look_up(request.ledger, request.entry)
        return encode_read_answer(code, request.ledger, request.entry, body)

    def _read_batch(self, request: BatchRequest) -> bytes:
        """Entries up to the first one that is missing or cannot be read."""
        if request.first < 0:
            return encode_batch_answer(Code.BAD_REQUEST, request)
        code, body = self._look_up(request.ledger, request.first)
        if code is not Code.OK:
            return encode_batch_answer(code, request)
        bodies, size = [body], len(body)
        bytes_max = min(request.bytes_max, BATCH_BYTES_MAX)
        last = self._ledgers[request.ledger].last
        end = min(request.first + min(request.count_max, BATCH_COUNT_MAX), last + 1)
        for entry in range(request.first + 1, end):
            code, body = self._look_up(request.ledger, entry)
            size += len(body)
            if code is not Code.OK or size > bytes_max:
                break
            bodies.append(body)
        return encode_batch_answer(Code.OK, request, bodies)

    def _look_up(self, ledger: int, entry: int) -> tuple[Code, bytes]:
        known = self._ledgers.get(ledger)
        if known is None:
            # A deleted ledger has no entries, damage or not.
            is_certain = self.is_deleted(ledger) or not self.segments.has_doubt
            return (Code.NO_LEDGER if is_certain else Code.UNKNOWN), b""
        wanted = known.last if entry == LAST_ENTRY else entry
        if wanted < 0:
            return (Code.UNKNOWN if self.segments.has_doubt else Code.NO_ENTRY), b""
        try:
            body = self.segments.find(ledger, wanted)
        except (DamagedError, DiskFailedError):
            self.damaged_reads += 1
            return Code.UNKNOWN, b""
        return (Code.NO_ENTRY, b"") if body is None else (Code.OK, body)

    # --- groups

    def take(self) -> Group[Token] | None:
        """Place waiting requests, as many as fit; None if the segment has to be rolled first. Call while `has_work`."""
        segment = self.segments.open
        group: Group[Token] = Group(segment.end)
        queue, limit = self._queue, segment.end + self._settings.group_bytes_max
        waiting = len(queue)
        while queue and group.end < limit:
            token, request = queue[0]
            refusal = self._refusal(request)
            if refusal is None and not self._place(group, token, request):
                break
            queue.popleft()
            if isinstance(request, AddRequest):
                self.queued_bytes -= len(request.body)
            if refusal is not None:
                group.refused.append((token, refusal))
        return None if len(queue) == waiting else group

    def _refusal(self, request: AddRequest | ReadRequest | KeepMark) -> bytes | None:
        if isinstance(request, KeepMark):
            return None
        known = self._ledgers.get(request.ledger)
        if known is not None and known.key == request.key and not known.is_fenced:
            # A known ledger is not deleted.
            return None
        code = Code.OK
        if known is not None and known.key != request.key:
            code = Code.WRONG_KEY
        elif self.is_deleted(request.ledger):
            code = Code.NO_LEDGER if isinstance(request, ReadRequest) else Code.FENCED
        elif isinstance(request, AddRequest) and known is not None and known.is_fenced:
            code = Code.OK if request.flags & Flag.RECOVERY else Code.FENCED
        if code is Code.OK:
            return None
        if isinstance(request, ReadRequest):
            return encode_read_answer(code, request.ledger, request.entry)
        return encode_add_answer(code, request.ledger, request.entry)

    def _place(self, group: Group[Token], token: Token, request: AddRequest | ReadRequest | KeepMark) -> bool:
        """Add the frames of a request to the group; False, without a change, if the segment has no room."""
        segment = self.segments.open
        body = request.body if isinstance(request, AddRequest) else b""
        need = LEDGER_FRAME_BYTES + FRAME_OVERHEAD_BYTES + len(body)
        if group.end + need > self._settings.segment_bytes:
            return False
        if segment.entry_count >= self._settings.segment_entries_max:
            return False
        ledger = request.ledger
        known = self._ledgers.get(ledger)
        if known is None:
            if isinstance(request, KeepMark):
                # Deleted since: there is nothing to store.
                return True
            assert request.key is not None, "reads without a key are not queued"
            known = self._ledgers[ledger] = _Ledger(request.key)
        if isinstance(request, ReadRequest):
            known.is_fenced = True
        written = segment.marks.get(ledger)
        if written is None or written.is_fenced != known.is_fenced:
            mark = segment.marks[ledger] = LedgerMark(ledger, known.key, known.is_fenced)
            self._append(group, FrameKind.LEDGER, encode_mark(mark), ledger)
        if isinstance(request, AddRequest):
            offset = group.end
            self._append(group, FrameKind.ENTRY, body, ledger)
            group.entries.append((ledger, request.entry, Located(offset, len(body))))
            segment.entry_count += 1
        group.waiting.append((token, request))
        return True

    def _append(self, group: Group[Token], kind: FrameKind, body: bytes | memoryview, ledger: int) -> None:
        segments, segment, offset, size = self.segments, self.segments.open, group.end, len(body)
        head = frame_head(segments.seed, segment.number, offset, kind, body, segment.synced_to)
        group.parts += (head, body)
        group.end = offset + FRAME_OVERHEAD_BYTES + size
        segment.note(ledger, size)

    def commit(self, group: Group[Token]) -> list[tuple[Token, bytes]]:
        """The group is durable: make it visible, and return the answers."""
        segment = self.segments.open
        segment.end = segment.synced_to = group.end
        for ledger, entry, located in group.entries:
            records = segment.records.get(ledger)
            if records is None:
                records = segment.records[ledger] = {}
            records[entry] = located
            known = self._ledgers.get(ledger)
            if known is not None and entry > known.last:
                known.last = entry
        answers = group.refused
        for token, request in group.waiting:
            if isinstance(request, AddRequest):
                answers.append((token, encode_add_answer(Code.OK, request.ledger, request.entry)))
            elif isinstance(request, ReadRequest):
                known = self._ledgers.get(request.ledger)
                if known is not None:
                    known.is_fence_durable = True
                answers.append((token, self._read(request)))
        return answers

    def refuse_all(self) -> list[tuple[Token, bytes]]:
        """There is no room for another segment: refuse all waiting requests. A fence that is not durable is unknown."""
        answers: list[tuple[Token, bytes]] = []
        for token, request in self._queue:
            if isinstance(request, AddRequest):
                answers.append((token, encode_add_answer(Code.READ_ONLY, request.ledger, request.entry)))
            elif isinstance(request, ReadRequest):
                answers.append((token, encode_read_answer(Code.UNKNOWN, request.ledger, request.entry)))
        self._queue.clear()
        self.queued_bytes = 0
        self.refusals += 1
        return answers

    # --- room

    def forget(self, ledgers: Collection[int]) -> array[int]:
        """These ledgers were deleted. Returns the ids of all deleted ledgers, to be stored on disk."""
        gone = {ledger for ledger in ledgers if self._ledgers.pop(ledger, None) is not None}
        self._deleted = array("q", sorted({*self._deleted, *gone}))
        return self._deleted

    def live_share(self, segment: SealedSegment) -> float:
        """The share of a sealed segment that belongs to ledgers that are not deleted; 0 for an empty one."""
        rows = list(segment.index.rows())
        live = sum(row.frame_bytes for row in rows if row.ledger in self._ledgers)
        return live / segment.end if segment.end else 0.0

    def copies(self, segment: SealedSegment) -> Iterator[AddRequest | KeepMark]:
        """The frames to write again before the segment is removed. Raises DamagedError or DiskFailedError."""
        for row in segment.index.rows():
            if row.ledger in self._ledgers:
                yield KeepMark(row.ledger)
        for ledger, entry, located in segment.index.records():
            known = self._ledgers.get(ledger)
            if known is not None and self.segments.is_newest(segment, ledger, entry):
                body = self.segments.read_at(segment, ledger, entry, located)
                yield AddRequest(ledger, entry, known.key, _PRIVILEGED, body)
