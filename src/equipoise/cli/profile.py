"""`equipoise profile`: find out what a hub on this machine can carry."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from equipoise.cli.support.progress import counting
from equipoise.cli.support.tables import show_json, show_table
from equipoise.errors import SettingsError
from equipoise.profile.advice import controller_toml, hub_toml
from equipoise.profile.sweep import Profile, profile_hub

app = typer.Typer(help="Find out what a hub on this machine can carry.", no_args_is_help=True)

_STEPS = 1_000
_WORDS = {
    "cpu_ratio": "CPU of a core",
    "deliveries_per_s": "deliveries/s",
    "publications_per_s": "publications/s",
    "out_bytes_per_s": "bytes out/s",
    "in_bytes_per_s": "bytes in/s",
}


@app.callback()
def profile() -> None:
    """Find out what a hub on this machine can carry."""


@app.command("hub")
def run_hub(
    quick: Annotated[bool, typer.Option(help="Within half a minute: fewer and shorter loads.")] = False,
    limit: Annotated[
        float | None,
        typer.Option(
            min=0.1, help="ms; a load whose p95 is above it is late. Without it, by the calm loads."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    write: Annotated[
        Path | None, typer.Option(help="New file for what was found, as settings of a hub (TOML).")
    ] = None,
) -> None:
    """Load a hub of its own in many shapes until messages are late, and say what foretells it, and from where on.

    Topics, producers, consumers and sizes are varied, each at ever higher rates. What is found belongs into the
    settings of the hubs that run on such machines, so that the controller knows how much to give to them. Run it
    where hubs run, with nothing else on the machine.
    """
    if write is not None and write.exists():
        raise SettingsError(f"{write} exists: name a file that does not, and copy what you need")
    with counting("loads", _STEPS) as tell:
        found = profile_hub(
            is_quick=quick, limit_ms=limit, progress=lambda label, done: tell(int(done * _STEPS))
        )
    if write is not None:
        write.write_text(hub_toml(found))
    if as_json:
        show_json(msgspec.to_builtins(found))
    else:
        _show(found)


def _show(found: Profile) -> None:
    show_table(
        ("foretells lateness", "sorts rightly", "rank correlation", "late above"),
        [
            (
                _WORDS[knee.number],
                f"{100 * knee.sorts:.0f} %",
                f"{knee.correlation:.2f}",
                "-" if knee.at is None else f"{knee.at:,.2f}" if knee.at < 10 else f"{knee.at:,.0f}",
            )
            for knee in found.knees
        ],
    )
    costs = found.costs
    typer.echo(
        f"\n{len(found.loads)} loads; late is a p95 above {found.late_ms:.1f} ms. CPU: {costs.publication_us:.2f} µs a "
        f"publication, {costs.delivery_us:.2f} µs a delivery, {costs.kilobyte_us:.2f} µs a kilobyte sent."
    )
    lines = hub_toml(found)
    if lines:
        typer.echo(f"\nFor hubs here (equipoise hub --config FILE):\n\n{lines}")
    else:
        typer.echo(
            "\nNo number of the traffic foretells it well enough to be set; the controller goes by CPU.\n"
        )
    typer.echo(f"For the controller (equipoise controller --config FILE):\n\n{controller_toml(found)}")
