"""Hubs that meet in a store, under every kind of trouble with it, by seed."""

from __future__ import annotations

import pytest

from equipoise.hub.membership.liveness import Sight
from equipoise.lab.simulation.checkers import Violation

from .judging import check_promises
from .store_worlds import StoreTrouble, StoreWorld, run

SEEDS = range(10)
CALM = StoreTrouble(moves=(0, 3), reweighs=(0, 2))
CUTS = StoreTrouble(moves=(0, 3), store_cuts=(1, 4), store_resets=(0, 5), link_resets=(0, 3))
JOINS = StoreTrouble(moves=(0, 3), joins=(1, 2), store_cuts=(0, 2))
OUTAGE = StoreTrouble(moves=(0, 2), outage_s=4.0, duration_s=9.0, link_resets=(0, 2))
NETWORK_OUTAGE = StoreTrouble(outage_s=4.0, duration_s=9.0, is_outage_of_network=True)
MINUTE = StoreTrouble(outage_s=60.0, duration_s=66.0)
CRASHES = StoreTrouble(crashes=(1, 2), is_gap_allowed=True, duration_s=5.0)
ZOMBIES = StoreTrouble(long_pauses=(1, 2), is_gap_allowed=True, duration_s=5.0)
LOSSES = StoreTrouble(store_losses=(1, 2), is_gap_allowed=True, duration_s=5.0)


def _renewed(world: StoreWorld) -> list[Violation]:
    """The store is no reason for a hub to begin anew."""
    return [
        Violation("one life", f"{node.name} has begun {node.lives} lives")
        for node in world.store_nodes.values()
        if node.lives > 1
    ]


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(CALM, id="plans-change"),
        pytest.param(CUTS, id="hubs-are-cut-off-from-the-store-for-a-moment"),
        pytest.param(JOINS, id="hubs-join-by-themselves"),
        pytest.param(OUTAGE, id="the-store-is-gone-for-several-sessions"),
        pytest.param(NETWORK_OUTAGE, id="nobody-reaches-the-store-and-all-sessions-end"),
    ],
)
def test_trouble_with_the_store_is_none_for_clients(trouble: StoreTrouble) -> None:
    for seed in SEEDS:
        outcomes = run(seed, trouble, judge=_renewed)
        check_promises(outcomes, seed)


def test_a_store_that_is_gone_for_a_minute_is_not_missed() -> None:
    for seed in range(3):
        outcomes = run(seed, MINUTE, judge=_renewed)
        check_promises(outcomes, seed)
        assert outcomes.fired["go_without_store"] == 1


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(CRASHES, id="hubs-crash-and-come-back"),
        pytest.param(ZOMBIES, id="hubs-pause-past-their-session-and-thaw"),
        pytest.param(LOSSES, id="hubs-are-cut-off-from-the-store-past-their-session"),
    ],
)
def test_hubs_that_are_taken_for_dead_come_back_as_new_ones(trouble: StoreTrouble) -> None:
    lives = 0

    def count(world: StoreWorld) -> list[Violation]:
        nonlocal lives
        lives += sum(node.lives - 1 for node in world.store_nodes.values())
        return []

    for seed in SEEDS:
        outcomes = run(seed, trouble, judge=count)
        check_promises(outcomes, seed)
    assert lives > len(SEEDS) / 2, "hardly anybody was taken for dead"


def test_the_same_seed_gives_the_same_run_with_a_store() -> None:
    assert run(3, CUTS).hash == run(3, CUTS).hash


def test_without_doubt_hubs_would_bury_each_other_after_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sight, "doubt", lambda self, until: None)
    assert any(run(seed, NETWORK_OUTAGE, judge=_renewed).violations for seed in range(30))
