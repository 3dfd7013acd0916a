"""The worlds of several hubs and their clients.

Most cases turn one kind of trouble up, so that it happens often; `cluster-everything` and `cluster-store-everything`
hold all of it at once and grow with whatever hubs learn to do together.
"""

from __future__ import annotations

from dataclasses import replace

from equipoise.lab.scenarios.cluster_clients import (
    CROWD,
    HEAVY_CROWD,
    LISTENERS,
    LONG_CROWD,
    PLAIN_CROWD,
    REPLICATED_CROWD,
    ROUTED_CROWD,
    ROVING_CROWD,
    TOLD,
    speaker,
)
from equipoise.lab.scenarios.scenario import ClusterScenario, Expectation, Topology
from equipoise.lab.scenarios.workload import Workload
from equipoise.model import Mode

__all__ = ["CLUSTER_SCENARIOS"]

BOTH_MODES = (Mode.ALL_SUBSCRIBERS, Mode.ALL_PUBLISHERS)
# Where no hub dies and no client loses its connection there is no reason for a gap.
QUIET = Expectation(
    properties=("once", "order", "bounded memory", "authorised only", "progress", "no needless gap")
)
LOUD = Expectation()


def _case(name: str, summary: str, **fields: object) -> ClusterScenario:
    made = ClusterScenario(name=f"cluster-{name}", summary=summary, workload=CROWD, expectation=QUIET)
    return replace(made, **fields)  # type: ignore[arg-type]  # fields by name


_MOVES = _case("moves", "topics move from hub to hub", moves=(1, 6))
_LINKS = _case(
    "links", "links between hubs are reset and cut for a moment", link_resets=(1, 6), link_cuts=(0, 3)
)
_SKEW = _case(
    "skew",
    "topics move while hubs go by different plans, links break and hubs stand still",
    moves=(1, 8),
    link_resets=(0, 5),
    link_cuts=(0, 3),
    pauses=(0, 2),
    lag_s=0.3,
)
_RING = _case(
    "ring",
    "hubs join and members get other weights, so that many topics move at once",
    moves=(0, 3),
    ring_changes=(1, 4),
    link_resets=(0, 3),
    joins=(0, 2),
    lag_s=0.3,
)
_CRASHES = _case("crashes", "hubs crash and come back", crashes=(1, 2), expectation=LOUD)
_ZOMBIES = _case(
    "zombies", "hubs stand still until they are declared dead, and wake up", zombies=(1, 2), expectation=LOUD
)
_EVERYTHING = _case(
    "everything",
    "all of this at once, with clocks that are wrong",
    moves=(1, 6),
    ring_changes=(0, 2),
    link_resets=(0, 5),
    link_cuts=(0, 3),
    client_resets=(0, 4),
    pauses=(0, 2),
    zombies=(0, 2),
    crashes=(0, 2),
    joins=(0, 1),
    clock_error_s=3_600.0,
    lag_s=0.3,
    expectation=LOUD,
)
_NARROW = replace(
    _EVERYTHING,
    name="cluster-narrow",
    summary="all of this over links that keep so little that they have to give up frames",
    workload=HEAVY_CROWD,
    cluster_settings={"link_bytes_max": 64 * 1024},
)


def _routed(made: ClusterScenario, **fields: object) -> ClusterScenario:
    """The same with smart clients that go where topics live."""
    name = made.name.replace("cluster-", "cluster-routed-")
    summary = f"{made.summary}; smart clients go where topics live"
    return replace(made, name=name, summary=summary, is_routing=True, **fields)  # type: ignore[arg-type]  # by name


def _replicated(name: str, summary: str, **fields: object) -> ClusterScenario:
    return _case(
        name,
        summary,
        **{
            "workload": REPLICATED_CROWD,
            "hubs": ("h1", "h2", "h3", "h4"),
            "topology": Topology(shape="uneven"),
            "modes": BOTH_MODES,
            "is_large": True,
            **fields,
        },
    )


_LANES = _replicated(
    "lanes",
    "topics get several homes, each of which numbers a lane",
    replications=(2, 7),
    modes=(Mode.ALL_SUBSCRIBERS,),
)
_LANES_PLAIN = replace(
    _LANES,
    name="cluster-lanes-plain",
    summary="the same with plain Redis subscribers only",
    workload=PLAIN_CROWD,
)
_LANES_ROVING = replace(
    _LANES,
    name="cluster-lanes-roving",
    summary="the same with publishers that go from hub to hub",
    workload=ROVING_CROWD,
)
_REPLICATION = _replicated(
    "replication",
    "topics get several homes in either mode while hubs go by different plans and links break",
    replications=(2, 8),
    moves=(0, 3),
    link_resets=(0, 5),
    link_cuts=(0, 3),
    pauses=(0, 2),
    lag_s=0.3,
)
_REPLICATION_RING = _replicated(
    "replication-ring",
    "topics get several homes while hubs join and weights change",
    replications=(2, 8),
    moves=(0, 2),
    ring_changes=(0, 2),
    joins=(0, 2),
    link_resets=(0, 3),
    lag_s=0.3,
)
_REPLICATION_CRASHES = _replicated(
    "replication-crashes",
    "topics get several homes while hubs crash",
    replications=(2, 6),
    crashes=(1, 2),
    expectation=LOUD,
)
_REPLICATION_CLIENTS = _replicated(
    "replication-clients",
    "topics get several homes while clients are reset",
    replications=(2, 8),
    client_resets=(1, 8),
    link_resets=(0, 3),
    lag_s=0.3,
    expectation=LOUD,
)
_REPLICATION_CUTS = replace(
    _REPLICATION,
    name="cluster-replication-cuts",
    summary="topics get several homes while clients are cut off",
    client_cuts=(1, 4),
    duration_s=6.0,
    expectation=LOUD,
)
_REPLICATION_EVERYTHING = _replicated(
    "replication-everything",
    "topics get several homes while everything happens",
    replications=(2, 6),
    moves=(0, 2),
    joins=(0, 1),
    crashes=(0, 2),
    zombies=(0, 1),
    pauses=(0, 1),
    link_resets=(0, 3),
    link_cuts=(0, 2),
    client_resets=(0, 3),
    lag_s=0.2,
    expectation=LOUD,
)
_FOLLOWERS = replace(
    _LANES,
    name="cluster-followers",
    summary="topics get several homes, the first of which numbers",
    modes=(Mode.ALL_PUBLISHERS,),
)
_FOLLOWERS_SKEW = replace(
    _REPLICATION,
    name="cluster-followers-skew",
    summary="the same while hubs go by different plans and links break",
    modes=(Mode.ALL_PUBLISHERS,),
)
_FOLLOWERS_CRASHES = _replicated(
    "followers-crashes",
    "the same while hubs crash",
    replications=(2, 5),
    crashes=(1, 2),
    modes=(Mode.ALL_PUBLISHERS,),
    expectation=LOUD,
)


_REPLICATED = (
    _LANES,
    _REPLICATION,
    _REPLICATION_RING,
    _REPLICATION_CRASHES,
    _REPLICATION_CLIENTS,
    _REPLICATION_CUTS,
    _REPLICATION_EVERYTHING,
    _FOLLOWERS,
    _FOLLOWERS_SKEW,
    _FOLLOWERS_CRASHES,
)


def _routed_replicated(made: ClusterScenario) -> ClusterScenario:
    return _routed(made, workload=ROUTED_CROWD, topology=Topology(shape="scattered"))


def _stored(name: str, summary: str, **fields: object) -> ClusterScenario:
    return _case(f"store-{name}", summary, has_store=True, **fields)


_STORE = (
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
        "gone-minute", "the store is gone for a minute", store_outage_s=60.0, duration_s=66.0, is_large=True
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

# Stories that show a safeguard at work which drawn faults seldom need.
_TOLD = ClusterScenario(
    name="told",
    summary="",
    workload=TOLD,
    topology=Topology(shape="long-way", split=(0.0, 0.2)),
    expectation=QUIET,
    is_large=True,
)
_STORIES = (
    replace(
        _TOLD,
        name="told-four-moves",
        summary="a topic moves four times under publishers that go to its home",
        workload=Workload(
            clients=(
                speaker("ann", "h1", interval_s=0.005),
                speaker("bob", "h3", interval_s=0.005),
                *LISTENERS,
            )
        ),
        story="four-moves",
        duration_s=2.5,
        is_routing=True,
        lag_s=0.3,
    ),
    replace(
        _TOLD,
        name="told-held-up",
        summary="what a publisher sent to a hub is held up while the publisher goes on at another",
        workload=Workload(clients=(speaker("ann", "h1", interval_s=0.01), *LISTENERS)),
        story="held-up",
        duration_s=4.5,
        is_routing=True,
    ),
    replace(
        _TOLD,
        name="told-restarted",
        summary="a hub is back under its name before the others have missed it",
        story="restarted",
        duration_s=2.5,
        expectation=LOUD,
    ),
)

CLUSTER_SCENARIOS = (
    _case("calm", "several hubs, and nothing happens"),
    _MOVES,
    _LINKS,
    _SKEW,
    _RING,
    _CRASHES,
    _ZOMBIES,
    _EVERYTHING,
    _NARROW,
    _routed(_MOVES),
    replace(
        _routed(_MOVES),
        name="cluster-routed-lazy",
        summary="topics move, and clients are redirected with the next message only",
        cluster_settings={"redirect_mode": "lazy"},
    ),
    _routed(_SKEW),
    _routed(_RING),
    replace(
        _routed(_MOVES),
        name="cluster-routed-resets",
        summary="topics move while connections of clients are reset",
        client_resets=(1, 6),
        expectation=LOUD,
    ),
    replace(
        _routed(_MOVES),
        name="cluster-routed-cuts",
        summary="clients are cut off with messages in flight",
        workload=LONG_CROWD,
        moves=(0, 5),
        client_cuts=(2, 5),
        duration_s=6.0,
        expectation=LOUD,
    ),
    _routed(_CRASHES, moves=(1, 5)),
    _routed(_ZOMBIES),
    _LANES_PLAIN,
    _LANES_ROVING,
    *_REPLICATED,
    *map(_routed_replicated, _REPLICATED),
    *_STORE,
    *_STORIES,
)
