"""One stored entry of a ledger, in BookKeeper's layout: four numbers, a CRC32, the payload.

A bookie stores these bytes without checking them. A reader checks the digest, so it detects damage on a bookie's disk
or on the network.
"""

from __future__ import annotations

import hashlib
import struct
from typing import NamedTuple
from zlib import crc32

from equipoise.errors import DamagedError

__all__ = [
    "NO_ENTRY",
    "OVERHEAD_BYTES",
    "PAYLOAD_BYTES_MAX",
    "LedgerEntry",
    "decode_entry",
    "encode_entry",
    "ledger_key",
    "stored_bytes",
]

# Entry number for "none yet": the last confirmed entry of an empty ledger.
NO_ENTRY = -1

# Ledger, entry, last confirmed entry, payload bytes of the ledger up to and with this entry.
_NUMBERS = struct.Struct(">qqqq")
# The digest is computed over the four numbers and the payload. CRC32 fills eight bytes.
_DIGEST = struct.Struct(">q")
OVERHEAD_BYTES = _NUMBERS.size + _DIGEST.size
# A frame, its length word included, has at most 5 MiB: length word, header, key, overhead, payload.
PAYLOAD_BYTES_MAX = 5 * 1024 * 1024 - 4 - 4 - 20 - OVERHEAD_BYTES


class LedgerEntry(NamedTuple):
    ledger: int
    entry: int
    # Highest entry that the writer had acknowledged when it sent this one.
    confirmed: int
    # Payload bytes of the ledger up to and with this entry. A hint: recovery may not know it.
    length: int
    payload: bytes


def encode_entry(entry: LedgerEntry) -> bytes:
    return stored_bytes(*entry)


def stored_bytes(ledger: int, entry: int, confirmed: int, length: int, payload: bytes) -> bytes:
    """The same as `encode_entry`, of the fields of an entry."""
    numbers = _NUMBERS.pack(ledger, entry, confirmed, length)
    return b"".join((numbers, _DIGEST.pack(crc32(payload, crc32(numbers))), payload))


def decode_entry(data: bytes, *, ledger: int, entry: int | None = None) -> LedgerEntry:
    """Check and decode a stored entry. `entry` is None if the last one was requested.

    Raises DamagedError if the bytes are not the requested entry.
    """
    where = f"entry {entry if entry is not None else 'last'} of ledger {ledger}"
    if len(data) < OVERHEAD_BYTES:
        raise DamagedError(where, f"{len(data)} bytes, fewer than its header has")
    payload = data[OVERHEAD_BYTES:]
    (digest,) = _DIGEST.unpack_from(data, _NUMBERS.size)
    if crc32(payload, crc32(data[: _NUMBERS.size])) != digest:
        raise DamagedError(where, "the checksum does not match")
    number, found_entry, confirmed, length = _NUMBERS.unpack_from(data)
    found = LedgerEntry(number, found_entry, confirmed, length, payload)
    if found.ledger != ledger or (entry is not None and found.entry != entry):
        raise DamagedError(where, f"the bytes are entry {found.entry} of ledger {found.ledger}")
    return found


def ledger_key(password: bytes) -> bytes:
    """The master key that a bookie stores for a ledger; it rejects another key."""
    return hashlib.sha1(b"ledger" + password, usedforsecurity=False).digest()
