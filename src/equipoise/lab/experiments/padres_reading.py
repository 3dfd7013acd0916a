"""Metrics of a federation run: differences between edges, cost of control, latency of messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from equipoise.lab.experiments.padres_world import BrokerSample, FederationRun
from equipoise.lab.experiments.result import Claim, Figure, Line, Panel

__all__ = [
    "WITHIN",
    "edge_loads",
    "exactly_once",
    "index_at",
    "least_left",
    "loads_figure",
    "mean_delay_s",
    "overhead",
    "peak_delay_s",
    "settled_s",
    "spreads",
    "subscribers_at",
]

WITHIN = 0.1


def _spread(run: FederationRun, at: int, value: Callable[[BrokerSample], float]) -> float:
    values = [value(samples[at]) for samples in run.edges.values()]
    return max(values) - min(values)


def spreads(run: FederationRun, at: int) -> tuple[float, float, float]:
    norm_s = run.scale.settings.delay_norm_s
    return (
        _spread(run, at, lambda sample: sample.input_ratio),
        _spread(run, at, lambda sample: sample.delay_s / norm_s),
        _spread(run, at, lambda sample: sample.output_ratio),
    )


def settled_s(run: FederationRun, begin_s: float, end_s: float, within: float = WITHIN) -> float | None:
    """Time from which on all three metrics of all edges stay within the trigger of each other, until the end."""
    settled: float | None = None
    for at, time_s in enumerate(run.times_s):
        if begin_s <= time_s < end_s:
            if max(spreads(run, at)) > within:
                settled = None
            elif settled is None:
                settled = time_s
    return settled


def index_at(run: FederationRun, time_s: float) -> int:
    return max(at for at, each_s in enumerate(run.times_s) if each_s <= time_s)


def subscribers_at(run: FederationRun, time_s: float) -> list[int]:
    at = index_at(run, time_s)
    return [samples[at].subscribers for samples in run.edges.values()]


def edge_loads(run: FederationRun, begin_s: float, end_s: float) -> list[tuple[float, float]]:
    """By edge, its mean input ratio and mean incoming messages per second over this time."""
    chosen = [at for at, time_s in enumerate(run.times_s) if begin_s < time_s <= end_s]
    return [
        (
            _mean([samples[at].input_ratio for at in chosen]),
            _mean([samples[at].input_ratio / samples[at].delay_s for at in chosen if samples[at].delay_s]),
        )
        for samples in run.edges.values()
    ]


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0


def overhead(run: FederationRun, begin_s: float, end_s: float) -> float:
    chosen = [at for at, time_s in enumerate(run.times_s) if begin_s < time_s <= end_s]
    return sum(run.control[at] for at in chosen) / max(1, sum(run.messages[at] for at in chosen))


def mean_delay_s(run: FederationRun, begin_s: float, end_s: float) -> float:
    chosen = [at for at, time_s in enumerate(run.times_s) if begin_s < time_s <= end_s]
    total = sum(run.delay_s[at] * run.deliveries[at] for at in chosen if run.deliveries[at])
    return total / max(1, sum(run.deliveries[at] for at in chosen))


def peak_delay_s(run: FederationRun) -> float:
    return max(delay_s for delay_s in run.delay_s if delay_s == delay_s)


def least_left(run: FederationRun) -> int:
    """The smallest number of subscribers of an edge after it had twenty."""
    least = []
    for samples in run.edges.values():
        counts = [sample.subscribers for sample in samples]
        began = next((at for at, count in enumerate(counts) if count >= 20), None)
        if began is not None:
            least.append(min(counts[began:]))
    return min(least)


def exactly_once(runs: Sequence[FederationRun]) -> tuple[Claim, Claim]:
    """The claims of every balanced run of these experiments."""
    expected = sum(run.expected for run in runs)
    lost, twice = sum(run.lost for run in runs), sum(run.twice for run in runs)
    return (
        Claim(
            claim="messages lost while subscribers move",
            paper="best effort",
            ours=f"{lost} of {expected:,}",
            holds=lost == 0 and expected > 0,
        ),
        Claim(
            claim="messages seen twice while subscribers move",
            paper="none",
            ours=f"{twice} of {expected:,}",
            holds=twice == 0,
        ),
    )


def _panel(run: FederationRun, title: str, y_label: str, value: Callable[[BrokerSample], float]) -> Panel:
    lines = tuple(
        Line(
            label=name,
            x=tuple(run.times_s),
            y=tuple(round(value(sample), 5) for sample in samples),
        )
        for name, samples in run.edges.items()
    )
    return Panel(title=title, y_label=y_label, lines=lines)


def loads_figure(name: str, title: str, run: FederationRun) -> Figure:
    return Figure(
        name=name,
        title=title,
        x_label="seconds",
        panels=(
            _panel(run, "a: input utilisation ratio", "ratio", lambda sample: sample.input_ratio),
            _panel(run, "b: matching delay", "ms", lambda sample: 1e3 * sample.delay_s),
            _panel(run, "c: output utilisation ratio", "ratio", lambda sample: sample.output_ratio),
            _panel(run, "e: subscribers", "subscribers", lambda sample: sample.subscribers),
        ),
    )
