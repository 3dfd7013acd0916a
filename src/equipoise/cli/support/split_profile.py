"""`equipoise profile split`: find over how many hubs a limited topic should be split, from its arrivals."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from equipoise.cli.support.arrival_traces import RecordedArrivals, read_trace, record_arrivals
from equipoise.cli.support.completion import topic_names
from equipoise.cli.support.failures import exit_on_failure
from equipoise.cli.support.hub_connection import PasswordFile, User, read_login
from equipoise.cli.support.progress import progress_bar
from equipoise.cli.support.spark_options import Master
from equipoise.cli.support.store_options import AsJson, ClusterRecords, Region, StoreUrl, run
from equipoise.cli.support.tables import show_json, show_table
from equipoise.cli.support.units import parse_milliseconds
from equipoise.errors import SettingsError
from equipoise.lab.task_pool import task_pool
from equipoise.limits.replay import DeliveryCosts
from equipoise.limits.shares import Envelope, default_burst
from equipoise.limits.split_fit import (
    ARRIVALS_MIN,
    BLIND,
    ChosenSplit,
    SplitTrial,
    TrialLatency,
    choose_split,
    replay_trial,
    split_trials,
)
from equipoise.model import TopicSpec

__all__ = ["profile_split"]


def profile_split(
    topic: Annotated[str, typer.Argument(help="Topic name.", autocompletion=topic_names)],
    *,
    record: Annotated[
        str | None, typer.Option(help="Record arrivals at all hubs for so long, such as 10s.", metavar="TIME")
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(help="Read arrivals from a file: seconds[,publisher[,messages]] in each line."),
    ] = None,
    latency: Annotated[
        str, typer.Option(help="Latency limit, such as 1ms; without it, that of the topic's spec.")
    ] = "",
    quantile: Annotated[
        float | None, typer.Option(help="Quantile of the latency limit; without it, that of the spec.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Rate limit in messages/s; without it, that of the spec.")
    ] = None,
    burst: Annotated[int | None, typer.Option(min=1, help="Burst; without it, that of the spec.")] = None,
    hubs: Annotated[int, typer.Option(min=1, max=64, help="Largest number of hubs to try.")] = 6,
    chunk_us: Annotated[
        float, typer.Option(min=0, help="CPU time of a hub to read messages that come together, in µs.")
    ] = 10.0,
    message_us: Annotated[
        float, typer.Option(min=0, help="CPU time of a hub for one message and its deliveries, in µs.")
    ] = 5.0,
    master: Master = "",
    store: StoreUrl = "",
    region: Region = "default",
    as_json: AsJson = False,
    user: User = "",
    password_file: PasswordFile = "",
) -> None:
    """Find over how many hubs a limited topic should be split, by replaying its arrivals for each number of hubs.

    The smallest number is chosen with which the quantile of latency stays 20 % below the limit.
    """

    def conclude(found: RecordedArrivals, spec: TopicSpec) -> None:
        envelope, limit_s, at = _asked(spec, latency=latency, quantile=quantile, rate=rate, burst=burst)
        costs = DeliveryCosts(chunk_us * 1e-6, message_us * 1e-6)
        replayed = partial(replay_trial, trace=found.trace, envelope=envelope, costs=costs, quantile=at)
        with task_pool(master=master) as pool:
            latencies = [one for _, one in pool.run(replayed, _trials(found, hubs))]
        _show(topic, found, latencies, choose_split(latencies, limit_s), limit_s, as_json=as_json)

    async def main(metadata: ClusterRecords) -> None:
        specs = await metadata.specs.load()
        with progress_bar("recording", 1.0) as bar:
            found = await record_arrivals(
                await metadata.living(),
                read_login(user, password_file),
                topic.encode(),
                parse_milliseconds(record or "") / 1e3,
                lambda done: bar(done, topic),
                None,
            )
        conclude(found, specs.of(topic.encode()) or TopicSpec(pattern=topic.encode()))

    with exit_on_failure():
        if (record is None) == (trace is None):
            raise SettingsError("give one of --record TIME and --trace FILE")
        if trace is not None:
            conclude(read_trace(trace), TopicSpec(pattern=topic.encode()))
            return
    run(store, region, main, is_quiet=as_json)


def _trials(found: RecordedArrivals, hubs: int) -> list[SplitTrial]:
    """Raises SettingsError if there are too few arrivals to say anything."""
    if len(found.times) < ARRIVALS_MIN:
        raise SettingsError(
            f"too few arrivals: {len(found.times)} messages, and {ARRIVALS_MIN} are needed; record for longer"
        )
    return split_trials(found.trace, found.groups, hubs)


def _asked(
    spec: TopicSpec, *, latency: str, quantile: float | None, rate: float | None, burst: int | None
) -> tuple[Envelope, float, float]:
    """The envelope, the limit in seconds and its quantile: as given, else as the spec has them."""
    limit_ms = parse_milliseconds(latency) if latency else spec.latency_ms
    if limit_ms is None:
        raise SettingsError("the topic has no latency limit: give --latency, such as 1ms")
    rate_per_s = rate if rate is not None else spec.rate_per_s
    if rate_per_s is None:
        raise SettingsError("the topic has no rate limit: give --rate, such as 1000")
    depth = burst or (spec.burst_messages if rate is None else None) or default_burst(rate_per_s)
    at = spec.quantile if quantile is None else quantile
    if not 0 < at < 1:
        raise SettingsError(f"quantile {at}: it lies between 0 and 1, such as 0.99")
    return Envelope(rate_per_s, depth), limit_ms / 1e3, at


def _show(
    topic: str,
    found: RecordedArrivals,
    latencies: list[TrialLatency],
    chosen: ChosenSplit,
    limit_s: float,
    *,
    as_json: bool,
) -> None:
    if as_json:
        facts: dict[str, Any] = {"topic": topic, "messages": len(found.times), "publishers": found.publishers}
        facts |= {"limit_s": limit_s, "is_cut": found.is_cut, **chosen._asdict()}
        show_json({**facts, "trials": [one._asdict() for one in latencies]})
        return
    blind = {one.hubs: one for one in latencies if one.order == BLIND}
    rows = []
    for count in sorted(blind):
        dealt = [one for one in latencies if one.hubs == count and one.order != BLIND]
        best = min(dealt, key=lambda one: one.latency_s)
        mark = "chosen" if count == chosen.hubs else ""
        rows.append(
            (count, _ms(best.latency_s), best.order, _ms(best.undivided_s), _ms(blind[count].latency_s), mark)
        )
    typer.echo(f"{topic}: {len(found.times):,} messages of {found.publishers:,} publishers\n")
    show_table(("HUBS", "LATENCY", "DEALT BY", "UNDIVIDED", "BLIND", ""), rows)
    typer.echo()
    if chosen.is_within:
        typer.echo(f"{chosen.hubs} hubs keep {_ms(limit_s)}")
    else:
        typer.echo(f"warning: no number of hubs keeps {_ms(limit_s)}; {chosen.hubs} are the best there is")


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.2f} ms"
