"""`equipoise reproduce`: the list, one JSON object, files, and error messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from equipoise.cli.main import app
from equipoise.lab.experiments import EXPERIMENTS
from experiments.test_results import toy

RUNNER = CliRunner()


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("toy-1", "toy-2"):
        monkeypatch.setitem(EXPERIMENTS, name, toy(name))


def test_the_list_names_every_experiment() -> None:
    answer = RUNNER.invoke(app, ["reproduce", "--list"])
    assert answer.exit_code == 0
    for name in EXPERIMENTS:
        assert name in answer.stdout


def test_json_is_one_object_and_nothing_else() -> None:
    answer = RUNNER.invoke(app, ["reproduce", "toy-1", "--quick", "--json", "--seed", "3"])
    assert answer.exit_code == 0
    shown = json.loads(answer.stdout)
    assert (shown["experiment"], shown["size"], shown["seed"]) == ("toy-1", "quick", 3)


def test_a_failed_claim_is_reported_and_is_not_an_error() -> None:
    answer = RUNNER.invoke(app, ["reproduce", "toy-1"])
    assert answer.exit_code == 0
    assert "falls short" in answer.stdout


def test_a_paper_runs_all_of_its_experiments_into_one_page(tmp_path: Path) -> None:
    answer = RUNNER.invoke(app, ["reproduce", "toy", "--quick", "--out", str(tmp_path)])
    assert answer.exit_code == 0
    page = (tmp_path / "toy.md").read_text()
    assert "## toy-1" in page
    assert "## toy-2" in page


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["reproduce"], "name an experiment"),
        (["reproduce", "nothing"], "unknown experiment 'nothing'"),
        (["reproduce", "toy", "--json"], "--json prints one experiment: toy-1, toy-2"),
    ],
)
def test_mistakes_have_a_clear_error_message(arguments: list[str], words: str) -> None:
    answer = RUNNER.invoke(app, arguments)
    assert answer.exit_code != 0
    assert words in answer.stderr
