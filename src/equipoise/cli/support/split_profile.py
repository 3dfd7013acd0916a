"""`equipoise profile split`: find the number of hubs for a rate-limited topic from its arrivals."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

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
from equipoise.control.operations import deal_by
from equipoise.errors import SettingsError
from equipoise.lab.task_pool import task_pool
from equipoise.limits.firing_order import WINDOWS_S
from equipoise.limits.replay import DeliveryCosts
from equipoise.limits.shares import BURST_MAX, RATE_MAX, RATE_MIN, Envelope, default_burst
from equipoise.limits.split_fit import (
    ARRIVALS_MIN,
    BLIND,
    ChosenSplit,
    TrialLatency,
    choose_split,
    found_order,
    replay_trial,
    split_orders,
    split_trials,
)
from equipoise.model import TopicSpec
from equipoise.store.records.seat_orders import SeatOrders
from equipoise.store.tree import Tree

__all__ = ["profile_split"]

# A quarter of an hour: a message with its deliveries to all subscribers of a large topic takes seconds.
_COST_US_MAX = 1e9

_Rate = Annotated[
    float | None,
    typer.Option(min=RATE_MIN, max=RATE_MAX, help="Rate limit in messages/s; without it, that of the spec."),
]
_ChunkCost = Annotated[
    float,
    typer.Option(
        min=0, max=_COST_US_MAX, help="CPU time of a hub to read messages that arrive together, in µs."
    ),
]
_MessageCost = Annotated[
    float,
    typer.Option(
        min=0, max=_COST_US_MAX, help="CPU time of a hub for one message and its deliveries, in µs."
    ),
]


def profile_split(
    topic: Annotated[str, typer.Argument(help="Topic name.", autocompletion=topic_names)],
    *,
    record: Annotated[
        str | None, typer.Option(help="Record arrivals at all hubs this long, such as 10s.", metavar="TIME")
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
    rate: _Rate = None,
    burst: Annotated[
        int | None, typer.Option(min=1, max=BURST_MAX, help="Burst; without it, that of the spec.")
    ] = None,
    hubs: Annotated[int, typer.Option(min=1, max=64, help="Largest number of hubs to try.")] = 6,
    chunk_us: _ChunkCost = 10.0,
    message_us: _MessageCost = 5.0,
    deal: Annotated[
        bool,
        typer.Option(
            "--deal",
            help="Make hubs assign the topic's publishers in the best order found (with --record).",
        ),
    ] = False,
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

    def conclude(found: RecordedArrivals, spec: TopicSpec) -> _Conclusion:
        asked = _asked(spec, latency=latency, quantile=quantile, rate=rate, burst=burst)
        return _conclude(found, asked, DeliveryCosts(chunk_us * 1e-6, message_us * 1e-6), hubs, master)

    async def main(metadata: ClusterRecords) -> None:
        specs = await metadata.specs.load()
        duration_s = parse_milliseconds(record or "") / 1e3
        found = await _recorded(metadata, read_login(user, password_file), topic, duration_s)
        # In a thread: the loop keeps the session with the store alive.
        spec = specs.of(topic.encode()) or TopicSpec(pattern=topic.encode())
        made = await asyncio.to_thread(conclude, found, spec)
        number = await _dealt_by(metadata, Tree(region), topic.encode(), found, made.order) if deal else 0
        _show(topic, found, made, number, as_json=as_json)

    with exit_on_failure():
        if (record is None) == (trace is None):
            raise SettingsError("give one of --record TIME and --trace FILE")
        if trace is not None and deal:
            raise SettingsError("--deal needs --record: a file does not name the clients")
        if trace is not None:
            found = read_trace(trace)
            _show(topic, found, conclude(found, TopicSpec(pattern=topic.encode())), 0, as_json=as_json)
            return
    run(store, region, main, is_quiet=as_json)


class _Conclusion(NamedTuple):
    """The results of replays, the chosen one, and its order of publishers (by index)."""

    latencies: list[TrialLatency]
    chosen: ChosenSplit
    limit_s: float
    order: list[int]


async def _recorded(
    metadata: ClusterRecords, login: tuple[bytes, bytes] | None, topic: str, duration_s: float
) -> RecordedArrivals:
    hubs = await metadata.living()
    with progress_bar("recording", 1.0) as bar:
        return await record_arrivals(
            hubs, login, topic.encode(), duration_s, lambda done: bar(done, topic), None
        )


def _conclude(
    found: RecordedArrivals,
    asked: tuple[Envelope, float, float],
    costs: DeliveryCosts,
    hubs: int,
    master: str,
) -> _Conclusion:
    """Find orders of publishers, and replay the arrivals with each of them for every number of hubs."""
    envelope, limit_s, at = asked
    _check_enough(found)
    replayed = partial(replay_trial, trace=found.trace, envelope=envelope, costs=costs, quantile=at)
    ordered = partial(found_order, trace=found.trace, count=found.publishers)
    with task_pool(master=master) as pool:
        by_window = {WINDOWS_S[number]: order for number, order in pool.run(ordered, WINDOWS_S)}
        orders = split_orders(found.groups, by_window)
        latencies = [one for _, one in pool.run(replayed, split_trials(orders, hubs))]
    chosen = choose_split(latencies, limit_s)
    return _Conclusion(latencies, chosen, limit_s, orders[chosen.order].tolist())


async def _dealt_by(
    metadata: ClusterRecords, tree: Tree, topic: bytes, found: RecordedArrivals, order: list[int]
) -> int:
    """Store the order, and let hubs assign publishers by it; return its number."""
    ranked = (found.names[publisher] for publisher in order)
    kept = await SeatOrders(metadata.store, tree).keep(topic, found.key, ranked)
    await deal_by(metadata.plans, topic, kept.number)
    return kept.number


def _check_enough(found: RecordedArrivals) -> None:
    """Raises SettingsError if there are too few arrivals."""
    if len(found.times) < ARRIVALS_MIN:
        raise SettingsError(
            f"too few arrivals: {len(found.times)} messages, and {ARRIVALS_MIN} are needed; record for longer"
        )


def _asked(
    spec: TopicSpec, *, latency: str, quantile: float | None, rate: float | None, burst: int | None
) -> tuple[Envelope, float, float]:
    """The envelope, the limit in seconds and its quantile: as given, else those of the spec."""
    limit_ms = parse_milliseconds(latency) if latency else spec.latency_ms
    if limit_ms is None:
        raise SettingsError("the topic has no latency limit: give --latency, such as 1ms")
    rate_per_s = rate if rate is not None else spec.rate_per_s
    if rate_per_s is None:
        raise SettingsError("the topic has no rate limit: give --rate, such as 1000")
    depth = burst or (spec.burst_messages if rate is None else None) or default_burst(rate_per_s)
    at = spec.quantile if quantile is None else quantile
    if not 0 < at < 1:
        raise SettingsError(f"quantile {at}: give a number between 0 and 1, such as 0.99")
    return Envelope(rate_per_s, depth), limit_ms / 1e3, at


def _show(topic: str, found: RecordedArrivals, made: _Conclusion, number: int, *, as_json: bool) -> None:
    """`number`: of the stored order; 0: none."""
    latencies, chosen, limit_s, _ = made
    if as_json:
        facts: dict[str, Any] = {"topic": topic, "messages": len(found.times), "publishers": found.publishers}
        facts |= {"limit_s": limit_s, "is_cut": found.is_cut, **chosen._asdict(), "order_number": number}
        show_json({**facts, "trials": [one._asdict() for one in latencies]})
        return
    blind = {one.hubs: one for one in latencies if one.order == BLIND}
    rows = []
    for count in sorted(blind):
        dealt = [one for one in latencies if one.hubs == count and one.order != BLIND]
        best = min(dealt, key=lambda one: (max(one.latency_s, one.tight_s), one.latency_s))
        mark = "chosen" if count == chosen.hubs else ""
        if mark:
            best = next(one for one in dealt if one.order == chosen.order)
        shown = (best.latency_s, best.tight_s, best.undivided_s, blind[count].latency_s)
        rows.append((count, *map(_ms, shown), best.order, mark))
    typer.echo(f"{topic}: {len(found.times):,} messages of {found.publishers:,} publishers\n")
    show_table(("HUBS", "LATENCY", "TIGHT", "UNDIVIDED", "BLIND", "DEALT BY", ""), rows)
    typer.echo()
    if chosen.is_within:
        typer.echo(f"{chosen.hubs} hubs meet {_ms(limit_s)}")
    else:
        typer.echo(f"warning: no number of hubs meets {_ms(limit_s)}; the best is {chosen.hubs}")
    if number:
        typer.echo(f"publishers are assigned in the order {chosen.order!r}, number {number}")


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.2f} ms"
