"""The settings file of `equipoise controller`."""

from __future__ import annotations

from pathlib import Path

import pytest

from equipoise.cli.controlling import read_planner
from equipoise.errors import SettingsError
from equipoise.plan import PlannerSettings


def test_without_a_file_the_planner_is_as_usual() -> None:
    assert read_planner(None) == PlannerSettings()


def test_a_file_sets_what_it_names(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[planner]\nplan_wait_s = 3\n")
    assert read_planner(tmp_path / "c.toml") == PlannerSettings(plan_wait_s=3.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[planner]\nplan_wait = 3\n", "plan_wait"),
        ("[planner]\nsafe_ratio = 0.9\n", "safe_ratio ≤ high_ratio"),
        ("[palnner]\n", "no table 'palnner'"),
        ("nonsense", "not valid TOML"),
    ],
)
def test_a_file_that_makes_no_sense_is_told_with_what_to_mend(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(SettingsError, match=words):
        read_planner(tmp_path / "c.toml")


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot read"):
        read_planner(tmp_path / "c.toml")
