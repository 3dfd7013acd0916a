"""Frames of a segment file: an entry, a ledger's key, or a fence.

A frame is a magic word, a checksum, its size, kind and *synced-to*, and a body. The checksum covers header, body, the
frame's own place and the salt of the directory, so that neither a frame in another place nor a payload that looks like
a frame is ever taken for one. Synced-to is the place up to which the segment was known durable when the frame was
written: a bad frame at or behind the greatest synced-to of all valid frames is a torn tail, which nobody was ever
answered for; before it, it is damage.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple
from zlib import crc32

__all__ = [
    "FRAME_OVERHEAD_BYTES",
    "LEDGER_FRAME_BYTES",
    "DiskFrame",
    "FrameKind",
    "LedgerMark",
    "Scan",
    "decode_mark",
    "encode_mark",
    "frame_head",
    "read_frame",
    "scan_segment",
]

_MAGIC = b"EqFr"
# Place of the frame, size of the body, kind, synced-to. The place is checked, not stored.
_CHECKED = struct.Struct(">QIBI")
_PLACE_BYTES = 8
_HEAD = struct.Struct(">4sIIBI")
FRAME_OVERHEAD_BYTES = _HEAD.size
_CRC = struct.Struct(">I")
_MARK = struct.Struct(">q20sB")
LEDGER_FRAME_BYTES = FRAME_OVERHEAD_BYTES + _MARK.size


class FrameKind(IntEnum):
    # A stored entry.
    ENTRY = 1
    # A ledger's key, and whether it is fenced. The first frame of each ledger in each segment is one.
    LEDGER = 2


_KINDS = {int(kind): kind for kind in FrameKind}


class LedgerMark(NamedTuple):
    ledger: int
    key: bytes
    is_fenced: bool


class DiskFrame(NamedTuple):
    offset: int
    kind: FrameKind
    # Of an entry that a scan has found only the first bytes, its ledger and number among them.
    body: bytes
    # Of the whole body.
    size: int
    # An offset in the same segment.
    synced_to: int


class Scan(NamedTuple):
    """What a segment holds. `damage` lists regions before `end` that hold no valid frame."""

    frames: list[DiskFrame]
    end: int
    damage: list[tuple[int, int]]
    # Bytes behind the end that are the rest of a write cut short.
    torn_bytes: int


def encode_mark(mark: LedgerMark) -> bytes:
    return _MARK.pack(mark.ledger, mark.key, mark.is_fenced)


def decode_mark(body: bytes) -> LedgerMark:
    ledger, key, fenced = _MARK.unpack(body)
    return LedgerMark(ledger, key, bool(fenced))


def frame_head(
    seed: int, segment: int, offset: int, kind: int, body: bytes | memoryview, synced_to: int
) -> bytes:
    """What comes before the body. `seed` is the checksum of the directory's salt."""
    checked = _CHECKED.pack(segment << 32 | offset, len(body), kind, synced_to)
    return b"".join((_MAGIC, _CRC.pack(crc32(body, crc32(checked, seed))), checked[_PLACE_BYTES:]))


def read_frame(data: bytes, at: int, seed: int, segment: int, offset: int) -> DiskFrame | None:
    """The valid frame that begins at `data[at]`, which is at `offset` of its segment; None if there is none."""
    if len(data) - at < FRAME_OVERHEAD_BYTES:
        return None
    magic, crc, size, number, synced_to = _HEAD.unpack_from(data, at)
    kind = _KINDS.get(number)
    begin = at + FRAME_OVERHEAD_BYTES
    if magic != _MAGIC or kind is None or len(data) - begin < size:
        return None
    body = data[begin : begin + size]
    checked = _CHECKED.pack(segment << 32 | offset, size, number, synced_to)
    if crc32(body, crc32(checked, seed)) != crc or (kind is FrameKind.LEDGER and size != _MARK.size):
        return None
    return DiskFrame(offset, kind, body, size, synced_to)


def scan_segment(data: bytes, seed: int, segment: int, end: int | None = None) -> Scan:
    """Find all frames. With `end`, where the segment was sealed, everything bad before it is damage.

    Without it the segment was being written to: what is bad at or behind the greatest synced-to was never durable.
    """
    frames = list(_valid_frames(data if end is None else data[:end], seed, segment))
    synced_to = max((frame.synced_to for frame in frames), default=0) if end is None else end
    kept: list[DiskFrame] = []
    damage: list[tuple[int, int]] = []
    at = 0
    for frame in frames:
        if frame.offset > at:
            if at >= synced_to:
                break
            damage.append((at, frame.offset))
        kept.append(frame)
        at = frame.offset + FRAME_OVERHEAD_BYTES + frame.size
    if at < synced_to:
        damage.append((at, synced_to))
        at = synced_to
    rest = data[at:].rstrip(b"\0") if end is None else b""
    return Scan(kept, at, damage, len(rest))


def _valid_frames(data: bytes, seed: int, segment: int) -> Iterator[DiskFrame]:
    """Every valid frame, in order, those behind damage too."""
    at = 0
    while at >= 0:
        frame = read_frame(data, at, seed, segment, at)
        if frame is None:
            at = data.find(_MAGIC, at + 1)
            continue
        yield frame._replace(body=frame.body[: _MARK.size])
        at += FRAME_OVERHEAD_BYTES + frame.size
