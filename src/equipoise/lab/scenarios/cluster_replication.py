"""Worlds of several hubs in which topics get several homes."""

from __future__ import annotations

from dataclasses import replace

from equipoise.lab.scenarios.cluster_base import BOTH_MODES, LOUD, PATIENT, case, routed
from equipoise.lab.scenarios.cluster_clients import PLAIN_CROWD, REPLICATED_CROWD, ROUTED_CROWD, ROVING_CROWD
from equipoise.lab.scenarios.scenario import ClusterScenario, NetworkShape
from equipoise.model import Mode

__all__ = ["REPLICATION_SCENARIOS"]


def _replicated(name: str, summary: str, **fields: object) -> ClusterScenario:
    return case(
        name,
        summary,
        **{
            "workload": REPLICATED_CROWD,
            "hubs": ("h1", "h2", "h3", "h4"),
            "topology": NetworkShape(shape="uneven"),
            "modes": BOTH_MODES,
            "is_large": True,
            **fields,
        },
    )


_LANES = _replicated(
    "lanes",
    "Topics are replicated over several homes, each of which numbers its own lane.",
    replications=(2, 7),
    modes=(Mode.ALL_SUBSCRIBERS,),
)
_LANES_PLAIN = replace(
    _LANES,
    name="cluster-lanes-plain",
    summary="Topics are replicated with one lane per home, and all subscribers are plain Redis clients.",
    workload=PLAIN_CROWD,
)
_LANES_ROVING = replace(
    _LANES,
    name="cluster-lanes-roving",
    summary="Topics are replicated with one lane per home, and publishers alternate between hubs.",
    workload=ROVING_CROWD,
)
_REPLICATION = _replicated(
    "replication",
    "Topics are replicated in both modes while hubs apply different plan versions and links break.",
    replications=(2, 8),
    moves=(0, 3),
    link_resets=(0, 5),
    link_cuts=(0, 3),
    pauses=(0, 2),
    client_settings=PATIENT,
    lag_s=0.3,
)
_REPLICATION_RING = _replicated(
    "replication-ring",
    "Topics are replicated while hubs join and ring weights change.",
    replications=(2, 8),
    moves=(0, 2),
    ring_changes=(0, 2),
    joins=(0, 2),
    link_resets=(0, 3),
    lag_s=0.3,
)
_REPLICATION_CRASHES = _replicated(
    "replication-crashes",
    "Topics are replicated while hubs crash.",
    replications=(2, 6),
    crashes=(1, 2),
    expectation=LOUD,
)
_REPLICATION_CLIENTS = _replicated(
    "replication-clients",
    "Topics are replicated while client connections are reset.",
    replications=(2, 8),
    client_resets=(1, 8),
    link_resets=(0, 3),
    lag_s=0.3,
    expectation=LOUD,
)
_REPLICATION_CUTS = replace(
    _REPLICATION,
    name="cluster-replication-cuts",
    summary="Topics are replicated while clients are cut off.",
    client_cuts=(1, 4),
    duration_s=6.0,
    expectation=LOUD,
)
_REPLICATION_EVERYTHING = _replicated(
    "replication-everything",
    "Topics are replicated under all faults at once.",
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
    summary="Topics are replicated over several homes, the first of which numbers all messages.",
    modes=(Mode.ALL_PUBLISHERS,),
)
_FOLLOWERS_SKEW = replace(
    _REPLICATION,
    name="cluster-followers-skew",
    summary="Topics are replicated with one numbering home while hubs apply different plan versions and links "
    "break.",
    modes=(Mode.ALL_PUBLISHERS,),
)
_FOLLOWERS_CRASHES = _replicated(
    "followers-crashes",
    "Topics are replicated with one numbering home while hubs crash.",
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
    return routed(made, workload=ROUTED_CROWD, topology=NetworkShape(shape="scattered"))


REPLICATION_SCENARIOS = (_LANES_PLAIN, _LANES_ROVING, *_REPLICATED, *map(_routed_replicated, _REPLICATED))
