"""Worlds of several hubs with a store, and faults of the store."""

from __future__ import annotations

from dataclasses import replace

from equipoise.lab.scenarios.cluster_base import LIMITED, LOUD, case
from equipoise.lab.scenarios.cluster_clients import DURABLE_ACCESS, DURABLE_CROWD
from equipoise.lab.scenarios.scenario import ClusterScenario

__all__ = ["stored_scenarios"]


def _stored(name: str, summary: str, **fields: object) -> ClusterScenario:
    return case(f"store-{name}", summary, has_store=True, **fields)


_CONTROLLED = _stored(
    "controlled",
    "The controller plans beside an operator while hubs crash, join and restart. The controller itself "
    "crashes and is cut off.",
    has_controller=True,
    controller_crashes=(0, 2),
    controller_cuts=(0, 2),
    moves=(0, 3),
    ring_changes=(0, 1),
    crashes=(0, 2),
    zombies=(0, 1),
    joins=(0, 1),
    store_resets=(0, 3),
    duration_s=6.0,
    expectation=LOUD,
)
_APART = _stored(
    "apart",
    "Hubs are partitioned from each other for longer than their timeout, and one side leaves the cluster.",
    cluster_settings={"unreachable_s": 0.5},
    moves=(0, 3),
    link_cuts=(1, 4),
    duration_s=6.0,
    expectation=LOUD,
)


def _stored_everything(everything: ClusterScenario) -> tuple[ClusterScenario, ...]:
    stored = replace(
        everything,
        name="cluster-store-everything",
        summary="All faults at once with a store that stops, is cut off and resets connections.",
        has_store=True,
        store_cuts=(0, 2),
        store_losses=(0, 1),
        store_resets=(0, 3),
        duration_s=5.0,
    )
    durable = replace(
        stored,
        name="cluster-store-durable",
        summary="All faults at once with a store and a durable topic whose logs use the same store.",
        workload=DURABLE_CROWD,
        filtered=(),
        access=DURABLE_ACCESS,
        durable=("d",),
        expectation=replace(LIMITED, properties=(*LIMITED.properties, "kept")),
        is_large=True,
    )
    stored = replace(stored, rare=replace(durable, name=stored.name))
    unlimited = replace(
        stored,
        rare=None,
        name="cluster-store-unlimited",
        summary="All faults at once with a store and without a rate-limited topic, so publishers send more.",
        limited={},
        expectation=LOUD,
        is_large=True,
    )
    return stored, unlimited, durable


def stored_scenarios(everything: ClusterScenario) -> tuple[ClusterScenario, ...]:
    """All cases with a store. `everything` holds the faults of the case without a store."""
    return (
        _stored("moves", "Hubs share a store and plans change.", moves=(0, 3), ring_changes=(0, 2)),
        _stored(
            "cuts",
            "Hubs are briefly cut off from the store.",
            moves=(0, 3),
            store_cuts=(1, 4),
            store_resets=(0, 5),
            link_resets=(0, 3),
        ),
        _stored("joins", "Hubs join through the store.", moves=(0, 3), joins=(1, 2), store_cuts=(0, 2)),
        _stored(
            "gone",
            "The store is down for several session timeouts.",
            moves=(0, 2),
            store_outage_s=4.0,
            duration_s=9.0,
            link_resets=(0, 2),
        ),
        _stored(
            "gone-crashes",
            "Hubs crash and pause, mostly while the store is down, and restart.",
            moves=(0, 2),
            store_outage_s=4.0,
            crashes=(1, 2),
            zombies=(0, 1),
            link_resets=(0, 2),
            duration_s=5.0,
            expectation=LOUD,
        ),
        _stored(
            "unreachable",
            "No hub reaches the store, and all sessions expire.",
            store_outage_s=4.0,
            duration_s=9.0,
            is_store_unreachable=True,
        ),
        _stored(
            "emptied",
            "The store comes back empty.",
            moves=(0, 2),
            store_outage_s=0.5,
            is_store_emptied=True,
            duration_s=8.0,
        ),
        *_stored_everything(everything),
        _stored(
            "gone-minute",
            "The store is down for a minute.",
            store_outage_s=60.0,
            duration_s=66.0,
            is_large=True,
        ),
        _APART,
        _CONTROLLED,
        _stored("crashes", "Hubs crash and restart.", crashes=(1, 2), duration_s=5.0, expectation=LOUD),
        _stored(
            "zombies", "Sessions expire while hubs pause.", zombies=(1, 2), duration_s=5.0, expectation=LOUD
        ),
        _stored(
            "losses",
            "Hubs are cut off from the store for longer than their session timeout.",
            store_losses=(1, 2),
            duration_s=5.0,
            expectation=LOUD,
        ),
    )
