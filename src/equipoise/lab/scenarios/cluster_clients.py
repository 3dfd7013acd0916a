"""The clients of worlds of several hubs: publishers of the same topics, and subscribers of every kind."""

from __future__ import annotations

from dataclasses import replace

from equipoise.lab.scenarios.access import Access, Grants
from equipoise.lab.scenarios.workload import Client, Dialect, PublishedStream, Subscribing, Workload

__all__ = [
    "ACCESS",
    "CROWD",
    "DURABLE_ACCESS",
    "DURABLE_CROWD",
    "FILTERED_CROWD",
    "HEAVY_CROWD",
    "LONG_CROWD",
    "PLAIN_CROWD",
    "REPLICATED_CROWD",
    "ROUTED_CROWD",
    "ROVING_CROWD",
    "STEADY_CROWD",
    "STORY_CROWD",
    "STORY_SUBSCRIBERS",
    "USERS_CROWD",
    "publisher_at",
    "subscriber_at",
]


def _pub(
    *topics: str, count: int = 80, interval_s: float = 0.25, **fields: object
) -> tuple[PublishedStream, ...]:
    stream = PublishedStream(topics=topics, count=count, burst=(1, 12), interval_s=interval_s, receipts=0.1)
    return (replace(stream, **fields),)  # type: ignore[arg-type]  # fields by name


def _sub(*names: str, is_pattern: bool = False) -> tuple[Subscribing, ...]:
    return (Subscribing(names=names, is_pattern=is_pattern),)


def _filter(name: str, where: str) -> tuple[Subscribing, ...]:
    return (Subscribing(names=(name,), where=where),)


# Publishers of the same topics, and subscribers of every kind; the seed draws which hub each connects to.
CROWD = Workload(
    clients=(
        Client(name="ann", publishes=_pub("a", "b", "c")),
        Client(name="bob", publishes=_pub("a", "b"), subscribes=_sub("[ac]", is_pattern=True)),
        Client(name="cat", dialect=Dialect.RESP3, subscribes=_sub("a", "b", "c")),
        Client(name="dan", subscribes=_sub("a", "c")),
        Client(name="eve", dialect=Dialect.RESP2, subscribes=_sub("a", "b")),
        Client(name="fay", dialect=Dialect.RESP2, subscribes=_sub("*", is_pattern=True)),
        Client(name="gus", subscribes=_sub("b")),
    )
)
# Permissions of the clients as users, and rules without some permissions or without one user.
ANN = Grants(user="ann", publish=("a", "b", "c"))
BOB = Grants(user="bob", publish=("a", "b"), subscribe=("[ac]", "a", "c"))
CAT = Grants(user="cat", subscribe=("*",))
ACCESS = Access(
    rules=(ANN, BOB, CAT),
    alternatives=(
        (replace(ANN, publish=("a",)), BOB, CAT),
        (ANN, replace(BOB, subscribe=()), replace(CAT, subscribe=("a", "b"))),
        (ANN, BOB),
        (BOB, CAT),
    ),
)
USERS_CROWD = Workload(
    clients=tuple(
        replace(client, user=client.name if client.publishes else "cat") for client in CROWD.clients
    )
)
# Filter subscribers of the user that may subscribe to everything. Their filters match one message in three, most
# messages, one publisher, and no message, so that the client has to learn its position without messages.
FILTERED_CROWD = (
    Client(name="kit", dialect=Dialect.RESP3, subscribes=_filter("a", "third = 1"), user="cat"),
    Client(
        name="lou",
        dialect=Dialect.RESP2,
        subscribes=_filter("b", "third in (0, 2) and number >= 3"),
        user="cat",
    ),
    Client(
        name="max",
        subscribes=(*_filter("a", "publisher prefix 'b'"), *_filter("c", "third = 0")),
        user="cat",
    ),
    Client(name="ned", subscribes=(*_filter("a", "third = 1"), *_filter("b", "number > 5")), user="cat"),
    Client(name="oda", dialect=Dialect.RESP2, subscribes=_filter("c", "publisher = 'zoe'"), user="cat"),
)
# The same with a durable topic d, a durable subscriber, dora, and a plain publisher, pip.
_KEEPERS = (
    Grants(user="pia", publish=("d",)),
    Grants(user="pip", publish=("d",)),
    Grants(user="dora", subscribe=("d",), durable=("d",)),
)
DURABLE_ACCESS = Access(
    rules=(*ACCESS.rules, *_KEEPERS), alternatives=tuple((*rules, *_KEEPERS) for rules in ACCESS.alternatives)
)
DURABLE_CROWD = Workload(
    clients=(
        *USERS_CROWD.clients,
        Client(name="pia", user="pia", publishes=_pub("d", receipts=0.5)),
        Client(name="ray", user="cat", dialect=Dialect.RESP2, subscribes=_sub("d")),
        Client(name="sue", user="cat", subscribes=_sub("d")),
    )
)
# The same with streams that last as long as clients are cut off.
LONG_CROWD = Workload(
    clients=tuple(
        replace(client, publishes=tuple(replace(p, count=240, interval_s=0.2) for p in client.publishes))
        for client in CROWD.clients
    )
)
# The same in a steady stream, mostly without receipts, so that messages are in flight whenever a hub dies.
STEADY_CROWD = Workload(
    clients=tuple(
        replace(
            client,
            publishes=tuple(
                replace(p, count=400, burst=(1, 3), interval_s=0.02, receipts=0.05) for p in client.publishes
            ),
        )
        for client in CROWD.clients
    )
)
# The same with large messages.
HEAVY_CROWD = Workload(
    clients=tuple(
        replace(
            client,
            subscribes=() if client.publishes else client.subscribes,
            publishes=tuple(
                replace(p, payload_bytes=(100, 4_000), count=300, interval_s=0.05) for p in client.publishes
            ),
        )
        for client in CROWD.clients
    )
)


def _stream(*topics: str) -> tuple[PublishedStream, ...]:
    return _pub(*topics, count=400, interval_s=0.015, burst=(1, 4))


# Publishers of the same topics at any hub, and subscribers of every kind, wire protocol subscribers included.
REPLICATED_CROWD = Workload(
    clients=(
        Client(name="ann", publishes=_stream("a", "b", "c")),
        Client(name="bob", publishes=_stream("a", "b")),
        Client(name="ida", publishes=_stream("a", "c")),
        Client(name="cat", dialect=Dialect.RESP3, subscribes=_sub("a", "b", "c")),
        Client(name="eve", dialect=Dialect.RESP2, subscribes=_sub("a", "b")),
        Client(name="fay", dialect=Dialect.RESP2, subscribes=_sub("*", is_pattern=True)),
        Client(name="dan", dialect=Dialect.POSITIONED, subscribes=_sub("a", "b", "c")),
        Client(name="gus", dialect=Dialect.POSITIONED, subscribes=_sub("a", "c")),
        Client(name="hal", dialect=Dialect.POSITIONED, subscribes=_sub("[ab]", is_pattern=True)),
        Client(name="joe", dialect=Dialect.LANES, subscribes=_sub("a", "b")),
        Client(name="kim", dialect=Dialect.LANES, subscribes=_sub("a", "c")),
    )
)
# Plain Redis subscribers only.
PLAIN_CROWD = Workload(
    clients=tuple(
        client
        for client in REPLICATED_CROWD.clients
        if client.publishes or client.dialect in (Dialect.RESP2, Dialect.RESP3)
    )
)
# The same with publishers that alternate between hubs.
ROVING_CROWD = Workload(
    clients=(
        *(Client(name=name, dialect=Dialect.ROVING, publishes=_stream("a", "b")) for name in ("leo", "mia")),
        *REPLICATED_CROWD.clients,
    )
)
# The same crowd with the real smart client in place of wire protocol clients.
ROUTED_CROWD = Workload(
    clients=tuple(
        replace(client, dialect=Dialect.SMART)
        if client.dialect in (Dialect.POSITIONED, Dialect.LANES)
        else client
        for client in REPLICATED_CROWD.clients
    )
)


def publisher_at(name: str, hub: str, *, interval_s: float = 0.03) -> Client:
    """A publisher that never stops publishing to the stories' topic, mostly without waiting for receipts."""
    publishing = PublishedStream(topics=("a",), count=None, burst=(1, 5), interval_s=interval_s, receipts=0.1)
    return Client(name=name, place=hub, publishes=(publishing,))


def subscriber_at(
    name: str, hub: str, dialect: Dialect = Dialect.SMART, *, pattern: str | None = None
) -> Client:
    subscribing = Subscribing(names=(pattern or "a",), is_pattern=pattern is not None)
    return Client(name=name, place=hub, dialect=dialect, subscribes=(subscribing,))


STORY_SUBSCRIBERS = (
    subscriber_at("cat", "h1", Dialect.RESP3),
    subscriber_at("dan", "h1"),
    subscriber_at("eve", "h2", Dialect.RESP2),
    subscriber_at("gus", "h2"),
    subscriber_at("hal", "h3", pattern="[a]"),
    subscriber_at("fay", "h3", Dialect.RESP2, pattern="*"),
)
# A publisher at each hub and subscribers of every kind, for stories.
STORY_CROWD = Workload(
    clients=(
        publisher_at("ann", "h1"),
        publisher_at("bob", "h2"),
        publisher_at("ida", "h3"),
        *STORY_SUBSCRIBERS,
    )
)
