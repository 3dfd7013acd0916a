"""`equipoise plan`: show the plan, differences between versions, and its history with reasons."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from equipoise.cli.support.store_options import AsJson, ClusterRecords, Region, StoreUrl, run
from equipoise.cli.support.tables import name_of, show_json, show_table
from equipoise.limits import PARTS
from equipoise.model import (
    WEIGHT_NORMAL,
    Entry,
    EntryChange,
    MemberChange,
    Placement,
    Plan,
    PlanChange,
    Reason,
    Why,
    diff,
)
from equipoise.store.records.plans import Committed

app = typer.Typer(help="Show the plan, its history and the reasons of its changes.", no_args_is_help=True)

Limit = Annotated[int, typer.Option(min=1, help="Maximum number of rows.")]
Version = Annotated[int, typer.Argument(min=0, help="Plan version; 0 is the empty plan.")]


@app.command()
def show(
    *,
    store: StoreUrl = "",
    region: Region = "default",
    version: Annotated[
        int | None, typer.Option(help="Show an earlier version, if the history still has it.")
    ] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """Show members and entries. The hash ring over the members places topics without an entry."""

    async def main(metadata: ClusterRecords) -> None:
        plan = await (metadata.plans.load() if version is None else metadata.plans.at(version))
        if as_json:
            show_json(plan_facts(plan))
            return
        typer.echo(f"version {plan.version}, access rules {plan.access_version}\n")
        show_table(
            ("MEMBER", "WEIGHT", "SITE"),
            [(member.hub, member.weight / WEIGHT_NORMAL, member.site or None) for member in plan.members],
        )
        entries = sorted(plan.entries.values(), key=lambda entry: entry.topic)
        if entries:
            typer.echo()
            show_table(
                ("TOPIC", "MODE", "HOMES"),
                [(name_of(e.topic), _mode_words(e), " ".join(e.homes)) for e in entries[:limit]],
            )
        if len(entries) > limit:
            typer.echo(f"and {len(entries) - limit:,} more entries: use --limit, or --json for all")

    run(store, region, main, is_quiet=as_json)


@app.command("diff")
def show_diff(
    old: Version, new: Version, *, store: StoreUrl = "", region: Region = "default", as_json: AsJson = False
) -> None:
    """Show the differences between two versions."""

    async def main(metadata: ClusterRecords) -> None:
        before = await metadata.plans.at(old)
        change = diff(before, await metadata.plans.at(new))
        if as_json:
            show_json(change_facts(change, with_why=False))
            return
        lines = list(change_lines(change, before))
        for line in lines:
            typer.echo(line)
        if not lines:
            typer.echo(f"versions {old} and {new} are equal")

    run(store, region, main, is_quiet=as_json)


@app.command()
def history(
    *, store: StoreUrl = "", region: Region = "default", limit: Limit = 20, as_json: AsJson = False
) -> None:
    """Show the latest changes first: time, author, change and reason."""

    async def main(metadata: ClusterRecords) -> None:
        found = await metadata.plans.history(limit)
        if as_json:
            show_json([committed_facts(committed) for committed in found])
            return
        show_table(
            ("VERSION", "WHEN (UTC)", "BY", "WHAT", "WHY"),
            [
                (c.change.version, _when(c), c.writer or None, summary(c.change), _whys(c.change))
                for c in found
            ],
        )

    run(store, region, main, is_quiet=as_json)


def summary(change: PlanChange) -> str:
    """One line about a change."""
    parts: list[str] = []
    for member in change.members[:3]:
        parts.append(_member_words(member))
    if len(change.members) > 3:
        parts.append(f"{len(change.members) - 3} more members")
    if len(change.entries) == 1:
        parts.append(_entry_words(change.entries[0]))
    elif change.entries:
        parts.append(f"{len(change.entries)} entries")
    if change.access_version is not None:
        parts.append(f"access rules {change.access_version}")
    if change.specs_version is not None:
        parts.append(f"specs {change.specs_version}")
    return ", ".join(parts) or "nothing"


def change_lines(change: PlanChange, before: Plan) -> Iterable[str]:
    """One line per changed member or entry, starting with `+`, `-` or `~`."""
    for member in change.members:
        known = before.by_hub.get(member.hub)
        sign = "-" if member.member is None else "+" if known is None else "~"
        was = f" (was {known.weight / WEIGHT_NORMAL:g})" if sign == "~" and known is not None else ""
        yield f"{sign} {_member_words(member)}{was}"
    for entry in change.entries:
        old = before.entries.get(entry.topic)
        sign = "-" if entry.entry is None else "+" if old is None else "~"
        was = f" (was {_place(old)})" if old is not None and sign == "~" else ""
        yield f"{sign} {_entry_words(entry)}{was}"
    if change.access_version is not None:
        yield f"~ access rules {change.access_version} (were {before.access_version})"
    if change.specs_version is not None:
        yield f"~ specs {change.specs_version} (were {before.specs_version})"


def plan_facts(plan: Plan) -> dict[str, Any]:
    return {
        "version": plan.version,
        "access_version": plan.access_version,
        "specs_version": plan.specs_version,
        "members": [
            {"hub": member.hub, "weight": member.weight / WEIGHT_NORMAL, "site": member.site}
            for member in plan.members
        ],
        "entries": [entry_facts(plan.entries[topic]) for topic in sorted(plan.entries)],
    }


def entry_facts(entry: Entry) -> dict[str, Any]:
    return {
        "topic": name_of(entry.topic),
        "mode": entry.mode.value,
        "homes": list(entry.homes),
        "is_pinned": entry.is_pinned,
        "tree": entry.followed,
        "shares": _ratios(entry.shares),
        "bursts": _ratios(entry.depths),
        "seats": _ratios(entry.seats),
        "order": entry.order,
    }


def _ratios(parts: tuple[int, ...]) -> list[float]:
    """Of a split, in the order of the homes; empty: as the parts before, shares in equal parts."""
    return [part / PARTS for part in parts]


def placement_words(placement: Placement, entry: Entry | None) -> str:
    """The homes of a topic, their origin, and the tree."""
    by_entry = "placed by a plan entry" + (", pinned" if entry is not None and entry.is_pinned else "")
    placed_by = "placed by the hash ring" if entry is None else by_entry
    homes = " ".join(placement.homes) or "none"
    follows = "".join(f", {home} follows {parent}" for home, parent in placement.followed.items())
    return f"home {homes} ({placement.mode.value}), {placed_by}{follows}"


def change_facts(change: PlanChange, *, with_why: bool = True) -> dict[str, Any]:
    def why(part: EntryChange | MemberChange) -> dict[str, Any]:
        return {"why": _why_facts(part.why)} if with_why else {}

    return {
        "version": change.version,
        "members": [
            {
                "hub": part.hub,
                "weight": None if part.member is None else part.member.weight / WEIGHT_NORMAL,
                **why(part),
            }
            for part in change.members
        ],
        "entries": [
            {
                "topic": name_of(part.topic),
                "entry": None if part.entry is None else entry_facts(part.entry),
                **why(part),
            }
            for part in change.entries
        ],
        "access_version": change.access_version,
        "specs_version": change.specs_version,
    }


def committed_facts(committed: Committed) -> dict[str, Any]:
    when = datetime.fromtimestamp(committed.at_s, UTC).isoformat(timespec="milliseconds")
    return {"at": when, "by": committed.writer, **change_facts(committed.change)}


def _when(committed: Committed) -> str:
    return datetime.fromtimestamp(committed.at_s, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _whys(change: PlanChange) -> str:
    whys = [*(part.why for part in change.members), *(part.why for part in change.entries)]
    # Versions of access rules and specs change without a reason of their own: an operator has changed what they count.
    return "; ".join(dict.fromkeys(_why_words(why) for why in whys)) or Reason.OPERATOR.value


def _why_words(why: Why) -> str:
    numbers = " ".join(f"{name}={value:g}" for name, value in why.numbers.items())
    return " ".join(filter(None, (why.reason.value, numbers, f"({why.note})" if why.note else "")))


def _why_facts(why: Why) -> dict[str, Any]:
    return {"reason": why.reason.value, "numbers": why.numbers, "note": why.note}


def _member_words(part: MemberChange) -> str:
    if part.member is None:
        return f"member {part.hub} removed"
    return f"member {part.hub} weight {part.member.weight / WEIGHT_NORMAL:g}"


def _entry_words(part: EntryChange) -> str:
    return f"{name_of(part.topic)} to {'the ring' if part.entry is None else _place(part.entry)}"


def _place(entry: Entry | None) -> str:
    if entry is None:
        return "the ring"
    words = entry.homes[0]
    if len(entry.homes) > 1:
        words = f"{' '.join(entry.homes)} ({_mode_words(entry)})"
    return f"{words}, pinned" if entry.is_pinned else words


def _mode_words(entry: Entry) -> str:
    """The mode, and how a rate limit and the publishers are split among the homes, as far as the entry says it."""
    words = [entry.mode.value]
    for name, parts in (("shares", entry.shares), ("bursts", entry.depths), ("seats", entry.seats)):
        if parts:
            words.append(f"{name} {' '.join(f'{100 * part / PARTS:.3g}' for part in parts)} %")
    if entry.order:
        words.append(f"order {entry.order}")
    return ", ".join(words)
