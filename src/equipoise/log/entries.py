"""The entries of a log, in blocks.

A block holds up to a hundred consecutive entries, including deleted ones, as Redis's nodes do. Trimming with `~`
removes whole blocks only. An entry is stored in the encoding that is sent to readers.

Entries are numbered from 1 in the order in which they were added. A number is never reused, also after its entry was
deleted.

Always true:
    ids rise, within a block and from block to block;
    a block has at least one entry that is not deleted.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice

from equipoise.log.ids import EntryId

__all__ = [
    "BLOCK_ENTRIES",
    "Entries",
    "body_of",
    "entry_piece",
    "fields_of",
    "payload_body",
    "payload_of",
    "spell_fields",
]

# Redis's `stream-node-max-entries`.
BLOCK_ENTRIES = 100

# The first bytes of a published message: one field, its name, then the length of the value.
_PAYLOAD = b"*2\r\n$7\r\npayload\r\n$"


class _Block:
    __slots__ = ("ids", "live", "number", "pieces")

    def __init__(self, number: int) -> None:
        # The number of the first entry.
        self.number = number
        self.ids: list[EntryId] = []
        # The entries as sent to readers: an array of id and fields. None: deleted.
        self.pieces: list[bytes | None] = []
        self.live = 0


class Entries:
    """Owned by a TopicLog."""

    __slots__ = ("_blocks", "_firsts", "bytes", "count", "number")

    def __init__(self, number: int = 0) -> None:
        # The number of the last entry ever added.
        self.number = number
        self._blocks: list[_Block] = []
        # The id of the first entry of each block, also if that entry was deleted.
        self._firsts: list[EntryId] = []
        # Number and bytes of the entries that are not deleted.
        self.count = 0
        self.bytes = 0

    @property
    def blocks(self) -> int:
        return len(self._blocks)

    def add(self, at: EntryId, piece: bytes) -> None:
        """Append an entry."""
        block = self._blocks[-1] if self._blocks else None
        self.number += 1
        if block is None or len(block.ids) >= BLOCK_ENTRIES:
            block = _Block(self.number)
            self._blocks.append(block)
            self._firsts.append(at)
        block.ids.append(at)
        block.pieces.append(piece)
        block.live += 1
        self.count += 1
        self.bytes += len(piece)

    def add_all(self, ids: list[EntryId], pieces: list[bytes]) -> None:
        """Append entries in this order."""
        done = 0
        while done < len(ids):
            block = self._blocks[-1] if self._blocks else None
            if block is None or len(block.ids) >= BLOCK_ENTRIES:
                block = _Block(self.number + done + 1)
                self._blocks.append(block)
                self._firsts.append(ids[done])
            room = BLOCK_ENTRIES - len(block.ids)
            added = ids[done : done + room]
            block.ids += added
            block.pieces += pieces[done : done + room]
            block.live += len(added)
            done += len(added)
        self.number += done
        self.count += done
        self.bytes += sum(map(len, pieces))

    def get(self, at: EntryId) -> bytes | None:
        """The entry as sent to readers; None if there is no such entry."""
        found = self._find(at)
        return None if found is None else found[0].pieces[found[1]]

    def size(self, at: EntryId) -> int:
        """Bytes of the entry as sent to readers; 0 if there is no such entry."""
        piece = self.get(at)
        return 0 if piece is None else len(piece)

    def first(self) -> EntryId | None:
        return next((at for at, _ in self.range()), None)

    def last(self) -> EntryId | None:
        return next((at for at, _ in self.range(is_reverse=True)), None)

    def range(
        self, start: EntryId | None = None, end: EntryId | None = None, *, is_reverse: bool = False
    ) -> Iterator[tuple[EntryId, bytes]]:
        """Entries from `start` to `end`, both included. Not valid after a change."""
        blocks = self._blocks
        low = 0 if start is None else max(0, bisect_right(self._firsts, start) - 1)
        high = len(blocks) if end is None else bisect_right(self._firsts, end)
        order = range(high - 1, low - 1, -1) if is_reverse else range(low, high)
        for number in order:
            block = blocks[number]
            ids, pieces = block.ids, block.pieces
            since = 0 if start is None else bisect_left(ids, start)
            until = len(ids) if end is None else bisect_right(ids, end)
            inside = range(until - 1, since - 1, -1) if is_reverse else range(since, until)
            for i in inside:
                piece = pieces[i]
                if piece is not None:
                    yield ids[i], piece

    def behind(self, number: int) -> Iterator[tuple[int, bytes]]:
        """The entries after this number, each with its number. Not valid after a change."""
        low = max(0, bisect_right(self._blocks, number, key=lambda block: block.number) - 1)
        for block in self._blocks[low:]:
            for of_piece, piece in enumerate(block.pieces, block.number):
                if of_piece > number and piece is not None:
                    yield of_piece, piece

    def id_up_to(self, number: int) -> EntryId | None:
        """The id of the entry with this number, or of the last known entry before it; None: there is none."""
        at = bisect_right(self._blocks, number, key=lambda block: block.number) - 1
        if at < 0:
            return None
        block = self._blocks[at]
        return block.ids[min(number - block.number, len(block.ids) - 1)]

    def number_of(self, at: EntryId) -> int | None:
        """The number of the entry with this id; None if the log no longer has it."""
        found = self._find(at)
        return None if found is None else found[0].number + found[1]

    def steps(self, start: EntryId, step: int, limit: int) -> tuple[int, list[EntryId]]:
        """The number of entries from `start` on, and the id of every `step`-th of them, at most `limit` ids."""
        low = max(0, bisect_right(self._firsts, start) - 1)
        count, ids = 0, list[EntryId]()
        for number, block in enumerate(self._blocks[low:]):
            since = 0 if number else bisect_left(block.ids, start)
            if not since and (len(ids) >= limit or (len(ids) + 1) * step > count + block.live):
                count += block.live
                continue
            both = zip(block.ids[since:], block.pieces[since:], strict=True)
            live = [at for at, piece in both if piece is not None]
            while len(ids) < limit and (len(ids) + 1) * step <= count + len(live):
                ids.append(live[(len(ids) + 1) * step - count - 1])
            count += len(live)
        return count, ids

    def delete(self, at: EntryId) -> bool:
        """Delete an entry. Returns whether it existed."""
        found = self._find(at)
        if found is None:
            return False
        block, i = found
        piece = block.pieces[i]
        if piece is None:
            return False
        block.pieces[i] = None
        block.live -= 1
        self.count -= 1
        self.bytes -= len(piece)
        if not block.live:
            number = bisect_right(self._firsts, at) - 1
            del self._blocks[number], self._firsts[number]
        return True

    def trim(self, first: EntryId) -> None:
        """Remove all entries before this id."""
        whole = max(0, bisect_right(self._firsts, first) - 1)
        for block in self._blocks[:whole]:
            self.count -= block.live
            self.bytes -= sum(len(piece) for piece in block.pieces if piece is not None)
        del self._blocks[:whole], self._firsts[:whole]
        for at in self._blocks[0].ids[:] if self._blocks else ():
            if at >= first:
                break
            self.delete(at)

    # What a trim would keep.

    def first_of_last(self, count: int) -> EntryId | None:
        """The first of the last `count` entries; None if `count` is 0."""
        if not count:
            return None
        skipped = self.count - count
        return next((at for at, _ in islice(self.range(), max(0, skipped), None)), None)

    def first_whole(
        self, *, keep: int = 0, minimum: EntryId | None = None, limit: int = 0
    ) -> tuple[EntryId | None, int]:
        """The result of a trim with `~`: the first id kept (None: no entry is kept), and the number of removed entries.

        Whole blocks are removed from the front while at least `keep` entries remain or, if `minimum` is given, while
        the block ends before it. At most `limit` entries are removed, unless `limit` is 0.
        """
        gone = 0
        for number, block in enumerate(self._blocks):
            stays = self.count - gone
            may_go = stays - block.live >= keep if minimum is None else self._last_of(block) < minimum
            if (minimum is None and stays <= keep) or not may_go or (limit and gone + block.live > limit):
                return self._firsts[number], gone
            gone += block.live
        return None, gone

    @staticmethod
    def _last_of(block: _Block) -> EntryId:
        return next(
            at
            for at, piece in zip(reversed(block.ids), reversed(block.pieces), strict=True)
            if piece is not None
        )

    def _find(self, at: EntryId) -> tuple[_Block, int] | None:
        number = bisect_right(self._firsts, at) - 1
        if number < 0:
            return None
        block = self._blocks[number]
        i = bisect_left(block.ids, at)
        return (block, i) if i < len(block.ids) and block.ids[i] == at else None


def entry_piece(at: EntryId, body: bytes) -> bytes:
    """Encode an entry for readers: an array of its id and its fields."""
    spelled = b"%d-%d" % at
    return b"*2\r\n$%d\r\n%b\r\n%b" % (len(spelled), spelled, body)


def body_of(piece: bytes) -> bytes:
    """The stored fields of an entry that is encoded for readers."""
    return piece[_fields_at(piece) :]


def _fields_at(piece: bytes) -> int:
    """The offset of the fields: after the array header, the length of the id and the id."""
    return piece.index(b"*", piece.index(b"\r\n", piece.index(b"$")))


def fields_of(piece: bytes) -> list[bytes]:
    """The fields and values of an entry that is encoded for readers."""
    at = _fields_at(piece)
    end = piece.index(b"\r\n", at)
    fields: list[bytes] = []
    for _ in range(int(piece[at + 1 : end])):
        start = piece.index(b"\r\n", end + 2) + 2
        end = start + int(piece[end + 3 : start - 2])
        fields.append(piece[start:end])
    return fields


def spell_fields(fields: Sequence[bytes]) -> bytes:
    """Encode fields and values, as stored and sent."""
    if len(fields) == 2:
        name, value = fields
        return b"*2\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(name), name, len(value), value)
    return b"*%d\r\n%b" % (len(fields), b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in fields]))


def payload_body(payload: bytes) -> bytes:
    """Encode a published message as fields."""
    return b"%b%d\r\n%b\r\n" % (_PAYLOAD, len(payload), payload)


def payload_of(body: bytes) -> bytes:
    """What subscribers receive of an entry: the value of a lone field `payload`, else all fields in RESP."""
    if not body.startswith(_PAYLOAD):
        return body
    start = body.index(b"\r\n", len(_PAYLOAD)) + 2
    return body[start:-2]
