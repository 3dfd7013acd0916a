"""The node of a ledger in the store, in BookKeeper's own layout and format, so that its tools can read our ledgers.

Bookies in Java drop every ledger whose node they cannot find or read: the format is exact to the byte.

Always true of valid metadata: there is a segment; first entries increase; each segment has E members.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import pairwise

from equipoise.errors import DamagedError
from equipoise.ledger.entry import NO_ENTRY
from equipoise.ledger.protobuf import MalformedError, bytes_field, fields, read_varint, varint, varint_field
from equipoise.ledger.quorum import Quorum

__all__ = [
    "LAYOUT",
    "LedgerMetadata",
    "LedgerState",
    "Segment",
    "decode_metadata",
    "encode_metadata",
    "ledger_path",
]

LAYOUT = b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1"
_MAGIC = b"BookieMetadataFormatVersion\t3\n"
_DIGEST_CRC32 = 1
# Ids below have ten digits in their path, others nineteen.
_SHORT_ID_MAX = (1 << 31) - 1


class LedgerState(IntEnum):
    OPEN = 1
    IN_RECOVERY = 2
    CLOSED = 3


@dataclass(frozen=True, slots=True)
class Segment:
    """From `first` on, entries are on these bookies, until the next segment begins."""

    first: int
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LedgerMetadata:
    ledger: int
    quorum: Quorum
    segments: tuple[Segment, ...]
    password: bytes
    state: LedgerState = LedgerState.OPEN
    # Known once the ledger is closed.
    last: int = NO_ENTRY
    length: int = 0
    created_ms: int = 0
    # Identifies the creator of the node, if the reply to the creation was lost.
    token: int = 0
    custom: tuple[tuple[str, bytes], ...] = field(default=())

    @property
    def current(self) -> Segment:
        return self.segments[-1]

    def members_at(self, entry: int) -> tuple[str, ...]:
        """The ensemble of an entry, in the order of its indices."""
        return next(segment.members for segment in reversed(self.segments) if segment.first <= entry)

    def with_members(self, first: int, members: tuple[str, ...]) -> LedgerMetadata:
        """Set other bookies from an entry on. Replaces a last segment that begins there."""
        kept = self.segments[:-1] if self.current.first >= first else self.segments
        return replace(self, segments=(*kept, Segment(first, members)))

    def closed_at(self, last: int, length: int) -> LedgerMetadata:
        return replace(self, state=LedgerState.CLOSED, last=last, length=length)


def encode_metadata(metadata: LedgerMetadata) -> bytes:
    quorum = metadata.quorum
    is_closed = metadata.state is LedgerState.CLOSED
    parts = [
        varint_field(1, quorum.write),
        varint_field(2, quorum.ensemble),
        varint_field(3, metadata.length if is_closed else 0),
        varint_field(4, metadata.last if is_closed else NO_ENTRY),
        varint_field(5, metadata.state),
    ]
    for segment in metadata.segments:
        members = b"".join(bytes_field(1, member.encode()) for member in segment.members)
        parts.append(bytes_field(6, members + varint_field(2, segment.first)))
    parts += (
        varint_field(7, _DIGEST_CRC32),
        bytes_field(8, metadata.password),
        varint_field(9, quorum.ack),
        varint_field(10, metadata.created_ms),
    )
    for name, value in metadata.custom:
        parts.append(bytes_field(11, bytes_field(1, name.encode()) + bytes_field(2, value)))
    parts.append(varint_field(12, metadata.token))
    message = b"".join(parts)
    return _MAGIC + varint(len(message)) + message


def decode_metadata(data: bytes, ledger: int) -> LedgerMetadata:
    """Decode a ledger's node. Raises DamagedError for invalid metadata."""
    path = ledger_path(ledger)
    if not data.startswith(_MAGIC):
        raise DamagedError(path, "it does not begin as ledger metadata of version 3 does")
    try:
        size, at = read_varint(data, len(_MAGIC))
        if size != len(data) - at:
            raise MalformedError(f"{len(data) - at} bytes where {size} are announced")
        return _checked(_read(data[at:], ledger), path)
    except (MalformedError, KeyError, ValueError, UnicodeDecodeError) as error:
        raise DamagedError(path, str(error)) from error


def _read(message: bytes, ledger: int) -> LedgerMetadata:
    numbers: dict[int, int] = {}
    segments: list[Segment] = []
    custom: list[tuple[str, bytes]] = []
    password = b""
    for number, value in fields(message):
        if isinstance(value, int):
            numbers[number] = value
        elif number == 6:
            segments.append(_segment(value))
        elif number == 8:
            password = value
        elif number == 11:
            pair = dict(fields(value))
            custom.append((_bytes(pair.get(1, b"")).decode(), _bytes(pair.get(2, b""))))
    missing = [field for field in (1, 2, 5) if field not in numbers]
    if missing:
        raise MalformedError(f"the fields {missing} are missing")
    if numbers.get(7, _DIGEST_CRC32) != _DIGEST_CRC32:
        raise MalformedError(f"digest type {numbers[7]}; only CRC32 is read here")
    quorum = Quorum(numbers[2], numbers[1], numbers.get(9, numbers[1]))
    return LedgerMetadata(
        ledger,
        quorum,
        tuple(segments),
        password,
        LedgerState(numbers[5]),
        last=numbers.get(4, NO_ENTRY),
        length=numbers.get(3, 0),
        created_ms=numbers.get(10, 0),
        token=numbers.get(12, 0),
        custom=tuple(custom),
    )


def _segment(message: bytes) -> Segment:
    members: list[str] = []
    first: int | None = None
    for number, value in fields(message):
        if number == 1:
            members.append(_bytes(value).decode())
        elif number == 2 and isinstance(value, int):
            first = value
    if first is None:
        raise MalformedError("a segment without its first entry")
    return Segment(first, tuple(members))


def _checked(metadata: LedgerMetadata, path: str) -> LedgerMetadata:
    segments, ensemble = metadata.segments, metadata.quorum.ensemble
    if not segments or segments[0].first != 0:
        raise DamagedError(path, "it has no segment that begins with entry 0")
    if any(len(segment.members) != ensemble for segment in segments):
        raise DamagedError(path, f"a segment does not have {ensemble} members")
    if any(a.first >= b.first for a, b in pairwise(segments)):
        raise DamagedError(path, "the first entries of its segments do not rise")
    return metadata


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise MalformedError("a number where bytes belong")
    return value


def ledger_path(ledger: int) -> str:
    """The path of the ledger's node, below the root of ledgers: `00/0000/L0007`, or five parts for large ids."""
    if ledger < _SHORT_ID_MAX:
        digits, cuts = f"{ledger:010d}", [2, 6]
    else:
        digits, cuts = f"{ledger:019d}", [3, 7, 11, 15]
    parts = [digits[a:b] for a, b in zip([0, *cuts], [*cuts, None], strict=True)]
    return "/".join((*parts[:-1], f"L{parts[-1]}"))
