"""The columns of a view: all topics, all hubs, and who carries what, as numpy arrays.

With 100,000 topics a planner has no time for objects. What is always true of columns is said in `view`; `check_columns`
and `check_carried` see to it, and let nobody write to them afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import ViewError
from equipoise.view.coordinate_columns import Places, check_places, coordinate_at, no_places, places_of
from equipoise.view.rows import HubView, TopicView

__all__ = [
    "PLACES",
    "TEXT",
    "Carried",
    "HubColumns",
    "TopicColumns",
    "check_carried",
    "check_columns",
    "column_names",
    "columns_of",
    "dtype_of",
    "row_of",
]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]

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
# Shares come from divisions of measured rates.
_SHARE_SLACK = 1e-6


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


def dtype_of(column: str) -> type[np.bool_ | np.int64 | np.float64]:
    """Of a column that is neither text nor of places."""
    if column in FLAGS:
        return np.bool_
    return np.int64 if column in WHOLE else np.float64


def column_names(kind: type[TopicColumns | HubColumns]) -> list[str]:
    """In order, `names` first."""
    return [part.name for part in fields(kind)]


def check_columns(columns: TopicColumns | HubColumns) -> None:
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


def check_carried(carried: Carried, topics: int, hubs: int) -> None:
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


def columns_of(
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


def row_of(columns: TopicColumns | HubColumns, index: int) -> dict[str, Any]:
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
