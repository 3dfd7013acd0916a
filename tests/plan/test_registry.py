"""Every policy and baseline is offered by name, with its line."""

from __future__ import annotations

import pytest

from equipoise.control.settings import POLICIES as LINES
from equipoise.errors import SettingsError
from equipoise.plan import POLICIES, Planner, PlannerSettings, policy_named


def test_help_texts_have_a_line_for_each_policy() -> None:
    assert tuple(LINES) == POLICIES
    assert all(line and not line.endswith(".") for line in LINES.values())


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_is_created_by_name_or_the_error_gives_the_reason(name: str) -> None:
    if name == "all-pairs":
        with pytest.raises(SettingsError, match="experiments only"):
            policy_named(name)
    else:
        assert policy_named(name).name == name


def test_the_planner_gets_its_settings() -> None:
    made = policy_named("load", PlannerSettings(hits=2))
    assert isinstance(made, Planner) and made.settings.hits == 2


def test_an_unknown_policy_is_rejected_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match="load, epulsar, all-pairs, hashing, ring, static"):
        policy_named("best")
