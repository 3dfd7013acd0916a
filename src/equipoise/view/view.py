"""The view: one immutable table of all topics and hubs.

A policy reads nothing else. A view covers a window of some seconds: rates are per second over that window, counts are
those at its end, and numbers of a topic are totals over all hubs that carry it. With 100,000 topics objects would be
too slow, so the numbers are numpy columns; `TopicView` and `HubView` (`schema`) are rows of them, for display, tests
and small worlds. An omitted column has its default in every row.

A column of coordinates has one row of numbers per topic or hub, those of a `Coordinate` in its own order (point, error,
height, adjustment); a row of NaN is unknown. A column without any known coordinate has no width, so that views without
coordinates have no cost.

Always true of a view:
    every required number is finite and not negative, trends may be negative, and unknown numbers are NaN;
    a coordinate is known completely or not at all, and known numbers are finite;
    no topic and no hub is listed twice;
    a row of `carried` refers to a topic and a hub of this view; shares of a topic are above 0 and sum to at
    most 1 (less if a part is carried by a hub that is not in the view);
    its arrays are read-only.

The pipeline makes views, `codec` encodes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.coordinates import Coordinate
from equipoise.errors import ViewError
from equipoise.view.schema import (
    HUB_COLUMNS,
    TOPIC_COLUMNS,
    HubFields,
    HubView,
    LimitUse,
    Shape,
    Sign,
    TopicFields,
    TopicView,
    ViewColumn,
)

__all__ = [
    "DTYPES",
    "Carried",
    "HubColumns",
    "Places",
    "TopicColumns",
    "View",
    "check_carried",
    "check_columns",
    "check_one_space",
    "check_places",
    "columns_of",
    "coordinate_at",
    "filled",
    "is_known",
    "no_places",
    "places_of",
    "row_of",
]

Places = NDArray[np.float64]

# After the point: error, height, adjustment.
BESIDE_POINT = 3
# As for a coordinate of another node.
_REACH_S = 100.0


def no_places(count: int) -> Places:
    return np.zeros((count, 0))


def places_of(coordinates: Sequence[Coordinate | None]) -> Places:
    """Raises ViewError if they are not all of one space."""
    widths = {len(coordinate.numbers) for coordinate in coordinates if coordinate is not None}
    if len(widths) > 1:
        raise ViewError(f"coordinates of different spaces: {', '.join(map(str, sorted(widths)))} numbers")
    if not widths:
        return no_places(len(coordinates))
    unknown = (np.nan,) * widths.pop()
    return np.array([unknown if place is None else place.numbers for place in coordinates], np.float64)


def is_known(places: Places) -> NDArray[np.bool_]:
    if not places.shape[1]:
        return np.zeros(len(places), np.bool_)
    known: NDArray[np.bool_] = ~np.isnan(places[:, 0])
    return known


def coordinate_at(places: Places, index: int) -> Coordinate | None:
    row = places[index].tolist()
    if not row or row[0] != row[0]:
        return None
    *point, error, height_s, adjustment_s = row
    return Coordinate(tuple(point), error, height_s, adjustment_s)


def check_one_space(*columns: Places) -> None:
    """Raises ViewError if distances between these columns are undefined."""
    widths = {column.shape[1] for column in columns} - {0}
    if len(widths) > 1:
        raise ViewError(f"coordinates of different spaces: {', '.join(map(str, sorted(widths)))} numbers")


def check_places(shown: str, places: Places) -> None:
    """Raises ViewError."""
    width = places.shape[1] if places.ndim == 2 else -1
    if width == 0:
        return
    if width <= BESIDE_POINT:
        raise ViewError(f"{shown} has no coordinates")
    known = places[is_known(places)]
    if not np.isfinite(known).all() or (np.abs(known) > _REACH_S).any():
        raise ViewError(f"{shown} has a coordinate beyond {_REACH_S:g} s, or not finite")
    if not np.isnan(places[~is_known(places)]).all():
        raise ViewError(f"{shown} has half of a coordinate")
    if (known[:, -BESIDE_POINT:-1] < 0).any():
        raise ViewError(f"{shown} has a negative error or height")


Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]

DTYPES = {Shape.NUMBER: np.float64, Shape.WHOLE: np.int64, Shape.FLAG: np.bool_}
# Shares come from divisions of measured rates.
_SHARE_SLACK = 1e-6


@dataclass(frozen=True, eq=False, kw_only=True)
class TopicColumns(TopicFields[Floats, Places]):
    """All topics; a column has the name of the field of `TopicView`."""

    names: Sequence[bytes]

    def __post_init__(self) -> None:
        _fill(self, TOPIC_COLUMNS)

    @property
    def count(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False, kw_only=True)
class HubColumns(HubFields[Floats, Indices, Flags, Sequence[str], Places]):
    """All hubs; a column has the name of the field of `HubView`."""

    names: Sequence[str]

    def __post_init__(self) -> None:
        _fill(self, HUB_COLUMNS)

    @property
    def count(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False, kw_only=True)
class Carried:
    """One row for each hub of each topic, by index into the view's topics and hubs."""

    topic: Indices
    hub: Indices
    share: Floats


def filled(column: ViewColumn, count: int) -> Any:
    """The column with its default in each of `count` rows."""
    if column.shape is Shape.PLACE:
        return no_places(count)
    if column.shape is Shape.TEXT:
        return (column.default,) * count
    return np.full(count, column.default, DTYPES[column.shape])


def _fill(columns: TopicColumns | HubColumns, declared: Sequence[ViewColumn]) -> None:
    for column in declared:
        if getattr(columns, column.name) is column.default:
            object.__setattr__(columns, column.name, filled(column, columns.count))


def check_columns(columns: TopicColumns | HubColumns) -> None:
    kind = type(columns).__name__
    if len(set(columns.names)) != columns.count:
        raise ViewError(f"{kind}: a name is listed twice")
    for column in _declared(columns):
        values, shown = getattr(columns, column.name), f"{kind}.{column.name}"
        if len(values) != columns.count:
            raise ViewError(f"{shown} has {len(values)} rows for {columns.count} names")
        if column.shape is Shape.PLACE:
            check_places(shown, values)
        elif column.shape in (Shape.NUMBER, Shape.WHOLE):
            _check_numbers(shown, values, column.sign)
        if isinstance(values, np.ndarray):
            values.flags.writeable = False


def _check_numbers(shown: str, values: NDArray[Any], sign: Sign) -> None:
    known = values[~np.isnan(values)] if sign is Sign.OPTIONAL else values
    if not np.isfinite(known).all():
        raise ViewError(f"{shown} has a number that is not finite")
    if sign is not Sign.SIGNED and (known < 0).any():
        raise ViewError(f"{shown} has a negative number")


def check_carried(carried: Carried, topics: int, hubs: int) -> None:
    if not len(carried.topic) == len(carried.hub) == len(carried.share):
        raise ViewError("the columns of shares differ in length")
    for indices, count, what in ((carried.topic, topics, "topic"), (carried.hub, hubs, "hub")):
        if len(indices) and not (indices.min() >= 0 and indices.max() < count):
            raise ViewError(f"a {what} of a share is not in the view")
    pairs = carried.topic * max(1, hubs) + carried.hub
    if len(np.unique(pairs)) != len(pairs):
        raise ViewError("a hub has two shares of a topic")
    totals = np.bincount(carried.topic, carried.share, minlength=topics)
    if not (carried.share > 0).all() or (totals > 1 + _SHARE_SLACK).any():
        raise ViewError("a topic's shares must be above 0 and sum to at most 1")
    for values in (carried.topic, carried.hub, carried.share):
        values.flags.writeable = False


def columns_of(
    declared: Sequence[ViewColumn], rows: Sequence[TopicView] | Sequence[HubView]
) -> dict[str, Any]:
    made: dict[str, Any] = {"names": tuple(row.name for row in rows)}
    for column in declared:
        values = [getattr(row, column.name) for row in rows]
        if column.shape is Shape.TEXT:
            made[column.name] = tuple(values)
        elif column.shape is Shape.PLACE:
            made[column.name] = places_of(values)
        else:
            made[column.name] = np.array(values, DTYPES[column.shape])
    return made


def row_of(columns: TopicColumns | HubColumns, index: int) -> dict[str, Any]:
    made: dict[str, Any] = {"name": columns.names[index]}
    for column in _declared(columns):
        values = getattr(columns, column.name)
        if column.shape is Shape.PLACE:
            made[column.name] = coordinate_at(values, index)
        else:
            value = values[index]
            made[column.name] = value if column.shape is Shape.TEXT else value.item()
    return made


def _declared(columns: TopicColumns | HubColumns) -> Sequence[ViewColumn]:
    return TOPIC_COLUMNS if isinstance(columns, TopicColumns) else HUB_COLUMNS


# Data of a hub from the store rather than from records.
_FACTS = (
    "site",
    "rack",
    "is_alive",
    "is_draining",
    "is_releasable",
    "carries_content",
    "is_waiting",
    "bookies",
    "commit_s",
    "incarnation",
)


@dataclass(frozen=True, eq=False)
class View:
    """One moment, as known to the planner."""

    # The end of the window, on the planner's clock.
    time_s: float
    topics: TopicColumns
    hubs: HubColumns
    carried: Carried
    # The window of rates and trends.
    window_s: float = 10.0
    # Of limited topics, by topic and hub: the use of its share of the envelope, and its clients' messages.
    limited: Mapping[bytes, Mapping[str, LimitUse]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises ViewError unless all invariants at the top of this module hold."""
        if not (np.isfinite(self.time_s) and np.isfinite(self.window_s) and self.window_s > 0):
            raise ViewError(f"a view of {self.window_s} s that ends at {self.time_s}")
        check_columns(self.topics)
        check_columns(self.hubs)
        check_one_space(self.topics.publishers_at, self.topics.subscribers_at, self.hubs.coordinate)
        check_carried(self.carried, self.topics.count, self.hubs.count)

    @classmethod
    def of(
        cls,
        time_s: float,
        topics: Iterable[TopicView] = (),
        hubs: Iterable[HubView] = (),
        *,
        window_s: float = 10.0,
    ) -> View:
        """A view from rows. Rows of hubs that are not in the view are left out. Raises ViewError."""
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
            TopicColumns(**columns_of(TOPIC_COLUMNS, topic_rows)),
            HubColumns(**columns_of(HUB_COLUMNS, hub_rows)),
            Carried(
                topic=np.array([row[0] for row in carried], np.int64),
                hub=np.array([row[1] for row in carried], np.int64),
                share=np.array([row[2] for row in carried], np.float64),
            ),
            window_s,
            {topic.name: topic.limited_at for topic in topic_rows if topic.limited_at},
        )

    def with_store(self, alive: Iterable[HubView]) -> View:
        """This view, corrected by the store's data on live hubs.

        `alive` has the hubs with an `alive` node, from their facts alone. A hub that has sent no records yet is added
        without load; a hub that is not in `alive` is dead.
        """
        announced = {hub.name: hub for hub in alive}
        rows = [
            replace(hub, is_alive=False)
            if (facts := announced.pop(hub.name, None)) is None
            else replace(hub, **{name: getattr(facts, name) for name in _FACTS})
            for hub in self.hub_rows()
        ]
        hubs = HubColumns(**columns_of(HUB_COLUMNS, [*rows, *announced.values()]))
        return replace(self, hubs=hubs)

    @cached_property
    def hub_index(self) -> Mapping[str, int]:
        return {name: index for index, name in enumerate(self.hubs.names)}

    @cached_property
    def topic_index(self) -> Mapping[bytes, int]:
        return {name: index for index, name in enumerate(self.topics.names)}

    def hub(self, name: str) -> HubView:
        """Raises KeyError."""
        return HubView(**row_of(self.hubs, self.hub_index[name]))

    def topic(self, name: bytes) -> TopicView:
        """Raises KeyError."""
        index = self.topic_index[name]
        rows = np.flatnonzero(self.carried.topic == index)
        carried_by = {
            self.hubs.names[self.carried.hub[row]]: float(self.carried.share[row]) for row in rows.tolist()
        }
        limited_at = self.limited.get(name, {})
        return TopicView(**row_of(self.topics, index), carried_by=carried_by, limited_at=limited_at)

    def hub_rows(self) -> Iterator[HubView]:
        return (HubView(**row_of(self.hubs, index)) for index in range(self.hubs.count))

    def topic_rows(self) -> Iterator[TopicView]:
        carried_by: list[dict[str, float]] = [{} for _ in range(self.topics.count)]
        columns = (self.carried.topic.tolist(), self.carried.hub.tolist(), self.carried.share.tolist())
        for topic, hub, share in zip(*columns, strict=True):
            carried_by[topic][self.hubs.names[hub]] = share
        return (
            TopicView(
                **row_of(self.topics, index),
                carried_by=by,
                limited_at=self.limited.get(self.topics.names[index], {}),
            )
            for index, by in enumerate(carried_by)
        )
