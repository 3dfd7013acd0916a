"""`equipoise bookies`: list bookies, show one, drain them, and forget those that are lost."""

from __future__ import annotations

from collections.abc import Mapping
from random import SystemRandom
from typing import Annotated, Any

import typer

from equipoise.cli.support.bookie_access import ClusterPasswordFile, ClusterUser, TlsCa, read_access
from equipoise.cli.support.store_options import AsJson, ClusterRecords, Region, StoreUrl, run
from equipoise.cli.support.tables import show_json, show_result, show_rows
from equipoise.errors import MisuseError, WorldError
from equipoise.ledger.registration import BookieFacts
from equipoise.ledger_client.bookie_pool import BookieAccess
from equipoise.ledger_client.ledgers import BookieLedgers
from equipoise.ledger_client.repair import Repair, RepairOutcome, ledgers_on
from equipoise.store.records.bookies import BookiesStore
from equipoise.store.tree import Tree

app = typer.Typer(
    help="List bookies, show one, drain them, and forget those that are lost.", no_args_is_help=True
)

Name = Annotated[str, typer.Argument(metavar="BOOKIE", help="Name of the bookie.")]


@app.command("ls")
def list_bookies(*, store: StoreUrl = "", region: Region = "default", as_json: AsJson = False) -> None:
    """List bookies with state, address, site, rack, free space and sync time."""

    async def main(metadata: ClusterRecords) -> None:
        rows = await bookie_rows(BookiesStore(metadata.store, Tree(region)))
        if as_json:
            show_json(rows)
            return
        headers = ("BOOKIE", "STATE", "ADDRESS", "SITE", "RACK", "USED", "FREE", "SYNC P99")
        show_rows(headers, [bookie_words(row) for row in rows])

    run(store, region, main, is_quiet=as_json)


@app.command()
def show(name: Name, *, store: StoreUrl = "", region: Region = "default", as_json: AsJson = False) -> None:
    """Show a bookie and the ledgers that it stores entries of."""

    async def main(metadata: ClusterRecords) -> None:
        tree = Tree(region)
        rows = {str(row["bookie"]): row for row in await bookie_rows(BookiesStore(metadata.store, tree))}
        if name not in rows:
            raise MisuseError(f"there is no bookie {name!r}: see `equipoise bookies ls`")
        ledgers = BookieLedgers(metadata.store, tree, SystemRandom()).records
        held = [
            {
                "ledger": each.ledger,
                "state": each.state.name.lower(),
                "quorum": str(each.quorum),
                "topic": dict(each.custom).get("topic", b"").decode(errors="replace"),
                "last": each.last,
            }
            async for each in ledgers_on(ledgers, name)
        ]
        if as_json:
            show_json({**rows[name], "ledgers": held})
            return
        for key, value in bookie_words(rows[name]).items():
            typer.echo(f"{key:<10}{'-' if value is None else value}")
        headers = ("LEDGER", "STATE", "QUORUM", "TOPIC", "LAST")
        show_rows(headers, held)

    run(store, region, main, is_quiet=as_json)


@app.command()
def drain(
    name: Name,
    *,
    store: StoreUrl = "",
    region: Region = "default",
    undo: Annotated[bool, typer.Option("--undo", help="Put the bookie back into service.")] = False,
    cluster_user: ClusterUser = "",
    cluster_password_file: ClusterPasswordFile = "",
    link_tls_ca: TlsCa = "",
    as_json: AsJson = False,
) -> None:
    """Stop new entries on a bookie and copy its ledgers to other bookies; also for a lost bookie.

    Run it again until nothing is left: open ledgers go with their next entries. Then stop the bookie and
    `equipoise bookies forget` it.
    """

    async def main(metadata: ClusterRecords) -> None:
        tree = Tree(region)
        bookies = BookiesStore(metadata.store, tree)
        known = await bookies.load()
        if name not in await bookies.cookies() and name not in known:
            raise MisuseError(f"there is no bookie {name!r}: see `equipoise bookies ls`")
        cookie = await bookies.cookie(name)
        if cookie is not None and not cookie.is_ours and name in known:
            raise MisuseError(
                f"bookie {name} is one of Apache BookKeeper's and takes entries as long as it runs: stop it first, or "
                "use `bookkeeper shell decommissionbookie`"
            )
        await bookies.set_draining(name, is_draining=not undo)
        if undo:
            show_result({"bookie": name}, f"bookie {name} accepts entries again", as_json=as_json)
            return
        access = read_access(cluster_user, cluster_password_file, link_tls_ca)
        outcomes = await _move_all(metadata, tree, name, access)
        left = {each.ledger: each.left for each in outcomes if each.left}
        copied = sum(each.entries_copied for each in outcomes)
        words = f"bookie {name}: {len(outcomes) - len(left)} ledgers moved, {copied} entries copied"
        for ledger, reason in left.items():
            words += f"\nledger {ledger} was not moved: {reason}"
        facts = {"bookie": name, "moved": len(outcomes) - len(left), "copied": copied, "left": left}
        show_result(facts, words, as_json=as_json)
        if left:
            raise typer.Exit(1)

    run(store, region, main, is_quiet=as_json)


async def _move_all(
    metadata: ClusterRecords, tree: Tree, name: str, access: BookieAccess | None
) -> list[RepairOutcome]:
    ledgers = BookieLedgers(metadata.store, tree, SystemRandom(), access=access)
    await ledgers.start()
    try:
        repair = Repair(ledgers.pool, ledgers.records, SystemRandom())
        found = [each.ledger async for each in ledgers_on(ledgers.records, name)]
        return [await repair.move(ledger, name) for ledger in found]
    finally:
        await ledgers.close()


@app.command()
def forget(
    name: Name,
    *,
    store: StoreUrl = "",
    region: Region = "default",
    force: Annotated[
        bool, typer.Option("--force", help="Also if ledgers need it: entries that only it stored are lost.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remove a bookie that has stopped from the cluster. Then a bookie with an empty directory may use its name."""

    async def main(metadata: ClusterRecords) -> None:
        tree = Tree(region)
        bookies = BookiesStore(metadata.store, tree)
        if name in await bookies.load():
            raise WorldError(f"bookie {name} runs: stop it first")
        if name not in await bookies.cookies():
            raise MisuseError(f"there is no bookie {name!r}: see `equipoise bookies ls`")
        ledgers = BookieLedgers(metadata.store, tree, SystemRandom()).records
        held = [each.ledger async for each in ledgers_on(ledgers, name)]
        if held and not force:
            raise WorldError(
                f"{len(held)} ledgers need bookie {name}: `equipoise bookies drain {name}` copies them to others"
            )
        await bookies.forget(name)
        show_result({"bookie": name, "ledgers": len(held)}, f"bookie {name} is forgotten", as_json=as_json)

    run(store, region, main, is_quiet=as_json)


async def bookie_rows(bookies: BookiesStore) -> list[dict[str, Any]]:
    """One row for each bookie that is registered or was part of the cluster."""
    known = await bookies.load()
    names = sorted({*known, *await bookies.cookies()})
    return [_row(name, known.get(name), is_draining=await bookies.is_draining(name)) for name in names]


def _row(name: str, facts: BookieFacts | None, *, is_draining: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"bookie": name, "state": "lost, draining" if is_draining else "lost"}
    row |= dict.fromkeys(("address", "site", "rack", "used", "free_bytes", "sync_s_p99"))
    if facts is None:
        return row
    row["state"] = "draining" if is_draining else "read-only" if facts.is_read_only else "writable"
    row |= {"address": f"{facts.host}:{facts.port}", "site": facts.site or None, "rack": facts.rack or None}
    if facts.total_bytes:
        row |= {"used": 1 - facts.free_bytes / facts.total_bytes, "free_bytes": facts.free_bytes}
    if facts.sync_us_p99:
        row["sync_s_p99"] = facts.sync_us_p99 / 1e6
    return row


def bookie_words(row: Mapping[str, Any]) -> dict[str, object]:
    """A row as people read it."""
    used, free_bytes, sync_s = row["used"], row["free_bytes"], row["sync_s_p99"]
    words = {key: row[key] for key in ("bookie", "state", "address", "site", "rack")}
    return words | {
        "used": None if used is None else f"{100 * used:.0f} %",
        "free": None if free_bytes is None else f"{free_bytes / 2**30:.1f} GiB",
        "sync p99": None if sync_s is None else f"{1e3 * sync_s:.1f} ms",
    }
