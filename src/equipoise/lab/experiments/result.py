"""The result of an experiment: claims with verdicts, and the data series behind them.

A result is a value: it is printed as one JSON object, drawn, tabulated and stored, and read back to be drawn again.

Always true: every number in it was measured in that run; a claim that could not be checked does not hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec

__all__ = ["Claim", "Figure", "Line", "Marks", "Panel", "Result", "Size", "decode", "encode", "to_object"]


class Size(StrEnum):
    """Size of a run relative to the original."""

    FULL = "full"
    QUICK = "quick"


class Claim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A claim of the paper, its number there, the measured number, and whether the claim holds."""

    claim: str
    paper: str
    ours: str
    holds: bool
    # The deciding number and its bound, if there is one, for campaigns over many seeds.
    value: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    # Over many seeds the median decides, not the worst.
    by_median: bool = False
    # Over many seeds, the worst number; `value` is the median.
    worst: float | None = None

    @property
    def badness(self) -> float:
        """Orders runs of the same claim: higher is worse; equal without a number."""
        if self.value is None:
            return 0.0
        return -self.value if self.at_least is not None else self.value


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One curve. A y of NaN is a point that was not measured."""

    label: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    # Label of a second axis at the right, which this line uses.
    right_label: str = ""
    is_stepped: bool = False


class Marks(msgspec.Struct, frozen=True, kw_only=True):
    """Times of events, such as new plans."""

    label: str
    x: tuple[float, ...]


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """One set of axes."""

    title: str
    y_label: str
    lines: tuple[Line, ...]
    marks: tuple[Marks, ...] = ()
    # A horizontal line, such as a limit.
    level: float | None = None
    level_label: str = ""
    is_log: bool = False


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """Panels one above the other over the same x."""

    # Also the file name without its suffix.
    name: str
    title: str
    x_label: str
    panels: tuple[Panel, ...]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one experiment."""

    experiment: str
    size: Size
    seed: int
    claims: tuple[Claim, ...]
    figures: tuple[Figure, ...]
    # Parameters of the run for readers: (name, value).
    parameters: tuple[tuple[str, str], ...] = ()
    # Notes for readers: simplifications, shortfalls.
    notes: tuple[str, ...] = ()
    # Source of the planner's views; empty without a planner. In a campaign, of the first seed.
    views: str = ""
    commit: str = ""
    # Wall clock.
    took_s: float = 0.0
    # All seeds of a campaign; `seed` is then the seed of the figures. Empty: a single seed.
    seeds: tuple[int, ...] = ()
    # Date in UTC, to the minute; and the machine.
    taken_at: str = ""
    machine: str = ""

    @property
    def holds(self) -> bool:
        return all(claim.holds for claim in self.claims)


def to_object(result: Result) -> dict[str, Any]:
    """The JSON object of `--json`: experiment, size, claims and series first, the rest behind them."""
    return {
        "experiment": result.experiment,
        "size": result.size.value,
        "claims": [msgspec.to_builtins(claim) for claim in result.claims],
        "series": {figure.name: _series(figure) for figure in result.figures},
        "parameters": dict(result.parameters),
        "notes": list(result.notes),
        "views": result.views,
        "seed": result.seed,
        "seeds": list(result.seeds) or [result.seed],
        "taken_at": result.taken_at,
        "machine": result.machine,
        "commit": result.commit,
        "took_s": round(result.took_s, 1),
    }


def encode(result: Result) -> bytes:
    """To be kept: everything, as JSON that `decode` reads."""
    return msgspec.json.format(msgspec.json.encode(result), indent=1)


def decode(data: bytes) -> Result:
    """Raises msgspec.DecodeError if the bytes are no kept result."""
    return msgspec.json.decode(data, type=Result)


def _series(figure: Figure) -> dict[str, Any]:
    return {
        "title": figure.title,
        "x_label": figure.x_label,
        "panels": [
            {
                "title": panel.title,
                "y_label": panel.y_label,
                "lines": {line.label: {"x": list(line.x), "y": _finite(line.y)} for line in panel.lines},
                "marks": {marks.label: list(marks.x) for marks in panel.marks},
            }
            for panel in figure.panels
        ],
    }


def _finite(values: Sequence[float | None]) -> list[float | None]:
    """JSON has no NaN: a point that was not measured is null."""
    return [None if value is None or value != value else value for value in values]
