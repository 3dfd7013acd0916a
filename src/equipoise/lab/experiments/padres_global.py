"""PADRES, 6.3: clusters in a chain, all subscribers at the first (figure 8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

from equipoise.content.balancing.settings import BalancingSettings
from equipoise.lab.experiments.experiment import Experiment, Progress, curves, sweep
from equipoise.lab.experiments.padres_common import LOCAL_NOTES, OURS, PAPER, common_parameters
from equipoise.lab.experiments.padres_hubs import LabMachine
from equipoise.lab.experiments.padres_reading import exactly_once
from equipoise.lab.experiments.padres_world import (
    BrokerSample,
    FederationRun,
    FederationScale,
    run_federation,
)
from equipoise.lab.experiments.result import Claim, Figure, Line, Panel, Size

__all__ = ["EXPERIMENT_8", "GlobalTimes", "balance_globally", "chain"]

# Seconds of a processor of 1 GHz for all subscriptions together: four clusters balance near 0.45.
SUBSCRIPTIONS_S = 0.17
# For one subscription, where the number of clusters varies: fewer clusters must carry the load too.
SWEEP_SUBSCRIPTION_S = 65e-6
CONVERGED_S = 4_500.0
# A cluster may be this much above the previous one, because the difference triggers no session.
SLACK = 0.05
GAIN_MIN = 0.05


class GlobalTimes(NamedTuple):
    """Duration, and numbers of clusters."""

    joins_s: tuple[float, float]
    changes_s: float
    ends_s: float
    clusters: tuple[int, ...]
    sweep_ends_s: float
    subscribers: int = 2_000

    @property
    def subscription_s(self) -> float:
        """Cost of one subscription at 1 GHz, so that any number of subscribers makes the same load."""
        return SUBSCRIPTIONS_S / self.subscribers


@dataclass(frozen=True, slots=True)
class GlobalSeen:
    times: GlobalTimes
    paper: FederationRun
    ours: FederationRun
    unbalanced: FederationRun
    by_clusters: dict[int, FederationRun]


def chain(
    count: int,
    subscription_s: float,
    edges: Sequence[float] = (0.5, 1.0),
    *,
    head_ghz: float = 3.0,
    head_bytes: float = 1e9,
) -> tuple[tuple[LabMachine, tuple[LabMachine, ...]], ...]:
    """A chain of clusters; each has edges of these GHz, with 6 Mbit/s and 256 MB each."""
    return tuple(
        (
            LabMachine(f"B{cluster}0", head_ghz, 10e6, head_bytes, subscription_s),
            tuple(
                LabMachine(f"B{cluster}{number}", ghz, 6e6 * ghz, 256e6 * ghz, subscription_s)
                for number, ghz in enumerate(edges, 1)
            ),
        )
        for cluster in range(1, count + 1)
    )


def balance_globally(times: GlobalTimes, seed: int, progress: Progress) -> GlobalSeen:
    """All runs of the experiment."""

    def point(settings: BalancingSettings, *, is_balanced: bool = True) -> FederationScale:
        return FederationScale(
            chain(4, times.subscription_s),
            settings,
            is_balanced=is_balanced,
            silent_share=0.2,
            subscribers=times.subscribers,
            joins_s=times.joins_s,
            changes_s=times.changes_s,
            ends_s=times.ends_s,
        )

    by_clusters = {
        count: point(PAPER)._replace(
            clusters=chain(count, SWEEP_SUBSCRIPTION_S, (0.5, 0.5), head_ghz=2.0, head_bytes=512e6),
            changes_s=times.sweep_ends_s,
            ends_s=times.sweep_ends_s,
        )
        for count in times.clusters
    }
    # A shorter run without balancing, in which the delay only grows.
    unbalanced = point(PAPER, is_balanced=False)._replace(ends_s=min(times.ends_s, 1_500.0))
    paper, ours = point(PAPER), point(OURS)
    found = sweep(
        partial(run_federation, seed=seed), [paper, ours, unbalanced, *by_clusters.values()], progress, "runs"
    )
    return GlobalSeen(
        times,
        found[paper],
        found[ours],
        found[unbalanced],
        {count: found[scale] for count, scale in by_clusters.items()},
    )


def _cluster(run: FederationRun, number: int, at: int, value: Callable[[BrokerSample], float]) -> float:
    _, edges = run.scale.clusters[number]
    return fmean(value(run.edges[machine.name][at]) for machine in edges)


def _converged_s(run: FederationRun, end_s: float) -> float:
    """Time from which on no cluster moves more than one subscriber in fifty within a sample."""
    last = 0.0
    for at, time_s in enumerate(run.times_s[1:], 1):
        if time_s >= end_s:
            break
        for number in range(len(run.scale.clusters)):
            before = _cluster(run, number, at - 1, lambda sample: sample.subscribers)
            now = _cluster(run, number, at, lambda sample: sample.subscribers)
            if abs(now - before) > 0.02 * max(now, before, 50.0):
                last = time_s
    return last


def _falling(run: FederationRun, end_s: float) -> list[float]:
    at = max(index for index, time_s in enumerate(run.times_s) if time_s < end_s)
    chosen = range(max(0, at - 20), at)
    return [
        fmean(_cluster(run, number, index, lambda sample: sample.input_ratio) for index in chosen)
        for number in range(len(run.scale.clusters))
    ]


def _delay_s(run: FederationRun) -> float:
    chosen = range(max(0, len(run.times_s) - 20), len(run.times_s))
    total = sum(run.delay_s[at] * run.deliveries[at] for at in chosen if run.deliveries[at])
    return total / max(1, sum(run.deliveries[at] for at in chosen))


def _claims(seen: GlobalSeen) -> tuple[Claim, ...]:
    times, run = seen.times, seen.paper
    converged = _converged_s(run, times.changes_s)
    loads = _falling(run, times.changes_s)
    delays = {count: _delay_s(each) for count, each in seen.by_clusters.items()}
    near = [delay_s for count, delay_s in delays.items() if count <= 4]
    far = [delay_s for count, delay_s in delays.items() if count > 4]
    gained = 1 - min(far) / min(near) if far else 0.0
    unbalanced = max(delay_s for delay_s in seen.unbalanced.delay_s if delay_s == delay_s)
    after = _falling(seen.ours, times.changes_s)
    return (
        Claim(
            claim="subscribers have stopped moving between clusters",
            paper="after 4,500 s",
            ours=f"at {converged:,.0f} s",
            holds=0 < converged <= CONVERGED_S and converged < times.changes_s - 100,
            value=converged,
            at_most=CONVERGED_S,
        ),
        Claim(
            claim="clusters further from where subscribers came have less load (input ratio)",
            paper="falls with distance",
            ours=" > ".join(f"{load:.2f}" for load in loads),
            holds=all(after <= before + SLACK for before, after in pairwise(loads)) and loads[-1] < loads[0],
        ),
        Claim(
            claim="more clusters reduce the delivery delay, those more than 3 hops away no more",
            paper="no gain beyond 3 hops",
            ours=", ".join(f"{count}: {1e3 * delay_s:,.0f} ms" for count, delay_s in delays.items()),
            holds=near == sorted(near, reverse=True) and gained <= GAIN_MIN,
        ),
        Claim(
            claim="without balancing the delivery delay grows to",
            paper="not run",
            ours=f"{unbalanced:,.0f} s against {1e3 * _delay_s(run):,.0f} ms",
            holds=unbalanced > 10 * _delay_s(run),
        ),
        Claim(
            claim="ours (fitted, first edge chosen): loads of the clusters",
            paper="not run",
            ours=f"{' > '.join(f'{load:.2f}' for load in after)}; {seen.ours.moved:,} moved against {run.moved:,}",
            holds=max(after) <= 0.95,
        ),
        *exactly_once([run, seen.ours, *seen.by_clusters.values()]),
    )


def _figure(name: str, title: str, run: FederationRun) -> Figure:
    def panel(title: str, y_label: str, value: Callable[[BrokerSample], float]) -> Panel:
        return Panel(
            title=title,
            y_label=y_label,
            lines=tuple(
                Line(
                    label=f"B{number + 1}x",
                    x=tuple(run.times_s),
                    y=tuple(round(_cluster(run, number, at, value), 5) for at in range(len(run.times_s))),
                )
                for number in range(len(run.scale.clusters))
            ),
        )

    return Figure(
        name=name,
        title=title,
        x_label="seconds",
        panels=(
            panel("a: input utilisation ratio", "ratio", lambda sample: sample.input_ratio),
            panel("b: matching delay", "ms", lambda sample: 1e3 * sample.delay_s),
            panel("c: output utilisation ratio", "ratio", lambda sample: sample.output_ratio),
        ),
    )


def _figure_d(seen: GlobalSeen) -> Figure:
    return Figure(
        name="padres-8d",
        title="Delivery delay against the number of clusters (figure 8d)",
        x_label="clusters",
        panels=(
            Panel(
                title="",
                y_label="ms",
                lines=curves(
                    [("paper's", list(seen.by_clusters.items()))],
                    lambda at: at[0],
                    lambda at: round(1e3 * _delay_s(at[1]), 2),
                ),
                is_log=True,
            ),
        ),
    )


EXPERIMENT_8 = Experiment(
    name="padres-8",
    source="PADRES, 6.3, figure 8",
    summary="2,000 subscribers come to one edge of the first of four clusters in a chain.",
    worlds={
        Size.FULL: GlobalTimes((10.0, 20.0), 8_000.0, 9_500.0, (1, 2, 3, 4, 5, 6), 6_000.0),
        # As long as subscribers moved in the paper.
        Size.QUICK: GlobalTimes((10.0, 20.0), 4_700.0, 4_900.0, (2, 4, 5), 2_000.0, 1_000),
    },
    world=balance_globally,
    claims=_claims,
    figures=(
        lambda seen: _figure("padres-8-loads", "As in the paper (figures 8a to 8c)", seen.paper),
        lambda seen: _figure("padres-8-ours", "Ours: fitted estimate, first edge chosen", seen.ours),
        _figure_d,
    ),
    parameters=lambda seen: (
        *common_parameters(PAPER, seen.times.subscription_s),
        ("matching, where clusters are varied", f"{1e6 * SWEEP_SUBSCRIPTION_S:g} µs for each subscription"),
        ("subscribers", f"{seen.times.subscribers:,}, a fifth of them silent"),
        (
            "edges of each cluster (figure 5b is not in the paper's text)",
            "500 MHz, 3 Mbit/s; 1 GHz, 6 Mbit/s",
        ),
        (
            "two clusters part",
            f"when balanced, after {PAPER.global_quiet_s:g} s without a session, or {PAPER.global_s:g} s",
        ),
    ),
    notes=lambda seen: LOCAL_NOTES,
    takes=("1.5 minutes", "5 minutes"),
)
