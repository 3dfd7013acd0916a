"""Apache BookKeeper in the place of our bookie: one short trial, its own shell on our ledgers, and what is refused."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from equipoise.bookie.apache import java_command
from equipoise.errors import LedgerError
from equipoise.ledger.log import OpenLedger
from equipoise.ledger.quorum import Quorum
from equipoise.store import Tree
from support.bookies import (
    APACHE,
    APACHE_MARKS,
    BOTH_KINDS,
    JARS,
    BookieCluster,
    bookie_cluster,
    prepare_kind,
    require_jars,
    zookeeper_root,
)
from support.processes import process_environment
from support.zookeeper import shared_zookeeper

TIMEOUT_S = 300
ONE = Quorum(1, 1, 1)


def run(
    folder: Path, kind: str, count: int, test: Callable[[BookieCluster], Awaitable[None]], url: str = ""
) -> None:
    async def main() -> None:
        async with (
            asyncio.timeout(TIMEOUT_S),
            bookie_cluster(folder, count, kind=kind, url=url) as cluster,
        ):
            await test(cluster)

    asyncio.run(main())


async def append(ledger: OpenLedger, payload: bytes) -> int:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def complete(outcome: int | LedgerError) -> None:
        if isinstance(outcome, LedgerError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    ledger.append(payload, complete)
    return await future


async def output_of(*command: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=process_environment()
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode(errors="replace")


@pytest.mark.needs_bookkeeper
def test_a_ledger_on_an_apache_bookie_outlives_kill_9_and_its_writer_is_fenced(tmp_path: Path) -> None:
    require_jars()
    shared_zookeeper()

    async def test(cluster: BookieCluster) -> None:
        ledger = await (await cluster.ledgers()).create(b"t", 1, ONE)
        payloads = [b"%d" % number for number in range(100)]
        assert await asyncio.gather(*(append(ledger, payload) for payload in payloads)) == [*range(1, 101)]
        await cluster.bookies["b1"].kill()
        await cluster.bookies["b1"].start()
        other = await cluster.ledgers(2)
        assert await other.recover(ledger.ledger) == 100
        assert await other.read(ledger.ledger, 1, 100) == payloads
        with pytest.raises(LedgerError):
            await append(ledger, b"late")

    run(tmp_path, APACHE, 1, test)


@pytest.mark.parametrize("kind", BOTH_KINDS)
@pytest.mark.needs_bookkeeper
def test_bookkeepers_own_shell_reads_metadata_and_entries_of_our_ledgers(kind: str, tmp_path: Path) -> None:
    """Our own bookies speak version 2 of the protocol alone, so the shell is told to."""
    prepare_kind(APACHE)
    url = zookeeper_root()
    config = tmp_path / "shell.conf"
    hosts, _, root = url.removeprefix("zk://").partition("/")
    config.write_text(
        f"metadataServiceUri=zk+hierarchical://{hosts}/{root}{Tree().ledgers}\n"
        "useV2WireProtocol=true\nallowLoopback=true\n"
    )

    async def shell(*words: str) -> str:
        command = java_command(JARS, "org.apache.bookkeeper.bookie.BookieShell", "-conf", str(config), *words)
        status, output = await output_of(*command)
        assert status == 0, output
        return output

    async def test(cluster: BookieCluster) -> None:
        ledger = await (await cluster.ledgers()).create(b"news", 7, ONE)
        for word in (b"sphinx of", b"black quartz"):
            await append(ledger, word)
        await ledger.close()
        number = str(ledger.ledger)
        metadata = await shell("ledgermetadata", "-ledgerid", number)
        for part in ("ensembleSize=1", "state=CLOSED", "lastEntryId=2", "digestType=CRC32", "b1"):
            assert part in metadata, metadata
        entries = await shell("readledger", "-ledgerid", number, "-msg")
        assert "sphinx of" in entries and "black quartz" in entries, entries
        listed = await shell("listledgers")
        assert number in listed, listed

    run(tmp_path, kind, 1, test, url)


@pytest.mark.parametrize("kind", [pytest.param(APACHE, marks=APACHE_MARKS)])
def test_a_region_holds_bookies_of_one_kind_and_an_emptied_one_is_refused(kind: str, tmp_path: Path) -> None:
    prepare_kind(kind)

    async def test(cluster: BookieCluster) -> None:
        own = [sys.executable, "-m", "equipoise.cli.main", "bookie", "--store", cluster.url]
        status, output = await output_of(*own, "--dir", str(tmp_path / "own"), "--name", "own", "--port", "0")
        assert status == 2 and "one of Apache BookKeeper's" in output, output
        bookie = cluster.bookies["b1"]
        await bookie.kill()
        bookie.directory.rename(tmp_path / "elsewhere")
        with pytest.raises(AssertionError, match="Cookie"):
            await bookie.start()

    run(tmp_path, kind, 1, test)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--jars", "nowhere", "--store", "zk://127.0.0.1:1"], "make bookkeeper"),
        (["--store", "eqs://127.0.0.1:1"], "needs a ZooKeeper"),
        (["--store", "zk://127.0.0.1:1", "--rack", "r1"], "without site and rack"),
    ],
)
def test_what_an_apache_bookie_cannot_be_started_with_is_said(
    words: list[str], said: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "equipoise.cli.main", "bookie", "--apache", "--dir", str(tmp_path / "b")]
    done = subprocess.run(
        [*command, *words], capture_output=True, text=True, check=False, env=process_environment(), timeout=60
    )
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
