"""PADRES, 6.2: one head, edges that differ tenfold in strength, all subscribers at the weakest (figures 6a to 6h)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

import msgspec

from equipoise.content.balancing.settings import BalancingSettings
from equipoise.lab.experiments.experiment import Experiment, Progress, curves, sweep
from equipoise.lab.experiments.padres_common import LOCAL_NOTES, OURS, PAPER, common_parameters
from equipoise.lab.experiments.padres_hubs import LabMachine
from equipoise.lab.experiments.padres_reading import (
    WITHIN,
    edge_loads,
    exactly_once,
    least_left,
    loads_figure,
    mean_delay_s,
    overhead,
    peak_delay_s,
    settled_s,
    spreads,
    subscribers_at,
)
from equipoise.lab.experiments.padres_world import FederationRun, FederationScale, run_federation
from equipoise.lab.experiments.result import Claim, Figure, Line, Panel, Size

__all__ = [
    "EXPERIMENT_6",
    "LocalSeen",
    "LocalTimes",
    "balance_locally",
    "star",
]

# Seconds of a processor of 1 GHz for one subscription: edges are balanced near 0.45.
SUBSCRIPTION_S = 20e-6
STRENGTHS = (1, 2, 4, 10)
STRENGTH_SHORTFALL_MAX = 0.2
OVERHEAD_MAX = 0.015
OVERHEAD_AFTER_MAX = 0.002


class LocalTimes(NamedTuple):
    """Durations, and the points of the sweeps."""

    joins_s: tuple[float, float]
    # Time by which all edges should be balanced; time of the publishers' change; time limit to balance again.
    settles_s: float
    changes_s: float
    resettles_s: float
    ends_s: float
    edges: tuple[int, ...]
    thresholds: tuple[float, ...]
    sweep_ends_s: float
    subscribers: int = 2_000


@dataclass(frozen=True, slots=True)
class LocalSeen:
    times: LocalTimes
    paper: FederationRun
    ours: FederationRun
    unbalanced: FederationRun
    by_edges: dict[int, FederationRun]
    by_threshold: dict[float, FederationRun]

    @property
    def runs(self) -> tuple[FederationRun, ...]:
        return (self.paper, self.ours, *self.by_edges.values(), *self.by_threshold.values())


def star(
    strengths: Sequence[float] = STRENGTHS, *, subscription_s: float = SUBSCRIPTION_S, match_s: float = 0.0
) -> tuple[tuple[LabMachine, tuple[LabMachine, ...]], ...]:
    """B0 with edges of these strengths; 1 is 100 MHz, 64 MB and 0.6 Mbit/s."""
    head = LabMachine("B0", 2.0, 10e6, 256e6, subscription_s)
    edges = tuple(
        LabMachine(f"B{number}", 0.1 * strength, 0.6e6 * strength, 64e6 * strength, subscription_s, match_s)
        for number, strength in enumerate(strengths, 1)
    )
    return ((head, edges),)


def balance_locally(times: LocalTimes, seed: int, progress: Progress) -> LocalSeen:
    """All runs of the experiment."""

    def point(settings: BalancingSettings, *, is_balanced: bool = True) -> FederationScale:
        return FederationScale(
            star(),
            settings,
            is_balanced=is_balanced,
            subscribers=times.subscribers,
            joins_s=times.joins_s,
            changes_s=times.changes_s,
            ends_s=times.ends_s,
        )

    by_edges = {
        # 500 MHz and 3 Mbit/s each; the paper has 128 MB.
        count: point(PAPER)._replace(
            clusters=star((5,) * count), changes_s=times.sweep_ends_s, ends_s=times.sweep_ends_s
        )
        for count in times.edges
    }
    by_threshold = {
        threshold: point(
            msgspec.structs.replace(
                PAPER,
                local_ratio_trigger=threshold,
                local_delay_trigger=threshold,
                side_effect_ratio=min(PAPER.side_effect_ratio, 0.8 * threshold),
            )
        )._replace(changes_s=times.sweep_ends_s, ends_s=times.sweep_ends_s)
        for threshold in times.thresholds
    }
    paper, ours, unbalanced = point(PAPER), point(OURS), point(PAPER, is_balanced=False)
    points = [paper, ours, unbalanced, *by_edges.values(), *by_threshold.values()]
    found = sweep(partial(run_federation, seed=seed), points, progress, "runs")
    return LocalSeen(
        times,
        found[paper],
        found[ours],
        found[unbalanced],
        {count: found[scale] for count, scale in by_edges.items()},
        {threshold: found[scale] for threshold, scale in by_threshold.items()},
    )


# Claims.


def _told(settled: float | None) -> str:
    return "not within the run" if settled is None else f"at {settled:,.0f} s"


def _claims(seen: LocalSeen) -> tuple[Claim, ...]:
    times, run = seen.times, seen.paper
    first = settled_s(run, times.joins_s[1], times.changes_s)
    again = settled_s(run, times.changes_s, times.ends_s)
    until_s = times.changes_s + times.resettles_s
    counts = subscribers_at(run, times.changes_s - 1)
    loads = edge_loads(run, times.settles_s, times.changes_s)
    least = least_left(run)
    during = overhead(run, times.joins_s[1], times.settles_s)
    after = overhead(run, times.settles_s, times.changes_s)
    return (
        Claim(
            claim=f"all three metrics of all edges are within {WITHIN:g} of each other",
            paper=f"by 1,800 s, {times.settles_s - times.joins_s[1]:,.0f} s after the last subscriber has come",
            ours=_told(first),
            holds=first is not None and first <= times.settles_s,
            value=first,
            at_most=times.settles_s,
        ),
        Claim(
            claim=f"again after half of the publishers publish twice as much at {times.changes_s:,.0f} s",
            paper="400 s later",
            ours=_told(again),
            holds=again is not None and again <= until_s,
            value=again,
            at_most=until_s,
        ),
        Claim(
            claim="no edge is emptied on the way: the fewest subscribers of one that had twenty",
            paper="B1 loses all at 1,400 s",
            ours=f"{least}",
            holds=least > 0,
            value=float(least),
            at_least=1.0,
        ),
        _strengths_claim(
            "subscribers per edge are as the edges' strengths, 1 : 2 : 4 : 10",
            "as drawn; within 20 % asked",
            counts,
            f"input ratios {', '.join(f'{ratio:.2f}' for ratio, _ in loads)} at "
            f"{', '.join(f'{rate:.1f}' for _, rate in loads)} messages a second",
        ),
        _strengths_claim(
            "the same of an edge's work, subscribers times messages a second",
            "not drawn; within 20 % asked",
            [count * rate for count, (_, rate) in zip(counts, loads, strict=True)],
        ),
        _overhead_claim("while hubs balance", during, OVERHEAD_MAX, "1.5 %"),
        _overhead_claim("when they are balanced", after, OVERHEAD_AFTER_MAX, "0.2 %"),
        *_sweep_claims(seen),
        *_comparisons(seen),
        *exactly_once(seen.runs),
    )


def _strengths_claim(claim: str, paper: str, amounts: Sequence[float], more: str = "") -> Claim:
    shortfall = max(
        abs(amount / amounts[0] / strength - 1) for amount, strength in zip(amounts, STRENGTHS, strict=True)
    )
    found = f"{' : '.join(f'{amount / amounts[0]:.2f}' for amount in amounts)}, off by {shortfall:.0%}"
    return Claim(
        claim=claim,
        paper=paper,
        ours=f"{found}; {more}" if more else found,
        holds=shortfall <= STRENGTH_SHORTFALL_MAX,
        value=shortfall,
        at_most=STRENGTH_SHORTFALL_MAX,
    )


def _overhead_claim(when: str, part: float, bound: float, paper: str) -> Claim:
    return Claim(
        claim=f"control messages, each hop counted, among all messages {when}",
        paper=paper,
        ours=f"{part:.2%}",
        holds=part <= bound,
        value=part,
        at_most=bound,
    )


def _sweep_claims(seen: LocalSeen) -> tuple[Claim, ...]:
    times = seen.times
    begin_s = times.sweep_ends_s - 200.0
    delays = [mean_delay_s(run, begin_s, times.sweep_ends_s) for run in seen.by_edges.values()]
    differences = {
        threshold: [spreads(run, at)[0] for at, time_s in enumerate(run.times_s) if time_s > begin_s]
        for threshold, run in seen.by_threshold.items()
    }
    return (
        Claim(
            claim=f"the delivery delay falls with edges ({', '.join(map(str, seen.by_edges))})",
            paper="falls",
            ours=", ".join(f"{1e3 * delay_s:,.0f} ms" for delay_s in delays),
            holds=all(later < sooner for sooner, later in pairwise(delays)),
        ),
        Claim(
            claim="the difference of input ratios stays below the threshold, for each threshold",
            paper="well below",
            ours=", ".join(f"{max(found):.3f} of {threshold:g}" for threshold, found in differences.items()),
            holds=all(max(found) <= threshold for threshold, found in differences.items()),
        ),
        Claim(
            claim="the same, on average over these 200 s",
            paper="well below",
            ours=", ".join(
                f"{fmean(found):.3f} of {threshold:g}" for threshold, found in differences.items()
            ),
            holds=all(fmean(found) <= threshold for threshold, found in differences.items()),
        ),
    )


def _comparisons(seen: LocalSeen) -> tuple[Claim, ...]:
    times = seen.times
    settled = mean_delay_s(seen.paper, times.settles_s, times.changes_s)
    unbalanced = peak_delay_s(seen.unbalanced)
    return (
        Claim(
            claim="without balancing the delivery delay grows to so many times the balanced one",
            paper="750 times, overloaded, before it is balanced",
            ours=f"{unbalanced / settled:,.0f} times ({unbalanced:,.0f} s against {1e3 * settled:,.0f} ms); "
            f"with balancing {peak_delay_s(seen.paper) / settled:.1f} times at most",
            holds=unbalanced > 10 * settled,
        ),
        Claim(
            claim="ours (fitted, first edge chosen): subscribers that have to move",
            paper="not run; fewer asked",
            ours=f"{seen.ours.moved:,} against {seen.paper.moved:,}",
            holds=seen.ours.moved < seen.paper.moved,
        ),
        Claim(
            claim="ours: the longest mean delivery delay, over all times",
            paper="not run; shorter asked",
            ours=f"{1e3 * peak_delay_s(seen.ours):,.0f} ms against {1e3 * peak_delay_s(seen.paper):,.0f} ms",
            holds=peak_delay_s(seen.ours) <= 1.05 * peak_delay_s(seen.paper),
        ),
    )


# Figures.


def _over_time(run: FederationRun, label: str, values: Sequence[float]) -> Line:
    return Line(label=label, x=tuple(run.times_s), y=tuple(round(value, 6) for value in values))


def _delays(seen: LocalSeen) -> Figure:
    runs = (("paper's", seen.paper), ("ours", seen.ours))
    return Figure(
        name="padres-6-delay",
        title="Delivery delay and overhead (figures 6d, 6f)",
        x_label="seconds",
        panels=(
            Panel(
                title="d: mean delivery delay",
                y_label="s",
                lines=tuple(
                    _over_time(run, label, run.delay_s)
                    for label, run in (*runs, ("without balancing", seen.unbalanced))
                ),
                is_log=True,
            ),
            Panel(
                title="f: control messages among all",
                y_label="%",
                lines=tuple(
                    _over_time(
                        run,
                        label,
                        [
                            100 * control / max(1, total)
                            for control, total in zip(run.control, run.messages, strict=True)
                        ],
                    )
                    for label, run in runs
                ),
            ),
        ),
    )


def _sweeps(seen: LocalSeen) -> Figure:
    begin_s, end_s = seen.times.sweep_ends_s - 200.0, seen.times.sweep_ends_s
    last = {threshold: spreads(run, -1) for threshold, run in seen.by_threshold.items()}
    rows = [("input", 0), ("matching delay / 0.1 s", 1), ("output", 2)]
    return Figure(
        name="padres-6-sweeps",
        title="Number of edges (6g), detection threshold (6h)",
        x_label="edges; threshold",
        panels=(
            Panel(
                title="g: delivery delay",
                y_label="ms",
                lines=curves(
                    [("paper's", list(seen.by_edges.items()))],
                    lambda at: at[0],
                    lambda at: round(1e3 * mean_delay_s(at[1], begin_s, end_s), 3),
                ),
            ),
            Panel(
                title="h: largest difference between edges",
                y_label="ratio",
                lines=curves(
                    [(label, [(at, found[index]) for at, found in last.items()]) for label, index in rows],
                    lambda at: at[0],
                    lambda at: round(at[1], 5),
                ),
            ),
        ),
    )


EXPERIMENT_6 = Experiment(
    name="padres-6",
    source="PADRES, 6.2, figure 6",
    summary="2,000 subscribers come to the weakest of four edges; edges balance by moving them.",
    worlds={
        Size.FULL: LocalTimes(
            (10.0, 1_010.0),
            1_800.0,
            3_000.0,
            400.0,
            4_500.0,
            (1, 2, 3, 4, 6, 8),
            (0.05, 0.1, 0.15, 0.2, 0.3),
            2_500.0,
        ),
        Size.QUICK: LocalTimes(
            (10.0, 1_010.0), 1_800.0, 2_000.0, 400.0, 2_500.0, (2, 4), (0.1, 0.2), 1_400.0
        ),
    },
    world=balance_locally,
    claims=_claims,
    figures=(
        lambda seen: loads_figure("padres-6-loads", "As in the paper (figures 6a to 6c, 6e)", seen.paper),
        lambda seen: loads_figure("padres-6-ours", "Ours: fitted estimate, first edge chosen", seen.ours),
        _delays,
        _sweeps,
    ),
    parameters=lambda seen: common_parameters(PAPER, SUBSCRIPTION_S),
    notes=lambda seen: LOCAL_NOTES,
    takes=("2 minutes", "10 minutes"),
)
