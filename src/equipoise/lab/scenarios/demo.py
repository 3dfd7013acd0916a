"""A small world with every kind of client: a match, two reporters and an audience."""

from __future__ import annotations

from equipoise.lab.scenarios.scenario import Expectation, Scenario
from equipoise.lab.scenarios.workload import Client, Dialect, PublishedStream, Subscribing, Workload

__all__ = ["DEMO"]

_SCORES = PublishedStream(
    topics=("match.score", "match.clock"), count=None, burst=(5, 15), interval_s=0.01, payload_bytes=(80, 120)
)
_CHAT = PublishedStream(
    topics=("match.chat",), count=None, interval_s=0.02, payload_bytes=(40, 200), receipts=1.0
)
_EVERYTHING = Subscribing(names=("match.*",), is_pattern=True)

DEMO = Scenario(
    name="demo",
    summary="Two publishers and eleven subscribers: smart and plain Redis clients, by topic and by pattern.",
    workload=Workload(
        clients=(
            Client(name="reporter", publishes=(_SCORES,)),
            Client(name="crowd", publishes=(_CHAT,)),
            Client(
                name="smart",
                subscribes=(Subscribing(names=("match.clock",)),),
                copies=3,
            ),
            Client(name="smart-pattern", subscribes=(_EVERYTHING,)),
            Client(
                name="redis-resp2",
                dialect=Dialect.RESP2,
                subscribes=(Subscribing(names=("match.score",)),),
                copies=3,
            ),
            Client(
                name="redis-resp3",
                dialect=Dialect.RESP3,
                subscribes=(Subscribing(names=("match.chat",)),),
                copies=3,
            ),
            Client(name="redis-pattern", dialect=Dialect.RESP3, subscribes=(_EVERYTHING,)),
        )
    ),
    duration_s=15.0,
    expectation=Expectation(properties=("once", "order", "progress")),
    # Fifteen seconds of a thousand messages per second: one seed takes as long as fifty seeds of a small case.
    is_large=True,
)
