"""Ledgers on simulated bookies: acknowledged entries are kept in every case, and every kind of fault happens."""

from __future__ import annotations

from collections import Counter

import pytest

from equipoise.lab.scenarios import SCENARIOS, scenario_by_name
from equipoise.lab.scenarios.durable import DurableScenario
from equipoise.lab.simulation.runner import run_seed

CASES = [
    name for name in SCENARIOS if name.startswith("durable-") and isinstance(SCENARIOS[name], DurableScenario)
]


@pytest.mark.parametrize("name", CASES)
def test_acknowledged_entries_are_kept(name: str) -> None:
    fired: Counter[str] = Counter()
    for seed in range(3):
        run = run_seed(scenario_by_name(name), seed)
        assert run.is_green, (
            f"equipoise simulate --case {name} --seeds {seed}..{seed + 1}: {run.violations[:3]}"
        )
        fired += run.faults
    assert fired["crash"] > 0


def test_the_same_seed_gives_the_same_run() -> None:
    scenario = scenario_by_name("durable-recovery")
    assert run_seed(scenario, 4).trace_hash == run_seed(scenario, 4).trace_hash
