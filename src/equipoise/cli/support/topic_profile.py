"""`equipoise profile topic`: find a rate and a burst for a topic from its arrivals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
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
from equipoise.control import operations
from equipoise.errors import BehindError, SettingsError
from equipoise.lab.task_pool import task_pool
from equipoise.limits.burst_fit import (
    MESSAGES_MIN,
    CandidateDelays,
    EnvelopeFit,
    candidates,
    delays_of,
    fit_envelope,
)

__all__ = ["profile_topic"]

_BAR = 30
_SET_TIMEOUT_S = 10.0


def profile_topic(
    topic: Annotated[str, typer.Argument(help="Topic name.", autocompletion=topic_names)],
    *,
    record: Annotated[
        str | None,
        typer.Option(help="Record arrivals at all hubs this long, such as 60s.", metavar="TIME"),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(help="Read arrivals from a file: seconds[,publisher[,messages]] in each line."),
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="Write the recorded arrivals to a new file, for --trace.")
    ] = None,
    is_set: Annotated[
        bool, typer.Option("--set", help="Set the limit, if it holds on the part it was not fitted to.")
    ] = False,
    master: Master = "",
    store: StoreUrl = "",
    region: Region = "default",
    as_json: AsJson = False,
    user: User = "",
    password_file: PasswordFile = "",
) -> None:
    """Find a rate limit for a topic: 1.1 times its rate, and the smallest burst with which 99 of 100 messages pass.

    Both are fitted to the first half of the arrivals and judged on the second half.
    """

    def conclude(found: RecordedArrivals) -> EnvelopeFit:
        fit = fit_envelope(found.times)
        with task_pool(master=master) as pool:
            curve = sorted((one for _, one in pool.run(delays_of, candidates(found.times, fit))), key=_burst)
        _show(topic, found, fit, curve, as_json=as_json)
        if is_set and (problem := _objection(found, fit)) is not None:
            raise SettingsError(f"no limit is set: {problem}")
        return fit

    async def main(metadata: ClusterRecords) -> None:
        if trace is not None:
            found = read_trace(trace)
        else:
            duration_s = parse_milliseconds(record or "") / 1e3
            with progress_bar("recording", 1.0) as bar:
                found = await record_arrivals(
                    await metadata.living(),
                    read_login(user, password_file),
                    topic.encode(),
                    duration_s,
                    lambda done: bar(done, topic),
                    save,
                )
        fit = conclude(found)
        if is_set:
            await _set(metadata, topic, fit, is_quiet=as_json)

    with exit_on_failure():
        if (record is None) == (trace is None):
            raise SettingsError("give one of --record TIME and --trace FILE")
        if save is not None and (save.exists() or trace is not None):
            raise SettingsError("--save needs --record, and a file that does not exist yet")
        if trace is not None and not is_set:
            conclude(read_trace(trace))
            return
    run(store, region, main, is_quiet=as_json)


def _burst(one: CandidateDelays) -> int:
    return one.burst


def _objection(trace: RecordedArrivals, fit: EnvelopeFit) -> str | None:
    """Why the limit is not reliable."""
    if not fit.has_enough:
        return (
            f"too little data: {fit.fitted_messages} and {fit.judged_messages} messages in the two halves, and each "
            f"needs {MESSAGES_MIN}; record for longer"
        )
    if trace.is_cut:
        return (
            "the data is incomplete: hubs omitted publishers (telemetry.arrivals_per_s_max), or lost records"
        )
    if not fit.holds:
        return (
            f"the burst does not hold on the second half ({1e3 * fit.judged_s:.1f} ms at p99): the first half is not "
            f"representative. Over all data, {fit.whole_rate_per_s:.4g}/s needs a burst of {fit.whole_burst}; "
            "record for longer"
        )
    return None


def _show(
    topic: str, trace: RecordedArrivals, fit: EnvelopeFit, curve: list[CandidateDelays], *, as_json: bool
) -> None:
    problem = _objection(trace, fit)
    if as_json:
        facts: dict[str, Any] = {"topic": topic, **msgspec.to_builtins(fit), "publishers": trace.publishers}
        show_json({**facts, "problem": problem, "curve": msgspec.to_builtins(curve)})
        return
    span_s = float(trace.times[-1] - trace.times[0]) if len(trace.times) else 0.0
    typer.echo(f"{topic}: {len(trace.times):,} messages of {trace.publishers:,} publishers in {span_s:.1f} s")
    if len(trace.times) < 2:
        # One arrival, or none, has no rate.
        typer.echo(f"warning: {problem}")
        return
    typer.echo(f"rate {fit.rate_per_s:.4g}/s, bursts of {fit.burst}\n")
    most = max([one.judged_s for one in curve] or [0.0]) or 1.0
    rows = [
        (one.burst, f"{1e3 * one.fitted_s:.1f} ms", f"{1e3 * one.judged_s:.1f} ms", _bar(one.judged_s / most))
        for one in curve
    ]
    show_table(("BURST", "P99 FITTED", "P99 JUDGED", "ACCESS DELAY"), rows)
    typer.echo()
    typer.echo(f"warning: {problem}" if problem else "holds on the second half, which it was not fitted to")


def _bar(share: float) -> str:
    return "█" * max(round(_BAR * share), 1 if share > 0 else 0)


async def _set(metadata: ClusterRecords, topic: str, fit: EnvelopeFit, *, is_quiet: bool) -> None:
    given = {"rate_per_s": float(f"{fit.rate_per_s:.4g}"), "burst_messages": fit.burst}
    await operations.change_spec(
        metadata.specs,
        topic.encode(),
        given,
        plan=await metadata.plans.load(),
        hubs=await metadata.hubs.load(),
    )
    version = await operations.publish_specs(metadata.specs, metadata.plans)
    behind = await operations.hubs_without_specs(metadata.hubs, version, timeout_s=_SET_TIMEOUT_S)
    if behind:
        raise BehindError(f"the limit is stored, but not yet applied by: {', '.join(behind)}", behind)
    if not is_quiet:
        typer.echo(f"spec {topic}: rate {given['rate_per_s']:g}/s, bursts of {fit.burst}")
