"""Hubs that meet in a store, under every kind of trouble with it, by seed."""

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
def test_trouble_with_the_store_is_none_for_clients(name: str) -> None:
    for seed in SEEDS:
        outcomes = run(seed, case(name))
        check_promises(outcomes, seed)
        _check_one_incarnation(outcomes, seed)


def test_a_store_that_is_gone_for_a_minute_is_not_missed() -> None:
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


def test_everything_at_once_with_a_store_keeps_the_promises() -> None:
    check_seeds("cluster-store-everything", SEEDS)


def test_the_real_controller_plans_beside_an_operator_and_the_promises_are_kept() -> None:
    # A seed takes several times as long as others: hubs' records are read, summed and planned on.
    check_seeds("cluster-store-controlled", range(3))


def test_the_same_seed_gives_the_same_run_with_a_store() -> None:
    scenario = case("cluster-store-cuts")
    assert run(3, scenario).hash == run(3, scenario).hash
