"""Without each safeguard its checker reports a violation."""

from __future__ import annotations

from functools import cache

import pytest

from equipoise.errors import SettingsError
from equipoise.lab.scenarios import scenario_by_name
from equipoise.lab.simulation.campaign import ABLATIONS, LISTED, ablation_by_name
from equipoise.lab.simulation.checkers import CHECKERS
from equipoise.lab.simulation.checkers.violation import Violation
from equipoise.lab.simulation.runner import run_seed

# The rarest, a clash of epochs, shows in about one seed of thirty.
SEEDS_MAX = 100


@cache
def violations_of(case: str, seed: int) -> tuple[Violation, ...]:
    """With all safeguards. Several ablations have the same case and seed."""
    return run_seed(scenario_by_name(case), seed).violations


def test_no_two_safeguards_have_the_same_name() -> None:
    assert len(ABLATIONS) == len(LISTED)


@pytest.mark.parametrize("name", ABLATIONS)
def test_without_a_safeguard_the_checker_notices(name: str) -> None:
    ablation = ABLATIONS[name]
    scenario = scenario_by_name(ablation.case)
    with ablation.off():
        # The one that has shown it before comes first.
        for seed in dict.fromkeys((ablation.seed, *range(SEEDS_MAX))):
            broken = {violation.property for violation in run_seed(scenario, seed).violations}
            if ablation.property in broken:
                break
        else:
            pytest.fail(f"{ablation.property} did not break in {SEEDS_MAX} seeds of {ablation.case}")
    violations = violations_of(ablation.case, seed)
    assert not violations, f"with the safeguard back, seed {seed} still breaks: {violations[:3]}"


def test_switching_off_leaves_no_trace() -> None:
    scenario = scenario_by_name("hub-small")
    before = run_seed(scenario, 3)
    for ablation in ABLATIONS.values():
        with ablation.off():
            pass
    assert run_seed(scenario, 3).trace_hash == before.trace_hash


def test_a_safeguard_is_back_even_after_an_error() -> None:
    scenario = scenario_by_name("hub-resets")
    before = run_seed(scenario, 0)
    with pytest.raises(ZeroDivisionError), ABLATIONS["resubscription"].off():
        raise ZeroDivisionError
    assert run_seed(scenario, 0).trace_hash == before.trace_hash


def test_every_checker_detects_a_missing_safeguard() -> None:
    assert {ablation.property for ablation in ABLATIONS.values()} == set(CHECKERS)


def test_an_unknown_safeguard_is_answered_with_a_list() -> None:
    with pytest.raises(SettingsError, match="output-limits"):
        ablation_by_name("no such thing")
