"""The segments of one bookie: one open segment for writes, sealed segments for reads and compaction.

All operations are blocking calls. Those that wait for the medium (`write`, `roll`, `prepare`, `remove`) may run in a
thread while the event loop reads; at most one of them runs at a time.

Always true:
    the manifest lists a segment before any request is answered for it;
    the first frame of each ledger in each segment is its key and fence, so that each segment can be read alone;
    an entry is read from the newest segment that has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from equipoise.bookie.frame import (
    FRAME_OVERHEAD_BYTES,
    FrameKind,
    LedgerMark,
    Scan,
    decode_mark,
    read_frame,
    scan_segment,
)
from equipoise.bookie.manifest import (
    Manifest,
    SegmentState,
    index_name,
    save_manifest,
    segment_name,
)
from equipoise.bookie.segment_index import IndexRow, Located, SegmentIndex, encode_index
from equipoise.disk import Disk, FixedFile, write_atomically
from equipoise.errors import DamagedError, DiskFailedError

__all__ = ["OpenSegment", "SealedSegment", "Segments"]

_IDS_BYTES = 16


def _ids(body: bytes) -> tuple[int, int]:
    """Ledger and number of a stored entry."""
    return (
        int.from_bytes(body[:8], "big", signed=True),
        int.from_bytes(body[8:_IDS_BYTES], "big", signed=True),
    )


class OpenSegment:
    """Frames are appended at `end`. Everything before `synced_to` is durable."""

    def __init__(self, number: int, file: FixedFile) -> None:
        self.number = number
        self.file = file
        self.end = 0
        self.synced_to = 0
        self.entry_count = 0
        # Durable entries, by ledger and entry.
        self.records: dict[int, dict[int, Located]] = {}
        # Key and fence of each ledger in this segment, as last written.
        self.marks: dict[int, LedgerMark] = {}
        self.frame_bytes: dict[int, int] = {}

    def rows(self) -> Iterator[IndexRow]:
        for ledger, mark in self.marks.items():
            entries = self.records.get(ledger)
            first, last = (min(entries), max(entries)) if entries else (0, -1)
            size = self.frame_bytes.get(ledger, 0)
            yield IndexRow(ledger, mark.key, mark.is_fenced, first, last, size)

    def note(self, ledger: int, size: int) -> None:
        self.frame_bytes[ledger] = self.frame_bytes.get(ledger, 0) + FRAME_OVERHEAD_BYTES + size


class SealedSegment:
    """Read-only. `damage`: regions that were invalid when the index was built; reads find later damage."""

    def __init__(self, state: SegmentState, file: FixedFile, index: SegmentIndex) -> None:
        self.number = state.number
        self.end = state.end or 0
        self.damage = state.damage
        self.file = file
        self.index = index
        # Set if a frame could not be copied: the segment is then not compacted.
        self.is_kept = False


class Segments:
    """All segments of a directory. Opening it cuts a torn tail, builds missing indexes, and creates an open segment."""

    def __init__(self, disk: Disk, manifest: Manifest, segment_bytes: int) -> None:
        self.manifest = manifest
        # Oldest first.
        self.sealed: list[SealedSegment] = []
        # Bytes of an interrupted write that were dropped at the start.
        self.torn_bytes = 0
        self._disk = disk
        self.seed = manifest.seed
        self._segment_bytes = segment_bytes
        self._spare: OpenSegment | None = None
        # The highest segment number so far.
        self._number = max((state.number for state in manifest.segments), default=0)
        self._drop_leftovers()
        empty: list[SealedSegment] = []
        for state in manifest.segments:
            segment = self._open_sealed(state)
            if segment.end or segment.damage:
                self.sealed.append(segment)
            else:
                segment.index.close()
                segment.file.close()
                empty.append(segment)
        # Whether unknown entries may be missing, so that "no entry" is not a valid answer.
        self.has_doubt = any(segment.damage for segment in self.sealed)
        self.open = self._allocate()
        self._list_open()
        # After the manifest was written: the files of a listed segment must exist.
        for segment in empty:
            self._delete_files(segment)

    # --- reading

    def find(self, ledger: int, entry: int) -> bytes | None:
        """The stored entry; None if the bookie certainly lacks it. Raises DamagedError, or DiskFailedError."""
        entries = self.open.records.get(ledger)
        if entries is not None and (located := entries.get(entry)) is not None:
            return self._read(self.open, ledger, entry, located)
        for segment in reversed(self.sealed):
            found = segment.index.find(ledger, entry)
            if found is not None:
                return self._read(segment, ledger, entry, found)
        if self.has_doubt:
            raise DamagedError(f"ledger {ledger}", "a damaged part of the disk may have held the entry")
        return None

    def is_newest(self, segment: SealedSegment, ledger: int, entry: int) -> bool:
        """Whether no later segment has the entry."""
        if entry in self.open.records.get(ledger, ()):
            return False
        later = self.sealed[self.sealed.index(segment) + 1 :]
        return all(each.index.find(ledger, entry) is None for each in later)

    def read_at(self, segment: SealedSegment, ledger: int, entry: int, located: Located) -> bytes:
        return self._read(segment, ledger, entry, located)

    def _read(self, segment: OpenSegment | SealedSegment, ledger: int, entry: int, located: Located) -> bytes:
        size = FRAME_OVERHEAD_BYTES + located.size
        data = segment.file.read(located.offset, size)
        frame = read_frame(data, 0, self.seed, segment.number, located.offset)
        if frame is None or frame.kind is not FrameKind.ENTRY or _ids(frame.body) != (ledger, entry):
            where = f"{segment_name(segment.number)} at {located.offset}"
            raise DamagedError(where, f"entry {entry} of ledger {ledger} is not valid there")
        return frame.body

    # --- writing

    def has_room(self, size: int) -> bool:
        return self.open.end + size <= self._segment_bytes

    def write(self, offset: int, data: bytes) -> None:
        """Write a group of frames and sync it."""
        self.open.file.write(offset, data)
        self.open.file.sync()

    def prepare(self) -> None:
        """Allocate the next segment ahead of time. Raises DiskFullError."""
        if self._spare is None:
            self._spare = self._allocate()

    def roll(self) -> None:
        """Seal the open segment and continue in a new one. Raises DiskFullError without a change."""
        self.prepare()
        spare = self._spare
        assert spare is not None, "a spare segment was allocated"
        sealed = self._sealed_open()
        try:
            # Listed before it is used: a start removes segments that are not listed.
            self._save([*self.sealed, sealed], [SegmentState(spare.number)])
        except BaseException:
            sealed.index.close()
            raise
        # A new list: the event loop may be iterating over the old one.
        self.sealed = [*self.sealed, sealed]
        self.open, self._spare = spare, None

    def close(self) -> None:
        """Seal the open segment: after a clean stop, damage cannot be mistaken for a torn tail."""
        self.sealed = [*self.sealed, self._sealed_open()]
        self._save(self.sealed)
        for segment in self.sealed:
            segment.index.close()
            segment.file.close()

    def detach(self, segment: SealedSegment) -> None:
        """Stop reading from this segment. Call in the event loop, before `remove`."""
        self.sealed = [each for each in self.sealed if each is not segment]

    def attach(self, segment: SealedSegment) -> None:
        """Read from a detached segment again, which could not be removed."""
        self.sealed = sorted([*self.sealed, segment], key=lambda each: each.number)

    def remove(self, segment: SealedSegment) -> None:
        """Free the space of a detached segment. Raises DiskFullError without a change."""
        self._list_open()
        segment.index.close()
        segment.file.close()
        self._delete_files(segment)
        self._disk.sync_directory()

    def settle_damage(self) -> None:
        """Clear the damage, after all entries of the damaged regions were restored."""
        for segment in self.sealed:
            segment.damage = ()
        self.has_doubt = False
        self._list_open()

    # --- inside

    def _delete_files(self, segment: SealedSegment) -> None:
        for name in (index_name(segment.number), segment_name(segment.number)):
            with suppress(FileNotFoundError):
                self._disk.remove(name)

    def _allocate(self) -> OpenSegment:
        self._number += 1
        file = self._disk.allocate(segment_name(self._number), self._segment_bytes)
        self._disk.sync_directory()
        return OpenSegment(self._number, file)

    def _drop_leftovers(self) -> None:
        """Remove preallocated segments, and indexes without a segment."""
        listed = {state.number for state in self.manifest.segments}
        kept = {segment_name(number) for number in listed} | {index_name(number) for number in listed}
        for name in self._disk.names():
            if name.startswith(("segment-", "index-")) and name not in kept:
                self._disk.remove(name)

    def _open_sealed(self, state: SegmentState) -> SealedSegment:
        file = self._disk.open_fixed(segment_name(state.number))
        if state.end is not None:
            with suppress(DamagedError, DiskFailedError):
                return SealedSegment(state, file, self._open_index(state.number))
        scan = self._scan(file, state)
        self.torn_bytes += scan.torn_bytes
        segment = self._rebuilt(state.number, file, scan)
        sealed = SegmentState(state.number, scan.end, tuple(scan.damage))
        return self._indexed(sealed, segment)

    def _scan(self, file: FixedFile, state: SegmentState) -> Scan:
        try:
            data = file.read(0, file.size)
        except DiskFailedError:
            data = _read_around(file)
        return scan_segment(data, self.seed, state.number, state.end)

    def _rebuilt(self, number: int, file: FixedFile, scan: Scan) -> OpenSegment:
        segment = OpenSegment(number, file)
        segment.end = scan.end
        for frame in scan.frames:
            if frame.kind is FrameKind.LEDGER:
                mark = decode_mark(frame.body)
                segment.marks[mark.ledger] = mark
                segment.note(mark.ledger, frame.size)
                continue
            ledger, entry = _ids(frame.body)
            segment.records.setdefault(ledger, {})[entry] = Located(frame.offset, frame.size)
            segment.note(ledger, frame.size)
        # The damage may include a ledger's key: its entries cannot be used without it, copies of other members can.
        for ledger in [ledger for ledger in segment.records if ledger not in segment.marks]:
            del segment.records[ledger]
        return segment

    def _indexed(self, state: SegmentState, segment: OpenSegment) -> SealedSegment:
        data = encode_index(segment.number, segment.rows(), segment.records)
        write_atomically(self._disk, index_name(segment.number), data)
        return SealedSegment(state, segment.file, self._open_index(segment.number))

    def _open_index(self, number: int) -> SegmentIndex:
        if index_name(number) not in self._disk.names():
            raise DamagedError(index_name(number), "it is missing")
        return SegmentIndex(self._disk, index_name(number), number)

    def _sealed_open(self) -> SealedSegment:
        """The open segment with its index; it stays the open one."""
        return self._indexed(SegmentState(self.open.number, self.open.end), self.open)

    def _list_open(self) -> None:
        self._save(self.sealed, [SegmentState(self.open.number)])

    def _save(self, sealed: Sequence[SealedSegment], more: Sequence[SegmentState] = ()) -> None:
        states = [SegmentState(each.number, each.end, each.damage) for each in sealed]
        manifest = msgspec.structs.replace(self.manifest, segments=(*states, *more))
        save_manifest(self._disk, manifest)
        self.manifest = manifest


# Read size around sectors that cannot be read.
_CAREFUL_BYTES = 512


def _read_around(file: FixedFile) -> bytes:
    """The content, with zeros for sectors that cannot be read."""
    parts = []
    for offset in range(0, file.size, _CAREFUL_BYTES):
        try:
            parts.append(file.read(offset, _CAREFUL_BYTES))
        except DiskFailedError:
            parts.append(bytes(min(_CAREFUL_BYTES, file.size - offset)))
    return b"".join(parts)
