"""Columns of coordinates: where clients and hubs are, one row of numbers each.

A row holds the numbers of a `Coordinate` in its own order (point, error, height, adjustment); a row of NaN is a place
that nobody knows. A column of which nothing is known has no width at all, so that views without coordinates cost
nothing.

Always true of a column that has passed `check_places`: a row is known whole or not at all, and what is known could be
the coordinate of something on earth.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from equipoise.coordinates import Coordinate
from equipoise.errors import ViewError

__all__ = ["Places", "check_one_space", "check_places", "coordinate_at", "is_known", "no_places", "places_of"]

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
