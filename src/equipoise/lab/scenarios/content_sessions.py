"""Worlds of hubs in mode `content`, which balance the subscribers of a topic: heads and edges.

Processors are so slow that few subscribers overload a hub, and timeouts so short that a session ends within seconds.
A story (`lab/simulation/cluster/session_stories.py`) runs in each case and records what the hubs failed to do.
"""

from __future__ import annotations

from dataclasses import replace

from equipoise.content.balancing.settings import OverloadThresholds
from equipoise.lab.scenarios.cluster_base import LOUD, QUIET
from equipoise.lab.scenarios.scenario import ClusterScenario
from equipoise.lab.scenarios.workload import Client, Dialect, PublishedStream, Subscribing, Workload

__all__ = ["SESSION_SCENARIOS"]


def _sub(where: str) -> tuple[Subscribing, ...]:
    return (Subscribing(names=("a",), where=where),)


# Many smart subscribers at one edge of a content topic, beside plain subscribers, which stay.
def _seated(*, interval_s: float = 0.1, **copies: int) -> Workload:
    """`copies`: by hub, the number of triples of smart subscribers."""
    publishes = (
        PublishedStream(
            topics=("a",), count=None, interval_s=interval_s, payload_bytes=(60, 90), is_json=True
        ),
    )
    return Workload(
        clients=(
            Client(name="ann", publishes=publishes, place="h0"),
            Client(name="bob", publishes=publishes, place="h0"),
            *(
                Client(
                    name=f"third-{third}-{hub}",
                    subscribes=_sub(f"third = {third}"),
                    place=hub,
                    copies=count,
                )
                for third in range(3)
                for hub, count in copies.items()
            ),
            Client(name="cat", dialect=Dialect.RESP3, subscribes=_sub("third = 1"), place="h1", copies=2),
        )
    )


def _publishing(copies: int) -> Workload:
    """Smart publishers with different rates at the first hub, and a subscriber at one edge of each cluster."""
    kinds = tuple(
        Client(
            name=f"quick-{interval_s * 1000:.0f}",
            publishes=(
                PublishedStream(
                    topics=("a",), count=None, interval_s=interval_s, payload_bytes=(60, 90), is_json=True
                ),
            ),
            place="h0",
            copies=copies // 3,
        )
        for interval_s in (0.02, 0.03, 0.05)
    )
    subscribers = (Client(name=f"at-{hub}", subscribes=_sub("third = 1"), place=hub) for hub in ("h2", "h4"))
    return Workload(clients=(*kinds, *subscribers))


def _thirds(name: str, place: str, copies: int) -> tuple[Client, ...]:
    """`copies` triples of smart subscribers."""
    return tuple(
        Client(name=f"{name}-{third}", subscribes=_sub(f"third = {third}"), place=place, copies=copies)
        for third in range(3)
    )


_SESSIONS = {
    "detection_s": 0.5,
    "pie_s": 0.5,
    "pie_s_max": 2.0,
    "stabilize_s": 1.5,
    "window_s": 2.0,
    "sampling_s": 1.5,
    "samples": 30,
    "migration_s": 0.2,
    "reply_s": 0.4,
    "fruitless_s": 4.0,
    "local_ratio_trigger": 0.05,
    "local_delay_trigger": 0.05,
    "side_effect_ratio": 0.04,
    "first_edge": False,
}


def _case(name: str, summary: str, workload: Workload, **fields: object) -> ClusterScenario:
    """Edges that balance subscribers without a controller, with timeouts for a run of half a minute.

    The story has the name of the case, unless `fields` contain `story`.
    """
    made = ClusterScenario(
        name=f"content-{name}",
        summary=summary,
        workload=workload,
        story=name,
        hubs=("h0", "h1", "h2", "h3"),
        duration_s=30.0,
        is_routing=True,
        content_settings=_SESSIONS,
        client_settings={"ping_interval_s": 20.0, "coordinate_enabled": False},
        expectation=replace(QUIET, properties=(*QUIET.properties, "balance")),
    )
    return replace(made, **fields)  # type: ignore[arg-type]  # fields by name


# Two equal clusters: two heads with two edges each.
_CLUSTERS = {
    "hubs": ("h0", "h1", "h2", "h3", "h4", "h5"),
    "content_settings": {
        **_SESSIONS,
        "global_ratio_trigger": 0.05,
        "global_delay_trigger": 0.05,
        "global_quiet_s": 4.0,
        "global_s": 12.0,
    },
    "write_s": {"h2": 0.003, "h3": 0.003, "h4": 0.003, "h5": 0.003},
}

# Seconds per write: the second edge is twice as strong as the first, the third four times.
_UNEVEN = {"h1": 0.003, "h2": 0.0015, "h3": 0.00075}
_DEADLY = replace(LOUD, properties=(*LOUD.properties, "balance"))

# Thresholds at which all three edges count as overloaded, although their processors keep up.
_FULL = OverloadThresholds(lower=0.05, higher=0.06)

SESSION_SCENARIOS = (
    _case(
        "shares",
        "Edges with capacities 1 : 2 : 4 balance subscribers that all connected to the first edge.",
        _seated(h1=36),
        write_s={"h1": 0.0008, "h2": 0.0004, "h3": 0.0002},
    ),
    _case(
        "steady",
        "Edges with capacities 1 : 2 : 4 balance a few subscribers and move few of them twice.",
        _seated(h1=8),
        duration_s=20.0,
        write_s=_UNEVEN,
    ),
    _case(
        "sessions",
        "Edges balance subscribers without a controller, and hubs crash during a session.",
        _seated(h1=8),
        story="deaths",
        write_s=_UNEVEN,
        expectation=_DEADLY,
    ),
    _case(
        "full",
        "All edges are overloaded, one of them more than the rest; subscribers stay where they are.",
        _seated(h1=6, h2=3, h3=3),
        duration_s=18.0,
        content_settings={**_SESSIONS, "input": _FULL},
        write_s={"h1": 0.003, "h2": 0.003, "h3": 0.003},
    ),
    _case(
        "overloaded",
        "An edge with eight times the load that it can serve answers its head and other edges within three seconds.",
        _seated(interval_s=0.02, h1=8),
        duration_s=24.0,
        # The edge keeps its subscribers and sends its load only on request.
        content_settings={
            **_SESSIONS,
            "detection_s": 1000.0,
        },
        write_s={"h1": 0.000_01},
        reads_all=True,
    ),
    _case(
        "planned",
        "The planner adds an edge to overloaded edges that balance subscribers, and leaves those in a session alone.",
        _seated(h1=12, h2=9),
        duration_s=60.0,
        hubs=("h0", "h1", "h2", "h3"),
        has_store=True,
        session_s=6.0,
        cluster_settings={"link_silence_s": 2.0, "link_timeout_s": 4.0},
        has_controller=True,
        # The planner detects an overload within seconds, and could add an edge during the first session.
        planner_settings={
            "replication_wait_s": 4.0,
            "content_session_wait_s": 40.0,
            "plan_wait_s": 2.0,
            "hits": 6,
            "severe_ratio": 3.0,
            "accept_ratio": 0.3,
            "safe_ratio": 0.4,
            "crowded_ratio": 0.45,
            "high_ratio": 0.5,
        },
        write_s={"h1": 0.0025, "h2": 0.0025, "h3": 0.0025},
    ),
    _case(
        "drained",
        "Edges balance subscribers without a controller, and one edge of a session stops being an edge.",
        _seated(h1=8),
        write_s=_UNEVEN,
    ),
    _case(
        "misheard",
        "Edges balance subscribers while their control messages are lost, delayed or duplicated.",
        _seated(h1=8),
        write_s=_UNEVEN,
    ),
    _case(
        "comers",
        "Subscribers that connect to hubs that are not edges are redirected to the edges with most free capacity.",
        _seated(h1=1, h2=1, h3=1),
        hubs=("h0", "h1", "h2", "h3", "h4"),
        comers=(*_thirds("head", "h0", 8), *_thirds("stranger", "h4", 8)),
        duration_s=16.0,
        # Load differences start no session, so only redirects at subscription time move subscribers.
        content_settings={
            **_SESSIONS,
            "first_edge": True,
            "local_ratio_trigger": 1.0,
            "local_delay_trigger": 1.0,
        },
        write_s=_UNEVEN,
    ),
    _case(
        "clusters",
        "Two clusters balance subscribers that all connected to one edge.",
        _seated(h2=8),
        **_CLUSTERS,
    ),
    _case(
        "publishers",
        "A head with more load than the head of another cluster sends it publishers, in order; heads crash.",
        _publishing(12),
        duration_s=24.0,
        expectation=_DEADLY,
        hubs=("h0", "h1", "h2", "h3", "h4", "h5"),
        content_settings={
            **_SESSIONS,
            "window_s": 1.0,
            "global_ratio_trigger": 0.1,
            "local_ratio_trigger": 1.0,
            "local_delay_trigger": 1.0,
        },
        write_s={"h0": 0.001, "h1": 0.001},
    ),
    _case(
        "clusters-deaths",
        "Two clusters balance subscribers without a controller while heads and edges crash.",
        _seated(h2=8),
        story="cluster-deaths",
        expectation=_DEADLY,
        **_CLUSTERS,
    ),
)
