"""What ledgers promise a durable topic, whatever keeps them; see `equipoise.ledger.log`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from equipoise.errors import LedgerError, LimitError
from equipoise.ledger.entry import PAYLOAD_BYTES_MAX
from equipoise.ledger.log import EPOCH_KEY, FIRST_ENTRY, TOPIC_KEY, Ledgers, OpenLedger
from equipoise.ledger.memory import MemoryLedgers
from equipoise.ledger.metadata import LedgerState
from equipoise.ledger.quorum import Quorum
from support.bookies import APACHE, APACHE_MARKS, bookie_cluster, prepare_kind

QUORUM = Quorum(1, 1, 1)
TIMEOUT_S = 120

# A test gets the ledgers of the writer, and those of another process.
Test = Callable[[Ledgers, Ledgers], Awaitable[None]]


@asynccontextmanager
async def in_memory(folder: Path) -> AsyncIterator[tuple[Ledgers, Ledgers]]:
    ledgers = MemoryLedgers(asyncio.get_running_loop().call_soon)
    yield ledgers, ledgers


@asynccontextmanager
async def over_bookies(folder: Path) -> AsyncIterator[tuple[Ledgers, Ledgers]]:
    async with bookie_cluster(folder, 1) as cluster:
        yield await cluster.ledgers(1), await cluster.ledgers(2)


@asynccontextmanager
async def over_apache_bookies(folder: Path) -> AsyncIterator[tuple[Ledgers, Ledgers]]:
    async with bookie_cluster(folder, 1, kind=APACHE) as cluster:
        yield await cluster.ledgers(1), await cluster.ledgers(2)


KINDS = {"memory": in_memory, "bookies": over_bookies, APACHE: over_apache_bookies}


@pytest.fixture(params=["memory", "bookies", pytest.param(APACHE, marks=APACHE_MARKS)])
def check(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Test], None]:
    prepare_kind(request.param)

    async def run(test: Test) -> None:
        async with asyncio.timeout(TIMEOUT_S), KINDS[request.param](tmp_path) as (mine, other):
            await test(mine, other)

    return lambda test: asyncio.run(run(test))


def appended(ledger: OpenLedger, payload: bytes) -> asyncio.Future[int]:
    """The entry's number, or the error it completes with."""
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def complete(outcome: int | LedgerError) -> None:
        if isinstance(outcome, LedgerError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    ledger.append(payload, complete)
    return future


async def append_all(ledger: OpenLedger, *payloads: bytes) -> list[int]:
    return await asyncio.gather(*(appended(ledger, payload) for payload in payloads))


def test_appends_complete_in_order_with_their_numbers(check: Callable[[Test], None]) -> None:
    async def test(mine: Ledgers, other: Ledgers) -> None:
        ledger = await mine.create(b"t", 1, QUORUM)
        order: list[int | LedgerError] = []
        numbers = [ledger.append(b"%d" % i, order.append) for i in range(50)]
        assert numbers == list(range(FIRST_ENTRY, FIRST_ENTRY + 50))
        assert order == []
        last = await appended(ledger, b"last")
        assert order == numbers
        assert (last, ledger.confirmed, ledger.in_flight) == (51, 51, 0)

    check(test)


def test_what_is_acknowledged_is_read_by_another_process(check: Callable[[Test], None]) -> None:
    async def test(mine: Ledgers, other: Ledgers) -> None:
        ledger = await mine.create(b"t", 1, QUORUM)
        assert await append_all(ledger, b"a", b"", b"c") == [1, 2, 3]
        assert await other.read(ledger.ledger, 1, 3) == [b"a", b"", b"c"]
        assert await other.read(ledger.ledger, 2, 2) == [b""]

    check(test)


def test_a_read_brings_at_least_one_entry_and_stops_at_its_bound(check: Callable[[Test], None]) -> None:
    async def test(mine: Ledgers, other: Ledgers) -> None:
        ledger = await mine.create(b"t", 1, QUORUM)
        await append_all(ledger, b"a" * 100, b"b" * 100, b"c" * 100)
        assert await other.read(ledger.ledger, 1, 3, bytes_max=10) == [b"a" * 100]
        assert await other.read(ledger.ledger, 1, 3, bytes_max=250) == [b"a" * 100, b"b" * 100]

    check(test)


def test_a_closed_ledger_takes_nothing_and_recovers_to_its_end(check: Callable[[Test], None]) -> None:
    async def test(mine: Ledgers, other: Ledgers) -> None:
        ledger = await mine.create(b"t", 1, QUORUM)
        await append_all(ledger, b"a", b"b")
        assert await ledger.close() == 2
        assert await ledger.close() == 2
        with pytest.raises(LedgerError):
            ledger.append(b"c", lambda outcome: None)
        assert await other.recover(ledger.ledger) == 2
        found = await other.metadata(ledger.ledger)
        assert (found.state, found.last) == (LedgerState.CLOSED, 2)

    check(test)


def test_recovery_fences_the_writer(check: Callable[[Test], None]) -> None:
    async def test(mine: Ledgers, other: Ledgers) -> None:
        ledger = await mine.create(b"t", 1, QUORUM)
        await append_all(ledger, b"a", b"b")
        assert await other.recover(ledger.ledger) == 2
        assert await other.recover(ledger.ledger) == 2
        with pytest.raises(LedgerError):
            await appended(ledger, b"late")
        assert ledger.failed is not None
        with pytest.raises(LedgerError):
            ledger.append(b"later", lambda outcome: None)
        assert await other.read(ledger.ledger, 1, 2) == [b"a", b"b"]
        with pytest.raises(LedgerError):
            await ledger.close()

    check(test)


def test_an_empty_ledger_recovers_to_its_header(check: Callable[[Test], None]) -> None:
    async def test(mine: Ledgers, other: Ledgers) -> None:
        ledger = await mine.create(b"t", 1, QUORUM)
        assert await other.recover(ledger.ledger) == 0

    check(test)


def test_ledgers_have_ids_of_their_own_and_name_topic_and_epoch(check: Callable[[Test], None]) -> None:
    async def test(mine: Ledgers, other: Ledgers) -> None:
        first = await mine.create(b"t\xff", 7, QUORUM)
        second = await other.create(b"t\xff", 8, QUORUM)
        assert first.ledger != second.ledger
        found = dict((await other.metadata(first.ledger)).custom)
        assert found == {TOPIC_KEY: b"t\xff", EPOCH_KEY: b"7"}

    check(test)


def test_a_deleted_ledger_is_gone(check: Callable[[Test], None]) -> None:
    async def test(mine: Ledgers, other: Ledgers) -> None:
        ledger = await mine.create(b"t", 1, QUORUM)
        await append_all(ledger, b"a")
        await other.delete(ledger.ledger)
        await other.delete(ledger.ledger)
        with pytest.raises(LedgerError, match="deleted"):
            await other.recover(ledger.ledger)

    check(test)


def test_a_payload_too_long_for_a_frame_is_refused(check: Callable[[Test], None]) -> None:
    async def test(mine: Ledgers, other: Ledgers) -> None:
        ledger = await mine.create(b"t", 1, QUORUM)
        with pytest.raises(LimitError):
            ledger.append(bytes(PAYLOAD_BYTES_MAX + 1), lambda outcome: None)
        assert await append_all(ledger, b"a") == [1]

    check(test)
