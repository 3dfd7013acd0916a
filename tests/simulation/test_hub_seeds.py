"""A hundred and fifty seeds of the hub's cases: slow readers, resets, pauses, restarts and other faults."""

from __future__ import annotations

import pytest

from equipoise.lab.scenarios import SCENARIOS, FaultKind, scenario_by_name
from equipoise.lab.simulation.report import failure_lines
from equipoise.lab.simulation.runner import run_seed

CASES = [name for name, scenario in SCENARIOS.items() if name.startswith("hub-") and not scenario.is_large]
# Handed out in parts, so that two processes share them evenly.
PART = 5
PARTS = [(case, first) for case in CASES for first in range(0, 30 if case == "hub-small" else 15, PART)]


@pytest.mark.parametrize(("case", "first"), PARTS)
def test_a_hub_keeps_its_guarantees(case: str, first: int) -> None:
    scenario = scenario_by_name(case)
    for seed in range(first, first + PART):
        run = run_seed(scenario, seed)
        assert run.is_green, "\n".join(failure_lines(run, commit="this one"))


def test_there_are_a_hundred_and_fifty_of_them() -> None:
    assert len(PARTS) * PART == 150


def test_every_kind_of_fault_happens_in_the_case_with_all_faults() -> None:
    scenario = scenario_by_name("hub-everything")
    happened: set[str] = set()
    for seed in range(12):
        happened.update(run_seed(scenario, seed).faults)
    assert {kind.value for kind in FaultKind} <= happened


def test_a_large_case_passes_at_a_small_size() -> None:
    """The large case is for speed; a tenth of a second of it is enough to see that it works."""
    from dataclasses import replace

    scenario = replace(scenario_by_name("hub-large"), duration_s=0.1)
    run = run_seed(scenario, 0)
    assert run.is_green, run.violations[:3]
    assert run.deliveries >= 1000
