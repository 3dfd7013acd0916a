"""Entries are read from another member where one is silent, and a long read waits for it once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from equipoise.errors import LedgerError
from equipoise.ledger.entry import LedgerEntry, encode_entry
from equipoise.ledger.metadata import LedgerMetadata, Segment
from equipoise.ledger.quorum import Quorum
from equipoise.ledger.registration import BookieFacts
from equipoise.ledger.wire import BatchAnswer, Code, ReadAnswer
from equipoise.ledger_client.bookie_link import BookieLink
from equipoise.ledger_client.bookie_pool import BookiePool, ReplicationSettings
from equipoise.ledger_client.ledger_reader import read_entries

ENTRIES = 500
SETTINGS = ReplicationSettings(answer_timeout_s=0.05)


class Member(BookieLink):
    """A bookie that has all entries and answers at once, says that it has none, or is silent."""

    def __init__(self, code: Code | None) -> None:
        super().__init__(lambda link: None, timeout_s=60)
        self.is_open = True
        self.code = code
        self.asked = 0
        self.batches = 0
        # The first entry of which a batch has no valid copy.
        self.damaged_at = ENTRIES
        self.mended = 0

    def add(
        self, ledger: int, entry: int, key: bytes, body: bytes, on_answer: object, flags: object = 0
    ) -> None:
        assert callable(on_answer)
        self.mended += 1
        on_answer(Code.OK)

    def ask(self, ledger: int, entry: int, **options: object) -> asyncio.Future[ReadAnswer]:
        self.asked += 1
        answer: asyncio.Future[ReadAnswer] = asyncio.get_running_loop().create_future()
        if self.code is not None:
            body = encode_entry(LedgerEntry(ledger, entry, entry - 1, entry, b"%d" % entry))
            answer.set_result(ReadAnswer(self.code, ledger, entry, body if self.code is Code.OK else b""))
        return answer

    def ask_batch(
        self, ledger: int, first: int, *, count_max: int, bytes_max: int
    ) -> asyncio.Future[BatchAnswer]:
        self.batches += 1
        answer: asyncio.Future[BatchAnswer] = asyncio.get_running_loop().create_future()
        if self.code is not None:
            bodies = [
                encode_entry(LedgerEntry(ledger, entry, entry - 1, entry, b"%d" % entry))
                if entry != self.damaged_at
                else b"damage"
                for entry in range(first, first + count_max)
            ]
            is_ok = self.code is Code.OK
            answer.set_result(BatchAnswer(self.code, ledger, first, 1, bodies if is_ok else []))
        return answer


class Pool(BookiePool):
    def __init__(self, **codes: Code | None) -> None:
        super().__init__(None, SETTINGS)  # type: ignore[arg-type]  # no store is asked
        self.members = {name: Member(code) for name, code in codes.items()}
        self.facts: dict[str, BookieFacts] = {}

    @property
    def known(self) -> Mapping[str, BookieFacts]:
        return self.facts

    def have_batches(self) -> None:
        for name in self.members:
            self.facts[name] = BookieFacts(name=name, host="h", port=1, has_batches=True)

    async def link(self, name: str) -> BookieLink:
        return self.members[name]

    def open_link(self, name: str) -> BookieLink | None:
        return self.members[name]


def read(*codes: Code | None) -> tuple[list[bytes], list[Member]]:
    """All entries of a ledger on these three members."""

    async def main() -> tuple[list[bytes], list[Member]]:
        pool = Pool(**dict(zip(("a", "b", "c"), codes, strict=True)))
        metadata = LedgerMetadata(7, Quorum(3, 3, 2), (Segment(0, ("a", "b", "c")),), b"")
        found: list[bytes] = []
        while len(found) < ENTRIES:
            found += await read_entries(pool, metadata, len(found), ENTRIES - 1, bytes_max=400)
        return found, list(pool.members.values())

    return asyncio.run(main())


def test_entries_come_in_order_and_each_is_asked_for_once() -> None:
    found, members = read(Code.OK, Code.OK, Code.OK)
    assert found == [b"%d" % number for number in range(ENTRIES)]
    # Windows overlap where a reply was full.
    assert ENTRIES <= sum(member.asked for member in members) < 2 * ENTRIES


def test_a_member_without_the_entries_is_passed_over_and_a_damaged_one_gets_them_again() -> None:
    found, (_, lacking, damaged) = read(Code.OK, Code.NO_ENTRY, Code.UNKNOWN)
    assert found == [b"%d" % number for number in range(ENTRIES)]
    assert lacking.mended == 0
    assert damaged.mended >= ENTRIES // 3


def test_a_silent_member_is_waited_for_in_the_first_window_only() -> None:
    found, members = read(Code.OK, None, Code.OK)
    assert found == [b"%d" % number for number in range(ENTRIES)]
    assert members[1].asked <= 32


def test_an_entry_that_no_member_has_is_an_error() -> None:
    with pytest.raises(LedgerError, match="cannot be read"):
        read(Code.NO_ENTRY, Code.NO_ENTRY, Code.NO_ENTRY)


def read_in_batches(
    *codes: Code | None, quorum: Quorum, damaged_at: int = ENTRIES
) -> tuple[list[bytes], list[Member]]:
    async def main() -> tuple[list[bytes], list[Member]]:
        pool = Pool(**dict(zip(("a", "b", "c"), codes, strict=True)))
        pool.have_batches()
        for member in pool.members.values():
            member.damaged_at = damaged_at
        metadata = LedgerMetadata(7, quorum, (Segment(0, ("a", "b", "c")),), b"")
        found = await read_entries(pool, metadata, 0, ENTRIES - 1, bytes_max=1 << 20)
        return found, list(pool.members.values())

    found, members = asyncio.run(main())
    assert found == [b"%d" % number for number in range(ENTRIES)]
    return found, members


def test_one_batch_brings_many_entries() -> None:
    _, members = read_in_batches(Code.OK, Code.OK, Code.OK, quorum=Quorum(3, 3, 2))
    assert sum(member.batches for member in members) == 1
    assert sum(member.asked for member in members) == 0


def test_entries_are_read_one_by_one_where_members_have_some_of_them() -> None:
    _, members = read_in_batches(Code.OK, Code.OK, Code.OK, quorum=Quorum(3, 2, 2))
    assert sum(member.batches for member in members) == 0


def test_entries_behind_a_damaged_one_are_read_from_other_members() -> None:
    _, members = read_in_batches(Code.OK, Code.OK, Code.OK, quorum=Quorum(3, 3, 2), damaged_at=40)
    assert sum(member.asked for member in members) == 32
    read_in_batches(Code.UNKNOWN, Code.OK, Code.OK, quorum=Quorum(3, 3, 2))


def test_a_member_that_does_not_answer_a_batch_is_waited_for_once() -> None:
    _, members = read_in_batches(None, Code.OK, Code.OK, quorum=Quorum(3, 3, 2))
    assert members[0].batches == 1
    assert members[0].asked == 0
