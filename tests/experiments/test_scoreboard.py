"""Stored results on one page, and new runs compared with them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from equipoise.cli.main import app
from equipoise.lab.experiments import EXPERIMENTS, Experiment
from equipoise.lab.experiments.report import keep
from equipoise.lab.experiments.result import Claim, Result
from equipoise.lab.experiments.scoreboard import compared, kept_results, scoreboard
from experiments.test_results import result_of, toy

RUNNER = CliRunner()
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def only_toys() -> Iterator[dict[str, Experiment[Any, Any]]]:
    """The real ones, which are put back in the same order: other tests look at it."""
    real = dict(EXPERIMENTS)
    EXPERIMENTS.clear()
    EXPERIMENTS.update({name: toy(name) for name in ("toy-1", "toy-2")})
    yield real
    EXPERIMENTS.clear()
    EXPERIMENTS.update(real)


def with_claims(result: Result, *claims: Claim) -> Result:
    return msgspec.structs.replace(result, claims=claims)


def claim(text: str, *, holds: bool, ours: str = "so") -> Claim:
    return Claim(claim=text, paper="yes", ours=ours, holds=holds)


def test_every_claim_of_every_kept_result_has_a_row(tmp_path: Path) -> None:
    for name in ("toy-1", "toy-2"):
        keep(result_of(name), tmp_path)
    page = scoreboard(list(kept_results(tmp_path)))
    assert page.startswith("2 of 4 claims hold.")
    assert page.count("| A paper, V | it grows | ×2 | ×3 | holds | ") == 2
    assert page.count("| A paper, V | it \\| shrinks | yes | no | **falls short** | ") == 2
    assert page.count("## [Toy](toy.md)") == 1
    assert page.count("quick, seed 7 |") == 4


def test_the_page_is_written_with_every_result_and_keeps_what_stands_above(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Mine\n\nWords.\n")
    for _ in range(2):
        done = RUNNER.invoke(app, ["reproduce", "toy-1", "--quick", "--out", str(tmp_path)])
        assert done.exit_code == 0, done.stderr
    page = (tmp_path / "README.md").read_text()
    assert page.startswith("# Mine\n\nWords.\n")
    assert page.count("it grows") == 1


def test_a_claim_that_held_and_does_not_is_broken_whatever_the_numbers_in_it() -> None:
    kept = with_claims(
        result_of(),
        claim("10,000 topics move", holds=True),
        claim("nothing is lost", holds=True),
        claim("it is fast", holds=False),
        claim("at full size only", holds=True),
    )
    now = with_claims(
        result_of(),
        claim("2,000 topics move", holds=False, ours="not so"),
        claim("nothing is lost", holds=True),
        claim("it is fast", holds=False),
    )
    assert [(one.claim, one.kept, one.now) for one in compared(kept, now)] == [
        ("10,000 topics move", "so", "not so")
    ]


def check(folder: Path, *words: str) -> tuple[int, Any]:
    done = RUNNER.invoke(app, ["reproduce", *words, "--check", str(folder), "--json"])
    return done.exit_code, json.loads(done.stdout) if done.stdout else done.stderr


def test_the_check_fails_where_a_kept_verdict_no_longer_holds(tmp_path: Path) -> None:
    keep(result_of("toy-1"), tmp_path)
    assert check(tmp_path) == (0, [])
    held = [msgspec.structs.replace(one, holds=True) for one in result_of("toy-2").claims]
    keep(with_claims(result_of("toy-2"), *held), tmp_path)
    status, broken = check(tmp_path)
    assert status == 1
    assert [(one["experiment"], one["claim"]) for one in broken] == [("toy-2", "it | shrinks")]
    assert check(tmp_path, "toy-1") == (0, [])


def test_a_folder_without_results_is_an_error(tmp_path: Path) -> None:
    status, problem = check(tmp_path)
    assert status == 2 and "has no kept result" in problem


def test_the_page_of_the_documentation_is_that_of_its_results(
    only_toys: dict[str, Experiment[Any, Any]],
) -> None:
    EXPERIMENTS.clear()
    EXPERIMENTS.update(only_toys)
    folder = ROOT / "docs" / "results"
    assert (folder / "README.md").read_text().endswith(scoreboard(list(kept_results(folder))))


def test_one_seed_does_not_break_what_the_median_of_many_held_unless_it_is_worse_than_all() -> None:
    def ratio(value: float, *, holds: bool, worst: float | None = None) -> Claim:
        return Claim(
            claim="it is faster",
            paper="×1.6",
            ours=f"×{value}",
            holds=holds,
            value=value,
            at_least=1.6,
            by_median=True,
            worst=worst,
        )

    kept = with_claims(result_of(), ratio(1.7, holds=True, worst=1.5))
    assert not list(compared(kept, with_claims(result_of(), ratio(1.52, holds=False))))
    assert list(compared(kept, with_claims(result_of(), ratio(1.4, holds=False))))
    alone = with_claims(result_of(), ratio(1.7, holds=True))
    assert list(compared(alone, with_claims(result_of(), ratio(1.52, holds=False))))
