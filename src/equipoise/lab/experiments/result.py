"""What an experiment found: claims with verdicts, and the series behind them.

A result is a value: it is printed as one JSON object, drawn, tabulated and kept, and read back to be drawn again.

Always true: every number in it was measured in the run it tells of; a claim that could not be judged does not hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec

__all__ = ["Claim", "Figure", "Line", "Marks", "Panel", "Result", "Size", "decode", "encode", "to_object"]


class Size(StrEnum):
    """How much of the original is run."""

    FULL = "full"
    QUICK = "quick"


class Claim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something the paper says, what it says of it in numbers, what we found, and whether that is as good."""

    claim: str
    paper: str
    ours: str
    holds: bool
    # The number that decides, and the bound it is held against, where there is one: to judge over many seeds.
    value: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    # Over many seeds the median decides, not the worst.
    by_median: bool = False
    # Of many seeds, the number of the worst; `value` is their median.
    worst: float | None = None

    @property
    def badness(self) -> float:
        """Of the same claim in several runs, a higher one is worse; without a number all are alike."""
        if self.value is None:
            return 0.0
        return -self.value if self.at_least is not None else self.value


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One curve. A y of NaN is a point that was not measured."""

    label: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    # On a second axis at the right, which then has the unit given here.
    right_label: str = ""
    is_stepped: bool = False


class Marks(msgspec.Struct, frozen=True, kw_only=True):
    """Moments at which something happened, such as a new plan."""

    label: str
    x: tuple[float, ...]


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """One set of axes."""

    title: str
    y_label: str
    lines: tuple[Line, ...]
    marks: tuple[Marks, ...] = ()
    # A level that matters, such as a limit.
    level: float | None = None
    level_label: str = ""
    is_log: bool = False


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """Panels one above the other over the same x."""

    # Also the name of the file, without its ending.
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
    # What was run, in a reader's words: (name, value).
    parameters: tuple[tuple[str, str], ...] = ()
    # What a reader must know to judge the numbers: simplifications, shortfalls.
    notes: tuple[str, ...] = ()
    # Who summed the planner's views; empty if there was no planner. Of a campaign, the first seed's.
    views: str = ""
    commit: str = ""
    # Wall clock.
    took_s: float = 0.0
    # All seeds of a campaign; `seed` is then the one whose figures are shown. Empty: that one alone.
    seeds: tuple[int, ...] = ()
    # UTC, to the minute; what it ran on.
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
