"""The settings file of `equipoise controller`."""

from __future__ import annotations

from pathlib import Path

import pytest

from equipoise.cli.controlling import bounded, read_planner
from equipoise.control import ControllerSettings
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


@pytest.mark.parametrize(
    ("hubs_min", "hubs_max", "servers"),
    [(3, 5, (3, 5)), (2, 0, (2, 2)), (1, 0, (1, 1)), (3, 500, (3, 256))],
)
def test_the_planner_knows_how_many_hubs_there_may_be(
    hubs_min: int, hubs_max: int, servers: tuple[int, int]
) -> None:
    made = bounded(PlannerSettings(), ControllerSettings(hubs_min=hubs_min, hubs_max=hubs_max))
    assert (made.servers_min, made.servers_max) == servers
