"""What the planner sees: one frozen view of all topics and hubs, as columns.

A policy reads nothing else. A view holds what was true of a window of some seconds: rates are per second over that
window, counts are those of its end, and numbers of a topic are totals over all hubs that carry it. With 100,000 topics
a planner has no time for objects, so the numbers are numpy columns; `TopicView` and `HubView` are rows of them, for
people, tests and small worlds.

Always true of a view:
    every required number is finite and not negative, trends may be negative, and what is not known yet is NaN;
    no topic and no hub is there twice;
    what a hub carries of a topic refers to a topic and a hub of this view; shares of a topic are above 0 and sum to at
    most 1 (less if a part is carried by a hub that is not in the view).

How views are made belongs to the pipeline, their bytes to `view_table`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.coordinates import Coordinate
from equipoise.errors import ViewError
from equipoise.plan.places import Places, check_one_space, check_places, coordinate_at, no_places, places_of

__all__ = [
    "Carried",
    "HubColumns",
    "HubView",
    "TopicColumns",
    "TopicView",
    "View",
    "column_names",
    "dtype_of",
]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]

UNKNOWN = float("nan")
# What kinds of columns there are beside plain numbers.
TEXT = frozenset({"names", "site", "rack"})
FLAGS = frozenset({"is_alive", "is_draining", "is_releasable"})
WHOLE = frozenset({"incarnation", "plan_version"})
# May be negative.
SIGNED = frozenset({"out_bytes_trend", "cpu_trend"})
# May be unknown.
OPTIONAL = frozenset({"latency_s_worst", "deviation_s"})
# Coordinates, a row each.
PLACES = frozenset({"publishers_at", "subscribers_at", "coordinate"})
# What the store knows of a hub rather than its records.
_FACTS = ("site", "rack", "is_alive", "is_draining", "is_releasable", "incarnation")
# Shares come from divisions of measured rates.
_SHARE_SLACK = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """One topic: totals over all hubs that carry it."""

    name: bytes
    publications_per_s: float = 0.0
    deliveries_per_s: float = 0.0
    in_bytes_per_s: float = 0.0
    out_bytes_per_s: float = 0.0
    publishers: float = 0.0
    subscribers: float = 0.0
    # The largest second of the window: what a burst needs.
    publications_per_s_max: float = 0.0
    out_bytes_per_s_max: float = 0.0
    # The largest backlog of one subscriber.
    backlog_bytes_max: float = 0.0
    # How long messages waited: for the envelope, and from publish to the last write.
    throttle_delay_s: float = 0.0
    queue_delay_s: float = 0.0
    # Change of `out_bytes_per_s` in a second.
    out_bytes_trend: float = 0.0
    # E(t) of ePulsar: one way from the farthest publisher to the farthest subscriber by way of the home, from clients'
    # coordinates and what smart clients observe. NaN: not known.
    latency_s_worst: float = UNKNOWN
    # W(t): how far publishers and subscribers are from their centroids at most, both together, one way.
    deviation_s: float = UNKNOWN
    # The centroids, and how many clients they are of. None: nobody has told.
    publishers_at: Coordinate | None = None
    subscribers_at: Coordinate | None = None
    publishers_located: float = 0.0
    subscribers_located: float = 0.0
    # Which hubs carry it, each with its share of the topic's outgoing bytes. Homes and relays.
    carried_by: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HubView:
    """One hub, as it measured itself."""

    name: str
    site: str = ""
    rack: str = ""
    # It has its `alive` node, and its records are not too old to be believed.
    is_alive: bool = True
    # It serves, but is to be given nothing more: an operator wants it back.
    is_draining: bool = False
    # Somebody stops it when the planner says that it may go; without that, emptying it saves nothing.
    is_releasable: bool = True
    # Which life of this name it is. 0: not known.
    incarnation: int = 0
    # The plan that it goes by. 0: not known.
    plan_version: int = 0
    # Of one core.
    cpu_ratio: float = 0.0
    loop_lag_s: float = 0.0
    memory_bytes: float = 0.0
    # What it may take; 0: no limit known.
    memory_bytes_max: float = 0.0
    out_bytes_per_s: float = 0.0
    # What its network can carry; 0: no limit known.
    out_bytes_per_s_max: float = 0.0
    publications_per_s: float = 0.0
    deliveries_per_s: float = 0.0
    # What it delivers in time; 0: no limit known.
    deliveries_per_s_max: float = 0.0
    connections: float = 0.0
    topics: float = 0.0
    # Change in a second.
    out_bytes_trend: float = 0.0
    cpu_trend: float = 0.0
    # Where it is in the network. None: it has not found out.
    coordinate: Coordinate | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class TopicColumns:
    """All topics; a column is called as the field of `TopicView` is."""

    names: Sequence[bytes]
    publications_per_s: Floats
    deliveries_per_s: Floats
    in_bytes_per_s: Floats
    out_bytes_per_s: Floats
    publishers: Floats
    subscribers: Floats
    publications_per_s_max: Floats
    out_bytes_per_s_max: Floats
    backlog_bytes_max: Floats
    throttle_delay_s: Floats
    queue_delay_s: Floats
    out_bytes_trend: Floats
    latency_s_worst: Floats
    deviation_s: Floats
    publishers_at: Places = field(default_factory=partial(no_places, 0))
    subscribers_at: Places = field(default_factory=partial(no_places, 0))
    publishers_located: Floats = field(default_factory=partial(np.zeros, 0))
    subscribers_located: Floats = field(default_factory=partial(np.zeros, 0))

    def __post_init__(self) -> None:
        _fill(self, "publishers_at", "subscribers_at", "publishers_located", "subscribers_located")

    @property
    def count(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False, kw_only=True)
class HubColumns:
    """All hubs; a column is called as the field of `HubView` is."""

    names: Sequence[str]
    site: Sequence[str]
    rack: Sequence[str]
    is_alive: Flags
    is_draining: Flags
    is_releasable: Flags
    incarnation: Indices
    plan_version: Indices
    cpu_ratio: Floats
    loop_lag_s: Floats
    memory_bytes: Floats
    memory_bytes_max: Floats
    out_bytes_per_s: Floats
    out_bytes_per_s_max: Floats
    publications_per_s: Floats
    deliveries_per_s: Floats
    connections: Floats
    topics: Floats
    out_bytes_trend: Floats
    cpu_trend: Floats
    deliveries_per_s_max: Floats = field(default_factory=partial(np.zeros, 0))
    coordinate: Places = field(default_factory=partial(no_places, 0))

    def __post_init__(self) -> None:
        _fill(self, "deliveries_per_s_max", "coordinate")

    @property
    def count(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False, kw_only=True)
class Carried:
    """Who carries what: one row for each hub of each topic, by index into the view's topics and hubs."""

    topic: Indices
    hub: Indices
    share: Floats


@dataclass(frozen=True, eq=False)
class View:
    """One instant as the planner knows it."""

    # When the window ended, on the clock that `now` of the planner reads.
    time_s: float
    topics: TopicColumns
    hubs: HubColumns
    carried: Carried
    # What rates and trends were taken over.
    window_s: float = 10.0

    def __post_init__(self) -> None:
        """Raises ViewError unless everything said at the top of this module is true."""
        if not (np.isfinite(self.time_s) and np.isfinite(self.window_s) and self.window_s > 0):
            raise ViewError(f"a view of {self.window_s} s that ends at {self.time_s}")
        _check_columns(self.topics)
        _check_columns(self.hubs)
        check_one_space(self.topics.publishers_at, self.topics.subscribers_at, self.hubs.coordinate)
        _check_carried(self.carried, self.topics.count, self.hubs.count)

    @classmethod
    def of(
        cls,
        time_s: float,
        topics: Iterable[TopicView] = (),
        hubs: Iterable[HubView] = (),
        *,
        window_s: float = 10.0,
    ) -> View:
        """A view from rows. What hubs carry that are not in the view is left out. Raises ViewError."""
        topic_rows, hub_rows = list(topics), list(hubs)
        hub_index = {hub.name: index for index, hub in enumerate(hub_rows)}
        carried = [
            (index, hub_index[hub], share)
            for index, topic in enumerate(topic_rows)
            for hub, share in topic.carried_by.items()
            if hub in hub_index
        ]
        return cls(
            time_s,
            TopicColumns(**_columns_of(TopicColumns, topic_rows)),
            HubColumns(**_columns_of(HubColumns, hub_rows)),
            Carried(
                topic=np.array([row[0] for row in carried], np.int64),
                hub=np.array([row[1] for row in carried], np.int64),
                share=np.array([row[2] for row in carried], np.float64),
            ),
            window_s,
        )

    def with_store(self, alive: Iterable[HubView]) -> View:
        """This view, corrected by what the store knows: who is alive, and as what.

        `alive` holds the hubs that have their `alive` node, by their facts alone. A hub that has sent no records
        yet is added as it is told, without load; one that is not told is dead.
        """
        told = {hub.name: hub for hub in alive}
        rows = [
            replace(hub, is_alive=False)
            if (facts := told.pop(hub.name, None)) is None
            else replace(hub, **{name: getattr(facts, name) for name in _FACTS})
            for hub in self.hub_rows()
        ]
        hubs = HubColumns(**_columns_of(HubColumns, [*rows, *told.values()]))
        return replace(self, hubs=hubs)

    @cached_property
    def hub_index(self) -> Mapping[str, int]:
        return {name: index for index, name in enumerate(self.hubs.names)}

    @cached_property
    def topic_index(self) -> Mapping[bytes, int]:
        return {name: index for index, name in enumerate(self.topics.names)}

    def hub(self, name: str) -> HubView:
        """Raises KeyError."""
        return HubView(**_row(self.hubs, self.hub_index[name]))

    def topic(self, name: bytes) -> TopicView:
        """Raises KeyError."""
        index = self.topic_index[name]
        rows = np.flatnonzero(self.carried.topic == index)
        carried_by = {
            self.hubs.names[self.carried.hub[row]]: float(self.carried.share[row]) for row in rows.tolist()
        }
        return TopicView(**_row(self.topics, index), carried_by=carried_by)

    def hub_rows(self) -> Iterator[HubView]:
        return (HubView(**_row(self.hubs, index)) for index in range(self.hubs.count))

    def topic_rows(self) -> Iterator[TopicView]:
        carried_by: list[dict[str, float]] = [{} for _ in range(self.topics.count)]
        columns = (self.carried.topic.tolist(), self.carried.hub.tolist(), self.carried.share.tolist())
        for topic, hub, share in zip(*columns, strict=True):
            carried_by[topic][self.hubs.names[hub]] = share
        return (TopicView(**_row(self.topics, index), carried_by=by) for index, by in enumerate(carried_by))


def dtype_of(column: str) -> type[np.bool_ | np.int64 | np.float64]:
    """Of a column that is neither text nor of places."""
    if column in FLAGS:
        return np.bool_
    return np.int64 if column in WHOLE else np.float64


def column_names(kind: type[TopicColumns | HubColumns]) -> list[str]:
    """In order, `names` first."""
    return [part.name for part in fields(kind)]


def _check_columns(columns: TopicColumns | HubColumns) -> None:
    kind = type(columns).__name__
    if len(set(columns.names)) != columns.count:
        raise ViewError(f"{kind}: a name is there twice")
    for name in column_names(type(columns)):
        values = getattr(columns, name)
        if len(values) != columns.count:
            raise ViewError(f"{kind}.{name} has {len(values)} rows for {columns.count} names")
        if name in PLACES:
            check_places(f"{kind}.{name}", values)
        elif isinstance(values, np.ndarray):
            _check_numbers(f"{kind}.{name}", values, name)
        if isinstance(values, np.ndarray):
            values.flags.writeable = False


def _check_numbers(shown: str, values: NDArray[Any], name: str) -> None:
    if name in FLAGS:
        return
    known = values[~np.isnan(values)] if name in OPTIONAL else values
    if not np.isfinite(known).all():
        raise ViewError(f"{shown} holds a number that is not finite")
    if name not in SIGNED and (known < 0).any():
        raise ViewError(f"{shown} holds a negative number")


def _check_carried(carried: Carried, topics: int, hubs: int) -> None:
    if not len(carried.topic) == len(carried.hub) == len(carried.share):
        raise ViewError("the columns of what hubs carry differ in length")
    for indices, count, what in ((carried.topic, topics, "topic"), (carried.hub, hubs, "hub")):
        if len(indices) and not (indices.min() >= 0 and indices.max() < count):
            raise ViewError(f"a {what} that is carried, or carries, is not in the view")
    pairs = carried.topic * max(1, hubs) + carried.hub
    if len(np.unique(pairs)) != len(pairs):
        raise ViewError("a hub carries a topic twice")
    totals = np.bincount(carried.topic, carried.share, minlength=topics)
    if not (carried.share > 0).all() or (totals > 1 + _SHARE_SLACK).any():
        raise ViewError("a topic's shares have to be above 0 and to sum to at most 1")
    for values in (carried.topic, carried.hub, carried.share):
        values.flags.writeable = False


def _columns_of(
    kind: type[TopicColumns | HubColumns], rows: Sequence[TopicView] | Sequence[HubView]
) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name in column_names(kind):
        values = [getattr(row, "name" if name == "names" else name) for row in rows]
        if name in TEXT:
            made[name] = tuple(values)
        elif name in PLACES:
            made[name] = places_of(values)
        else:
            made[name] = np.array(values, dtype_of(name))
    return made


def _row(columns: TopicColumns | HubColumns, index: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name in column_names(type(columns)):
        column = getattr(columns, name)
        if name in PLACES:
            made[name] = coordinate_at(column, index)
        else:
            value = column[index]
            made["name" if name == "names" else name] = value if name in TEXT else value.item()
    return made


def _fill(columns: TopicColumns | HubColumns, *names: str) -> None:
    """Columns that were left out have as many rows as the others: of zeros, or of places that nobody knows."""
    for name in names:
        empty = no_places(columns.count) if name in PLACES else np.zeros(columns.count)
        if not len(getattr(columns, name)):
            object.__setattr__(columns, name, empty)
