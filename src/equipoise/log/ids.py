"""Ids of entries, `ms-seq`: parsing, formatting and order, as in Redis.

An id is a pair of 64-bit numbers, compared as a tuple. Ids of a log increase.
"""

from __future__ import annotations

from equipoise.log.errors import LogCommandError

__all__ = [
    "ID_MAX",
    "ID_MIN",
    "INVALID_ID",
    "EntryId",
    "after",
    "before",
    "parse_bound",
    "parse_id",
    "parse_new_id",
    "spell_id",
    "spell_ids",
]

EntryId = tuple[int, int]

_MOST = 2**64 - 1
ID_MIN: EntryId = (0, 0)
ID_MAX: EntryId = (_MOST, _MOST)

INVALID_ID = "ERR Invalid stream ID specified as stream command argument"
# 20 digits of the greatest number, plus leading zeros. Redis accepts 127 bytes for the whole id.
_ID_BYTES_MAX = 127


def spell_id(at: EntryId) -> bytes:
    return b"%d-%d" % at


def spell_ids(ms: int, seq: int, count: int) -> list[bytes]:
    """Consecutive ids of one millisecond, as bulk strings."""
    found: list[bytes] = []
    end = seq + count
    while seq < end:
        # Those whose sequences have the same number of digits have the same head.
        until = min(end, 10 ** len(str(seq)))
        head = b"$%d\r\n%d-" % (len(spell_id((ms, seq))), ms)
        found += [b"%b%d\r\n" % (head, n) for n in range(seq, until)]
        seq = until
    return found


def parse_id(word: bytes, missing_seq: int = 0, *, is_strict: bool = True) -> EntryId:
    """Parse an id; a lone number gets the sequence `missing_seq`. Unless strict, `-` is the least, `+` the greatest."""
    if not is_strict and word in (b"-", b"+"):
        return ID_MIN if word == b"-" else ID_MAX
    ms, dash, seq = word.partition(b"-")
    if len(word) > _ID_BYTES_MAX:
        raise LogCommandError(INVALID_ID)
    return _number(ms), _number(seq) if dash else missing_seq


def parse_new_id(word: bytes) -> tuple[int, int | None]:
    """Parse the id argument of XADD. The sequence is None if the log chooses it (`ms-*`)."""
    ms, dash, seq = word.partition(b"-")
    if dash and seq == b"*" and len(word) <= _ID_BYTES_MAX:
        return _number(ms), None
    return parse_id(word)


def parse_bound(word: bytes, *, is_start: bool) -> EntryId:
    """Parse one end of a range: the least or greatest id inside it. `(` excludes the id itself."""
    is_open = word[:1] == b"(" and len(word) > 1
    at = parse_id(word[1:] if is_open else word, 0 if is_start else _MOST, is_strict=is_open)
    if not is_open:
        return at
    inside = after(at) if is_start else before(at)
    if inside is None:
        raise LogCommandError(f"ERR invalid {'start' if is_start else 'end'} ID for the interval")
    return inside


def after(at: EntryId) -> EntryId | None:
    """The next id; None after the greatest."""
    ms, seq = at
    if seq < _MOST:
        return ms, seq + 1
    return (ms + 1, 0) if ms < _MOST else None


def before(at: EntryId) -> EntryId | None:
    """The previous id; None before the least."""
    ms, seq = at
    if seq > 0:
        return ms, seq - 1
    return (ms - 1, _MOST) if ms > 0 else None


def _number(digits: bytes) -> int:
    if not (digits.isdigit() and digits.isascii()):
        raise LogCommandError(INVALID_ID)
    number = int(digits)
    if number > _MOST:
        raise LogCommandError(INVALID_ID)
    return number
