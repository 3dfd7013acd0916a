"""Read all data in a bookie's directory and report damage. Changes nothing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from equipoise.bookie.frame import FrameKind, decode_mark, scan_segment
from equipoise.bookie.manifest import Manifest, SegmentState, index_name, load_manifest, segment_name
from equipoise.bookie.segment_index import SegmentIndex
from equipoise.disk import Disk
from equipoise.errors import DamagedError, DiskFailedError, SettingsError

__all__ = ["DirectoryReport", "SegmentReport", "check_directory"]


@dataclass(frozen=True, slots=True)
class SegmentReport:
    number: int
    is_sealed: bool
    entries: int
    ledgers: tuple[int, ...]
    end: int
    torn_bytes: int
    # Regions without a valid frame, as (start, end).
    damage: tuple[tuple[int, int], ...]
    # "ok", "none", or why the index cannot be read. The next start rebuilds it.
    index: str

    def row(self) -> list[object]:
        state = "sealed" if self.is_sealed else "open"
        damage = ", ".join(f"{begin}–{end}" for begin, end in self.damage) or "–"
        return [
            self.number,
            state,
            self.entries,
            len(self.ledgers),
            self.end,
            self.torn_bytes,
            damage,
            self.index,
        ]


@dataclass(frozen=True, slots=True)
class DirectoryReport:
    bookie: str
    instance: str
    format: int
    segments: tuple[SegmentReport, ...]

    @property
    def entries(self) -> int:
        return sum(segment.entries for segment in self.segments)

    @property
    def ledgers(self) -> int:
        return len({ledger for segment in self.segments for ledger in segment.ledgers})

    @property
    def damaged(self) -> int:
        return sum(len(segment.damage) for segment in self.segments)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "entries": self.entries, "damaged": self.damaged}


def check_directory(disk: Disk) -> DirectoryReport:
    """Raises SettingsError for a directory that no bookie has used, DamagedError if the manifest is damaged."""
    manifest = load_manifest(disk)
    if manifest is None:
        raise SettingsError("no bookie has used this directory")
    segments = tuple(_check(disk, manifest, state) for state in manifest.segments)
    return DirectoryReport(manifest.bookie, manifest.instance, manifest.format, segments)


def _check(disk: Disk, manifest: Manifest, state: SegmentState) -> SegmentReport:
    scan = scan_segment(disk.read(segment_name(state.number)), manifest.seed, state.number, state.end)
    ledgers = {decode_mark(frame.body).ledger for frame in scan.frames if frame.kind is FrameKind.LEDGER}
    return SegmentReport(
        state.number,
        state.end is not None,
        sum(frame.kind is FrameKind.ENTRY for frame in scan.frames),
        tuple(sorted(ledgers)),
        scan.end,
        scan.torn_bytes,
        tuple(scan.damage),
        _index_state(disk, state.number),
    )


def _index_state(disk: Disk, number: int) -> str:
    if index_name(number) not in disk.names():
        return "none"
    try:
        index = SegmentIndex(disk, index_name(number), number)
        for _ in index.records():
            pass
    except (DamagedError, DiskFailedError) as error:
        return str(error)
    return "ok"
