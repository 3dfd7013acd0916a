"""Worlds of several hubs whose plain and smart subscribers use filters.

Topics move, relays start and stop, links fail and hubs die. A filter subscriber receives its matching messages with the
same guarantees as a subscriber without a filter, and receives no other messages.
"""

from __future__ import annotations

from dataclasses import replace

from equipoise.lab.scenarios.cluster_base import BOTH_MODES, LOUD, PATIENT, QUIET
from equipoise.lab.scenarios.scenario import ClusterScenario
from equipoise.lab.scenarios.workload import Client, Dialect, PublishedStream, Subscribing, Workload
from equipoise.model import Mode

__all__ = ["CONTENT_SCENARIOS"]


def _pub(*topics: str) -> tuple[PublishedStream, ...]:
    return (
        PublishedStream(
            topics=topics,
            count=240,
            burst=(1, 6),
            interval_s=0.05,
            receipts=0.1,
            payload_bytes=(60, 90),
            is_json=True,
        ),
    )


def _sub(
    name: str, where: str = "", *, is_pattern: bool = False, stays_s: float | None = None
) -> tuple[Subscribing, ...]:
    return (Subscribing(names=(name,), where=where, is_pattern=is_pattern, stays_s=stays_s),)


# Filters that match one message in three, most messages, one publisher, and few messages; and subscribers without a
# filter.
_CROWD = Workload(
    clients=(
        Client(name="ann", publishes=_pub("a", "b")),
        Client(name="bob", publishes=_pub("a")),
        Client(name="cat", dialect=Dialect.RESP3, subscribes=_sub("a", "third = 1"), copies=2),
        Client(
            name="dan",
            dialect=Dialect.RESP2,
            subscribes=_sub("a", "third in (0, 2) and number >= 3"),
            copies=2,
        ),
        Client(name="eve", dialect=Dialect.RESP2, subscribes=_sub("a", "publisher prefix 'b'")),
        Client(name="fay", dialect=Dialect.RESP3, subscribes=_sub("b", "third = 0 and number != 9")),
        Client(name="gus", dialect=Dialect.RESP2, subscribes=_sub("a")),
        Client(name="hal", dialect=Dialect.RESP2, subscribes=_sub("[ab]", is_pattern=True)),
        Client(name="ida", subscribes=_sub("a")),
        Client(name="jim", subscribes=_sub("a", "third = 1"), copies=2),
        Client(name="kim", subscribes=(*_sub("a", "publisher prefix 'b'"), *_sub("b", "third in (0, 2)"))),
        # A filter subscription and a full subscription over one connection.
        Client(name="lea", subscribes=(*_sub("a", "third = 2"), *_sub("a"))),
        # No message matches, and the client still has to learn its position.
        Client(name="max", subscribes=_sub("a", "publisher = 'zoe'")),
    )
)


# The same, and smart clients that leave and reconnect: the new hub may lag behind the previous one.
_COMERS = Workload(
    clients=(
        *_CROWD.clients,
        Client(name="nat", subscribes=_sub("a", "third = 1", stays_s=0.3), copies=3),
        Client(name="oda", subscribes=_sub("a", stays_s=0.4), copies=2),
    )
)


# Filter subscribers only: without their filters no hub but the home follows the topic.
_ALONE = Workload(
    clients=(
        Client(name="ann", publishes=_pub("a", "b")),
        Client(name="bob", publishes=_pub("a")),
        Client(name="cat", dialect=Dialect.RESP3, subscribes=_sub("a", "third = 1"), copies=3),
        Client(name="dan", dialect=Dialect.RESP2, subscribes=_sub("b", "third in (0, 2)"), copies=3),
        Client(name="eve", subscribes=_sub("a", "third = 0"), copies=2),
        Client(name="fay", subscribes=(*_sub("b", "third = 1"), *_sub("a", "third = 1"))),
        Client(name="gus", subscribes=_sub("a", "publisher = 'zoe'")),
    )
)


# Smart clients, which hubs can redirect from one home to another; some lag behind, and some receive no message.
_EDGES = Workload(
    clients=(
        Client(name="ann", publishes=_pub("a", "b")),
        Client(name="bob", publishes=_pub("a")),
        Client(name="cat", dialect=Dialect.RESP3, subscribes=_sub("a", "third = 1")),
        Client(name="dan", dialect=Dialect.RESP2, subscribes=_sub("b", "third in (0, 2)")),
        Client(name="eve", subscribes=_sub("a", "third = 0"), copies=3),
        Client(name="fay", subscribes=(*_sub("b", "third = 1"), *_sub("a", "third = 1")), copies=2),
        Client(name="gus", subscribes=_sub("a", "publisher = 'zoe'")),
        Client(name="hal", subscribes=_sub("a", "number >= 3", stays_s=0.7), copies=2),
        Client(name="ida", subscribes=(*_sub("a"), *_sub("a", "third = 2"))),
    )
)


# Filters that cover each other, so that hubs request other filters whenever a subscriber comes or goes. The hub of a
# subscriber without a filter requests the whole topic.
_COVERS = Workload(
    clients=(
        Client(name="ann", publishes=_pub("a", "b")),
        Client(name="bob", publishes=_pub("a")),
        Client(name="cat", dialect=Dialect.RESP3, subscribes=_sub("a", "third = 1"), copies=2),
        Client(name="dan", dialect=Dialect.RESP2, subscribes=_sub("a", "third = 1 and number > 9"), copies=3),
        Client(name="eve", dialect=Dialect.RESP3, subscribes=_sub("a", "third exists"), copies=2),
        Client(name="fay", dialect=Dialect.RESP2, subscribes=_sub("a", "publisher = 'bob'"), copies=2),
        Client(name="gus", dialect=Dialect.RESP2, subscribes=_sub("b", "third in (0, 2)")),
        Client(name="hal", dialect=Dialect.RESP2, subscribes=_sub("b", "third = 0"), copies=3),
        Client(name="ida", dialect=Dialect.RESP2, subscribes=_sub("b"), place="h3"),
        Client(name="jim", subscribes=_sub("a", "third = 2 and number > 5", stays_s=0.6), copies=2),
        Client(name="kim", subscribes=_sub("a", "third exists", stays_s=0.9)),
    )
)


# Plain clients that connect to another hub each time, without a position to resume from. One hub always receives the
# whole topic, so it never waits. The other hubs receive matching messages, and the whole topic while a client without
# a filter is connected.
_WANDERERS = Workload(
    clients=(
        Client(name="ann", publishes=_pub("a")),
        Client(name="bob", publishes=_pub("a")),
        Client(
            name="cat", dialect=Dialect.RESP3, subscribes=_sub("a", "third = 1"), copies=3, is_wandering=True
        ),
        Client(name="dan", dialect=Dialect.RESP2, subscribes=_sub("a", "third in (0, 2)"), is_wandering=True),
        Client(name="eve", dialect=Dialect.RESP2, subscribes=_sub("a"), copies=2, is_wandering=True),
        Client(name="fay", subscribes=_sub("a", "third = 0", stays_s=0.4), copies=2),
        Client(name="gus", dialect=Dialect.RESP2, subscribes=_sub("a"), place="h1"),
    )
)


# The same crowd with large messages.
_HEAVY = Workload(
    clients=tuple(
        replace(
            client,
            publishes=tuple(replace(stream, payload_bytes=(100, 4_000)) for stream in client.publishes),
        )
        for client in _CROWD.clients
    )
)


# Enough for trees of several levels.
_FIVE = ("h1", "h2", "h3", "h4", "h5")


def _case(name: str, summary: str, **fields: object) -> ClusterScenario:
    made = ClusterScenario(name=f"content-{name}", summary=summary, workload=_CROWD, expectation=QUIET)
    return replace(made, **fields)  # type: ignore[arg-type]  # fields by name


_ROUTED = _case(
    "routed",
    "Smart clients with filters follow redirects while topics move, links break and hubs pause.",
    moves=(2, 8),
    link_resets=(0, 3),
    link_cuts=(0, 2),
    pauses=(0, 1),
    client_settings=PATIENT,
    lag_s=0.3,
    is_routing=True,
)
_DURABLE = replace(
    _ROUTED,
    name="content-durable",
    summary="The faults of content-routed, and one topic is durable.",
    durable=("a",),
    expectation=replace(QUIET, properties=(*QUIET.properties, "kept")),
    is_large=True,
)

CONTENT_SCENARIOS = (
    _DURABLE,
    _case("moves", "Filter subscribers while topics move between hubs.", moves=(1, 6)),
    _case(
        "skew",
        "Filter subscribers while hubs apply different plan versions, links break and hubs pause.",
        moves=(1, 6),
        link_resets=(0, 5),
        link_cuts=(0, 3),
        pauses=(0, 2),
        client_settings=PATIENT,
        lag_s=0.3,
    ),
    _case(
        "lanes",
        "Filter subscribers while topics are replicated and reduced to one home again.",
        replications=(1, 4),
        modes=BOTH_MODES,
        link_resets=(0, 2),
        lag_s=0.2,
    ),
    _case(
        "relays",
        "Filter subscribers lose their connections, so relays start and stop while topics move.",
        moves=(1, 4),
        client_resets=(2, 8),
        link_resets=(0, 2),
        expectation=LOUD,
    ),
    _case(
        "alone",
        "Topics that have only filter subscribers move while connections are lost.",
        workload=_ALONE,
        moves=(1, 6),
        client_resets=(0, 6),
        link_resets=(0, 3),
        expectation=LOUD,
    ),
    _case(
        "links",
        "Hubs forward only messages that match filters while topics move, links break and hubs pause.",
        workload=_ALONE,
        hubs=("h1", "h2", "h3", "h4"),
        moves=(1, 6),
        link_resets=(0, 5),
        link_cuts=(0, 3),
        pauses=(0, 2),
        client_settings=PATIENT,
        lag_s=0.3,
    ),
    _case(
        "covers",
        "Subscribers with covering filters come and go, so hubs replace requested filters all the time.",
        workload=_COVERS,
        moves=(0, 4),
        client_resets=(6, 20),
        link_resets=(0, 2),
        expectation=LOUD,
    ),
    _case(
        "older",
        "Hubs exchange filters, except for one hub of an earlier release.",
        workload=_ALONE,
        whole_links=("h2",),
        moves=(1, 6),
        link_resets=(0, 4),
        link_cuts=(0, 2),
        lag_s=0.3,
    ),
    _case(
        "narrow",
        "Filter subscribers over links with buffers so small that hubs drop client messages.",
        workload=_HEAVY,
        moves=(0, 3),
        link_resets=(0, 4),
        link_cuts=(1, 4),
        lag_s=0.2,
        cluster_settings={"link_bytes_max": 64 * 1024},
        expectation=LOUD,
    ),
    _case(
        "trees",
        "Content topics on changing trees while hubs apply different plan versions and links break.",
        hubs=_FIVE,
        tree_changes=(3, 9),
        moves=(0, 2),
        link_resets=(0, 5),
        link_cuts=(0, 3),
        pauses=(0, 2),
        client_settings=PATIENT,
        lag_s=0.4,
    ),
    _case(
        "trees-crashes",
        "Content topics on trees while heads and edges crash, join and restart, and connections are lost.",
        workload=_COMERS,
        hubs=_FIVE,
        tree_changes=(2, 6),
        moves=(0, 2),
        link_cuts=(0, 2),
        client_resets=(0, 4),
        crashes=(1, 3),
        joins=(0, 1),
        lag_s=0.3,
        expectation=LOUD,
    ),
    _case(
        "trees-wanderers",
        "Plain clients switch between the edges of a changing tree, including edges that lag.",
        workload=_WANDERERS,
        hubs=_FIVE,
        planted=("a",),
        tree_changes=(2, 6),
        client_resets=(8, 20),
        link_cuts=(1, 4),
        pauses=(0, 2),
        lag_s=0.3,
        expectation=LOUD,
    ),
    _case(
        "trees-routed",
        "Smart clients with filters connect to the edges of changing trees and return to edges that lag.",
        workload=_COMERS,
        hubs=_FIVE,
        tree_changes=(3, 8),
        moves=(0, 2),
        link_cuts=(0, 3),
        client_resets=(0, 4),
        pauses=(0, 2),
        lag_s=0.3,
        is_routing=True,
        expectation=LOUD,
    ),
    _case(
        "crashes",
        "Filter subscribers while hubs crash and restart.",
        moves=(0, 3),
        crashes=(1, 2),
        expectation=LOUD,
    ),
    replace(_ROUTED, rare=replace(_DURABLE, name=_ROUTED.name)),
    _case(
        "routed-alone",
        "Smart clients with filters follow redirects for topics that have only filter subscribers.",
        workload=_ALONE,
        moves=(2, 8),
        link_resets=(0, 3),
        lag_s=0.2,
        is_routing=True,
        client_settings={"merge_timeout_s": 1.5},
    ),
    _case(
        "routed-lanes",
        "Smart clients with filters follow redirects while topics are replicated.",
        replications=(1, 4),
        modes=BOTH_MODES,
        link_resets=(0, 2),
        lag_s=0.2,
        is_routing=True,
    ),
    _case(
        "routed-comers",
        "Smart clients with filters disconnect and reconnect, also to hubs that lag behind the previous one.",
        workload=_COMERS,
        moves=(1, 5),
        client_resets=(4, 12),
        link_cuts=(2, 6),
        pauses=(0, 2),
        lag_s=0.3,
        is_routing=True,
        expectation=LOUD,
    ),
    _case(
        "edges",
        "Hubs redirect smart clients with filters between homes while links break and hubs pause.",
        workload=_EDGES,
        hubs=("h1", "h2", "h3", "h4"),
        story="edges",
        modes=(Mode.CONTENT,),
        replications=(0, 2),
        link_resets=(0, 3),
        link_cuts=(0, 2),
        pauses=(0, 2),
        client_settings=PATIENT,
        lag_s=0.2,
        is_routing=True,
    ),
    _case(
        "edges-crashes",
        "Hubs redirect smart clients with filters between homes while hubs crash and connections are lost.",
        workload=_EDGES,
        hubs=("h1", "h2", "h3", "h4"),
        story="edges",
        modes=(Mode.CONTENT,),
        replications=(0, 2),
        crashes=(0, 2),
        client_resets=(0, 6),
        lag_s=0.2,
        is_routing=True,
        expectation=LOUD,
    ),
    _case(
        "routed-crashes",
        "Smart clients with filters follow redirects while hubs crash and connections are lost.",
        workload=_COMERS,
        moves=(1, 4),
        crashes=(0, 2),
        client_resets=(0, 4),
        expectation=LOUD,
        is_routing=True,
    ),
)
