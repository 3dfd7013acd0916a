"""Tell a result: a table for the terminal, a page of Markdown for the documentation."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from equipoise.lab.experiments.result import Result, Size

__all__ = ["MARKER", "page_section", "splice", "terminal"]

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
        title=f"{result.experiment} ({result.size.value}, seed {result.seed}): {verdict}",
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
        f"{size}, seed {result.seed}, {result.took_s:,.0f} s of wall clock, at commit {result.commit}. "
        f"Again: `equipoise reproduce {result.experiment}"
        f"{' --quick' if result.size is Size.QUICK else ''} --seed {result.seed}`."
    )
    return "\n".join(lines) + "\n"


def splice(page: str, sections: Sequence[str]) -> str:
    """The page with these sections below its marker."""
    head = page.partition(MARKER)[0].rstrip()
    return f"{head}\n\n{MARKER}\n\n" + "\n".join(sections)


def _verdict(holds: bool) -> str:
    return "holds" if holds else "falls short"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
