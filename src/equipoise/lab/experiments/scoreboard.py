"""The scoreboard of all kept results, and its comparison with new runs.

The page has a row for each claim of each experiment: the paper's statement, the finding, the verdict, and date, commit,
size and seeds. It is regenerated with every stored result.

A check runs the quick size of every experiment. Always true: it fails only if a claim that held in the stored result
does not hold now; claims of one size alone are skipped. For a claim on the median of many seeds, a single seed fails
the check only if it is worse than the worst stored seed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from equipoise.errors import SettingsError
from equipoise.lab.experiments.experiment import Experiment
from equipoise.lab.experiments.registry import EXPERIMENTS
from equipoise.lab.experiments.report import kept_paths
from equipoise.lab.experiments.result import Claim, Result, Size, decode
from equipoise.lab.experiments.seed_campaign import SeedTask, run_task
from equipoise.lab.task_pool import TaskPool

__all__ = ["Broken", "check", "kept_results", "scoreboard"]


class Broken(NamedTuple):
    """A claim that held in the stored result and does not hold now."""

    experiment: str
    claim: str
    kept: str
    now: str


def kept_results(folder: Path) -> Iterator[Result]:
    """Stored results in the order of the registry. Raises SettingsError for an invalid file."""
    for experiment in EXPERIMENTS.values():
        for path in kept_paths(folder / experiment.page, experiment.name):
            yield _read(path)


def _read(path: Path) -> Result:
    try:
        return decode(path.read_bytes())
    except (OSError, msgspec.DecodeError) as problem:
        raise SettingsError(f"{path} is not a kept result: {problem}. Remove it or run it again") from problem


def scoreboard(results: Sequence[Result]) -> str:
    """Tables of Markdown, one for each paper."""
    lines: list[str] = []
    page = ""
    for result in results:
        experiment = EXPERIMENTS[result.experiment]
        if experiment.page != page:
            page = experiment.page
            lines += ["", f"## [{page.capitalize()}]({page}.md)", ""]
            lines += [
                "| figure or section | claim | paper | ours | verdict | of |",
                "|---|---|---|---|---|---|",
            ]
        lines += [_row(experiment.source, claim, result) for claim in result.claims]
    held = sum(claim.holds for result in results for claim in result.claims)
    total = sum(len(result.claims) for result in results)
    return "\n".join([f"{held} of {total} claims hold.", *lines]) + "\n"


def _row(source: str, claim: Claim, result: Result) -> str:
    seeds = f"{len(result.seeds)} seeds" if result.seeds else f"seed {result.seed}"
    of = f"{result.taken_at[:10] or 'earlier'}, {result.commit}, {result.size.value}, {seeds}"
    verdict = "holds" if claim.holds else "**falls short**"
    cells = (source, claim.claim, claim.paper, claim.ours, verdict, of)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def check(
    experiments: Sequence[Experiment[Any, Any]], folder: Path, pool: TaskPool, tell: Callable[[int], None]
) -> list[Broken]:
    """Run the quick size of experiments with a stored result, and compare verdicts; `tell` gets the number done."""
    names = {experiment.name for experiment in experiments}
    # Where both sizes are kept, the quick one, which comes first.
    first: dict[str, Result] = {}
    for result in kept_results(folder):
        first.setdefault(result.experiment, result)
    kept = [result for result in first.values() if result.experiment in names]
    if not kept:
        raise SettingsError(f"{folder} has no kept result of {', '.join(sorted(names))}")
    broken: list[Broken] = []
    tasks = [SeedTask(result.experiment, Size.QUICK, result.seed) for result in kept]
    for done, (index, data) in enumerate(pool.run(run_task, tasks), 1):
        broken += compared(kept[index], decode(data))
        tell(done)
    return sorted(broken)


def compared(kept: Result, now: Result) -> Iterator[Broken]:
    """The claims that held and do not. Claims match by their words, because the numbers in them depend on the size."""
    found = {_words(claim.claim): claim for claim in now.claims}
    for claim in kept.claims:
        again = found.get(_words(claim.claim))
        if claim.holds and again is not None and not again.holds and not _is_spread(kept, claim, now, again):
            yield Broken(kept.experiment, claim.claim, claim.ours, again.ours)


def _is_spread(kept: Result, claim: Claim, now: Result, again: Claim) -> bool:
    """Whether the failure is within the spread of the stored seeds, for a claim on the median."""
    if not claim.by_median or claim.worst is None or kept.size is not now.size:
        return False
    return again.badness <= msgspec.structs.replace(claim, value=claim.worst).badness


def _words(text: str) -> str:
    return re.sub(r"[\d.,]+", "#", text)
