"""The worlds of several hubs and their clients.

Most cases have one kind of fault, which happens often. `cluster-everything` and `cluster-store-everything` have all
faults at once and cover each new feature of hubs.
"""

from __future__ import annotations

from dataclasses import replace

from equipoise.lab.scenarios.cluster_base import BOTH_MODES, LIMITED, LOUD, PATIENT, QUIET, case, routed
from equipoise.lab.scenarios.cluster_clients import (
    ACCESS,
    DURABLE_ACCESS,
    DURABLE_CROWD,
    FILTERED_CROWD,
    HEAVY_CROWD,
    LONG_CROWD,
    STEADY_CROWD,
    STORY_CROWD,
    STORY_SUBSCRIBERS,
    USERS_CROWD,
    publisher_at,
    subscriber_at,
)
from equipoise.lab.scenarios.cluster_replication import REPLICATION_SCENARIOS
from equipoise.lab.scenarios.cluster_store import stored_scenarios
from equipoise.lab.scenarios.scenario import ClusterScenario, NetworkShape
from equipoise.lab.scenarios.workload import Dialect, Workload

__all__ = ["CLUSTER_SCENARIOS"]


_MOVES = case("moves", "Topics move between hubs.", moves=(1, 6))
_LINKS = case("links", "Links between hubs are reset and briefly cut.", link_resets=(1, 6), link_cuts=(0, 3))
_SKEW = case(
    "skew",
    "Topics move while hubs apply different plan versions, links break and hubs pause.",
    moves=(1, 8),
    link_resets=(0, 5),
    link_cuts=(0, 3),
    pauses=(0, 2),
    client_settings=PATIENT,
    lag_s=0.3,
)
_RING = case(
    "ring",
    "Hubs join and ring weights change, so many topics move at once.",
    moves=(0, 3),
    ring_changes=(1, 4),
    link_resets=(0, 3),
    joins=(0, 2),
    lag_s=0.3,
)
_CRASHES = case("crashes", "Hubs crash and restart.", crashes=(1, 2), expectation=LOUD)
_STOPS = case(
    "stops",
    "Hubs shut down cleanly and restart while topics move and links break.",
    stops=(1, 3),
    moves=(0, 3),
    link_resets=(0, 2),
    expectation=LOUD,
)
_ZOMBIES = case(
    "zombies",
    "Hubs pause until the cluster declares them dead, then resume.",
    zombies=(1, 2),
    expectation=LOUD,
)
_FAILOVER = case(
    "failover",
    "Hubs crash or pause until they are declared dead, under steady publishers and with links cut.",
    workload=STEADY_CROWD,
    zombies=(0, 2),
    crashes=(1, 2),
    moves=(0, 2),
    link_cuts=(2, 6),
    duration_s=5.0,
    expectation=LOUD,
)
_CUTS = case(
    "cuts",
    "Pairs of processes are partitioned for seconds.",
    workload=LONG_CROWD,
    moves=(0, 3),
    cuts=(1, 4),
    duration_s=6.0,
    lag_s=0.2,
    expectation=LOUD,
)
_MINUTES = replace(
    _CUTS,
    name="cluster-cuts-minutes",
    summary="Pairs of processes are partitioned for one to two minutes.",
    cut_s=(40.0, 120.0),
    duration_s=130.0,
    is_large=True,
)
_USERS = case(
    "users",
    "Permissions are revoked and granted again while topics move.",
    workload=USERS_CROWD,
    access=ACCESS,
    moves=(0, 3),
    rule_changes=(1, 3),
    link_resets=(0, 2),
    expectation=LOUD,
)
_EVERYTHING = case(
    "everything",
    "All faults at once, with users, replication, trees, filters, a rate-limited topic, wrong clocks "
    "and, on some seeds, a durable topic.",
    workload=USERS_CROWD,
    filtered=FILTERED_CROWD,
    access=ACCESS,
    moves=(1, 5),
    ring_changes=(0, 2),
    replications=(0, 3),
    modes=BOTH_MODES,
    tree_changes=(1, 4),
    tree_share=0.08,
    link_resets=(0, 5),
    link_cuts=(0, 3),
    client_resets=(0, 4),
    cuts=(0, 2),
    cut_s=(0.2, 3.0),
    pauses=(0, 2),
    zombies=(0, 2),
    crashes=(0, 2),
    joins=(0, 1),
    rule_changes=(0, 1),
    clock_error_s=3_600.0,
    lag_s=0.3,
    limited={"b": (12.0, 5)},
    limit_wait_ms=100.0,
    share_changes=(0, 3),
    has_shares_apart=True,
    expectation=LIMITED,
)
_DURABLE = replace(
    _EVERYTHING,
    name="cluster-durable",
    summary="All faults at once with a durable topic, plain and durable subscribers and every kind of publisher.",
    workload=DURABLE_CROWD,
    filtered=(),
    access=DURABLE_ACCESS,
    durable=("d",),
    expectation=replace(LIMITED, properties=(*LIMITED.properties, "kept")),
    is_large=True,
)
_UNLIMITED = replace(
    _EVERYTHING,
    name="cluster-unlimited",
    summary="All faults at once without a rate-limited topic, so publishers send more.",
    limited={},
    expectation=LOUD,
    is_large=True,
)
_NARROW = replace(
    _EVERYTHING,
    name="cluster-narrow",
    summary="All faults at once over links with small buffers that drop frames.",
    workload=HEAVY_CROWD,
    filtered=(),
    access=None,
    rule_changes=(0, 0),
    replications=(0, 0),
    limited={},
    cluster_settings={"link_bytes_max": 64 * 1024},
)


# Stories that exercise safeguards which drawn faults seldom reach.
_STORY = ClusterScenario(
    name="story",
    summary="",
    workload=STORY_CROWD,
    topology=NetworkShape(shape="long-way", split=(0.0, 0.2)),
    expectation=QUIET,
    is_large=True,
)
_STORIES = (
    replace(
        _STORY,
        name="story-four-moves",
        summary="A topic moves four times under publishers that connect to its home.",
        workload=Workload(
            clients=(
                publisher_at("ann", "h1", interval_s=0.005),
                publisher_at("bob", "h3", interval_s=0.005),
                *STORY_SUBSCRIBERS,
            )
        ),
        story="four-moves",
        duration_s=2.5,
        is_routing=True,
        lag_s=0.3,
    ),
    replace(
        _STORY,
        name="story-held-up",
        summary="A publisher's messages are delayed at one hub while the publisher continues at another.",
        workload=Workload(clients=(publisher_at("ann", "h1", interval_s=0.01), *STORY_SUBSCRIBERS)),
        story="held-up",
        duration_s=4.5,
        is_routing=True,
    ),
    replace(
        _STORY,
        name="story-restarted",
        summary="A hub restarts under the same name before other hubs detect the crash.",
        story="restarted",
        duration_s=2.5,
        expectation=LOUD,
    ),
    replace(
        _STORY,
        name="story-no-room",
        summary="The home of a topic and a hub that follows it run out of room for the topic in turn.",
        workload=Workload(
            clients=(
                publisher_at("bob", "h2"),
                subscriber_at("dan", "h1", pattern="a"),
                subscriber_at("hal", "h3", pattern="[a]"),
                subscriber_at("fay", "h3", Dialect.RESP2, pattern="*"),
            )
        ),
        story="no-room",
        expectation=LOUD,
    ),
    replace(
        _STORY,
        name="story-log-fill",
        summary="A pattern subscriber of a lost home reconnects before the next home has sent the missing "
        "entries of the log.",
        workload=Workload(
            clients=(subscriber_at("fay", "h1", Dialect.RESP2, pattern="*"), subscriber_at("sue", "h3"))
        ),
        durable=("a",),
        story="log-fill",
        duration_s=4.0,
        expectation=replace(LOUD, properties=(*LOUD.properties, "kept")),
    ),
)

CLUSTER_SCENARIOS = (
    case("calm", "Several hubs without faults."),
    _MOVES,
    _LINKS,
    _SKEW,
    _RING,
    _CRASHES,
    _STOPS,
    _ZOMBIES,
    _FAILOVER,
    _CUTS,
    _MINUTES,
    _USERS,
    replace(_EVERYTHING, rare=replace(_DURABLE, name=_EVERYTHING.name)),
    _DURABLE,
    _UNLIMITED,
    _NARROW,
    routed(_MOVES),
    replace(
        routed(_MOVES),
        name="cluster-routed-lazy",
        summary="Topics move, and hubs redirect clients only with the next message.",
        cluster_settings={"redirect_mode": "lazy"},
    ),
    routed(_SKEW),
    routed(_RING),
    replace(
        routed(_MOVES),
        name="cluster-routed-resets",
        summary="Topics move while client connections are reset.",
        client_resets=(1, 6),
        expectation=LOUD,
    ),
    replace(
        routed(_MOVES),
        name="cluster-routed-cuts",
        summary="Clients are cut off with messages in flight.",
        workload=LONG_CROWD,
        moves=(0, 5),
        client_cuts=(2, 5),
        duration_s=6.0,
        expectation=LOUD,
    ),
    routed(_CRASHES, moves=(1, 5)),
    routed(_ZOMBIES),
    routed(_FAILOVER),
    routed(_EVERYTHING),
    *REPLICATION_SCENARIOS,
    *stored_scenarios(_EVERYTHING),
    *_STORIES,
)
