"""Turn a result into text: a table for the terminal, and the same table in Markdown for the documentation.

Both are made from the same lines, so they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Group
from rich.table import Table
from rich.text import Text

from equipoise.lab.bench.cases import FanoutCase
from equipoise.lab.bench.result import OURS, RIVAL, BenchResult, Metric, Row
from equipoise.profile.statistics import median


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    metrics: tuple[Metric, ...]


# The share of dropped deliveries is beside the latencies, because it shows how busy the machine was.
SECTIONS = (
    Section("Server CPU per delivery, µs", (Metric.CPU,)),
    Section("Deliveries per second", (Metric.RATE,)),
    Section("Latency under paced load, µs", (Metric.LATENCY_P50, Metric.LATENCY_P99, Metric.LEFT_OUT)),
    Section("Resident memory per idle subscriber, bytes", (Metric.MEMORY_FRESH, Metric.MEMORY_SETTLED)),
)

# Added to a case's label where several metrics share a section.
SUFFIXES = {
    Metric.LATENCY_P50: ": p50",
    Metric.LATENCY_P99: ": p99",
    Metric.LEFT_OUT: ": share left out",
    Metric.MEMORY_FRESH: ": after 1 s",
    Metric.MEMORY_SETTLED: ": settled",
}

# In a page of the documentation: text above, tables below.
MARKER = "<!-- Below: written by `equipoise bench render`. Change what is above. -->"

# On an idle machine of two cores the hub has 85 % of a core or more in every pipelined case.
_BUSY_MIN = 0.7

# Metrics whose ratios say nothing about a server.
_NO_RATIO = {Metric.LEFT_OUT}


def header(result: BenchResult) -> list[str]:
    ratios = [f"{OURS}/{name}" for name in result.servers if name != OURS]
    return ["case", *result.servers, *ratios, "goal", "met"]


def lines(result: BenchResult, section: Section) -> Iterator[list[str]]:
    """One list of cells per row of a section, in the order of `header`."""
    for row in result.rows:
        if row.metric not in section.metrics:
            continue
        rivals = [name for name in result.servers if name != OURS]
        yield [
            row.case.label + SUFFIXES.get(row.metric, ""),
            *(number(row.median(name)) for name in result.servers),
            *(ratio(row, name) for name in rivals),
            "" if row.goal is None else f"≤ {row.goal:g}",
            verdict(row),
        ]


def number(value: float | None) -> str:
    if value is None:
        return "failed"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 1 else f"{value:.3f}"


def ratio(row: Row, rival: str) -> str:
    """Median of the pairs' ratios; with their range if goals use them."""
    ratios = row.ratios(rival)
    if not ratios or row.metric in _NO_RATIO:
        return ""
    spread = f" ({min(ratios):.2f}–{max(ratios):.2f})" if rival == RIVAL and len(ratios) > 1 else ""
    return f"{median(ratios):.2f}{spread}"


def verdict(row: Row) -> str:
    if row.goal is None:
        return ""
    return {True: "yes", False: "no", None: "?"}[row.is_met]


def provenance(result: BenchResult) -> str:
    """One sentence with date, commit, machine, versions and settings."""
    machine = result.machine
    versions = ", ".join(f"{name} {number}" for name, number in result.versions.items())
    quick = ", quick" if result.is_quick else ""
    return (
        f"Taken {result.taken_at} at commit {result.commit} on {machine.cores} cores of {machine.processor}, "
        f"{machine.memory_bytes / 2**30:.0f} GiB, {machine.system}; {versions}; "
        f"{result.rounds} rounds, {result.window} sends in flight{quick}."
    )


def notes(result: BenchResult) -> list[str]:
    """Notes beside the numbers: skipped and failed servers, and whether the machine was busy."""
    noted = [f"{name} skipped: {reason}" for name, reason in result.skipped.items()]
    noted += [f"{each.server} failed at {each.case}: {each.reason}" for each in result.failures]
    starved = starved_cases(result)
    if starved:
        noted.append(
            f"The machine was busy elsewhere: at {', '.join(starved)}, the hub had less than "
            f"{_BUSY_MIN:.0%} of a core while it had work. Ratios hold better than absolute figures."
        )
    return noted


def starved_cases(result: BenchResult) -> list[str]:
    """Pipelined cases in which the hub, which always has work there, was often off the CPU."""
    return [
        row.case.label
        for row in result.rows
        if row.metric is Metric.BUSY and isinstance(row.case, FanoutCase) and row.case.batch > 1
        if (busy := row.median(OURS)) is not None and busy < _BUSY_MIN
    ]


def summary(result: BenchResult) -> str:
    judged = [row for row in result.rows if row.is_met is not None]
    if not judged:
        return f"No goal could be judged: that takes both {OURS} and {RIVAL}."
    return f"{sum(row.is_met is True for row in judged)} of {len(judged)} goals met."


def terminal(result: BenchResult) -> Group:
    tables = [_table(result, section) for section in SECTIONS if any(lines(result, section))]
    tail = [*notes(result), provenance(result), summary(result)]
    return Group(*tables, *(Text(each) for each in tail))


def _table(result: BenchResult, section: Section) -> Table:
    table = Table(title=section.title, title_justify="left")
    for position, name in enumerate(header(result)):
        table.add_column(name, justify="left" if position == 0 else "right")
    for cells in lines(result, section):
        colour = {"yes": "green", "no": "red"}.get(cells[-1], "")
        table.add_row(*(Text(cell) for cell in cells[:-1]), Text(cells[-1], style=colour))
    return table


def markdown(result: BenchResult) -> str:
    """The tables as Markdown, with date, commit and machine."""
    parts = [provenance(result), summary(result)]
    for section in SECTIONS:
        rows = [header(result), ["---"] * len(header(result)), *lines(result, section)]
        if len(rows) > 2:
            parts += [f"## {section.title}", "\n".join(f"| {' | '.join(cells)} |" for cells in rows)]
    parts += [f"- {note}" for note in notes(result)]
    return "\n\n".join(parts) + "\n"


def splice(page: str, tables: str) -> str:
    """Replace the text below the marker in `page` by `tables`; the text above it stays."""
    reading = page.partition(MARKER)[0].rstrip()
    return "\n\n".join(part for part in (reading, MARKER, tables) if part)
