"""Hubs with a store under all faults of the store, by seed."""

from __future__ import annotations

import pytest

from equipoise.lab.scenarios.excused import is_excused

from .worlds import Outcomes, case, check_promises, check_seeds, run

SEEDS = range(5)


def _check_one_incarnation(outcomes: Outcomes, seed: int) -> None:
    """The store is no reason for a hub to begin anew."""
    renewed = [node.name for node in outcomes.world.hubs.values() if node.incarnations > 1]
    assert not renewed, f"seed {seed}"


@pytest.mark.parametrize(
    "name",
    [
        "cluster-store-moves",
        "cluster-store-cuts",
        "cluster-store-joins",
        "cluster-store-gone",
        "cluster-store-unreachable",
        "cluster-store-emptied",
    ],
)
def test_store_failures_do_not_affect_clients(name: str) -> None:
    for seed in SEEDS:
        outcomes = run(seed, case(name))
        check_promises(outcomes, seed)
        _check_one_incarnation(outcomes, seed)


def test_hubs_survive_a_store_outage_of_a_minute() -> None:
    for seed in range(2):
        outcomes = run(seed, case("cluster-store-gone-minute"))
        check_promises(outcomes, seed)
        _check_one_incarnation(outcomes, seed)
        assert outcomes.fired["store outage"] == 1


@pytest.mark.parametrize(
    "name",
    ["cluster-store-crashes", "cluster-store-zombies", "cluster-store-losses", "cluster-store-gone-crashes"],
)
def test_hubs_that_are_declared_dead_come_back_as_new_ones(name: str) -> None:
    renewed = 0
    for seed in SEEDS:
        outcomes = run(seed, case(name))
        if not is_excused(name, seed):
            check_promises(outcomes, seed)
        renewed += sum(node.incarnations - 1 for node in outcomes.world.hubs.values())
    assert renewed > len(SEEDS) / 2, "hardly any hub was declared dead"


def test_all_faults_at_once_with_a_store_violate_no_guarantee() -> None:
    check_seeds("cluster-store-everything", SEEDS)


def test_the_real_controller_beside_an_operator_violates_no_guarantee() -> None:
    # A seed takes several times as long as others: hubs' records are read, summed and planned on.
    check_seeds("cluster-store-controlled", range(3))


def test_the_same_seed_gives_the_same_run_with_a_store() -> None:
    scenario = case("cluster-store-cuts")
    assert run(3, scenario).hash == run(3, scenario).hash
