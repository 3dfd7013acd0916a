"""Show a result: a terminal table, a page of Markdown, figures and JSON.

In the output folder, `<paper>.md` is the page; `<paper>/` holds the figures and one JSON file per experiment. A result
of the full size has a file and figures of its own (`<experiment>-full`) beside one of the quick size. A page contains
all results stored beside it, so that one experiment can be run again alone; the text above its marker stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.table import Table

from equipoise.errors import SettingsError
from equipoise.lab.experiments.figures import draw
from equipoise.lab.experiments.registry import EXPERIMENTS
from equipoise.lab.experiments.result import Result, Size, decode, encode

__all__ = [
    "MARKER",
    "command_of",
    "keep",
    "kept_paths",
    "page_section",
    "seeds_text",
    "splice",
    "terminal",
]

# The text above the marker is written by people and kept; the text below is generated.
MARKER = "<!-- Below: written by `equipoise reproduce`. Change what is above. -->"


def terminal(result: Result) -> Table:
    """Claims against findings."""
    verdict = "holds" if result.holds else "falls short"
    table = Table(
        "claim",
        "paper",
        "ours",
        "verdict",
        title=f"{result.experiment} ({result.size.value}, {seeds_text(result)}): {verdict}",
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
    notes = [*_views_text(result), *result.notes]
    lines += [f"- {note}" for note in notes]
    if notes:
        lines.append("")
    size = "Full size" if result.size is Size.FULL else "Quick size, to be read as an indication"
    lines.append(
        f"{size}, {seeds_text(result)}, {result.took_s:,.0f} s of wall clock, at commit {result.commit}"
        f"{f', {result.taken_at}' if result.taken_at else ''}{f', on {result.machine}' if result.machine else ''}. "
        f"Again: `{command_of(result)}`."
    )
    return "\n".join(lines) + "\n"


def _views_text(result: Result) -> list[str]:
    if not result.views:
        return []
    return [f"Seed {result.seeds[0]}: {result.views}" if result.seeds else result.views]


def seeds_text(result: Result) -> str:
    if not result.seeds:
        return f"seed {result.seed}"
    return f"seeds {result.seeds[0]} to {result.seeds[-1]}"


def command_of(result: Result) -> str:
    """The command that gives this result."""
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


def keep(result: Result, folder: Path) -> Path:
    """Write a result with its figures and page. Returns the path of the page. Raises SettingsError on a write error."""
    experiment = EXPERIMENTS[result.experiment]
    beside = folder / experiment.page
    try:
        beside.mkdir(parents=True, exist_ok=True)
        path = _path_of(result, beside)
        suffix = path.stem.removeprefix(result.experiment)
        figures = [
            msgspec.structs.replace(figure, name=f"{figure.name}{suffix}") for figure in result.figures
        ]
        for figure in figures:
            draw(figure, beside)
        path.write_bytes(encode(msgspec.structs.replace(result, figures=tuple(figures))))
        page = folder / f"{experiment.page}.md"
        head = page.read_text() if page.exists() else f"# {experiment.page.capitalize()}\n"
        page.write_text(splice(head, _sections(folder, experiment.page)))
    except OSError as problem:
        raise SettingsError(
            f"cannot write results into {folder}: {problem.strerror}. Give --out a folder you may write to"
        ) from problem
    return page


def kept_paths(folder: Path, experiment: str) -> list[Path]:
    """The files of this experiment's results in the folder of its page: one, or the quick and the full size."""
    paths = (folder / f"{experiment}.json", folder / f"{experiment}-full.json")
    return [path for path in paths if path.exists()]


def _path_of(result: Result, folder: Path) -> Path:
    path = folder / f"{result.experiment}.json"
    has_quick = path.exists() and _read(path).size is Size.QUICK
    return folder / f"{result.experiment}-full.json" if has_quick and result.size is Size.FULL else path


def _read(path: Path) -> Result:
    try:
        return decode(path.read_bytes())
    except msgspec.DecodeError as problem:
        raise SettingsError(f"{path} is not a kept result: {problem}. Remove it or run it again") from problem


def _sections(folder: Path, page: str) -> list[str]:
    """The sections of all stored results, in the order of the registry."""
    paths = [
        (experiment, path)
        for experiment in EXPERIMENTS.values()
        if experiment.page == page
        for path in kept_paths(folder / page, experiment.name)
    ]
    sections = []
    for experiment, path in paths:
        result = _read(path)
        figures = [f"{page}/{figure.name}.png" for figure in result.figures]
        title = (
            f"{experiment.name}: {experiment.source}{', full size' if path.stem != experiment.name else ''}"
        )
        sections.append(page_section(result, title=title, summary=experiment.summary, figures=figures))
    return sections
