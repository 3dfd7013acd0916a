"""`equipoise profile`: measure the capacity of a hub on this machine, and find a rate limit for a topic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from equipoise.cli.support.progress import progress_bar
from equipoise.cli.support.split_profile import profile_split
from equipoise.cli.support.tables import show_json, show_table
from equipoise.cli.support.topic_profile import profile_topic
from equipoise.errors import SettingsError
from equipoise.profile.advice import controller_toml, hub_toml
from equipoise.profile.sweep import Profile, profile_hub

app = typer.Typer(
    help="Measure the capacity of a hub on this machine, or find a rate limit for a topic.",
    no_args_is_help=True,
)
app.command("topic")(profile_topic)
app.command("split")(profile_split)

_WORDS = {
    "cpu_ratio": "CPU of a core",
    "deliveries_per_s": "deliveries/s",
    "publications_per_s": "publications/s",
    "out_bytes_per_s": "bytes out/s",
    "in_bytes_per_s": "bytes in/s",
}


@app.callback()
def profile() -> None:
    """Measure the capacity of a hub on this machine, or find a rate limit for a topic."""


@app.command("hub")
def run_hub(
    quick: Annotated[bool, typer.Option(help="Fewer and shorter loads: half a minute.")] = False,
    limit: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            help="Latency limit in ms: a load with a p95 above it is late. Without it, the limit is "
            "derived from the light loads.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    write: Annotated[
        Path | None, typer.Option(help="Write the result to a new file, as hub settings (TOML).")
    ] = None,
) -> None:
    """Put rising loads on a separate hub until messages are late, and report which metric predicts it, at which
    value.

    Topics, producers, consumers and payload sizes are varied, each at rising rates. Put the result into the settings
    of hubs on such machines, so that the controller knows their capacity. Run it on an otherwise idle machine.
    """
    if write is not None and write.exists():
        raise SettingsError(f"{write} exists: name a file that does not, and copy what you need")
    with progress_bar("loads", 1.0) as bar:
        found = profile_hub(is_quick=quick, limit_ms=limit, progress=lambda label, done: bar(done, label))
    if write is not None:
        write.write_text(hub_toml(found))
    if as_json:
        show_json(msgspec.to_builtins(found))
    else:
        _show(found)


def _show(found: Profile) -> None:
    show_table(
        ("predicts latency", "classified correctly", "rank correlation", "late above"),
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
        f"\n{len(found.loads)} loads; late means a p95 above {found.late_ms:.1f} ms. CPU: "
        f"{costs.publication_us:.2f} µs per publication, {costs.delivery_us:.2f} µs per delivery, "
        f"{costs.kilobyte_us:.2f} µs per kilobyte sent."
    )
    lines = hub_toml(found)
    if lines:
        typer.echo(f"\nHub settings (equipoise hub --config FILE):\n\n{lines}")
    else:
        typer.echo(" No traffic metric predicts it well enough; the controller uses CPU.")
    typer.echo(f"Controller settings (equipoise controller --config FILE):\n\n{controller_toml(found)}")
