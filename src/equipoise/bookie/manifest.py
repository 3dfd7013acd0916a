"""The manifest of a bookie's directory: its owner, its segments and its known damage.

Two small files, each written atomically. `manifest` has the bookie's name, the cluster, the salt of the checksums,
every segment with its end once it is sealed, and damaged regions. `deleted` lists deleted ledgers: they count as fenced
for a writer that missed the deletion.

A directory is refused, without a change to it, if it belongs to another bookie or cluster, was written by a newer
version, or lacks a segment that the manifest lists.
"""

from __future__ import annotations

from array import array
from zlib import crc32

import msgspec

from equipoise.disk import Disk, write_atomically
from equipoise.errors import DamagedError, SettingsError

__all__ = [
    "FORMAT",
    "Manifest",
    "SegmentState",
    "index_name",
    "load_deleted",
    "load_manifest",
    "save_deleted",
    "save_manifest",
    "segment_name",
]

FORMAT = 1
MANIFEST = "manifest"
DELETED = "deleted"


class SegmentState(msgspec.Struct, frozen=True):
    number: int
    # The end of its frames; None while it is open.
    end: int | None = None
    # Regions without a valid frame, as (start, end), found when its index was built.
    damage: tuple[tuple[int, int], ...] = ()


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    format: int = FORMAT
    # The bookie's name, and the cluster's INSTANCEID.
    bookie: str
    instance: str
    # Random bytes of this directory, in hexadecimal.
    salt: str
    # In the order in which they were written. Only the last may be open.
    segments: tuple[SegmentState, ...] = ()

    @property
    def seed(self) -> int:
        return crc32(bytes.fromhex(self.salt))


def segment_name(number: int) -> str:
    return f"segment-{number:010d}"


def index_name(number: int) -> str:
    return f"index-{number:010d}"


def load_manifest(disk: Disk) -> Manifest | None:
    """None if no bookie has used the directory. Raises DamagedError, or SettingsError for a newer format."""
    names = disk.names()
    if MANIFEST not in names:
        if any(name.startswith("segment-") for name in names):
            raise DamagedError(MANIFEST, "it is missing, and there are segments")
        return None
    digits, _, text = disk.read(MANIFEST).partition(b"\n")
    if digits != b"%08x" % crc32(text):
        raise DamagedError(MANIFEST, "the checksum does not match")
    found: int = msgspec.json.decode(text, type=dict)["format"]
    if found > FORMAT:
        raise SettingsError(
            f"the directory has format {found}, this version of the bookie writes {FORMAT}: "
            "run the version that wrote it, or a newer one"
        )
    manifest = msgspec.json.decode(text, type=Manifest)
    missing = [state.number for state in manifest.segments if segment_name(state.number) not in names]
    if missing:
        raise DamagedError(
            segment_name(missing[0]),
            f"it is missing, and so are {len(missing) - 1} others: bring them back, or empty the directory "
            "and let `equipoise bookies forget` declare this bookie lost",
        )
    return manifest


def save_manifest(disk: Disk, manifest: Manifest) -> None:
    text = msgspec.json.encode(manifest)
    write_atomically(disk, MANIFEST, b"%08x\n%s" % (crc32(text), text))


def load_deleted(disk: Disk) -> array[int]:
    """Sorted ids of deleted ledgers."""
    found = array("q")
    if DELETED in disk.names():
        data = disk.read(DELETED)
        if len(data) % 8 != 4 or crc32(data[4:]) != int.from_bytes(data[:4], "big"):
            raise DamagedError(DELETED, "the checksum does not match")
        found.frombytes(data[4:])
    return found


def save_deleted(disk: Disk, deleted: array[int]) -> None:
    data = deleted.tobytes()
    write_atomically(disk, DELETED, crc32(data).to_bytes(4, "big") + data)
