"""The columns of a view: all topics, all hubs, their coordinates, and which hub carries what, as numpy arrays.

With 100,000 topics a planner has no time for objects. The fields are those of `schema`; a column that is left out has
its default in every row. `check_columns` and `check_carried` hold what `view` says is always true, and make the arrays
read-only.

A column of coordinates has one row of numbers per topic or hub, those of a `Coordinate` in its own order (point, error,
height, adjustment); a row of NaN is unknown. A column of which nothing is known has no width at all, so that views
without coordinates cost nothing. Always true of a column that has passed `check_places`: a row is known whole or not at
all, and what is known is finite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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

# Behind the point: error, height, adjustment.
BESIDE_POINT = 3
# As for a coordinate that another node tells.
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
    """Raises ViewError if distances between places of these columns make no sense."""
    widths = {column.shape[1] for column in columns} - {0}
    if len(widths) > 1:
        raise ViewError(f"coordinates of different spaces: {', '.join(map(str, sorted(widths)))} numbers")


def check_places(shown: str, places: Places) -> None:
    """Raises ViewError."""
    width = places.shape[1] if places.ndim == 2 else -1
    if width == 0:
        return
    if width <= BESIDE_POINT:
        raise ViewError(f"{shown} holds no coordinates")
    known = places[is_known(places)]
    if not np.isfinite(known).all() or (np.abs(known) > _REACH_S).any():
        raise ViewError(f"{shown} holds a place beyond {_REACH_S:g} s, or nowhere")
    if not np.isnan(places[~is_known(places)]).all():
        raise ViewError(f"{shown} holds half of a place")
    if (known[:, -BESIDE_POINT:-1] < 0).any():
        raise ViewError(f"{shown} holds a negative error or height")


Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]

DTYPES = {Shape.NUMBER: np.float64, Shape.WHOLE: np.int64, Shape.FLAG: np.bool_}
# Shares come from divisions of measured rates.
_SHARE_SLACK = 1e-6


@dataclass(frozen=True, eq=False, kw_only=True)
class TopicColumns(TopicFields[Floats, Places]):
    """All topics; a column is called as the field of `TopicView` is."""

    names: Sequence[bytes]

    def __post_init__(self) -> None:
        _fill(self, TOPIC_COLUMNS)

    @property
    def count(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False, kw_only=True)
class HubColumns(HubFields[Floats, Indices, Flags, Sequence[str], Places]):
    """All hubs; a column is called as the field of `HubView` is."""

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
        raise ViewError(f"{kind}: a name is there twice")
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
        raise ViewError(f"{shown} holds a number that is not finite")
    if sign is not Sign.SIGNED and (known < 0).any():
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
