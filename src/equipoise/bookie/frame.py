"""Frames of a segment file: an entry, a ledger's key, or a fence.

A frame is a magic word, a checksum, its size, kind and *synced-to*, and a body. The checksum covers header, body, the
frame's own position and the salt of the directory, so that neither a frame at another position nor a payload that looks
like a frame is accepted. Synced-to is the offset up to which the segment was known to be durable when the frame was
written. A bad frame at or after the greatest synced-to of all valid frames is a torn tail, for which no client received
an answer; before it, a bad frame is damage.
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
# Position of the frame, size of the body, kind, synced-to. The position is checked, not stored.
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
    # A ledger's key, and whether it is fenced. Each ledger has one as its first frame in each segment.
    LEDGER = 2


_KINDS = {int(kind): kind for kind in FrameKind}


class LedgerMark(NamedTuple):
    ledger: int
    key: bytes
    is_fenced: bool


class DiskFrame(NamedTuple):
    offset: int
    kind: FrameKind
    # Frames from a scan have only the first bytes of an entry, which include ledger and number.
    body: bytes
    # Of the whole body.
    size: int
    # An offset in the same segment.
    synced_to: int


class Scan(NamedTuple):
    """The contents of a segment. `damage`: regions before `end` without a valid frame."""

    frames: list[DiskFrame]
    end: int
    damage: list[tuple[int, int]]
    # Bytes after `end` from an interrupted write.
    torn_bytes: int


def encode_mark(mark: LedgerMark) -> bytes:
    return _MARK.pack(mark.ledger, mark.key, mark.is_fenced)


def decode_mark(body: bytes) -> LedgerMark:
    ledger, key, fenced = _MARK.unpack(body)
    return LedgerMark(ledger, key, bool(fenced))


def frame_head(
    seed: int, segment: int, offset: int, kind: int, body: bytes | memoryview, synced_to: int
) -> bytes:
    """The part of a frame before the body. `seed` is the checksum of the directory's salt."""
    checked = _CHECKED.pack(segment << 32 | offset, len(body), kind, synced_to)
    return b"".join((_MAGIC, _CRC.pack(crc32(body, crc32(checked, seed))), checked[_PLACE_BYTES:]))


def read_frame(data: bytes, at: int, seed: int, segment: int, offset: int) -> DiskFrame | None:
    """The valid frame at `data[at]`, which is at `offset` of its segment; None if there is none."""
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
    """Find all frames. `end`: the end of a sealed segment; everything invalid before it is damage.

    Without `end` the segment was open: invalid bytes at or after the greatest synced-to were never durable.
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
    """Every valid frame, in order, including those after damage."""
    at = 0
    while at >= 0:
        frame = read_frame(data, at, seed, segment, at)
        if frame is None:
            at = data.find(_MAGIC, at + 1)
            continue
        yield frame._replace(body=frame.body[: _MARK.size])
        at += FRAME_OVERHEAD_BYTES + frame.size
