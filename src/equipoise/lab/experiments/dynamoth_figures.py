"""The figures of Dynamoth's experiments 2 and 3, over the time of a run: its figures 5, 6 and 7."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equipoise.lab.experiments.result import Figure, Line, Marks, Panel
from equipoise.lab.experiments.run_game import RESPONSE_S_MAX, Outcome

__all__ = ["elasticity_figure", "load_figure", "scalability_figure"]


def scalability_figure(labels: Sequence[str], outcomes: Sequence[Outcome]) -> Figure:
    """Several systems on the same schedule."""
    pairs = list(zip(labels, outcomes, strict=True))
    plans = tuple(Marks(label=f"plans, {label}", x=_plans(outcome)) for label, outcome in pairs[:2])
    return Figure(
        name="dynamoth-2",
        title="Dynamoth experiment 2: players join until the servers are full",
        x_label="time, s",
        panels=(
            Panel(title="players", y_label="players", lines=tuple(_line(*pair, "players") for pair in pairs)),
            Panel(
                title="messages delivered, and servers (steps)",
                y_label="messages/s",
                lines=tuple(_line(*pair, "deliveries") for pair in pairs)
                + tuple(_line(*pair, "servers", right="servers") for pair in pairs),
            ),
            Panel(
                title="mean response",
                y_label="ms",
                lines=tuple(_responses(*pair) for pair in pairs),
                marks=plans,
                level=1e3 * RESPONSE_S_MAX,
                level_label="limit",
                is_log=True,
            ),
        ),
    )


def load_figure(name: str, outcome: Outcome) -> Figure:
    """How full the servers are, on average and at worst."""
    seconds = outcome.meter.seconds
    x = tuple(second.at_s for second in seconds)
    ratios = [second.load_ratios or (float("nan"),) for second in seconds]
    return Figure(
        name=name,
        title="Load ratios of the servers under the planner",
        x_label="time, s",
        panels=(
            Panel(
                title="load ratio, and servers (steps)",
                y_label="load ratio",
                lines=(
                    Line(label="average", x=x, y=tuple(sum(values) / len(values) for values in ratios)),
                    Line(label="busiest", x=x, y=tuple(max(values) for values in ratios)),
                    _line("servers", outcome, "servers", right="servers"),
                ),
                marks=(Marks(label="plans", x=_plans(outcome)),),
                level=1.0,
                level_label="full",
            ),
        ),
    )


def elasticity_figure(outcome: Outcome) -> Figure:
    """One system through ups and downs."""
    marks = (Marks(label="plans", x=_plans(outcome)),)
    return Figure(
        name="dynamoth-3",
        title="Dynamoth experiment 3: players come, go and come back",
        x_label="time, s",
        panels=(
            Panel(
                title="players, and servers (steps)",
                y_label="players",
                lines=(
                    _line("players", outcome, "players"),
                    _line("servers", outcome, "servers", right="servers"),
                ),
                marks=marks,
            ),
            Panel(
                title="mean response",
                y_label="ms",
                lines=(_responses("response", outcome),),
                marks=marks,
                level=1e3 * RESPONSE_S_MAX,
                level_label="limit",
            ),
            Panel(
                title="messages delivered",
                y_label="messages/s",
                lines=(_line("messages", outcome, "deliveries"),),
            ),
        ),
    )


def _line(label: str, outcome: Outcome, what: str, *, right: str = "") -> Line:
    seconds = outcome.meter.seconds
    return Line(
        label=f"{label}, servers" if right and label != "servers" else label,
        x=tuple(second.at_s for second in seconds),
        y=tuple(float(getattr(second, what)) for second in seconds),
        right_label=right,
        is_stepped=bool(right),
    )


def _responses(label: str, outcome: Outcome) -> Line:
    x = tuple(second.at_s for second in outcome.meter.seconds)
    return Line(label=label, x=x, y=tuple(np.round(1e3 * outcome.responses_s, 2).tolist()))


def _plans(outcome: Outcome) -> tuple[float, ...]:
    return tuple(round(at_s, 2) for at_s in outcome.meter.plans_at_s)
