"""The columns of the view: type, unit, default, source and aggregate of each.

A number is declared once, as a field of `TopicFields` or `HubFields`. Rows (`TopicView`, `HubView`), numpy columns
(`TopicColumns`, `HubColumns`), the Arrow tables, the pipeline's samples and sums all follow from these fields. So a new
number takes changes in three files: the column in `telemetry/schema.py`, the hub that fills it, and one field here.

Always true: a field has the name of its column everywhere; `source` names columns of telemetry.
"""

# A default here is a declaration, shared by all its users.
# ruff: noqa: RUF009

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

from equipoise.coordinates import Coordinate

__all__ = [
    "ADDED",
    "HUB_COLUMNS",
    "MEASURED_QUANTILES",
    "REST",
    "TOPIC_COLUMNS",
    "Aggregate",
    "HubFields",
    "HubView",
    "LimitUse",
    "Shape",
    "Sign",
    "TopicFields",
    "TopicView",
    "ViewColumn",
]

UNKNOWN = float("nan")


class Shape(StrEnum):
    """The type of a column's values."""

    NUMBER = "float64"
    WHOLE = "int64"
    FLAG = "bool"
    TEXT = "string"
    # A coordinate: point, error, height, adjustment.
    PLACE = "list<float64>"


class Sign(StrEnum):
    """Which numbers are allowed."""

    NOT_NEGATIVE = "at least 0"
    SIGNED = "any"
    # At least 0, or NaN: not known.
    OPTIONAL = "at least 0, or unknown"


class Aggregate(StrEnum):
    """How a number of the view is computed from the records of the window: at each hub, and over a topic's hubs."""

    # The sum of the records over the time covered by the hub's records; the sum over hubs.
    RATE = "rate"
    # The largest record, per second of its own length; the sum over hubs, whose seconds are not aligned.
    PEAK = "peak"
    # The slope of a line through the records, per second; the sum over hubs.
    TREND = "trend"
    # The largest record; the largest of the hubs.
    WORST = "worst"
    # The mean by the length of each record.
    MEAN = "mean"
    # The last record; the sum over the hubs that carry the topic at present.
    LAST = "last"
    # From coordinates, by `pipeline.topic_latency`.
    LOCATION = "location"
    # From measured round trips and waits, by `pipeline.measured_latency`.
    MEASURED = "measured"
    # From the topics that the view does not name, by `pipeline.view_bound`.
    REST = "rest"
    # From the store, not from records.
    STORE = "store"


# The quantiles of measured latency that a view has, in the order of their columns.
MEASURED_QUANTILES = (0.5, 0.9, 0.99, 1.0)


# Sources that are sums of columns of telemetry: to clients and to other hubs, all bytes that a topic makes a hub send.
ADDED: Mapping[str, tuple[str, ...]] = {"out_bytes": ("bytes_out", "egress_bytes", "ingress_bytes")}


# Numbers of a hub that are sums of a number over the topics that its view does not name; None: their count.
REST: Mapping[str, str | None] = {
    "rest_topics": None,
    "rest_publications_per_s": "publications_per_s",
    "rest_deliveries_per_s": "deliveries_per_s",
    "rest_out_bytes_per_s": "out_bytes_per_s",
}


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """One column of the view's table."""

    name: str
    shape: Shape
    unit: str
    default: Any
    sign: Sign
    # A column of telemetry, or a key of ADDED; empty without a source in records.
    source: str
    aggregate: Aggregate
    # The unit of the source in units of the view: records have microseconds, views seconds.
    scale: float = 1.0


def _declared(shape: Shape, default: Any, aggregate: Aggregate, source: str = "", **more: Any) -> Any:
    """A field of the table. The declaration sets its type: one declaration serves two tables."""
    metadata = {
        "shape": shape,
        "source": source,
        "aggregate": aggregate,
        "sign": Sign.NOT_NEGATIVE,
        "unit": "",
    }
    return field(default=default, metadata=metadata | more)


def _number(aggregate: Aggregate, source: str, unit: str, **more: Any) -> Any:
    return _declared(Shape.NUMBER, 0.0, aggregate, source, unit=unit, **more)


def _trend(source: str, unit: str) -> Any:
    return _number(Aggregate.TREND, source, unit, sign=Sign.SIGNED)


def _located(unit: str, default: float = 0.0, sign: Sign = Sign.NOT_NEGATIVE) -> Any:
    return _declared(Shape.NUMBER, default, Aggregate.LOCATION, unit=unit, sign=sign)


def _measured() -> Any:
    return _declared(Shape.NUMBER, UNKNOWN, Aggregate.MEASURED, unit="s", sign=Sign.OPTIONAL)


def _rest(unit: str) -> Any:
    return _declared(Shape.NUMBER, 0.0, Aggregate.REST, unit=unit)


def _place() -> Any:
    return _declared(Shape.PLACE, None, Aggregate.LOCATION, unit="s")


_US, _NS = 1e-6, 1e-9
NumberT = TypeVar("NumberT")
WholeT = TypeVar("WholeT")
FlagT = TypeVar("FlagT")
TextT = TypeVar("TextT")
PlaceT = TypeVar("PlaceT")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TopicFields(Generic[NumberT, PlaceT]):
    """Numbers of topics: totals over all hubs that carry them."""

    publications_per_s: NumberT = _number(Aggregate.RATE, "publications", "messages/s")
    deliveries_per_s: NumberT = _number(Aggregate.RATE, "deliveries", "messages/s")
    in_bytes_per_s: NumberT = _number(Aggregate.RATE, "bytes_in", "bytes/s")
    out_bytes_per_s: NumberT = _number(Aggregate.RATE, "out_bytes", "bytes/s")
    publishers: NumberT = _number(Aggregate.LAST, "publishers", "clients")
    subscribers: NumberT = _number(Aggregate.LAST, "subscribers", "clients")
    # The largest second of the window: what a burst needs.
    publications_per_s_max: NumberT = _number(Aggregate.PEAK, "publications", "messages/s")
    out_bytes_per_s_max: NumberT = _number(Aggregate.PEAK, "out_bytes", "bytes/s")
    # The largest backlog of one subscriber.
    backlog_bytes_max: NumberT = _number(Aggregate.WORST, "backlog_bytes_max", "bytes")
    # The longest waits of messages: for the envelope, and in a subscriber's backlog.
    throttle_delay_s: NumberT = _number(Aggregate.WORST, "throttle_us_max", "s", scale=_US)
    # The most tokens missing from the share of a hub, and messages that wait for tokens, at all hubs.
    limit_drained: NumberT = _number(Aggregate.WORST, "limit_drained", "tokens")
    limit_waiting: NumberT = _number(Aggregate.LAST, "limit_waiting", "messages")
    limit_refused_per_s: NumberT = _number(Aggregate.RATE, "limit_refused", "messages/s")
    queue_delay_s: NumberT = _number(Aggregate.WORST, "queue_us_max", "s", scale=_US)
    # The most subscribers of one hub whose messages had to wait there in a second.
    subscribers_queued: NumberT = _number(Aggregate.WORST, "subscribers_queued", "clients")
    # Change of `out_bytes_per_s` in a second.
    out_bytes_trend: NumberT = _trend("out_bytes", "bytes/s²")
    # E(t) of ePulsar: one way from the farthest publisher to the farthest subscriber by way of the home, from clients'
    # coordinates and what smart clients observe, with the home's lag and the longest wait in a backlog. NaN: not known.
    latency_s_worst: NumberT = _located("s", UNKNOWN, Sign.OPTIONAL)
    # Measured latencies of messages, at quantiles of pairs of a publisher and a subscriber: round trips of connections
    # in use, time in hubs, queueing. NaN: not measured.
    latency_s_p50: NumberT = _measured()
    latency_s_p90: NumberT = _measured()
    latency_s_p99: NumberT = _measured()
    latency_s_max: NumberT = _measured()
    # W(t): the deviations of publishers and subscribers from their centroids, both together, one way.
    deviation_s: NumberT = _located("s", UNKNOWN, Sign.OPTIONAL)
    # The centroids, and their numbers of clients. None: no client has reported a coordinate.
    publishers_at: PlaceT = _place()
    subscribers_at: PlaceT = _place()
    publishers_located: NumberT = _located("clients")
    subscribers_located: NumberT = _located("clients")
    # Of a durable topic: the size of its log, and the lag of its slowest group.
    log_entries: NumberT = _number(Aggregate.LAST, "log_entries", "entries")
    log_bytes: NumberT = _number(Aggregate.LAST, "log_bytes", "bytes")
    log_lag: NumberT = _number(Aggregate.LAST, "log_lag", "entries")
    # Filters of subscribers, and those that hubs request from each other: the fewest that cover them.
    filters: NumberT = _number(Aggregate.LAST, "filters", "filters")
    covers: NumberT = _number(Aggregate.LAST, "covers", "filters")
    # Deliveries by filter, matching time, of one core, and messages not sent between hubs.
    filter_matches_per_s: NumberT = _number(Aggregate.RATE, "filter_matches", "messages/s")
    matching_ratio: NumberT = _number(Aggregate.RATE, "matching_ns", "cores", scale=_NS)
    kept_off_per_s: NumberT = _number(Aggregate.RATE, "kept_off_messages", "messages/s")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HubFields(Generic[NumberT, WholeT, FlagT, TextT, PlaceT]):
    """Numbers of hubs: their own measurements, and data of the store."""

    site: TextT = _declared(Shape.TEXT, "", Aggregate.STORE)
    rack: TextT = _declared(Shape.TEXT, "", Aggregate.STORE)
    # It has its `alive` node, and its records are recent.
    is_alive: FlagT = _declared(Shape.FLAG, True, Aggregate.STORE)
    # It serves, but must not receive more topics: an operator is draining it.
    is_draining: FlagT = _declared(Shape.FLAG, False, Aggregate.STORE)
    # A provisioner stops it when the planner releases it; without one, draining it saves nothing.
    is_releasable: FlagT = _declared(Shape.FLAG, True, Aggregate.STORE)
    # It can read a plan with content topics.
    carries_content: FlagT = _declared(Shape.FLAG, False, Aggregate.STORE)
    # A member that is alive and serves no topic: its run began after the plan was committed.
    is_waiting: FlagT = _declared(Shape.FLAG, False, Aggregate.STORE)
    # Bookies that take entries at its site, for the logs of durable topics.
    bookies: WholeT = _declared(Shape.WHOLE, 0, Aggregate.STORE)
    # Commit time there: the 99th percentile of the median bookie's syncs.
    commit_s: NumberT = _declared(Shape.NUMBER, 0.0, Aggregate.STORE, unit="s")
    # 0: not known.
    incarnation: WholeT = _declared(Shape.WHOLE, 0, Aggregate.LAST, "incarnation")
    # The plan that the hub applies. 0: not known.
    plan_version: WholeT = _declared(Shape.WHOLE, 0, Aggregate.LAST, "plan_version")
    # Of one core.
    cpu_ratio: NumberT = _number(Aggregate.MEAN, "cpu_ratio", "cores")
    loop_lag_s: NumberT = _number(Aggregate.MEAN, "loop_lag_us_mean", "s", scale=_US)
    # Quantiles of the lag over the window, and the longest.
    loop_lag_s_p50: NumberT = _number(Aggregate.LAST, "loop_lag_us_p50", "s", scale=_US)
    loop_lag_s_p90: NumberT = _number(Aggregate.LAST, "loop_lag_us_p90", "s", scale=_US)
    loop_lag_s_p99: NumberT = _number(Aggregate.LAST, "loop_lag_us_p99", "s", scale=_US)
    loop_lag_s_max: NumberT = _number(Aggregate.WORST, "loop_lag_us_max", "s", scale=_US)
    memory_bytes: NumberT = _number(Aggregate.LAST, "memory_bytes", "bytes")
    # Its memory limit; 0: unknown.
    memory_bytes_max: NumberT = _number(Aggregate.LAST, "memory_bytes_max", "bytes")
    out_bytes_per_s: NumberT = _number(Aggregate.MEAN, "out_bytes_per_s", "bytes/s")
    # Its network's capacity; 0: unknown.
    out_bytes_per_s_max: NumberT = _number(Aggregate.LAST, "out_bytes_per_s_max", "bytes/s")
    publications_per_s: NumberT = _number(Aggregate.RATE, "publications", "messages/s")
    deliveries_per_s: NumberT = _number(Aggregate.RATE, "deliveries", "messages/s")
    # Its delivery capacity; 0: unknown.
    deliveries_per_s_max: NumberT = _number(Aggregate.LAST, "deliveries_per_s_max", "messages/s")
    connections: NumberT = _number(Aggregate.LAST, "connections", "clients")
    topics: NumberT = _number(Aggregate.LAST, "topics_home", "topics")
    # Change in a second.
    out_bytes_trend: NumberT = _trend("out_bytes_per_s", "bytes/s²")
    cpu_trend: NumberT = _trend("cpu_ratio", "cores/s")
    # The remainder: the sums of the topics that the view does not name.
    rest_topics: NumberT = _rest("topics")
    rest_publications_per_s: NumberT = _rest("messages/s")
    rest_deliveries_per_s: NumberT = _rest("messages/s")
    rest_out_bytes_per_s: NumberT = _rest("bytes/s")
    # Filters of subscribers, and those that hubs request from each other: the fewest that cover them.
    filters: NumberT = _number(Aggregate.LAST, "filters", "filters")
    covers: NumberT = _number(Aggregate.LAST, "covers", "filters")
    # Deliveries by filter, matching time, of one core, and messages not sent between hubs.
    filter_matches_per_s: NumberT = _number(Aggregate.RATE, "filter_matches", "messages/s")
    matching_ratio: NumberT = _number(Aggregate.RATE, "matching_ns", "cores", scale=_NS)
    kept_off_per_s: NumberT = _number(Aggregate.RATE, "kept_off_messages", "messages/s")
    # As an edge of content topics: its state (`telemetry.EDGE_STATES`), subscriptions, and the compared metrics.
    content_state: WholeT = _declared(Shape.WHOLE, 0, Aggregate.LAST, "content_state")
    content_subscriptions: NumberT = _number(Aggregate.LAST, "content_subscriptions", "subscriptions")
    content_input_ratio: NumberT = _number(Aggregate.LAST, "content_input_ratio", "")
    content_output_ratio: NumberT = _number(Aggregate.LAST, "content_output_ratio", "")
    content_delay_s: NumberT = _number(Aggregate.LAST, "content_delay_us", "s", scale=_US)
    # Sessions that have ended, subscriptions sent away in them, and subscriptions received.
    content_sessions: NumberT = _number(Aggregate.LAST, "content_sessions", "sessions")
    content_moved: NumberT = _number(Aggregate.LAST, "content_moved", "subscriptions")
    content_came: NumberT = _number(Aggregate.LAST, "content_came", "subscriptions")
    # Of a head, publishers sent to other heads.
    content_publishers_moved: NumberT = _number(Aggregate.LAST, "content_publishers_moved", "publishers")
    # Of the latest compared session: the estimated load after it, and the load one window later.
    content_estimated_input_ratio: NumberT = _number(Aggregate.LAST, "content_estimated_input_ratio", "")
    content_estimated_output_ratio: NumberT = _number(Aggregate.LAST, "content_estimated_output_ratio", "")
    content_estimated_delay_s: NumberT = _number(Aggregate.LAST, "content_estimated_delay_us", "s", scale=_US)
    content_realised_input_ratio: NumberT = _number(Aggregate.LAST, "content_realised_input_ratio", "")
    content_realised_output_ratio: NumberT = _number(Aggregate.LAST, "content_realised_output_ratio", "")
    content_realised_delay_s: NumberT = _number(Aggregate.LAST, "content_realised_delay_us", "s", scale=_US)
    # Its network coordinate. None: unknown.
    coordinate: PlaceT = _place()


class LimitUse(NamedTuple):
    """A hub's use of its share of a topic's envelope, and its clients' messages."""

    publications_per_s: float
    # Above 0 only at a hub that numbers messages of the topic.
    drained: float
    waiting: float
    # Of this hub's clients: messages rejected, and the longest wait of one that was admitted. 0 from older pipelines.
    refused_per_s: float = 0.0
    access_delay_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView(TopicFields[float, Coordinate | None]):
    """One topic as a row: for display, tests and small worlds."""

    name: bytes
    # The hubs that carry it, homes and relays, each with its share of the topic's outgoing bytes.
    carried_by: Mapping[str, float] = field(default_factory=dict)
    # Of a limited topic, each hub's use of its share of the envelope, and its clients' messages.
    limited_at: Mapping[str, LimitUse] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HubView(HubFields[float, int, bool, str, Coordinate | None]):
    """One hub as a row."""

    name: str


def _columns(declared: type[Any]) -> tuple[ViewColumn, ...]:
    return tuple(ViewColumn(part.name, default=part.default, **part.metadata) for part in fields(declared))


TOPIC_COLUMNS = _columns(TopicFields)
HUB_COLUMNS = _columns(HubFields)
