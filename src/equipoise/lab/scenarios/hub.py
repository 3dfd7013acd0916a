"""The worlds of one hub and its clients.

Each case but the first and the last two has one kind of fault, which happens often. `hub-everything` has all faults at
once and covers each new feature of a hub.
"""

from __future__ import annotations

from dataclasses import replace

from equipoise.lab.scenarios.access import Access, Grants
from equipoise.lab.scenarios.faults import Fault, FaultKind
from equipoise.lab.scenarios.scenario import NetworkShape, Scenario
from equipoise.lab.scenarios.workload import Client, Dialect, PublishedStream, Subscribing, Workload

__all__ = ["HUB_SCENARIOS"]

KIB = 1024

# A realistic network: latencies differ a little, and received data arrives in pieces.
UNEVEN = NetworkShape(latency_s=(0.000_2, 0.02), jitter_s=(-0.005, 0.005), split=(-0.3, 0.3))


def _pub(*topics: str, count: int | None, **changes: object) -> tuple[PublishedStream, ...]:
    """A stream in small bursts, some of them with receipts."""
    stream = PublishedStream(topics=topics, count=count, burst=(1, 20), interval_s=0.3, receipts=0.05)
    return (replace(stream, **changes),)  # type: ignore[arg-type]  # fields by name


def _sub(*names: str, is_pattern: bool = False) -> tuple[Subscribing, ...]:
    return (Subscribing(names=names, is_pattern=is_pattern),)


# Three clients, 200 messages: one publishes, one smart and one plain client subscribe.
SMALL = Workload(
    clients=(
        Client(
            name="ann",
            publishes=_pub("a", "b", count=200, burst=(1, 40), interval_s=0.12, receipts=0.03),
        ),
        Client(name="bob", subscribes=_sub("a", "b")),
        Client(name="cat", dialect=Dialect.RESP3, subscribes=_sub("[bc]", is_pattern=True)),
    )
)

# Two clients that publish and subscribe to each other, and subscribers of every kind that never publish, so that only
# their own timeouts detect a lost connection.
CROWD = Workload(
    clients=(
        Client(name="ann", publishes=_pub("a", "b", count=100), subscribes=_sub("b")),
        Client(
            name="bob",
            publishes=_pub("b", "c", count=100),
            subscribes=_sub("[ac]", is_pattern=True),
        ),
        Client(name="cat", dialect=Dialect.RESP3, subscribes=_sub("b", "c")),
        Client(name="dan", subscribes=_sub("a", "c")),
        Client(
            name="eve",
            subscribes=(
                *_sub("*", is_pattern=True),
                *_sub("b"),
                Subscribing(names=("b", "c"), stays_s=0.4),
                Subscribing(names=("[ab]",), is_pattern=True, stays_s=0.4),
            ),
        ),
        Client(name="fay", dialect=Dialect.RESP2, subscribes=_sub("a", "b", "c")),
        Client(name="gus", dialect=Dialect.RESP2, subscribes=_sub("?", is_pattern=True)),
    )
)

# Subscribers of all kinds to all topics, one of them slow.
HEAVY_SUBSCRIBERS = (
    Client(name="hal", dialect=Dialect.RESP3, subscribes=_sub("a", "b", "c")),
    Client(name="ida", dialect=Dialect.RESP2, subscribes=_sub("*", is_pattern=True)),
    Client(name="joe", subscribes=_sub("a", "b", "c")),
    Client(name="kim", subscribes=(Subscribing(names=("*",), is_pattern=True, taking_s=0.02),)),
)

# Two publishers send big messages; a subscriber that cannot keep up is disconnected.
HEAVY = Workload(
    clients=(
        Client(
            name="ann",
            publishes=_pub("a", "b", count=150, interval_s=0.25, payload_bytes=(1 * KIB, 6 * KIB)),
            subscribes=_sub("b"),
        ),
        Client(
            name="bob",
            publishes=_pub("b", "c", count=150, interval_s=0.25, payload_bytes=(1 * KIB, 6 * KIB)),
        ),
        *HEAVY_SUBSCRIBERS,
    )
)

# Little more than a transport buffers, so that hundreds of kilobytes reach every limit.
TIGHT_OUTPUT = {"output_bytes_max": 256 * KIB, "output_soft_bytes": 128 * KIB, "output_soft_s": 0.5}
# A queue that a client which stalls for half a second fills, and a window smaller than most bursts.
TIGHT_QUEUES = {"queue_messages_max": 20, "in_flight_messages_max": 12}
# So small that a hostile client reaches every limit within a run.
TIGHT_INPUT = {
    "payload_bytes_max": 8 * KIB,
    "input_slack_bytes": 1 * KIB,
    "connections_max": 24,
    "unauthenticated_timeout_s": 0.5,
}

SMALL_FAULTS = (
    Fault(kind=FaultKind.RESET, times=(0, 2)),
    Fault(kind=FaultKind.CUT, times=(0, 1), lasts_s=(0.1, 2.5)),
    Fault(kind=FaultKind.HUB_PAUSE, times=(0, 1)),
    Fault(kind=FaultKind.CLIENT_PAUSE, times=(0, 1)),
    Fault(kind=FaultKind.HUB_CRASH, times=(0, 1)),
)

# Permissions of three users, and rules without some permissions or without one user.
ANN = Grants(user="ann", publish=("a", "b"), subscribe=("b",))
BOB = Grants(user="bob", publish=("b", "c"), subscribe=("[ac]", "a", "c"))
CAT = Grants(user="cat", subscribe=("*",))
ACCESS = Access(
    rules=(ANN, BOB, CAT),
    alternatives=(
        (replace(ANN, publish=("a",)), BOB, CAT),
        (replace(ANN, subscribe=()), BOB, replace(CAT, subscribe=("a", "b"))),
        (ANN, replace(BOB, publish=("b",), subscribe=("a",)), replace(CAT, subscribe=("c",))),
        (ANN, BOB),
        (BOB, CAT),
    ),
)


def _logged_in(workload: Workload, **users: str) -> Workload:
    """The same clients, each logged in as the user of the same name or as the user given in `users`."""
    known = {grants.user for grants in ACCESS.rules}
    return Workload(
        clients=tuple(
            replace(client, user=users.get(client.name, client.name if client.name in known else "cat"))
            for client in workload.clients
        )
    )


def _with_receipts(workload: Workload) -> Workload:
    """The same, but most publishes wait for their receipts."""
    return Workload(
        clients=tuple(
            replace(client, publishes=tuple(replace(stream, receipts=0.7) for stream in client.publishes))
            for client in workload.clients
        )
    )


HUB_SCENARIOS = (
    Scenario(
        name="hub-small",
        summary="One hub, three clients, 200 messages and a few of every common fault.",
        workload=SMALL,
        topology=UNEVEN,
        faults=SMALL_FAULTS,
        duration_s=2.0,
    ),
    Scenario(
        name="hub-slow-readers",
        summary="Large messages to clients that read slowly, stop reading or have little bandwidth.",
        workload=HEAVY,
        topology=replace(UNEVEN, window_bytes=16 * KIB),
        faults=(
            Fault(kind=FaultKind.STALL, times=(1, 4), lasts_s=(0.2, 3.0)),
            Fault(kind=FaultKind.SLOW_LINK, times=(0, 3), lasts_s=(0.2, 3.0)),
            Fault(kind=FaultKind.CLIENT_PAUSE, times=(0, 2), lasts_s=(0.1, 1.0)),
            Fault(kind=FaultKind.HUB_PAUSE, times=(0, 1), lasts_s=(0.1, 1.0)),
            Fault(kind=FaultKind.RESET, times=(0, 1)),
        ),
        hub_limits=TIGHT_OUTPUT,
        client_settings=TIGHT_QUEUES,
    ),
    Scenario(
        name="hub-resets",
        summary="Connections break repeatedly in the middle of frames.",
        workload=_with_receipts(CROWD),
        topology=UNEVEN,
        faults=(Fault(kind=FaultKind.RESET, times=(3, 12)),),
    ),
    Scenario(
        name="hub-pauses",
        summary="The hub and clients pause, sometimes for longer than every timeout.",
        workload=CROWD,
        topology=UNEVEN,
        faults=(
            Fault(kind=FaultKind.HUB_PAUSE, times=(1, 3), lasts_s=(0.05, 2.5)),
            Fault(kind=FaultKind.CLIENT_PAUSE, times=(1, 5), lasts_s=(0.05, 2.5)),
        ),
    ),
    Scenario(
        name="hub-restarts",
        summary="The hub crashes, with or without a reset, and restarts with a clock that may have jumped.",
        workload=CROWD,
        topology=UNEVEN,
        faults=(
            Fault(kind=FaultKind.HUB_CRASH, times=(0, 2), lasts_s=(0.01, 1.0)),
            Fault(kind=FaultKind.HUB_POWER_CUT, times=(0, 2), lasts_s=(0.01, 1.0)),
            Fault(kind=FaultKind.CLOCK_STEP, times=(0, 2)),
            Fault(kind=FaultKind.CLIENT_PAUSE, times=(0, 3), lasts_s=(0.5, 2.5)),
        ),
    ),
    Scenario(
        name="hub-cuts",
        summary="Links are cut in one or both directions, flap and lose packets.",
        workload=CROWD,
        topology=replace(UNEVEN, loss=(-0.02, 0.02)),
        faults=(
            Fault(kind=FaultKind.CUT, times=(0, 3), lasts_s=(0.1, 3.0)),
            Fault(kind=FaultKind.CUT_ONE_WAY, times=(0, 3), lasts_s=(0.1, 3.0)),
            Fault(kind=FaultKind.FLAP, times=(0, 2), lasts_s=(0.5, 3.0)),
        ),
    ),
    Scenario(
        name="hub-revocation",
        summary="Permissions are revoked and granted again while messages flow.",
        workload=_logged_in(CROWD),
        topology=UNEVEN,
        faults=(
            Fault(kind=FaultKind.RULES, times=(1, 4), lasts_s=(0.1, 1.5)),
            Fault(kind=FaultKind.RESET, times=(0, 2)),
            Fault(kind=FaultKind.HUB_PAUSE, times=(0, 1)),
        ),
        access=ACCESS,
    ),
    Scenario(
        name="hub-hostile",
        summary="Unauthenticated clients send garbage, announce gigabytes and open many connections.",
        workload=SMALL,
        topology=UNEVEN,
        faults=(
            Fault(kind=FaultKind.HOSTILE, times=(3, 10), lasts_s=(0.1, 2.0)),
            Fault(kind=FaultKind.RESET, times=(0, 1)),
        ),
        hub_limits=TIGHT_INPUT,
    ),
    Scenario(
        name="hub-everything",
        summary="All hub faults at once.",
        workload=_logged_in(Workload(clients=(*CROWD.clients, *HEAVY_SUBSCRIBERS))),
        topology=replace(UNEVEN, loss=(-0.02, 0.01), window_bytes=16 * KIB),
        faults=(
            *SMALL_FAULTS,
            Fault(kind=FaultKind.CUT_ONE_WAY, times=(0, 2), lasts_s=(0.1, 2.0)),
            Fault(kind=FaultKind.FLAP, times=(0, 1), lasts_s=(0.5, 2.0)),
            Fault(kind=FaultKind.SLOW_LINK, times=(0, 2), lasts_s=(0.2, 2.0)),
            Fault(kind=FaultKind.STALL, times=(0, 2), lasts_s=(0.2, 2.0)),
            Fault(kind=FaultKind.HUB_POWER_CUT, times=(0, 1)),
            Fault(kind=FaultKind.CLOCK_STEP, times=(0, 1)),
            Fault(kind=FaultKind.RULES, times=(0, 2)),
            Fault(kind=FaultKind.HOSTILE, times=(0, 4), lasts_s=(0.1, 1.0)),
        ),
        access=ACCESS,
        hub_limits={**TIGHT_OUTPUT, **TIGHT_INPUT, "connections_max": 48},
        client_settings=TIGHT_QUEUES,
    ),
    Scenario(
        name="hub-large",
        summary="No faults and 1,000 subscribers: how fast a large world runs.",
        workload=Workload(
            clients=(
                Client(name="ann", publishes=_pub("a", count=None, burst=(10, 10), interval_s=0.1)),
                Client(name="bob", publishes=_pub("b", count=None, burst=(10, 10), interval_s=0.1)),
                Client(name="smart", subscribes=_sub("a"), copies=500),
                Client(name="plain", dialect=Dialect.RESP2, subscribes=_sub("b"), copies=500),
            )
        ),
        duration_s=3.0,
        hub_limits={"accepts_per_s": 1_000_000},
        # The interval of a real client: shorter ones would make pings a large part of the traffic.
        client_settings={"ping_interval_s": 30.0},
        is_large=True,
    ),
)
