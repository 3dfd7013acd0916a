"""The worlds of several hubs that meet in a store, and what may happen to the store."""

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
    "the real controller plans beside an operator, while hubs crash, join and come back; it crashes and is cut off",
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
    "hubs do not reach each other for longer than they wait, and one side leaves",
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
        summary="all of this with a store, which is gone, cut off and reset besides",
        has_store=True,
        store_cuts=(0, 2),
        store_losses=(0, 1),
        store_resets=(0, 3),
        duration_s=5.0,
    )
    durable = replace(
        stored,
        name="cluster-store-durable",
        summary="all of this with a store and a durable topic, whose logs are in the same store",
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
        summary="all of this with a store and without a limited topic, so that publishers send more",
        limited={},
        expectation=LOUD,
        is_large=True,
    )
    return stored, unlimited, durable


def stored_scenarios(everything: ClusterScenario) -> tuple[ClusterScenario, ...]:
    """All of them; `everything` is what happens without a store."""
    return (
        _stored("moves", "hubs share a store and plans change", moves=(0, 3), ring_changes=(0, 2)),
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
            "gone-crashes",
            "hubs crash and stand still, most of them while the store is gone, and come back",
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
            "no hub reaches the store, and all sessions expire",
            store_outage_s=4.0,
            duration_s=9.0,
            is_store_unreachable=True,
        ),
        _stored(
            "emptied",
            "the store comes back empty",
            moves=(0, 2),
            store_outage_s=0.5,
            is_store_emptied=True,
            duration_s=8.0,
        ),
        *_stored_everything(everything),
        _stored(
            "gone-minute",
            "the store is gone for a minute",
            store_outage_s=60.0,
            duration_s=66.0,
            is_large=True,
        ),
        _APART,
        _CONTROLLED,
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
