"""`equipoise topics`: list topics, show one, and set specs (limits) for the topics that match a pattern."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from equipoise.cli.plan import placement_words
from equipoise.cli.support.completion import hub_names, topic_names
from equipoise.cli.support.filter_lists import list_filters
from equipoise.cli.support.hub_connection import CommandConnection, PasswordFile, User, ask_all, read_login
from equipoise.cli.support.latency_status import PagesCa, TokenFile, latency_words, topic_latency
from equipoise.cli.support.log_files import export_log, import_log
from equipoise.cli.support.store_options import AsJson, ClusterRecords, Region, StoreUrl, run
from equipoise.cli.support.tables import name_of, show_json, show_result, show_rows, show_table
from equipoise.cli.support.topic_status import EDGE_HEADERS, edge_facts, edge_row, limit_facts, limit_row
from equipoise.cli.support.topic_words import (
    log_facts,
    log_words,
    parse_attributes,
    parse_durability,
    spec_facts,
    spec_words,
)
from equipoise.cli.support.units import parse_burst, parse_milliseconds, parse_rate, parse_retention
from equipoise.control import operations
from equipoise.errors import BehindError, EquipoiseError, RefusedError, SettingsError
from equipoise.ledger.registration import BookieFacts
from equipoise.model import Mode, TopicSpec
from equipoise.store.records.hubs import HubSeen

app = typer.Typer(
    help="List topics, show one topic, and set specs: limits for the topics that match a pattern.",
    no_args_is_help=True,
)
app.command("export")(export_log)
app.command("import")(import_log)
app.command("filters")(list_filters)

Pattern = Annotated[
    str, typer.Argument(metavar="PATTERN", help="Topic name or glob pattern, such as 'game.*'.")
]

Timeout = Annotated[
    float, typer.Option(min=0, help="Seconds to wait until every live hub has the change.", metavar="SECONDS")
]

_PAGE = b"1000"
# A topic may be removed between two pages, which makes a cursor invalid; five times in a row has another cause.
_LISTINGS_MAX = 5


@app.command("ls")
def list_topics(
    *,
    store: StoreUrl = "",
    region: Region = "default",
    match: Annotated[str, typer.Option(help="Only topics that match this pattern.")] = "",
    hub: Annotated[
        str, typer.Option(help="Only topics whose home is this hub.", autocompletion=hub_names)
    ] = "",
    limit: Annotated[
        int, typer.Option(min=1, help="Maximum number of rows; the topics with most subscribers first.")
    ] = 50,
    as_json: AsJson = False,
    user: User = "",
    password_file: PasswordFile = "",
) -> None:
    """List the topics in use on all hubs: home, mode, subscribers, messages published and delivered."""

    async def main(metadata: ClusterRecords) -> None:
        login = read_login(user, password_file)
        plan, living = await metadata.plans.load(), await metadata.living()
        if hub and hub not in living:
            raise SettingsError(f"hub {hub} is not alive: `equipoise hubs ls` lists them")
        answers = await ask_all(living, login, lambda connection: _listed(connection, match.encode()))
        rows = [row for row in _summed(_successes(answers)).values() if not hub or row["home"] == hub]
        for row in rows:
            entry = plan.entries.get(row.pop("name"))
            row["mode"] = "single" if entry is None else entry.mode.value
        rows.sort(key=lambda row: (-row["subscribers"], -row["published"], row["topic"]))
        if as_json:
            show_json(rows)
            return
        show_rows(("TOPIC", "HOME", "MODE", "SUBSCRIBERS", "PUBLISHED", "DELIVERED"), rows[:limit])
        if len(rows) > limit:
            typer.echo(f"and {len(rows) - limit:,} more: use --limit, --match or --json")

    run(store, region, main, is_quiet=as_json)


@app.command()
def show(
    topic: Annotated[str, typer.Argument(help="Topic name.", autocompletion=topic_names)],
    *,
    store: StoreUrl = "",
    region: Region = "default",
    as_json: AsJson = False,
    user: User = "",
    password_file: PasswordFile = "",
    token_file: TokenFile = "",
    tls_ca: PagesCa = "",
) -> None:
    """Show one topic: homes, spec, whether its latency limit is met, owner and ledgers of its log, state on hubs."""

    async def main(metadata: ClusterRecords) -> None:
        login, name = read_login(user, password_file), topic.encode()
        plan, living = await metadata.plans.load(), await metadata.living()
        spec = (await metadata.specs.load()).of(name)
        placement, entry = plan.home_of(name, living), plan.entries.get(name)

        async def question(connection: CommandConnection) -> Any:
            row = (await connection.ask(b"EQ.TOPIC", name))[0]
            if row is None or spec is None or spec.envelope is None:
                return row, None
            return row, (await connection.ask(b"EQ.ENVELOPE", name))[0]

        rows = [
            {"hub": hub, "state": "unused"}
            if answer is None
            else {"hub": hub, **_row_facts(answer)} | ({} if limit is None else {"limit": limit_facts(limit)})
            for hub, (answer, limit) in sorted(_successes(await ask_all(living, login, question)).items())
        ]
        edges: dict[str, Any] = {}
        if placement.mode is Mode.CONTENT:
            homes = {hub: seen for hub, seen in living.items() if hub in placement.homes}
            edges = _successes(await ask_all(homes, login, edge_facts))
        latency = await topic_latency(metadata.store, region, name, token_file, tls_ca)
        log = await log_facts(metadata.store, region, name)
        facts = {
            "topic": topic,
            "homes": list(placement.homes),
            "mode": placement.mode.value,
            "tree": placement.followed,
            "placed_by": "entry" if entry is not None else "ring",
            "is_pinned": entry is not None and entry.is_pinned,
            "spec": None if spec is None else spec_facts(spec),
            "latency": latency,
            "log": log,
            "hubs": rows,
            "edges": edges,
        }
        if as_json:
            show_json(facts)
            return
        typer.echo(f"{topic}: {placement_words(placement, entry)}")
        typer.echo("no spec" if spec is None else f"spec {name_of(spec.pattern)}: {spec_words(spec)}")
        if latency is not None or (spec is not None and spec.latency_ms is not None):
            typer.echo(latency_words(latency))
        typer.echo(log_words(log))
        show_rows(("HUB", "STATE", "SUBSCRIBERS", "FILTERS", "PUBLISHED", "DELIVERED"), rows)
        if edges:
            typer.echo()
            show_table(
                EDGE_HEADERS, [edge_row(hub, placement, edges.get(hub, {})) for hub in placement.homes]
            )
        if any("limit" in row for row in rows):
            typer.echo()
            show_table(("HUB", "SHARE", "ADMITTED", "WAITING", "REFUSED", "DELAY"), [*map(limit_row, rows)])

    run(store, region, main, is_quiet=as_json)


Quantile = Annotated[
    float | None,
    typer.Option(
        help="Share of messages that the latency limit is for, such as 0.99. Judged on measured latency at "
        "the next of 0.5, 0.9, 0.99 and 1."
    ),
]
Attributes = Annotated[
    str | None,
    typer.Option(
        help="Where messages have the attributes that filters compare: payload (a JSON object), or first-line.",
        metavar="WHERE",
    ),
]

Durable = Annotated[
    str | None,
    typer.Option(
        help="Store messages before they are acknowledged: each on W of E bookies, acknowledged by A of them, such as "
        "3/3/2; 1/1/1 for a standalone hub (--data). An empty value ends it.",
        metavar="E/W/A",
    ),
]
Retain = Annotated[
    str | None,
    typer.Option(
        help="Retention of a durable topic: an age, a size, or until consumed, such as 7d,10GB,consumed.",
        metavar="LIMITS",
    ),
]


@app.command("set")
def set_spec(
    pattern: Pattern,
    *,
    store: StoreUrl = "",
    region: Region = "default",
    latency: Annotated[
        str | None, typer.Option(help="Latency limit from publish to delivery, such as 40ms.", metavar="TIME")
    ] = None,
    quantile: Quantile = None,
    rate: Annotated[
        str | None,
        typer.Option(help="Rate limit of each topic over the whole cluster, such as 500/s.", metavar="RATE"),
    ] = None,
    burst: Annotated[
        str | None,
        typer.Option(
            help="Messages that may come at once; default: 0.1 s of the rate, at least 1.", metavar="MESSAGES"
        ),
    ] = None,
    wait: Annotated[
        str | None,
        typer.Option(
            help="How long a message may wait for its turn before it is rejected; default 1s.", metavar="TIME"
        ),
    ] = None,
    durable: Durable = None,
    retain: Retain = None,
    pin: Annotated[str | None, typer.Option(help="Site of the topics' homes.", metavar="SITE")] = None,
    attributes: Attributes = None,
    timeout: Timeout = 10.0,
    as_json: AsJson = False,
) -> None:
    """Set limits for the topics that match a pattern (a spec). For each topic the most specific spec applies.

    Options that are not given keep their value; an empty value removes a limit: --latency ''.
    Returns once every live hub has the spec; fails with the names of the hubs that do not have it in time.
    """

    async def main(metadata: ClusterRecords) -> None:
        given: dict[str, Any] = {} if quantile is None else {"quantile": quantile}
        for field, text, read in (
            ("latency_ms", latency, parse_milliseconds),
            ("rate_per_s", rate, parse_rate),
            ("burst_messages", burst, parse_burst),
            ("wait_ms", wait, parse_milliseconds),
            ("durability", durable, parse_durability),
            ("retention", retain, parse_retention),
            ("site", pin, str),
            ("attributes", attributes, parse_attributes),
        ):
            if text is not None:
                given[field] = read(text) if text else None
        bookies, hubs = await metadata.bookies.load(), await metadata.hubs.load()
        spec = await operations.change_spec(
            metadata.specs,
            pattern.encode(),
            given,
            plan=await metadata.plans.load(),
            hubs=hubs,
            bookies=bookies,
        )
        for shortcoming in _shortcomings(spec, hubs, bookies):
            typer.echo(f"equipoise: {pattern}: {shortcoming}", err=True)
        await _wait_for_hubs(metadata, pattern, timeout)
        if spec is None:
            show_result({"pattern": pattern}, f"removed spec {pattern}", as_json=as_json)
            return
        show_result(spec_facts(spec), f"spec {pattern}: {spec_words(spec)}", as_json=as_json)

    run(store, region, main, is_quiet=as_json)


def _shortcomings(
    spec: TopicSpec | None, hubs: Mapping[str, HubSeen], bookies: Mapping[str, BookieFacts]
) -> Iterator[str]:
    """Requirements of a spec that the present hubs and bookies cannot meet."""
    if spec is None:
        return
    sites = sorted({seen.facts.site for seen in hubs.values()} - {""})
    if spec.site and spec.site not in sites:
        there = ", ".join(sites) or "no site"
        yield f"no hub is at site {spec.site}, hubs are at {there}: topics stay elsewhere until one is"
    yield from operations.durability_compromises(spec, bookies)


@app.command("unset")
def remove_spec(
    pattern: Pattern,
    *,
    store: StoreUrl = "",
    region: Region = "default",
    timeout: Timeout = 10.0,
    as_json: AsJson = False,
) -> None:
    """Remove the spec of a pattern. Returns once no live hub applies it."""

    async def main(metadata: ClusterRecords) -> None:
        if not await metadata.specs.remove(pattern.encode()):
            raise SettingsError(f"there is no spec {pattern}: `equipoise topics specs` lists them")
        await _wait_for_hubs(metadata, pattern, timeout)
        show_result({"pattern": pattern}, f"removed spec {pattern}", as_json=as_json)

    run(store, region, main, is_quiet=as_json)


@app.command("specs")
def list_specs(*, store: StoreUrl = "", region: Region = "default", as_json: AsJson = False) -> None:
    """List all specs, the most specific pattern first."""

    async def main(metadata: ClusterRecords) -> None:
        specs = list(await metadata.specs.load())
        if as_json:
            show_json([spec_facts(spec) for spec in specs])
            return
        show_table(("PATTERN", "LIMITS"), [(name_of(spec.pattern), spec_words(spec)) for spec in specs])

    run(store, region, main, is_quiet=as_json)


async def _wait_for_hubs(metadata: ClusterRecords, pattern: str, timeout_s: float) -> None:
    version = await operations.publish_specs(metadata.specs, metadata.plans)
    behind = await operations.hubs_without_specs(metadata.hubs, version, timeout_s=timeout_s)
    if behind:
        raise BehindError(
            f"the spec of {pattern} is stored, but not yet applied after {timeout_s:g} s by: {', '.join(behind)}. "
            "Each hub applies it as soon as it reaches the store",
            behind,
        )


async def _listed(hub: CommandConnection, match: bytes) -> list[Any]:
    """All rows of a hub, page by page; starts again if the list changed and made the cursor invalid."""
    words = (b"MATCH", match) if match else ()
    for attempt in range(_LISTINGS_MAX):
        rows: list[Any] = []
        cursor = b"0"
        try:
            while True:
                cursor, page = await hub.ask(b"EQ.TOPICS", cursor, _PAGE, *words)
                rows += page
                if cursor == b"0":
                    return rows
        except RefusedError as problem:
            if "cursor" not in problem.text or attempt == _LISTINGS_MAX - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


def _summed(answers: Mapping[str, list[Any]]) -> dict[bytes, dict[str, Any]]:
    """One row per topic: its home as reported by the home itself, and the sums over all hubs."""
    topics: dict[bytes, dict[str, Any]] = {}
    for hub, rows in answers.items():
        for row in rows:
            facts = _row_facts(row)
            known = topics.setdefault(
                row[0],
                {"name": row[0], "topic": name_of(row[0]), "home": facts["home"], "subscribers": 0}
                | {"published": 0, "delivered": 0},
            )
            for field in ("subscribers", "published", "delivered"):
                known[field] += facts[field]
            if facts["state"] in ("open", "closing"):
                known["home"] = hub
    return topics


def _row_facts(row: Any) -> dict[str, Any]:
    _, state, home, subscribers, published, delivered, *later = row  # Without `later` from earlier releases.
    return {
        "state": state.decode(),
        "home": home.decode() or None,
        "subscribers": subscribers,
        "published": published,
        "delivered": delivered,
        "waiting_for": later[0].decode() or None if later else None,
        "filters": later[1] if len(later) > 1 else 0,
    }


def _successes(answers: Mapping[str, Any]) -> dict[str, Any]:
    """The answers of the hubs that answered; the others are reported on standard error. Raises if none answered."""
    problems = {hub: answer for hub, answer in answers.items() if isinstance(answer, EquipoiseError)}
    if problems and len(problems) == len(answers):
        raise next(iter(problems.values()))
    for hub, problem in problems.items():
        typer.echo(f"equipoise: hub {hub}: {problem}", err=True)
    return {hub: answer for hub, answer in answers.items() if hub not in problems}
