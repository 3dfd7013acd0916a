"""The schema of telemetry: every column, as data.

All kinds of records share one table, since they share one sequence: a reader gets a hub's records by offset, in order.
`kind` determines which columns a record fills; the others are null in it. Arrow's schema, Spark's and the reference
page are made from `COLUMNS`.

Always true:
    a topic's publications are counted only at the hub that numbers them, deliveries and `bytes_out` only at the hub
    that
    writes them to clients, traffic between hubs only in the ingress and egress columns: so sums over hubs count nothing
    twice;
    (hub, incarnation, sequence) names one record, and sequences of an incarnation have no holes;
    names starting with `$` and shard channels have no records of their own; the hub's sums include them.

A column that comes later goes to the end and is null in older records. Readers take columns by name; one that a
stream does not have is null in its records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from equipoise.telemetry.column import EVERY_KIND, Column, ColumnType, RecordKind
from equipoise.telemetry.load import EDGE_STATES

__all__ = ["COLUMNS", "arrow_schema", "columns_of", "spark_schema"]


_TOPIC = frozenset({RecordKind.TOPIC})
_HUB = frozenset({RecordKind.HUB})
_ARRIVAL = frozenset({RecordKind.ARRIVAL})
_LOAD = _TOPIC | _HUB


_T = ColumnType


def _side(name: str, who: str) -> tuple[Column, ...]:
    """What is known of where one side of a topic is: the same amount however many clients there are."""
    unknown = "; null if none of them has a known coordinate"
    return (
        Column(
            f"{name}_at",
            _T.BINARY,
            "float64, little-endian",
            _TOPIC,
            f"mean of the coordinates of {who}{unknown}",
        ),
        Column(f"{name}_located", _T.LONG, "clients", _TOPIC, f"number of clients in that mean{unknown}"),
        Column(
            f"{name}_deviation_us",
            _T.LONG,
            "µs",
            _TOPIC,
            f"how much farther than that mean the farthest of them is at most, one way{unknown}",
        ),
        Column(
            f"{name}_leg_us_max",
            _T.LONG,
            "µs",
            _TOPIC,
            f"one way between this hub and the farthest of them, measured if possible{unknown}",
        ),
    )


def _delays(name: str, who: str) -> tuple[Column, ...]:
    """How far one side's connections are, as measured: the kernel's round trips, or those that clients report."""
    levels = {
        "p50": "of half of them at most",
        "p90": "of nine in ten at most",
        "p99": "of 99 in 100",
        "max": "of all",
    }
    return (
        Column(f"{name}_measured", _T.LONG, "clients", _TOPIC, f"{who} whose round trip was measured"),
        *(
            Column(
                f"{name}_delay_us_{level}",
                _T.LONG,
                "µs",
                _TOPIC,
                f"half the measured round trip {meaning}; 0 if `{name}_measured` is 0",
            )
            for level, meaning in levels.items()
        ),
    )


_STATES = ", ".join(f"{at} {state or 'none'}" for at, state in enumerate(EDGE_STATES))


def _edge_load(name: str, when: str) -> tuple[Column, ...]:
    """What edges of content topics compare."""
    return (
        Column(
            f"content_{name}input_ratio", _T.DOUBLE, "", _HUB, f"messages/s times the matching delay, {when}"
        ),
        Column(f"content_{name}output_ratio", _T.DOUBLE, "", _HUB, f"bytes/s of what can be sent, {when}"),
        Column(
            f"content_{name}delay_us", _T.LONG, "µs", _HUB, f"from a message to its outputs written, {when}"
        ),
    )


_PUBLISHERS = "the clients of this hub that published lately"
_SUBSCRIBERS = "the clients of this hub that receive the topic"
_SIDE_COLUMNS = (*_side("publishers", _PUBLISHERS), *_side("subscribers", _SUBSCRIBERS))
_DELAY_COLUMNS = (*_delays("publishers", _PUBLISHERS), *_delays("subscribers", _SUBSCRIBERS))

COLUMNS: tuple[Column, ...] = (
    Column("kind", _T.STRING, "", EVERY_KIND, "`topic`, `hub` or `arrival`"),
    Column("hub", _T.STRING, "", EVERY_KIND, "the hub's name"),
    Column("incarnation", _T.LONG, "", EVERY_KIND, "the hub's incarnation; a restart has a greater one"),
    Column(
        "sequence",
        _T.LONG,
        "records",
        EVERY_KIND,
        "the record's number in that incarnation, from 0, without holes",
    ),
    Column(
        "time",
        _T.TIMESTAMP,
        "µs, UTC",
        EVERY_KIND,
        "end of the window by the hub's clock; of an arrival, its time",
    ),
    Column("window_us", _T.LONG, "µs", EVERY_KIND, "length of the window; of an arrival, 0"),
    Column("topic", _T.BINARY, "", _TOPIC | _ARRIVAL, "the topic's name, any bytes"),
    Column("role", _T.STRING, "", _TOPIC, "role of the hub: `home`, `lane` or `relay`"),
    Column("publications", _T.LONG, "messages", _LOAD, "messages numbered here"),
    Column(
        "deliveries", _T.LONG, "messages", _LOAD, "messages written to clients here, each as often as written"
    ),
    Column("bytes_in", _T.LONG, "bytes", _LOAD, "payload bytes of `publications`"),
    Column("bytes_out", _T.LONG, "bytes", _LOAD, "bytes of `deliveries`, as written"),
    Column(
        "ingress_messages",
        _T.LONG,
        "messages",
        _LOAD,
        "messages forwarded to the home",
    ),
    Column("ingress_bytes", _T.LONG, "bytes", _LOAD, "bytes of `ingress_messages`, as written"),
    Column("egress_messages", _T.LONG, "messages", _LOAD, "messages written to following hubs, once per hub"),
    Column("egress_bytes", _T.LONG, "bytes", _LOAD, "bytes of `egress_messages`, as written"),
    Column(
        "publishers",
        _T.LONG,
        "clients",
        _TOPIC,
        "connections to this hub that published in the window; counted up to a bound",
    ),
    Column(
        "subscribers",
        _T.LONG,
        "clients",
        _TOPIC,
        "connections to this hub that receive the topic, by name or pattern. A smart client counts at each home "
        "of an `all-subscribers` topic",
    ),
    Column("relays", _T.LONG, "hubs", _TOPIC, "hubs that follow the topic here"),
    Column(
        "backlog_bytes_max",
        _T.LONG,
        "bytes",
        _LOAD,
        "largest backlog of one client that a message was added to; of a topic, a message of it",
    ),
    Column(
        "queue_us_max",
        _T.LONG,
        "µs",
        _LOAD,
        "longest time that a message waited in a backlog, written since or not",
    ),
    Column(
        "throttle_us_max",
        _T.LONG,
        "µs",
        _TOPIC,
        "longest time that a message of this hub's clients waited for the envelope; null where no topic has one",
    ),
    Column("cuts", _T.LONG, "clients", _LOAD, "slow clients disconnected while messages waited for them"),
    Column("drops", _T.LONG, "messages", _LOAD, "messages dropped with the backlog of a client"),
    Column("cpu_ratio", _T.DOUBLE, "cores", _HUB, "CPU time of the process over the window's length"),
    Column("loop_lag_us_mean", _T.LONG, "µs", _HUB, "how late timers ran, on average"),
    Column("loop_lag_us_max", _T.LONG, "µs", _HUB, "how late timers ran, at worst"),
    Column(
        "memory_bytes", _T.LONG, "bytes", _HUB, "resident memory of the process; null where it is unknown"
    ),
    Column(
        "out_bytes_per_s",
        _T.DOUBLE,
        "bytes/s",
        _HUB,
        "measured outgoing bandwidth: deliveries, replies and frames to other hubs",
    ),
    Column(
        "out_bytes_per_s_max",
        _T.DOUBLE,
        "bytes/s",
        _HUB,
        "bandwidth of the hub, from its settings or the speed of its network; null if unknown",
    ),
    Column("connections", _T.LONG, "clients", _HUB, "open connections at the end of the window"),
    Column("clients_lagging", _T.LONG, "clients", _HUB, "clients with a backlog at the end of the window"),
    Column("unsent_bytes", _T.LONG, "bytes", _HUB, "all backlogs together at the end of the window"),
    Column("topics_home", _T.LONG, "topics", _HUB, "topics whose home is this hub"),
    Column("topics_active", _T.LONG, "topics", _HUB, "topics with a record in this window"),
    Column(
        "plan_version",
        _T.LONG,
        "",
        _HUB,
        "version of the plan that the hub applies; null for a standalone hub",
    ),
    Column(
        "publisher",
        _T.LONG,
        "",
        _ARRIVAL,
        "pseudonym of the publisher: a hash with the key that EQ.ARRIVALS gave, else another in each incarnation",
    ),
    Column(
        "publisher_group",
        _T.STRING,
        "",
        _ARRIVAL,
        "group of the publisher (EQ.CORRELATE), else its user; null without both",
    ),
    Column("size_bytes", _T.LONG, "bytes", _ARRIVAL, "length of the payloads together"),
    Column(
        "coordinate",
        _T.BINARY,
        "float64, little-endian",
        _HUB,
        "coordinate of the hub: point, error, height, adjustment; null until it is known",
    ),
    *_SIDE_COLUMNS,
    Column(
        "deliveries_per_s_max",
        _T.DOUBLE,
        "messages/s",
        _HUB,
        "delivery capacity of the hub, from its settings; null if not set",
    ),
    Column(
        "memory_bytes_max",
        _T.LONG,
        "bytes",
        _HUB,
        "memory limit of the hub, from its settings or the free memory of the machine; null if unknown",
    ),
    *_DELAY_COLUMNS,
    *(
        Column(
            f"loop_lag_us_p{percent}",
            _T.LONG,
            "µs",
            _HUB,
            f"how late {percent} of 100 timers ran at most, in the last ten windows",
        )
        for percent in (50, 90, 99)
    ),
    Column(
        "subscribers_queued",
        _T.LONG,
        "clients",
        _TOPIC,
        "clients with a message of the topic in their backlog",
    ),
    Column(
        "home_delay_us",
        _T.LONG,
        "µs",
        _TOPIC,
        "half the measured round trip between this hub and the topic's home; null at the home, and until measured",
    ),
    Column("messages", _T.LONG, "messages", _ARRIVAL, "messages of one publisher that arrived together"),
    Column(
        "log_entries", _T.LONG, "entries", _TOPIC, "entries of a durable topic's log; 0 where it is not owned"
    ),
    Column("log_bytes", _T.LONG, "bytes", _TOPIC, "bytes of these entries"),
    Column("log_lag", _T.LONG, "entries", _TOPIC, "entries that the slowest of its groups has not read"),
    Column(
        "limit_drained",
        _T.LONG,
        "tokens",
        _TOPIC,
        "most tokens missing from this hub's share of the envelope, waiting messages included; null as above",
    ),
    Column(
        "limit_waiting",
        _T.LONG,
        "messages",
        _TOPIC,
        "messages that wait for the envelope at the end of the window: for this hub's share, and of its clients; null "
        "as above",
    ),
    Column(
        "limit_refused",
        _T.LONG,
        "messages",
        _TOPIC,
        "messages of this hub's clients that were rejected because of the envelope; null as above",
    ),
    Column(
        "filters",
        _T.LONG,
        "filters",
        _LOAD,
        "different filters of this hub's clients, at the end of the window",
    ),
    Column(
        "covers",
        _T.LONG,
        "filters",
        _LOAD,
        "filters that this hub requests from the hubs it follows, at the end of the window",
    ),
    Column(
        "filter_matches",
        _T.LONG,
        "messages",
        _LOAD,
        "messages written to subscribers by filter, each as often as written; a part of `deliveries`",
    ),
    Column("matching_ns", _T.LONG, "ns", _LOAD, "time spent matching filters"),
    Column(
        "kept_off_messages",
        _T.LONG,
        "messages",
        _LOAD,
        "messages not written to following hubs, because no filter there matches; once per hub",
    ),
    Column("content_state", _T.LONG, "state", _HUB, f"as an edge of content topics: {_STATES}"),
    Column(
        "content_subscriptions", _T.LONG, "subscriptions", _HUB, "by filter, to those topics; none that leave"
    ),
    *_edge_load("", "of those topics, over the window of the balancing"),
    Column("content_sessions", _T.LONG, "sessions", _HUB, "that have ended since the hub began"),
    Column("content_moved", _T.LONG, "subscriptions", _HUB, "sent to other edges in these sessions"),
    Column("content_came", _T.LONG, "subscriptions", _HUB, "that other edges have sent here"),
    Column(
        "content_publishers_moved",
        _T.LONG,
        "publishers",
        _HUB,
        "that this hub, as a head of content topics, has sent to other heads; null at hubs that are neither",
    ),
    Column(
        "content_session", _T.STRING, "", _HUB, "the latest session whose estimates were compared; else null"
    ),
    *_edge_load("estimated_", "as that session estimated for after it"),
    *_edge_load("realised_", "one window after that session"),
)


def columns_of(kind: RecordKind) -> Iterator[Column]:
    """The columns that a record of the kind fills, in order."""
    return (column for column in COLUMNS if kind in column.kinds)


def spark_schema() -> str:
    """In the words of Spark's DDL. Everything is nullable, as Spark's streams are anyway."""
    return ", ".join(f"`{column.name}` {column.type.value}" for column in COLUMNS)


def arrow_schema() -> Any:
    """A `pyarrow.Schema`. Imports pyarrow, which takes memory that a hub without readers should not spend."""
    import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

    types = {
        ColumnType.STRING: pa.string(),
        ColumnType.BINARY: pa.binary(),
        ColumnType.LONG: pa.int64(),
        ColumnType.DOUBLE: pa.float64(),
        ColumnType.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    }
    return pa.schema([pa.field(column.name, types[column.type]) for column in COLUMNS])
