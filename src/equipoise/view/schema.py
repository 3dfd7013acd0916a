"""The columns of the view: type, unit, default, source and aggregate of each.

A number is declared once, as a field of `TopicFields` or `HubFields`. Rows (`TopicView`, `HubView`), numpy columns
(`TopicColumns`, `HubColumns`), the Arrow tables, the samples that the pipeline keeps and the sums that it makes of them
all follow from these fields. So a new number costs three files: the column in `telemetry/schema.py`, the hub that fills
it, and one field here.

Always true: a field's name is that of the column wherever the number occurs; `source` names columns of telemetry.
"""

# A default here is a declaration, made anew by none of its users.
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
    """What one value of a column is."""

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
    """How a number of the view follows from the records of the window: at each hub, and over a topic's hubs."""

    # The sum of the records over the time that the hub's records cover; the sum over hubs.
    RATE = "rate"
    # The largest record, per second of its own length; the sum over hubs, whose seconds do not begin together.
    PEAK = "peak"
    # The slope of a line through the records, per second; the sum over hubs.
    TREND = "trend"
    # The largest record; the largest of the hubs.
    WORST = "worst"
    # The mean by the length of each record.
    MEAN = "mean"
    # The last record; the sum over the hubs that carry the topic now.
    LAST = "last"
    # From coordinates, by `pipeline.topic_latency`.
    LOCATION = "location"
    # From round trips and waits that hubs measured, by `pipeline.measured_latency`.
    MEASURED = "measured"
    # Of the topics that the view does not name, by `pipeline.view_bound`.
    REST = "rest"
    # No record says it: the store does.
    STORE = "store"


# The quantiles of measured latency that a view has, in the order of their columns.
MEASURED_QUANTILES = (0.5, 0.9, 0.99, 1.0)


# Sources that are sums of columns of telemetry: to clients and to other hubs, all that a topic made a hub send.
ADDED: Mapping[str, tuple[str, ...]] = {"out_bytes": ("bytes_out", "egress_bytes", "ingress_bytes")}


# Numbers of a hub that are sums over the topics that its view does not name: of which number of theirs; None: how many.
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
    # A column of telemetry, or a key of ADDED; empty where no record says it.
    source: str
    aggregate: Aggregate
    # What a unit of the source is in units of the view: records count microseconds, views seconds.
    scale: float = 1.0


def _declared(shape: Shape, default: Any, aggregate: Aggregate, source: str = "", **more: Any) -> Any:
    """A field of the table. The type of the field is its declaration's to say: one declaration serves two."""
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
    # How long messages waited at most: for the envelope, and in a subscriber's backlog.
    throttle_delay_s: NumberT = _number(Aggregate.WORST, "throttle_us_max", "s", scale=_US)
    # The most tokens that were missing from the share of a hub, and messages that wait for tokens, at all hubs.
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
    # What messages took as measured, at quantiles of pairs of a publisher and a subscriber: round trips of connections
    # in use, time in hubs, queueing. NaN: not measured.
    latency_s_p50: NumberT = _measured()
    latency_s_p90: NumberT = _measured()
    latency_s_p99: NumberT = _measured()
    latency_s_max: NumberT = _measured()
    # W(t): how far publishers and subscribers are from their centroids at most, both together, one way.
    deviation_s: NumberT = _located("s", UNKNOWN, Sign.OPTIONAL)
    # The centroids, and how many clients they are of. None: no client has reported a coordinate.
    publishers_at: PlaceT = _place()
    subscribers_at: PlaceT = _place()
    publishers_located: NumberT = _located("clients")
    subscribers_located: NumberT = _located("clients")
    # Of a durable topic: what its log holds, and what the slowest of its groups has not read.
    log_entries: NumberT = _number(Aggregate.LAST, "log_entries", "entries")
    log_bytes: NumberT = _number(Aggregate.LAST, "log_bytes", "bytes")
    log_lag: NumberT = _number(Aggregate.LAST, "log_lag", "entries")
    # Filters of subscribers, and those that hubs ask each other for: the fewest that cover them.
    filters: NumberT = _number(Aggregate.LAST, "filters", "filters")
    covers: NumberT = _number(Aggregate.LAST, "covers", "filters")
    # Deliveries by filter, time taken to match, of one core, and messages that hubs did not have to send each other.
    filter_matches_per_s: NumberT = _number(Aggregate.RATE, "filter_matches", "messages/s")
    matching_ratio: NumberT = _number(Aggregate.RATE, "matching_ns", "cores", scale=_NS)
    kept_off_per_s: NumberT = _number(Aggregate.RATE, "kept_off_messages", "messages/s")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HubFields(Generic[NumberT, WholeT, FlagT, TextT, PlaceT]):
    """Numbers of hubs, as each measured itself, and what the store knows of them."""

    site: TextT = _declared(Shape.TEXT, "", Aggregate.STORE)
    rack: TextT = _declared(Shape.TEXT, "", Aggregate.STORE)
    # It has its `alive` node, and its records are not too old to be believed.
    is_alive: FlagT = _declared(Shape.FLAG, True, Aggregate.STORE)
    # It serves, but must not be given more: an operator wants it back.
    is_draining: FlagT = _declared(Shape.FLAG, False, Aggregate.STORE)
    # A provisioner stops it when the planner releases it; without one, emptying it saves nothing.
    is_releasable: FlagT = _declared(Shape.FLAG, True, Aggregate.STORE)
    # It can read a plan with content topics.
    carries_content: FlagT = _declared(Shape.FLAG, False, Aggregate.STORE)
    # Bookies that take entries at its site, for the logs of durable topics.
    bookies: WholeT = _declared(Shape.WHOLE, 0, Aggregate.STORE)
    # How long a commit takes there: what 99 of 100 syncs of the middle one of these bookies take at most.
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
    # What it may take; 0: no limit known.
    memory_bytes_max: NumberT = _number(Aggregate.LAST, "memory_bytes_max", "bytes")
    out_bytes_per_s: NumberT = _number(Aggregate.MEAN, "out_bytes_per_s", "bytes/s")
    # What its network can carry; 0: no limit known.
    out_bytes_per_s_max: NumberT = _number(Aggregate.LAST, "out_bytes_per_s_max", "bytes/s")
    publications_per_s: NumberT = _number(Aggregate.RATE, "publications", "messages/s")
    deliveries_per_s: NumberT = _number(Aggregate.RATE, "deliveries", "messages/s")
    # What it delivers in time; 0: no limit known.
    deliveries_per_s_max: NumberT = _number(Aggregate.LAST, "deliveries_per_s_max", "messages/s")
    connections: NumberT = _number(Aggregate.LAST, "connections", "clients")
    topics: NumberT = _number(Aggregate.LAST, "topics_home", "topics")
    # Change in a second.
    out_bytes_trend: NumberT = _trend("out_bytes_per_s", "bytes/s²")
    cpu_trend: NumberT = _trend("cpu_ratio", "cores/s")
    # The remainder: what the topics take together that the view does not name.
    rest_topics: NumberT = _rest("topics")
    rest_publications_per_s: NumberT = _rest("messages/s")
    rest_deliveries_per_s: NumberT = _rest("messages/s")
    rest_out_bytes_per_s: NumberT = _rest("bytes/s")
    # Filters of subscribers, and those that hubs ask each other for: the fewest that cover them.
    filters: NumberT = _number(Aggregate.LAST, "filters", "filters")
    covers: NumberT = _number(Aggregate.LAST, "covers", "filters")
    # Deliveries by filter, time taken to match, of one core, and messages that hubs did not have to send each other.
    filter_matches_per_s: NumberT = _number(Aggregate.RATE, "filter_matches", "messages/s")
    matching_ratio: NumberT = _number(Aggregate.RATE, "matching_ns", "cores", scale=_NS)
    kept_off_per_s: NumberT = _number(Aggregate.RATE, "kept_off_messages", "messages/s")
    # As an edge of content topics: its state (`telemetry.EDGE_STATES`), subscriptions, and what edges compare.
    content_state: WholeT = _declared(Shape.WHOLE, 0, Aggregate.LAST, "content_state")
    content_subscriptions: NumberT = _number(Aggregate.LAST, "content_subscriptions", "subscriptions")
    content_input_ratio: NumberT = _number(Aggregate.LAST, "content_input_ratio", "")
    content_output_ratio: NumberT = _number(Aggregate.LAST, "content_output_ratio", "")
    content_delay_s: NumberT = _number(Aggregate.LAST, "content_delay_us", "s", scale=_US)
    # Sessions that have ended, subscriptions sent away in them, and those that came.
    content_sessions: NumberT = _number(Aggregate.LAST, "content_sessions", "sessions")
    content_moved: NumberT = _number(Aggregate.LAST, "content_moved", "subscriptions")
    content_came: NumberT = _number(Aggregate.LAST, "content_came", "subscriptions")
    # Of a head, publishers sent to other heads.
    content_publishers_moved: NumberT = _number(Aggregate.LAST, "content_publishers_moved", "publishers")
    # Of the latest session that was compared: the load estimated for after it, and the load one window later.
    content_estimated_input_ratio: NumberT = _number(Aggregate.LAST, "content_estimated_input_ratio", "")
    content_estimated_output_ratio: NumberT = _number(Aggregate.LAST, "content_estimated_output_ratio", "")
    content_estimated_delay_s: NumberT = _number(Aggregate.LAST, "content_estimated_delay_us", "s", scale=_US)
    content_realised_input_ratio: NumberT = _number(Aggregate.LAST, "content_realised_input_ratio", "")
    content_realised_output_ratio: NumberT = _number(Aggregate.LAST, "content_realised_output_ratio", "")
    content_realised_delay_s: NumberT = _number(Aggregate.LAST, "content_realised_delay_us", "s", scale=_US)
    # Where it is in the network. None: it has no coordinate yet.
    coordinate: PlaceT = _place()


class LimitUse(NamedTuple):
    """What a hub did with its share of a topic's envelope, and with messages of its clients."""

    publications_per_s: float
    # Above 0 only at a hub that numbers messages of the topic.
    drained: float
    waiting: float
    # Of this hub's clients: messages rejected, and the longest wait of one that was admitted. 0 from older pipelines.
    refused_per_s: float = 0.0
    access_delay_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView(TopicFields[float, Coordinate | None]):
    """One topic as a row: for people, tests and small worlds."""

    name: bytes
    # The hubs that carry it, homes and relays, each with its share of the topic's outgoing bytes.
    carried_by: Mapping[str, float] = field(default_factory=dict)
    # Of a limited topic, what each hub does with its share of the envelope and with messages of its clients.
    limited_at: Mapping[str, LimitUse] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HubView(HubFields[float, int, bool, str, Coordinate | None]):
    """One hub as a row."""

    name: str


def _columns(declared: type[Any]) -> tuple[ViewColumn, ...]:
    return tuple(ViewColumn(part.name, default=part.default, **part.metadata) for part in fields(declared))


TOPIC_COLUMNS = _columns(TopicFields)
HUB_COLUMNS = _columns(HubFields)
