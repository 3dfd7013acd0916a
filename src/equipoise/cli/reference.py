"""`equipoise reference`: print the pages that are generated from the code, so that the two cannot differ."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from typer.main import get_command

from equipoise.bookie.settings import BookieSettings
from equipoise.cli.support.failures import MISUSED
from equipoise.cli.support.metrics_page import metrics_page
from equipoise.client import ClientSettings
from equipoise.content.balancing.reference import render_balancing
from equipoise.content.balancing.settings import BalancingSettings, OverloadThresholds
from equipoise.gateway import GatewaySettings
from equipoise.hub import HubSettings, Limits, Tls
from equipoise.hub.cluster import diagram
from equipoise.hub.cluster.settings import ClusterSettings
from equipoise.hub.locations.settings import CoordinatesSettings
from equipoise.hub.membership.settings import MembershipSettings
from equipoise.hub.telemetry.settings import MetricsSettings, TelemetrySettings
from equipoise.pipeline.settings import (
    KeepingSettings,
    PipelineSettings,
    Plausible,
    SessionSettings,
    SourceSettings,
)
from equipoise.pipeline.topic_settings import TopicReadSettings, TopicWriteSettings
from equipoise.store import tree
from equipoise.telemetry import COLUMNS, EVERY_KIND, Column, RecordKind, columns_of

app = typer.Typer(help="Print reference pages generated from the code.", no_args_is_help=True, hidden=True)


def settings_page() -> str:
    """Every setting with its default, its bounds and its reason."""
    # Here, since these load numpy.
    from equipoise.cli.support.controller_file import CONTROLLER_OPTIONS, PAGES_OPTIONS
    from equipoise.control.settings import ControllerSettings
    from equipoise.plan.settings import PlannerSettings
    from equipoise.web.settings import WebSettings

    parts = [
        "# Settings",
        "Generated from the code by `make docs`; do not edit. Each default comes with its reason.",
        "## Hub\n\nA TOML file for `equipoise hub --config FILE`; options of the command line have priority.",
        _table(HubSettings),
        "### `[limits]`\n\nLimits per client and of all clients together.",
        _table(Limits),
        "### `[tls]`\n\nEncrypted connections.",
        _table(Tls),
        "### `[cluster]`\n\nLinks between hubs, moves and redirects.",
        _table(ClusterSettings),
        "### `[content]`\n\nHow edges share subscribers of content topics: [settings and states](balancing.md).",
        "### `[telemetry]`\n\nTelemetry records of the hub.",
        _table(TelemetrySettings),
        "### `[metrics]`\n\nPrometheus metrics of the hub.",
        _table(MetricsSettings),
        "### `[membership]`\n\nThe cluster that the hub belongs to, and its metadata store.",
        _table(MembershipSettings),
        "### `[coordinates]`\n\nNetwork coordinates of the hub and its clients.",
        _table(CoordinatesSettings),
        "## Pipeline\n\nSettings of `equipoise pipeline`; the most important have an option.",
        _table(PipelineSettings),
        "### Spark",
        _table(SessionSettings),
        '### Source\n\nOptions of `spark.readStream.format("equipoise-telemetry")`.',
        _table(SourceSettings),
        '### Topics in Spark\n\nOptions of `spark.readStream.format("equipoise")` and of `spark.read`.',
        _table(TopicReadSettings),
        "Options of `writeStream` and `write`.",
        _table(TopicWriteSettings),
        "### Validation\n\nA telemetry record outside these bounds is rejected and counted.",
        _table(Plausible),
        "### The lake",
        _table(KeepingSettings),
        "## Controller\n\nSettings of `equipoise controller`: options, and a TOML file for `--config FILE` with the "
        "tables `[controller]` and `[planner]`. Each setting is set in one of the two places only.",
        _table(ControllerSettings, CONTROLLER_OPTIONS),
        "### Dashboard, API and metrics",
        _table(WebSettings, PAGES_OPTIONS),
        "### `[planner]`\n\nConstants of the planner.",
        _table(PlannerSettings),
        "## Bookie\n\nSettings of `equipoise bookie`; the size of segments and the collection have options.",
        _table(BookieSettings),
        "## Gateway\n\nSettings of `equipoise gateway`; the address has an option.",
        _table(GatewaySettings),
        "## Client\n\nKeyword arguments of `equipoise.connect`.",
        _table(ClientSettings),
    ]
    return "\n\n".join(parts) + "\n"


def commands_page() -> str:
    """The help of every command, as a terminal of 100 columns shows it."""
    from typer.testing import CliRunner

    from equipoise.cli.main import app as whole

    runner = CliRunner(env={"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1", "EQUIPOISE_URL": ""})
    parts = ["# Commands", "Generated from the code by `make docs`; do not edit."]
    for path in _command_paths(get_command(whole), ()):
        shown = runner.invoke(whole, [*path, "--help"], prog_name="equipoise").stdout
        text = "\n".join(line.rstrip() for line in shown.strip().splitlines())
        parts.append(f"## `{' '.join(('equipoise', *path))}`\n\n```text\n{text}\n```")
    return "\n\n".join(parts) + "\n"


_TELEMETRY = """\
Generated from the code by `make docs`; do not edit.

Once a second each hub records itself and each active topic, and keeps the records in a ring (`[telemetry]` in the
[settings](settings.md)). All records share one sequence and one table; `kind` says which columns a record fills, the
others are null. A stream has the columns that some record in the ring fills: those of arrivals, of rate limits and of
edges of content topics are missing where there are none. Read a missing column as null.

| command | answer |
|---|---|
| `EQ.TELEMETRY incarnation from-sequence max-bytes` | incarnation, first, next, Arrow IPC stream, end |
| `EQ.ARRIVALS topic ON` or `OFF` | `OK` |

`EQ.TELEMETRY` returns the records from `first` to `next`, in at most `max-bytes` but at least one. `next` is the
sequence to ask for next, `end` the current end of the ring. If `first` is greater than the requested sequence, the
records between have been dropped from the ring. If the incarnation is not the current one, such as 0, the answer is
the current incarnation, the oldest sequence twice, and no records: a reader starts there after a restart. With
`max-bytes` 0 the answer has the numbers and no records. A sequence beyond `end` is an error.

`EQ.ARRIVALS` records each message to the topic at the hub of its publisher, for `arrivals_duration_s` after the last
request.

EQ.TELEMETRY needs the permission `observe`, EQ.ARRIVALS `operate`. A user that may observe some topics gets the
records of those and none of the hub; other sequences are skipped. Names starting with `$`, and shard channels, have no
records of their own.

To sum a topic over hubs, add its records: publications are counted only at the home, deliveries only at the hub of the
client. Subscribers are the sum as well, except in mode `all-subscribers`, where a smart client subscribes at every
home."""


def telemetry_page() -> str:
    """Every column of the hubs' records."""
    common = [column for column in COLUMNS if column.kinds == EVERY_KIND]
    parts = ["# Telemetry", _TELEMETRY, "## Every record", _columns(common)]
    for kind in RecordKind:
        own = [column for column in columns_of(kind) if column not in common]
        parts += [f"## `{kind}`", _columns(own)]
    return "\n\n".join(parts) + "\n"


def _columns(columns: Iterable[Column]) -> str:
    rows = [f"| `{column.name}` | {column.type} | {column.unit} | {column.meaning} |" for column in columns]
    return "\n".join(["| column | type | unit | meaning |", "|---|---|---|---|", *rows])


def balancing_page() -> str:
    """The states of edges and heads that balance content topics, and the settings."""
    return render_balancing(_table(BalancingSettings), _table(OverloadThresholds))


PAGES: dict[str, Callable[[], str]] = {
    "settings": settings_page,
    "commands": commands_page,
    "telemetry": telemetry_page,
    "metrics": metrics_page,
    "handover": diagram.render_reference,
    "balancing": balancing_page,
    "znodes": tree.render_reference,
}


@app.command("write")
def write(folder: Annotated[Path, typer.Argument(help="Folder of the reference pages.")]) -> None:
    """Write all pages into a folder."""
    if not folder.is_dir():
        typer.echo(f"equipoise: there is no folder {folder}", err=True)
        raise typer.Exit(MISUSED)
    for name, page in PAGES.items():
        (folder / f"{name}.md").write_text(page())


def _table(kind: type[msgspec.Struct], options: Mapping[str, str] | None = None) -> str:
    """`options`: those of the command line; other settings are in the table `[controller]` of a file."""
    rows = ["| setting | default | bounds | why |", "|---|---|---|---|"]
    if options is not None:
        rows = ["| setting | set with | default | bounds | why |", "|---|---|---|---|---|"]
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    for field in info.fields:
        if isinstance(field.type, msgspec.inspect.StructType):
            continue
        reason, inner = _unwrap(field.type)
        is_size = "bytes" in field.name
        default, bounds = _shown(field.default, is_size=is_size), _bounds(inner, is_size=is_size)
        place = "" if options is None else f" `{options.get(field.name, '[controller]')}` |"
        rows.append(f"| `{field.name}` |{place} {default} | {bounds} | {reason} |")
    return "\n".join(rows)


def _unwrap(kind: msgspec.inspect.Type) -> tuple[str, msgspec.inspect.Type]:
    if isinstance(kind, msgspec.inspect.Metadata):
        extra = kind.extra_json_schema or {}
        return re.sub(r"\s+", " ", str(extra.get("description", ""))), kind.type
    return "", kind


def _shown(default: Any, *, is_size: bool) -> str:
    if default is msgspec.NODEFAULT:
        return "must be given"
    if default == "" or default is None:
        return "none"
    if isinstance(default, bool):
        return "yes" if default else "no"
    if is_size and isinstance(default, int) and default >= 1024 and default % 1024 == 0:
        mib = 1024 * 1024
        return f"{default // mib} MiB" if default % mib == 0 else f"{default // 1024} KiB"
    return f"{default:,}" if isinstance(default, int) else f"`{default}`"


def _bounds(kind: msgspec.inspect.Type, *, is_size: bool) -> str:
    bounds = [
        f"{sign} {_shown(getattr(kind, name), is_size=is_size)}"
        for name, sign in (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<"))
        if getattr(kind, name, None) is not None
    ]
    return ", ".join(bounds)


def _command_paths(command: Any, path: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Every command that can be run, hidden ones left out."""
    subcommands = getattr(command, "commands", None)
    if subcommands is None:
        return [path]
    # A group may be a command too.
    itself = [path] if getattr(command, "invoke_without_command", False) else []
    return itself + [
        found
        for name, sub in subcommands.items()
        if not sub.hidden
        for found in _command_paths(sub, (*path, name))
    ]
