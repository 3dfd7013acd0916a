"""Worlds of several hubs that meet in a store, and of trouble with it."""

from __future__ import annotations

from dataclasses import replace

from equipoise.lab.scenarios.cluster_base import LOUD, case
from equipoise.lab.scenarios.scenario import ClusterScenario

__all__ = ["stored_scenarios"]


def _stored(name: str, summary: str, **fields: object) -> ClusterScenario:
    return case(f"store-{name}", summary, has_store=True, **fields)


def stored_scenarios(everything: ClusterScenario) -> tuple[ClusterScenario, ...]:
    """All of them; `everything` is what happens without a store."""
    return (
        _stored("moves", "hubs meet in a store and plans change", moves=(0, 3), ring_changes=(0, 2)),
        _stored(
            "cuts",
            "hubs are cut off from the store for a moment",
            moves=(0, 3),
            store_cuts=(1, 4),
            store_resets=(0, 5),
            link_resets=(0, 3),
        ),
        _stored("joins", "hubs join by themselves", moves=(0, 3), joins=(1, 2), store_cuts=(0, 2)),
        _stored(
            "gone",
            "the store is gone for several sessions",
            moves=(0, 2),
            store_outage_s=4.0,
            duration_s=9.0,
            link_resets=(0, 2),
        ),
        _stored(
            "unreachable",
            "no hub reaches the store, and all sessions expire",
            store_outage_s=4.0,
            duration_s=9.0,
            is_store_unreachable=True,
        ),
        _stored(
            "emptied",
            "the store comes back with nothing in it",
            moves=(0, 2),
            store_outage_s=0.5,
            is_store_emptied=True,
            duration_s=8.0,
        ),
        replace(
            everything,
            name="cluster-store-everything",
            summary="all of this with a store, which is gone, cut off and reset besides",
            has_store=True,
            store_cuts=(0, 2),
            store_losses=(0, 1),
            store_resets=(0, 3),
            duration_s=5.0,
        ),
        _stored(
            "gone-minute",
            "the store is gone for a minute",
            store_outage_s=60.0,
            duration_s=66.0,
            is_large=True,
        ),
        _stored("crashes", "hubs crash and come back", crashes=(1, 2), duration_s=5.0, expectation=LOUD),
        _stored("zombies", "hubs pause past their session", zombies=(1, 2), duration_s=5.0, expectation=LOUD),
        _stored(
            "losses",
            "hubs are cut off from the store past their session",
            store_losses=(1, 2),
            duration_s=5.0,
            expectation=LOUD,
        ),
    )
