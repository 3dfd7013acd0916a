"""Ledgers in memory: what chance leaves of entries that were in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from equipoise.errors import LedgerError
from equipoise.ledger.memory import MemoryLedgers
from equipoise.ledger.quorum import Quorum


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_recovery_finds_some_of_what_was_in_flight_and_the_writer_never_counts_it(kept: int) -> None:
    async def run() -> None:
        waiting: list[Callable[[], None]] = []
        ledgers = MemoryLedgers(waiting.append, keep=lambda unacknowledged: min(kept, unacknowledged))
        ledger = await ledgers.create(b"t", 1, Quorum(1, 1, 1))
        outcomes: list[int | LedgerError] = []
        for payload in (b"a", b"b", b"c"):
            ledger.append(payload, outcomes.append)
        waiting.pop(0)()
        assert await ledgers.recover(ledger.ledger) == 1 + kept
        assert await ledgers.read(ledger.ledger, 1, 1 + kept) == [b"a", b"b", b"c"][: 1 + kept]
        for call in waiting:
            call()
        assert outcomes[0] == 1
        assert [type(outcome) for outcome in outcomes[1:]] == [LedgerError, LedgerError]

    asyncio.run(run())
