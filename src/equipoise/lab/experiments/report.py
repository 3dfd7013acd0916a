"""Tell a result: a table for the terminal, a page of Markdown for the documentation."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from equipoise.lab.experiments.result import Result, Size

__all__ = ["MARKER", "command_of", "page_section", "seeds_told", "splice", "terminal"]

# What stands above is written by people and kept; everything below is written anew.
MARKER = "<!-- Below: written by `equipoise reproduce`. Change what is above. -->"


def terminal(result: Result) -> Table:
    """Claims against findings."""
    verdict = "holds" if result.holds else "falls short"
    table = Table(
        "claim",
        "paper",
        "ours",
        "verdict",
        title=f"{result.experiment} ({result.size.value}, {seeds_told(result)}): {verdict}",
        title_justify="left",
    )
    for claim in result.claims:
        table.add_row(claim.claim, claim.paper, claim.ours, _verdict(claim.holds))
    return table


def page_section(result: Result, *, title: str, summary: str, figures: Sequence[str]) -> str:
    """One experiment as a section; `figures` are the paths of its images, as the page refers to them."""
    lines = [f"## {title}", "", summary, ""]
    lines += ["| claim | paper | ours | verdict |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {_cell(claim.claim)} | {_cell(claim.paper)} | {_cell(claim.ours)} | {_verdict(claim.holds)} |"
        for claim in result.claims
    ]
    lines.append("")
    for image in figures:
        lines += [f"![{result.experiment}]({image})", ""]
    if result.parameters:
        lines += ["| parameter | value |", "| --- | --- |"]
        lines += [f"| {_cell(name)} | {_cell(value)} |" for name, value in result.parameters]
        lines.append("")
    lines += [f"- {note}" for note in result.notes]
    if result.notes:
        lines.append("")
    size = "Full size" if result.size is Size.FULL else "Quick size, to be read as an indication"
    lines.append(
        f"{size}, {seeds_told(result)}, {result.took_s:,.0f} s of wall clock, at commit {result.commit}"
        f"{f', {result.taken_at}' if result.taken_at else ''}{f', on {result.machine}' if result.machine else ''}. "
        f"Again: `{command_of(result)}`."
    )
    return "\n".join(lines) + "\n"


def seeds_told(result: Result) -> str:
    if not result.seeds:
        return f"seed {result.seed}"
    return f"seeds {result.seeds[0]} to {result.seeds[-1]}"


def command_of(result: Result) -> str:
    """What to type to have it again."""
    seeds = f"--seeds {result.seeds[0]}..{result.seeds[-1] + 1}" if result.seeds else f"--seed {result.seed}"
    quick = " --quick" if result.size is Size.QUICK else ""
    return f"equipoise reproduce {result.experiment}{quick} {seeds}"


def splice(page: str, sections: Sequence[str]) -> str:
    """The page with these sections below its marker."""
    head = page.partition(MARKER)[0].rstrip()
    return f"{head}\n\n{MARKER}\n\n" + "\n".join(sections)


def _verdict(holds: bool) -> str:
    return "holds" if holds else "falls short"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
