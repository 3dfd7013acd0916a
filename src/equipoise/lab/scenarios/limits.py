"""Worlds with rate-limited topics under faults of hubs, links and plans."""

from __future__ import annotations

from dataclasses import replace

from equipoise.lab.scenarios.cluster import CLUSTER_SCENARIOS
from equipoise.lab.scenarios.cluster_base import LIMITED, QUIET, case
from equipoise.lab.scenarios.cluster_clients import CROWD
from equipoise.lab.scenarios.scenario import ClusterScenario, Expectation, NetworkShape
from equipoise.lab.scenarios.workload import Client, Dialect, PublishedStream, Subscribing, Workload

__all__ = ["LIMITS_SCENARIOS"]

# Below the crowd's publish rate, and less deep than its bursts: messages wait, and hubs reject some.
ENVELOPES = {"a": (12.0, 5), "b": (6.0, 4), "[cd]": (9.0, 4)}
_QUIET = Expectation(properties=(*QUIET.properties, "envelope"))
# The same crowd with twice as many messages.
EAGER_CROWD = Workload(
    clients=tuple(
        replace(client, publishes=tuple(replace(p, count=160, interval_s=0.12) for p in client.publishes))
        for client in CROWD.clients
    )
)


def _everything(name: str) -> ClusterScenario:
    """The cluster case with all faults, with limited topics."""
    made = next(one for one in CLUSTER_SCENARIOS if one.name == f"cluster-{name}")
    return replace(
        made,
        name=f"limits-{name}",
        summary=f"{made.summary}; topics are limited and split",
        limited=ENVELOPES,
        share_changes=(0, 3),
        has_shares_apart=False,
        expectation=LIMITED,
        rare=None,
    )


def _limits(name: str, summary: str, **fields: object) -> ClusterScenario:
    given = {"workload": EAGER_CROWD, "limited": ENVELOPES, "expectation": _QUIET} | fields
    return replace(case(name, summary), **given, name=f"limits-{name}")  # type: ignore[arg-type]  # fields by name


# Two publishers that wait for each receipt. After healing, bob, whose messages are admitted, publishes 0.21 s after
# each token. ann, whose messages are rejected and who also publishes to another topic, publishes once in 0.22 s.
_IN_STEP = Workload(
    clients=(
        *(
            Client(
                name=name,
                publishes=(PublishedStream(topics=topics, count=None, interval_s=0.04, receipts=1.0),),
            )
            for name, topics in (("ann", ("a", "b")), ("bob", ("a",)))
        ),
        Client(name="cat", dialect=Dialect.RESP3, subscribes=(Subscribing(names=("a", "b")),)),
        Client(name="dan", subscribes=(Subscribing(names=("a", "b")),)),
    )
)
# At each hub a publisher of occasional single messages beside a publisher that always has messages.
_FAIR_CROWD = Workload(
    clients=(
        *(
            Client(
                name=name,
                place=hub,
                publishes=(PublishedStream(topics=("a",), count=None, burst=(20, 40), interval_s=0.01),),
            )
            for name, hub in (("hog-1", "h1"), ("hog-2", "h2"))
        ),
        *(
            Client(
                name=name,
                place=hub,
                publishes=(PublishedStream(topics=("a",), count=40, interval_s=0.35, receipts=1.0),),
            )
            for name, hub in (("pat", "h1"), ("pip", "h2"))
        ),
        Client(name="cat", dialect=Dialect.RESP3, subscribes=(Subscribing(names=("a",)),)),
    )
)
# At every hub a publisher that always has messages.
_ENDLESS_CROWD = Workload(
    clients=(
        *(
            Client(
                name=f"hog-{number}",
                place=f"h{number}",
                publishes=(PublishedStream(topics=("a",), count=None, burst=(20, 40), interval_s=0.01),),
            )
            for number in range(1, 7)
        ),
        Client(name="cat", dialect=Dialect.RESP3, subscribes=(Subscribing(names=("a",)),)),
        Client(name="dan", subscribes=(Subscribing(names=("a",)),)),
    )
)
# Publishers that always have messages, and publish to unlimited topics over the same connection.
_BUSY_CROWD = Workload(
    clients=(
        *(
            Client(
                name=name,
                publishes=(
                    PublishedStream(topics=("a",), count=None, burst=(20, 60), interval_s=0.05, receipts=0.2),
                    PublishedStream(topics=(free,), count=100, interval_s=0.1, receipts=1.0),
                ),
            )
            for name, free in (("hog-1", "x"), ("hog-2", "y"))
        ),
        Client(name="cat", dialect=Dialect.RESP3, subscribes=(Subscribing(names=("a", "x", "y")),)),
        Client(name="dan", subscribes=(Subscribing(names=("a", "x")),)),
    )
)
# Hubs drop topics without subscribers soon, and the buckets of these topics fill slowly.
_IDLE_CROWD = Workload(
    clients=(
        *(
            Client(
                name=name,
                publishes=(PublishedStream(topics=("d", "e"), count=60, burst=(1, 3), interval_s=0.6),),
            )
            for name in ("ann", "bob")
        ),
        Client(name="fay", dialect=Dialect.RESP2, subscribes=(Subscribing(names=("x",)),)),
    )
)

# All hubs are idle until the buckets are full, and then busy at the same time.
_BURSTY_CROWD = Workload(
    clients=(
        *(
            Client(
                name=f"pub-{hub}",
                place=hub,
                publishes=(PublishedStream(topics=("a",), count=60, burst=(12, 14), interval_s=7.0),),
            )
            for hub in ("h1", "h2", "h3")
        ),
        Client(name="cat", dialect=Dialect.RESP3, subscribes=(Subscribing(names=("a",)),)),
    )
)

# Smart publishers of two groups, which hubs redirect from seat to seat.
_SEATED_CROWD = Workload(
    clients=(
        *(
            Client(
                name=f"{group}-{number}",
                group=group,
                publishes=(
                    PublishedStream(topics=("a",), count=60, burst=(1, 3), interval_s=0.15, receipts=0.5),
                ),
            )
            for group in ("red", "blue")
            for number in range(3)
        ),
        Client(name="cat", subscribes=(Subscribing(names=("a",)),)),
        Client(name="dan", dialect=Dialect.RESP3, subscribes=(Subscribing(names=("a",)),)),
    )
)


# More publishers: some state no group, one publishes ten times as fast, and all publish until the end.
_BALANCED_CROWD = Workload(
    clients=(
        *(
            Client(
                name=f"{group or 'none'}-{number}",
                group=group,
                publishes=(
                    PublishedStream(
                        topics=("a",), count=None, interval_s=0.04 if (group, number) == ("red", 0) else 0.4
                    ),
                ),
            )
            for group in ("red", "blue", "")
            for number in range(4)
        ),
        Client(name="cat", subscribes=(Subscribing(names=("a",)),)),
    )
)


def _seats(name: str, summary: str, **fields: object) -> ClusterScenario:
    given = {
        "workload": _SEATED_CROWD,
        "limited": {"a": (150.0, 40)},
        "limit_wait_ms": 2_000.0,
        "reshares": (2, 8),
        "is_routing": True,
        "duration_s": 8.0,
    }
    return _limits(name, summary, **(given | fields))


LIMITS_SCENARIOS = (
    _limits("moves", "Rate-limited topics move between hubs.", moves=(1, 8), ring_changes=(0, 2), lag_s=0.2),
    _limits(
        "shares",
        "Rate-limited topics are split among hubs, with different shares each time.",
        share_changes=(1, 6),
        moves=(0, 3),
        link_resets=(0, 4),
        # Long enough that the envelope checker detects a share that grew too early.
        lag_s=0.6,
    ),
    _limits(
        "crashes",
        "Hubs that number rate-limited topics crash and restart.",
        has_store=True,
        crashes=(1, 2),
        moves=(0, 3),
        share_changes=(0, 2),
        duration_s=5.0,
        expectation=LIMITED,
    ),
    _limits(
        "zombie",
        "Hubs pause past their session timeout, or are cut off from the store, and resume.",
        has_store=True,
        zombies=(0, 2),
        store_losses=(0, 2),
        cuts=(0, 2),
        moves=(0, 2),
        share_changes=(0, 2),
        duration_s=6.0,
        expectation=LIMITED,
    ),
    _limits(
        "store-gone",
        "The store is down for several session timeouts, and rate-limited topics continue.",
        has_store=True,
        moves=(0, 2),
        store_outage_s=4.0,
        duration_s=9.0,
        link_resets=(0, 2),
        expectation=LIMITED,
    ),
    _limits(
        "clocks",
        "The wall clocks of hubs are wrong and are reset, and hubs pause.",
        moves=(0, 4),
        pauses=(0, 4),
        crashes=(0, 1),
        clock_error_s=3_600.0,
        clock_steps=(1, 6),
        lag_s=0.2,
        expectation=LIMITED,
    ),
    _limits(
        "old-hub",
        "A hub of a release without rate limits joins, and an operator moves topics.",
        has_store=True,
        joins=(1, 1),
        without_limits=("new-1",),
        moves=(0, 3),
        ring_changes=(0, 1),
        link_resets=(0, 2),
        duration_s=5.0,
        expectation=LIMITED,
    ),
    _limits(
        "relays",
        "Messages of rate-limited topics are forwarded by other hubs over links that break.",
        moves=(0, 2),
        link_resets=(1, 6),
        link_cuts=(0, 3),
        expectation=_QUIET,
    ),
    _limits(
        "lockstep",
        "Publishers run in step with the tokens of their topic, and a token takes longer than a "
        "message may wait.",
        hubs=("h1",),
        workload=_IN_STEP,
        topology=NetworkShape(latency_s=(0.005, 0.005)),
        limited={"a": (1 / 0.22, 1)},
        limit_wait_ms=100.0,
        duration_s=1.0,
    ),
    _limits(
        "fair",
        "Publishers that always have messages compete with publishers that send rarely.",
        workload=_FAIR_CROWD,
        limited={"a": (20.0, 4)},
        limit_wait_ms=2_000.0,
        expectation=Expectation(properties=(*QUIET.properties, "envelope", "fair turns")),
        duration_s=15.0,
    ),
    _limits(
        "used",
        "Publishers at six hubs always have messages while their topic moves and is split.",
        hubs=("h1", "h2", "h3", "h4", "h5", "h6"),
        workload=_ENDLESS_CROWD,
        limited={"a": (30.0, 10)},
        limit_wait_ms=1_000.0,
        share_changes=(1, 3),
        moves=(0, 2),
        # A hub may draw a share of one message in two seconds, so progress within a time limit is not checked.
        expectation=Expectation(
            properties=("once", "order", "bounded memory", "no needless gap", "envelope", "full use")
        ),
        duration_s=25.0,
    ),
    _limits(
        "beside",
        "Publishers that always have messages also publish to unlimited topics over the same connection.",
        workload=_BUSY_CROWD,
        limited={"a": (30.0, 6)},
        moves=(0, 3),
        is_routing=True,
        expectation=Expectation(properties=(*QUIET.properties, "envelope", "held up")),
        duration_s=12.0,
    ),
    _limits(
        "bursts",
        "All hubs are idle and then busy at once while shares change.",
        workload=_BURSTY_CROWD,
        limited={"a": (4.0, 12)},
        share_changes=(3, 10),
        duration_s=30.0,
        # A relay may have 12 queued messages when the home draws a share of 0.2/s, and has every second turn.
        expectation=replace(_QUIET, progress_s=120.0),
    ),
    _limits(
        "idle",
        "Rate-limited topics are used rarely and dropped in between.",
        workload=_IDLE_CROWD,
        limited={"[de]": (0.4, 6)},
        hub_limits={"topic_idle_s": 0.3},
        duration_s=15.0,
        expectation=Expectation(properties=("order", "bounded memory", "envelope")),
    ),
    _seats(
        "seats",
        "Hubs redirect smart publishers of a split topic between seats while hubs join and receive "
        "plans late.",
        lag_s=0.3,
        joins=(0, 1),
        link_resets=(0, 3),
    ),
    _seats(
        "seats-resets",
        "Hubs redirect smart publishers of a split topic between seats while client connections are reset.",
        lag_s=0.3,
        joins=(0, 1),
        client_resets=(1, 4),
        expectation=LIMITED,
    ),
    _seats(
        "seats-crashes",
        "Hubs redirect smart publishers of a split topic between seats while hubs that assign or hold "
        "seats crash and restart.",
        has_store=True,
        crashes=(1, 2),
        expectation=LIMITED,
    ),
    _seats(
        "seats-balance",
        "Continuous publishers, one of them busy, while shares change and hubs join, receive plans "
        "late, crash and restart.",
        workload=_BALANCED_CROWD,
        lag_s=0.3,
        reshares=(1, 3),
        joins=(0, 1),
        link_resets=(0, 2),
        crashes=(0, 1),
        duration_s=18.0,
        expectation=Expectation(properties=(*LIMITED.properties, "seat balance")),
    ),
    _limits(
        "adds",
        "Clients also add entries with XADD to rate-limited topics, which move while hubs crash and links break.",
        # For the messages of the crowd, and for some entries.
        limited={"a": (30.0, 8), "b": (15.0, 6), "[cd]": (9.0, 4)},
        adds=("a", "b"),
        moves=(1, 5),
        crashes=(0, 2),
        link_resets=(0, 2),
        zombies=(0, 1),
        lag_s=0.2,
        duration_s=5.0,
        expectation=Expectation(properties=(*LIMITED.properties, "kept")),
    ),
    _everything("everything"),
    _everything("store-everything"),
)
