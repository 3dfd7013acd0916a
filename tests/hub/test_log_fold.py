"""The fold of a log in steps: ahead of the release, and to the end behind it."""

from __future__ import annotations

import asyncio

import pytest

from equipoise.errors import LedgerError
from equipoise.hub.shell.log_fold import LogFold
from equipoise.ledger.log import OpenLedger
from equipoise.ledger.memory import MemoryLedgers
from equipoise.ledger.quorum import Quorum
from equipoise.log.records import EntryAdded, encode_run
from equipoise.store.records.topic_logs import LogLedger

ONE = Quorum(1, 1, 1)


class Reads(MemoryLedgers):
    """Counts what is read and recovered."""

    def __init__(self) -> None:
        super().__init__(lambda call: call())
        self.read_entries: list[tuple[int, int]] = []
        self.recovered: list[int] = []

    async def read(self, ledger: int, first: int, last: int, *, bytes_max: int = 1) -> list[bytes]:
        # One entry at a time: a ledger is read in several pieces.
        self.read_entries.append((ledger, first))
        return await super().read(ledger, first, last, bytes_max=1)

    async def recover(self, ledger: int) -> int:
        self.recovered.append(ledger)
        return await super().recover(ledger)


def add(ledger: OpenLedger, *ids: int) -> None:
    for at in ids:
        ledger.append(encode_run([EntryAdded(at, 0, b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n")]), lambda outcome: None)


async def two_ledgers(ledgers: Reads) -> tuple[OpenLedger, list[LogLedger]]:
    """A closed one with two entries, and an open one with two."""
    closed = await ledgers.create(b"t", 1, ONE)
    add(closed, 1, 2)
    last = await closed.close()
    opened = await ledgers.create(b"t", 2, ONE)
    add(opened, 3, 4)
    return opened, [LogLedger(closed.ledger, 1, last, 2, 0), LogLedger(opened.ledger, 2)]


def ids(fold: LogFold) -> list[int]:
    return [at[0] for at, _ in fold.state.entries.range()]


@pytest.mark.parametrize("is_closed", [True, False])
def test_what_was_read_ahead_is_not_read_again(is_closed: bool) -> None:
    async def main() -> None:
        ledgers = Reads()
        opened, parts = await two_ledgers(ledgers)
        fold = LogFold(ledgers, b"t")
        await fold.read_ahead(parts)
        assert ids(fold) == [1, 2, 3, 4]
        assert not ledgers.recovered
        add(opened, 5, 6)
        if is_closed:
            parts[-1] = LogLedger(opened.ledger, 2, await opened.close())
        ledgers.read_entries.clear()
        assert fold.is_start_of(parts)
        await fold.complete(parts, is_closed=is_closed)
        assert ids(fold) == [1, 2, 3, 4, 5, 6]
        assert ledgers.read_entries == [(opened.ledger, 3), (opened.ledger, 4)]
        assert ledgers.recovered == ([] if is_closed else [opened.ledger])
        assert [part.last for part in fold.closed] == [2, 4]
        assert fold.closed[-1].last_ms == 6

    asyncio.run(main())


def test_a_log_whose_ledgers_have_changed_meanwhile_is_not_what_was_read_ahead() -> None:
    async def main() -> None:
        ledgers = Reads()
        opened, parts = await two_ledgers(ledgers)
        fold = LogFold(ledgers, b"t")
        assert fold.is_start_of(parts)
        await fold.read_ahead(parts)
        rolled = [*parts[:-1], LogLedger(opened.ledger, 2, 4), LogLedger(opened.ledger + 1, 2)]
        assert fold.is_start_of(rolled)
        # The first one was trimmed.
        assert not fold.is_start_of(rolled[1:])
        assert not fold.is_start_of([*parts[:-1], LogLedger(opened.ledger + 1, 2)])

    asyncio.run(main())


def test_a_ledger_that_ends_before_an_acknowledged_entry_is_refused() -> None:
    async def main() -> None:
        ledgers = Reads()
        opened, parts = await two_ledgers(ledgers)
        fold = LogFold(ledgers, b"t")
        await fold.read_ahead(parts)
        with pytest.raises(LedgerError, match="entry 2 was acknowledged"):
            await fold.complete([parts[0], LogLedger(opened.ledger, 2, 1)], is_closed=True)

    asyncio.run(main())
