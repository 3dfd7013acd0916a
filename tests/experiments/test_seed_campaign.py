"""Experiments over many seeds: the summary shows the worst seed, and an interrupted campaign resumes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from equipoise.cli.main import app
from equipoise.lab.experiments import EXPERIMENTS, Claim, Experiment, Progress, Size
from equipoise.lab.experiments.report import command_of, page_section
from equipoise.lab.experiments.result import Result
from equipoise.lab.experiments.seed_campaign import over_seeds, run_seeds
from equipoise.lab.task_pool import SerialPool, current_pool, is_task, task_pool

RUNNER = CliRunner()
# By seed.
RATIOS = {1: 1.7, 2: 1.5, 3: 1.9, 4: 1.8}


def claims(seed: int) -> tuple[Claim, ...]:
    ratio = RATIOS[seed]
    return (
        Claim(
            claim="it is faster",
            paper="×1.6",
            ours=f"×{ratio}",
            holds=ratio >= 1.6,
            value=ratio,
            at_least=1.6,
            by_median=True,
        ),
        Claim(
            claim="it is small", paper="3", ours=f"{seed} kB", holds=seed <= 3, value=float(seed), at_most=3.0
        ),
        Claim(claim="it is blue", paper="yes", ours="yes" if seed != 2 else "green", holds=seed != 2),
    )


def result_of(seed: int) -> Result:
    return Result(experiment="toy-1", size=Size.QUICK, seed=seed, claims=claims(seed), figures=(), took_s=2.0)


def test_the_summary_has_median_range_and_worst_seed_of_each_claim() -> None:
    summary = over_seeds([result_of(seed) for seed in RATIOS])
    faster, small, blue = summary.claims
    assert faster.ours == "median 1.75 (1.5 to 1.9); holds with 3 of 4 seeds; worst, seed 2: ×1.5"
    assert faster.holds, "the median decides"
    assert small.ours == "median 2.5 (1 to 4); holds with 3 of 4 seeds; worst, seed 4: 4 kB"
    assert not small.holds, "the worst decides"
    assert blue.ours == "holds with 3 of 4 seeds; worst, seed 2: green"
    assert not blue.holds
    assert summary.seeds == (1, 2, 3, 4)
    assert summary.seed == 1, "the lower of the two in the middle"
    assert summary.took_s == 8.0


def test_a_claim_that_is_judged_by_the_median_falls_with_it() -> None:
    summary = over_seeds([result_of(seed) for seed in (1, 2)])
    assert summary.claims[0].holds, "1.6"
    assert not over_seeds([result_of(2)]).claims[0].holds


def test_the_result_of_one_seed_is_its_own_summary() -> None:
    assert over_seeds([result_of(2)]) == result_of(2)


def test_the_page_names_the_seeds_and_the_command() -> None:
    summary = over_seeds([result_of(seed) for seed in RATIOS])
    assert command_of(summary) == "equipoise reproduce toy-1 --quick --seeds 1..5"
    section = page_section(summary, title="toy", summary="Something.", figures=[])
    assert "seeds 1 to 4, 8 s of wall clock" in section
    (by_seed,) = summary.figures
    assert by_seed.panels[0].lines[0].y == (1.7, 1.5, 1.9, 1.8)


class Counted:
    """An experiment that remembers the seeds it was run with."""

    def __init__(self) -> None:
        self.ran: list[int] = []

    def world(self, size: Size, seed: int, progress: Progress) -> int:
        assert is_task()
        self.ran.append(seed)
        return seed


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    found = Counted()
    experiment = Experiment(
        name="toy-1",
        source="A paper",
        summary="Something.",
        worlds={size: size for size in Size},
        world=found.world,
        claims=claims,
        figures=(),
    )
    monkeypatch.setitem(EXPERIMENTS, "toy-1", experiment)
    return found


def test_a_campaign_that_was_cut_short_goes_on_where_it_was(counted: Counted, tmp_path: Path) -> None:
    experiment, told = EXPERIMENTS["toy-1"], list[float]()
    run_seeds(experiment, Size.QUICK, [1, 2], SerialPool(), folder=tmp_path)
    found = run_seeds(experiment, Size.QUICK, [1, 2, 3, 4], SerialPool(), folder=tmp_path, tell=told.append)
    assert counted.ran == [1, 2, 3, 4]
    assert [result.seed for result in found] == [1, 2, 3, 4]
    assert told == [2, 3, 4]
    run_seeds(experiment, Size.FULL, [1], SerialPool(), folder=tmp_path)
    assert counted.ran == [1, 2, 3, 4, 1], "another size is another result"


def test_a_result_of_another_commit_is_run_again(
    counted: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_seeds(EXPERIMENTS["toy-1"], Size.QUICK, [1], SerialPool(), folder=tmp_path)
    monkeypatch.setattr("equipoise.lab.experiments.seed_campaign.commit", lambda: "another")
    run_seeds(EXPERIMENTS["toy-1"], Size.QUICK, [1], SerialPool(), folder=tmp_path)
    assert counted.ran == [1, 1]


def test_the_command_prints_the_summary_as_one_object(counted: Counted, tmp_path: Path) -> None:
    words = ["reproduce", "toy-1", "--quick", "--seeds", "1..5", "--resume", str(tmp_path), "--json"]
    told = json.loads(RUNNER.invoke(app, words).stdout)
    assert told["seeds"] == [1, 2, 3, 4]
    assert told["claims"][0]["value"] == 1.75
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--seeds", "5..5"], "FIRST..END"),
        (["--resume", "somewhere"], "--resume is for --seeds"),
        (["--master", "local[1]", "--jobs", "2"], "give one of them"),
    ],
)
def test_mistakes_have_a_clear_error_message(words: list[str], text: str) -> None:
    answer = RUNNER.invoke(app, ["reproduce", "epulsar-6", *words])
    assert answer.exit_code == 2
    assert text in answer.stderr


def nested(depth: int) -> tuple[bool, str]:
    return is_task(), type(current_pool()).__name__


def test_inside_a_task_the_pool_is_serial_and_outside_it_is_the_one_of_the_block() -> None:
    assert not is_task()
    with task_pool(jobs=2) as pool:
        assert current_pool() is pool
        assert sorted(pool.run(nested, [1, 2])) == [(0, (True, "SerialPool")), (1, (True, "SerialPool"))]
    assert type(current_pool()) is SerialPool
    assert not is_task()


def test_the_first_seed_of_an_experiment_with_views_runs_outside_the_pool(tmp_path: Path) -> None:
    ran: list[tuple[int, bool]] = []

    def world(size: Size, seed: int, progress: Progress) -> int:
        ran.append((seed, is_task()))
        return seed

    experiment = Experiment(
        name="toy-1",
        source="A paper",
        summary="Something.",
        worlds={size: size for size in Size},
        world=world,
        claims=claims,
        figures=(),
        views=lambda seen: f"views of {seen}",
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(EXPERIMENTS, "toy-1", experiment)
        found = over_seeds(run_seeds(experiment, Size.QUICK, [2, 1, 3], SerialPool(), folder=tmp_path))
        run_seeds(experiment, Size.QUICK, [2, 1, 3], SerialPool(), folder=tmp_path)
    assert ran == [(2, False), (1, True), (3, True)]
    assert found.views == "views of 2"
    assert "- Seed 2: views of 2" in page_section(found, title="toy", summary="Something.", figures=[])
