"""Ledgers over bookies in processes of their own: kill -9, emptied disks, replaced members, deleted ledgers."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest

from equipoise.errors import LedgerError
from equipoise.ledger.log import FIRST_ENTRY, OpenLedger
from equipoise.ledger.metadata import LedgerState
from equipoise.ledger.quorum import Quorum
from equipoise.ledger.wire import Code
from equipoise.ledger_client.ledgers import BookieLedgers
from equipoise.ledger_client.repair import Repair, ledgers_on
from equipoise.store import Tree
from equipoise.store.records.bookies import BookiesStore
from support.bookies import APACHE, BOTH_KINDS, OWN, BookieCluster, bookie_cluster, prepare_kind
from support.polling import until, until_worked
from support.processes import process_environment

THREE = Quorum(3, 3, 2)
# Below the test's own, which ends what stands still.
TIMEOUT_S = {OWN: 170, APACHE: 390}
# CPU time of a bookie that collects every second: a round takes less than a tenth of a second, reads are a few.
COLLECTED_CPU_S = 30.0
COLLECTED_EVERY_S = 0.1
# Longer than any busy machine needs; only a failing test waits so long.
PATIENCE_S = 60.0


def run(
    folder: Path,
    count: int,
    test: Callable[[BookieCluster], Awaitable[None]],
    *options: str,
    kind: str = OWN,
) -> None:
    prepare_kind(kind)

    async def main() -> None:
        async with (
            asyncio.timeout(TIMEOUT_S[kind]),
            bookie_cluster(folder, count, *options, kind=kind) as cluster,
        ):
            await test(cluster)

    asyncio.run(main())


class Publisher:
    """Appends numbered payloads and keeps what was acknowledged."""

    def __init__(self, ledger: OpenLedger) -> None:
        self.ledger = ledger
        self.acknowledged: dict[int, bytes] = {}
        self.failed: list[LedgerError] = []
        self._next = 0

    def send(self, count: int) -> None:
        for _ in range(count):
            payload = b"%08d" % self._next
            self._next += 1

            def complete(outcome: int | LedgerError, payload: bytes = payload) -> None:
                if isinstance(outcome, LedgerError):
                    self.failed.append(outcome)
                else:
                    self.acknowledged[outcome] = payload

            self.ledger.append(payload, complete)

    async def acked(self, count: int) -> None:
        await until(lambda: len(self.acknowledged) >= count)


async def check_kept(ledgers: BookieLedgers, publisher: Publisher, last: int) -> None:
    """Everything acknowledged is read back, in order, and nothing lies between."""
    entries: list[bytes] = []
    while len(entries) < last:
        entries += await ledgers.read(publisher.ledger.ledger, FIRST_ENTRY + len(entries), last)
    assert max(publisher.acknowledged, default=0) <= last
    assert entries == [b"%08d" % number for number in range(last)]
    assert all(entries[number - FIRST_ENTRY] == payload for number, payload in publisher.acknowledged.items())


@pytest.mark.parametrize("kind", BOTH_KINDS)
def test_appends_go_on_while_one_of_three_bookies_is_killed_and_comes_back(kind: str, tmp_path: Path) -> None:
    async def test(cluster: BookieCluster) -> None:
        ledgers = await cluster.ledgers()
        publisher = Publisher(await ledgers.create(b"t", 1, THREE))
        publisher.send(100)
        await publisher.acked(100)
        await cluster.bookies["b2"].kill()
        publisher.send(100)
        await publisher.acked(200)
        await cluster.bookies["b2"].start()
        publisher.send(100)
        await publisher.acked(300)
        assert publisher.failed == []
        assert await publisher.ledger.close() == 300
        await check_kept(await cluster.ledgers(2), publisher, 300)

    run(tmp_path, 3, test, kind=kind)


@pytest.mark.parametrize("kind", BOTH_KINDS)
def test_everything_acknowledged_survives_kill_9_of_all_bookies(kind: str, tmp_path: Path) -> None:
    async def test(cluster: BookieCluster) -> None:
        publisher = Publisher(await (await cluster.ledgers()).create(b"t", 1, THREE))
        for _ in range(20):
            publisher.send(50)
            await asyncio.sleep(0)
        await publisher.acked(100)
        await asyncio.gather(*(bookie.kill() for bookie in cluster.bookies.values()))
        await asyncio.gather(*(bookie.start() for bookie in cluster.bookies.values()))
        other = await cluster.ledgers(2)
        last = await other.recover(publisher.ledger.ledger)
        await check_kept(other, publisher, last)
        assert await (await cluster.ledgers(3)).recover(publisher.ledger.ledger) == last

    run(tmp_path, 3, test, kind=kind)


@pytest.mark.parametrize("kind", BOTH_KINDS)
def test_two_recoveries_under_load_agree_and_the_writer_acknowledges_nothing_behind_them(
    kind: str,
    tmp_path: Path,
) -> None:
    async def test(cluster: BookieCluster) -> None:
        publisher = Publisher(await (await cluster.ledgers()).create(b"t", 1, THREE))
        publisher.send(300)
        await publisher.acked(10)
        one, other = await cluster.ledgers(2), await cluster.ledgers(3)
        publisher.send(300)
        first, second = await asyncio.gather(
            one.recover(publisher.ledger.ledger), other.recover(publisher.ledger.ledger)
        )
        assert first == second
        await until(lambda: publisher.ledger.failed is not None or publisher.ledger.in_flight == 0)
        await check_kept(other, publisher, first)

    run(tmp_path, 3, test, kind=kind)


@pytest.mark.parametrize("kind", BOTH_KINDS)
def test_a_killed_member_is_replaced_and_its_ledgers_are_copied_elsewhere(kind: str, tmp_path: Path) -> None:
    async def test(cluster: BookieCluster) -> None:
        ledgers = await cluster.ledgers()
        publisher = Publisher(await ledgers.create(b"t", 1, THREE))
        publisher.send(50)
        await publisher.acked(50)
        members = (await ledgers.metadata(publisher.ledger.ledger)).current.members
        lost = members[1]
        await cluster.bookies[lost].kill()
        publisher.send(50)
        await publisher.acked(100)
        await until(lambda: lost not in publisher.ledger.current_metadata.current.members)  # type: ignore[attr-defined]
        await publisher.ledger.close()
        found = await ledgers.metadata(publisher.ledger.ledger)
        assert found.state is LedgerState.CLOSED and len(found.segments) == 2
        repair = Repair(ledgers.pool, ledgers.records, Random(1))
        on_it = [metadata.ledger async for metadata in ledgers_on(ledgers.records, lost)]
        assert on_it == [publisher.ledger.ledger]
        outcome = await repair.move(publisher.ledger.ledger, lost)
        assert (outcome.left, outcome.entries_copied >= 34) == ("", True)
        assert [metadata async for metadata in ledgers_on(ledgers.records, lost)] == []
        # What was copied is enough: one more of the old members goes.
        await cluster.bookies[members[0]].kill()
        await check_kept(await cluster.ledgers(2), publisher, 100)

    run(tmp_path, 4, test, kind=kind)


def test_an_emptied_or_foreign_directory_is_refused(tmp_path: Path) -> None:
    async def test(cluster: BookieCluster) -> None:
        publisher = Publisher(await (await cluster.ledgers()).create(b"t", 1, Quorum(1, 1, 1)))
        publisher.send(5)
        await publisher.acked(5)
        bookie = cluster.bookies["b1"]
        await bookie.kill()
        shutil.move(bookie.directory, cluster.folder / "elsewhere")
        with pytest.raises(AssertionError, match="its directory is empty"):
            await bookie.start()
        shutil.rmtree(bookie.directory)
        shutil.move(cluster.folder / "elsewhere", cluster.folder / "b2")
        with pytest.raises(AssertionError, match="belongs to bookie b1"):
            await cluster.add("b2")
        shutil.move(cluster.folder / "b2", bookie.directory)
        await bookie.start()
        other = await cluster.ledgers(2)
        await check_kept(other, publisher, await other.recover(publisher.ledger.ledger))

    run(tmp_path, 1, test)


@pytest.mark.parametrize("kind", BOTH_KINDS)
def test_a_deleted_ledger_is_collected_while_others_are_kept(kind: str, tmp_path: Path) -> None:
    async def test(cluster: BookieCluster) -> None:
        ledgers = await cluster.ledgers()
        kept = Publisher(await ledgers.create(b"kept", 1, Quorum(1, 1, 1)))
        gone = Publisher(await ledgers.create(b"gone", 1, Quorum(1, 1, 1)))
        kept.send(20)
        gone.send(20)
        await kept.acked(20)
        await gone.acked(20)
        await ledgers.delete(gone.ledger.ledger)

        async def is_collected() -> bool:
            link = await ledgers.pool.link("b1")
            return (await link.read(gone.ledger.ledger, 0)).code is Code.NO_LEDGER

        bookie = cluster.bookies["b1"]
        await until_worked(is_collected, bookie.cpu_s, COLLECTED_CPU_S, interval_s=COLLECTED_EVERY_S)
        await check_kept(await cluster.ledgers(2), kept, 20)

    run(tmp_path, 1, test, "--collect-every", "1", kind=kind)


def test_a_deleted_ledger_gives_its_room_back_and_stays_fenced(tmp_path: Path) -> None:
    async def test(cluster: BookieCluster) -> None:
        ledgers = await cluster.ledgers()
        kept = Publisher(await ledgers.create(b"kept", 1, Quorum(1, 1, 1)))
        gone = await ledgers.create(b"gone", 1, Quorum(1, 1, 1))
        kept.send(100)
        for _ in range(12):
            gone.append(bytes(1_000_000), lambda outcome: None)
        await until(lambda: gone.in_flight == 0)
        folder = cluster.bookies["b1"].directory
        names = {path.name for path in folder.glob("segment-*")}
        assert len(names) >= 2
        await ledgers.delete(gone.ledger)
        await until(lambda: "segment-0000000001" not in {path.name for path in folder.glob("segment-*")})
        await kept.acked(100)
        await check_kept(await cluster.ledgers(2), kept, 100)
        refused: list[int | LedgerError] = []
        gone.append(b"late", refused.append)
        await until(lambda: bool(refused))
        assert isinstance(refused[0], LedgerError)

    run(tmp_path, 1, test, "--segment-mb", "8", "--collect-every", "0.3")


def test_a_drained_bookie_takes_no_entries_and_is_left(tmp_path: Path) -> None:
    async def test(cluster: BookieCluster) -> None:
        ledgers = await cluster.ledgers()
        bookies = BookiesStore(await cluster.store(), Tree())
        await bookies.set_draining("b1", is_draining=True)
        await until(lambda: ledgers.pool.known["b1"].is_read_only)
        publisher = Publisher(await ledgers.create(b"t", 1, Quorum(1, 1, 1)))
        assert (await ledgers.metadata(publisher.ledger.ledger)).current.members == ("b2",)
        with pytest.raises(LedgerError, match="needs 2 writable bookies"):
            await ledgers.create(b"t", 1, Quorum(2, 2, 1))

    run(tmp_path, 2, test)


def test_the_commands_list_drain_and_forget_a_lost_bookie(tmp_path: Path) -> None:
    async def command(cluster: BookieCluster, *words: str) -> tuple[int, str]:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "equipoise.cli.main",
            "bookies",
            *words,
            "--store",
            cluster.url,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=process_environment(),
        )
        output, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, output.decode()

    async def test(cluster: BookieCluster) -> None:
        ledgers = await cluster.ledgers()
        publisher = Publisher(await ledgers.create(b"news", 1, Quorum(2, 2, 1)))
        publisher.send(20)
        await publisher.acked(20)
        await publisher.ledger.close()
        lost, kept = (await ledgers.metadata(publisher.ledger.ledger)).current.members
        status, output = await command(cluster, "show", lost)
        assert status == 0 and "news" in output and str(publisher.ledger.ledger) in output
        await cluster.bookies[lost].end()
        await until(lambda: lost not in ledgers.pool.known)
        status, output = await command(cluster, "ls")
        assert status == 0 and "lost" in output and "writable" in output
        status, output = await command(cluster, "forget", lost)
        assert status == 1 and "drain" in output
        status, output = await command(cluster, "drain", lost)
        assert (status, "1 ledgers moved" in output) == (0, True), output
        status, output = await command(cluster, "forget", lost)
        assert status == 0, output
        await cluster.bookies[kept].kill()
        await check_kept(await cluster.ledgers(2), publisher, 20)

    run(tmp_path, 3, test)
