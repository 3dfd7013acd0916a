"""Run an experiment and keep what it found: JSON, figures, and a section on its paper's page.

In the folder given, `<paper>.md` is the page; `<paper>/` holds the figures and one JSON file per experiment. A page is
made of all results that are kept beside it, so that one experiment can be run again alone; what people wrote above its
marker stays.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from equipoise.errors import SettingsError
from equipoise.lab.experiments.experiment import Experiment, Progress
from equipoise.lab.experiments.figures import draw
from equipoise.lab.experiments.registry import EXPERIMENTS
from equipoise.lab.experiments.report import page_section, splice
from equipoise.lab.experiments.result import Result, Size, decode, encode
from equipoise.profile.environment import commit, machine

__all__ = ["keep", "run"]


def run(experiment: Experiment, size: Size, seed: int, progress: Progress) -> Result:
    """Run it and say from which commit, when, on what machine, and how long it took."""
    began = time.perf_counter()
    findings = experiment.run(size, seed, progress)
    found = machine()
    return Result(
        experiment=experiment.name,
        size=size,
        seed=seed,
        claims=findings.claims,
        figures=findings.figures,
        parameters=findings.parameters,
        notes=findings.notes,
        commit=commit(),
        took_s=time.perf_counter() - began,
        taken_at=datetime.now(UTC).isoformat(timespec="minutes"),
        machine=f"{found.cores} cores, {found.processor}, {found.memory_bytes / 2**30:.0f} GiB",
    )


def keep(result: Result, folder: Path) -> Path:
    """Write all there is about a result; the path of the page. Raises SettingsError if it cannot be written."""
    experiment = EXPERIMENTS[result.experiment]
    beside = folder / experiment.page
    try:
        beside.mkdir(parents=True, exist_ok=True)
        for figure in result.figures:
            draw(figure, beside)
        (beside / f"{result.experiment}.json").write_bytes(encode(result))
        page = folder / f"{experiment.page}.md"
        head = page.read_text() if page.exists() else f"# {experiment.page.capitalize()}\n"
        page.write_text(splice(head, _sections(beside, experiment.page)))
    except OSError as problem:
        raise SettingsError(
            f"cannot write results into {folder}: {problem.strerror}. Give --out a folder you may write to"
        ) from problem
    return page


def _sections(beside: Path, page: str) -> list[str]:
    """The sections of all results kept there, in the order of the registry."""
    sections = []
    for experiment in EXPERIMENTS.values():
        path = beside / f"{experiment.name}.json"
        if experiment.page != page or not path.exists():
            continue
        try:
            result = decode(path.read_bytes())
        except msgspec.DecodeError as problem:
            raise SettingsError(
                f"{path} is not a kept result: {problem}. Remove it or run it again"
            ) from problem
        figures = [f"{page}/{figure.name}.png" for figure in result.figures]
        title = f"{experiment.name}: {experiment.source}"
        sections.append(page_section(result, title=title, summary=experiment.summary, figures=figures))
    return sections
