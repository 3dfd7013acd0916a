"""Entries are read from another member where one is silent, and a long read waits for it once."""

from __future__ import annotations

import asyncio

import pytest

from equipoise.errors import LedgerError
from equipoise.ledger.entry import LedgerEntry, encode_entry
from equipoise.ledger.metadata import LedgerMetadata, Segment
from equipoise.ledger.quorum import Quorum
from equipoise.ledger.wire import Code, ReadAnswer
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


class Pool(BookiePool):
    def __init__(self, **codes: Code | None) -> None:
        super().__init__(None, SETTINGS)  # type: ignore[arg-type]  # no store is asked
        self.members = {name: Member(code) for name, code in codes.items()}

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
