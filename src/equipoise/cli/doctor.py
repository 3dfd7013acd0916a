"""`equipoise doctor`: check whether this machine has what Equipoise needs."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from equipoise.cli.support.failures import FAILED, exit_on_failure
from equipoise.cli.support.store_options import AsJson
from equipoise.cli.support.tables import show_json
from equipoise.doctor import CheckOptions, CheckResult, CheckStatus, examine
from equipoise.errors import SettingsError

_SIGNS = {
    CheckStatus.OK: ("✓", "green"),
    CheckStatus.WARNING: ("!", "yellow"),
    CheckStatus.FAILURE: ("✗", "red"),
}


def command(
    store: Annotated[
        str,
        typer.Option("--store", envvar="EQUIPOISE_STORE", help="Also check this store: zk://host:port/root."),
    ] = "",
    ports: Annotated[
        str, typer.Option(help="Ports that must be free, separated by commas. [hub, dashboard and ZooKeeper]")
    ] = "",
    directory: Annotated[Path, typer.Option("--dir", help="Folder for state.")] = Path("equipoise-data"),
    as_json: AsJson = False,
) -> None:
    """Check this machine: Java, Spark, ports, open files, memory, disk; with --store also the store and the clock.

    The exit status is 1 if a required item is missing.
    """
    with exit_on_failure():
        wanted = CheckOptions(store_url=store, directory=directory)
        if ports:
            wanted = CheckOptions(store_url=store, directory=directory, ports=_numbered(ports))
        findings = asyncio.run(_show(wanted, is_quiet=as_json))
    if as_json:
        show_json([asdict(finding) for finding in findings])
    if any(finding.status is CheckStatus.FAILURE for finding in findings):
        raise typer.Exit(FAILED)


async def _show(wanted: CheckOptions, *, is_quiet: bool) -> list[CheckResult]:
    console = Console(highlight=False)
    findings: list[CheckResult] = []
    async for finding in examine(wanted):
        findings.append(finding)
        if not is_quiet:
            _tell(console, finding)
    return findings


def _tell(console: Console, finding: CheckResult) -> None:
    sign, colour = _SIGNS[finding.status]
    if (sys.stdout.encoding or "").lower().replace("-", "") != "utf8":
        sign = finding.status.value
    console.print(Text.assemble((sign, colour), " ", (finding.name, "bold"), f": {finding.fact}"))
    if finding.next_step:
        console.print(Padding(Text(f"→ {finding.next_step}"), (0, 0, 0, 4), expand=False))


def _numbered(text: str) -> dict[int, str]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isdigit() and 0 < int(part) < 65_536 for part in parts):
        raise SettingsError(f"--ports {text}: give numbers between 1 and 65535, such as 6399,6400")
    return {int(part): "you" for part in parts}
