"""Run an experiment with many seeds, and summarise the claims over all of them.

Each seed is a task of a pool: in this process, in several or on Spark, with the same result. Results are stored one by
one in a folder, so that an interrupted campaign resumes. With a planner the first seed runs outside of the pool, so
that Spark, which is unavailable to tasks, can sum some of its views.

Always true: the summary states every claim with its worst seed, and with median and range if the claim has a number; a
claim holds if it holds with every seed, or with the median if the claim uses the median.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec

from equipoise.errors import SettingsError
from equipoise.lab.experiments.experiment import Experiment, run, silent
from equipoise.lab.experiments.registry import EXPERIMENTS
from equipoise.lab.experiments.result import Claim, Figure, Line, Panel, Result, Size, decode, encode
from equipoise.lab.task_pool import TaskPool
from equipoise.profile.environment import commit

__all__ = ["SeedTask", "over_seeds", "run_seeds"]


class SeedTask(NamedTuple):
    """One experiment with one seed."""

    experiment: str
    size: Size
    seed: int


def run_seeds(
    experiment: Experiment[Any, Any],
    size: Size,
    seeds: Sequence[int],
    pool: TaskPool,
    *,
    folder: Path | None = None,
    tell: Callable[[int], None] = lambda _: None,
) -> list[Result]:
    """The results in the order of the seeds. Results of this commit in the folder are reused."""
    kept = dict(_kept(experiment, size, seeds, folder))
    missing = [seed for seed in seeds if seed not in kept]
    tell(len(kept))

    def keep(seed: int, data: bytes) -> None:
        kept[seed] = decode(data)
        if folder is not None:
            _write(_path(folder, SeedTask(experiment.name, size, seed)), data)
        tell(len(kept))

    if experiment.views is not None and missing and missing[0] == seeds[0]:
        first = missing.pop(0)
        keep(first, encode(run(experiment, size, first, silent)))
    tasks = [SeedTask(experiment.name, size, seed) for seed in missing]
    for index, data in pool.run(run_task, tasks):
        keep(missing[index], data)
    return [kept[seed] for seed in seeds]


def run_task(task: SeedTask) -> bytes:
    """Run the experiment in this process. Returns the encoded result."""
    return encode(run(EXPERIMENTS[task.experiment], task.size, task.seed, silent))


def over_seeds(results: Sequence[Result]) -> Result:
    """One result for all: claims summarised, figures of the middle seed, and claims with numbers drawn by seed.

    The result of a single seed is its own summary.
    """
    assert results, "a summary needs at least one seed"
    if len(results) == 1:
        return results[0]
    claims = tuple(
        _summary([result.claims[at] for result in results], [result.seed for result in results])
        for at in range(len(results[0].claims))
    )
    middle = _middle(results)
    by_seed = _by_seed(results)
    return msgspec.structs.replace(
        middle,
        claims=claims,
        figures=(*middle.figures, *([by_seed] if by_seed is not None else [])),
        seeds=tuple(result.seed for result in results),
        views=results[0].views,
        notes=(*middle.notes, f"Figures are those of seed {middle.seed}; claims are judged over all seeds."),
        took_s=sum(result.took_s for result in results),
    )


def _summary(claims: Sequence[Claim], seeds: Sequence[int]) -> Claim:
    worst = max(range(len(claims)), key=lambda at: (not claims[at].holds, claims[at].badness))
    held = sum(claim.holds for claim in claims)
    values = [claim.value for claim in claims if claim.value is not None]
    summary = f"holds with {held} of {len(claims)} seeds; worst, seed {seeds[worst]}: {claims[worst].ours}"
    if len(values) != len(claims):
        return msgspec.structs.replace(claims[worst], ours=summary, holds=held == len(claims))
    middle = median(values)
    summary = f"median {middle:.4g} ({min(values):.4g} to {max(values):.4g}); {summary}"
    holds = _is_within(claims[worst], middle) if claims[worst].by_median else held == len(claims)
    return msgspec.structs.replace(
        claims[worst], ours=summary, value=middle, holds=holds, worst=claims[worst].value
    )


def _is_within(claim: Claim, value: float) -> bool:
    low = claim.at_least is None or value >= claim.at_least
    return low and (claim.at_most is None or value <= claim.at_most)


def _middle(results: Sequence[Result]) -> Result:
    """The run whose first claim with a number is the median of all."""
    for at, claim in enumerate(results[0].claims):
        if claim.value is not None:
            ordered = sorted(results, key=lambda result: result.claims[at].value or 0.0)
            return ordered[(len(ordered) - 1) // 2]
    return results[0]


def _by_seed(results: Sequence[Result]) -> Figure | None:
    panels = []
    for at, claim in enumerate(results[0].claims):
        values = [result.claims[at].value for result in results]
        if all(value is not None for value in values):
            line = Line(label="ours", x=tuple(float(result.seed) for result in results), y=tuple(values))
            level = claim.at_least if claim.at_least is not None else claim.at_most
            panels.append(
                Panel(title=claim.claim, y_label="", lines=(line,), level=level, level_label="asked")
            )
    if not panels:
        return None
    name = results[0].experiment
    return Figure(name=f"{name}-seeds", title=f"{name} by seed", x_label="seed", panels=tuple(panels))


def _kept(
    experiment: Experiment[Any, Any], size: Size, seeds: Sequence[int], folder: Path | None
) -> Iterator[tuple[int, Result]]:
    if folder is None:
        return
    now = commit()
    for seed in seeds:
        path = _path(folder, SeedTask(experiment.name, size, seed))
        try:
            result = decode(path.read_bytes())
        except FileNotFoundError:
            continue
        except (OSError, msgspec.DecodeError) as problem:
            raise SettingsError(f"{path} is not a kept result: {problem}. Remove it") from problem
        if result.commit == now:
            yield seed, result


def _path(folder: Path, task: SeedTask) -> Path:
    return folder / f"{task.experiment}-{task.size.value}-{task.seed}.json"


def _write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".draft")
        draft.write_bytes(data)
        draft.replace(path)
    except OSError as problem:
        raise SettingsError(f"cannot keep a result in {path.parent}: {problem.strerror}") from problem
