"""Groups of filters with both bounds on an attribute: boxes in a grid, whose cells are as large as the boxes in them.

A cell's side is a power of two between the box's side and twice that, so a box lies in at most two cells of each axis,
which determines its memory. A message tests one cell for each pair of sides in use. There are no rebuilds: the grid
does not depend on the distribution of values. Two axes are enough to leave few candidates; other bounds are tested one
by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, cast

from equipoise.content.covering import edges_of
from equipoise.content.filter import Filter, Value
from equipoise.content.groups import Axis, Found, N, bounds_of

__all__ = ["SIDES_MAX", "Cells"]

# Pairs of sides in one group: a message tests one cell for each, in half a microsecond. Further boxes share one cell.
SIDES_MAX = 64
# Sides of cells, as powers of two: beyond, an axis does not help.
_SIDE_MIN, _SIDE_MAX = -32, 32
# Boxes of a cell that is a list, which takes a quarter of the memory. A dictionary of more is quicker to remove from.
_LISTED_MAX = 64

_Sides = tuple[int, int]
_Key = tuple[int, int, int, int]
_WHOLE: _Sides = _SIDE_MAX, _SIDE_MAX
# A box in a cell: bounds on the two axes of the grid, the node, and its other bounds.
_Box = tuple[Any, ...]


class Cells(Generic[N]):
    """`_x` and `_y` are the axes of the grid; `_y` is None where only one attribute has both bounds."""

    __slots__ = ("_cells", "_crowded", "_nodes", "_others", "_sides", "_x", "_y")

    def __init__(self, axes: Sequence[Axis]) -> None:
        closed = [axis for axis in axes if axis.is_box][:2]
        self._x = closed[0].path
        self._y = closed[1].path if len(closed) > 1 else None
        # The other comparisons.
        self._others = bounds_of(axis for axis in axes if axis not in closed)
        # Each with its box, which is the same object in all its cells.
        self._nodes: dict[N, _Box] = {}
        self._cells: dict[_Key, list[_Box] | dict[_Box, None]] = {}
        # The number of boxes with cells of these sides.
        self._sides: dict[_Sides, int] = {}
        # Filters in the shared cell, because there were too many pairs of sides.
        self._crowded: dict[N, None] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def add(self, node: N) -> None:
        low_x, high_x = _interval(node.filter, self._x)
        low_y, high_y = _interval(node.filter, self._y)
        others = [bound.of(node.filter) for bound in self._others]
        box = self._nodes[node] = (low_x, high_x, low_y, high_y, node, *others)
        sides = _side(low_x, high_x), _side(low_y, high_y)
        if sides not in self._sides and len(self._sides) >= SIDES_MAX:
            sides = _WHOLE
            self._crowded[node] = None
        self._sides[sides] = self._sides.get(sides, 0) + 1
        for key in _keys(box, sides):
            cell = self._cells.setdefault(key, [])
            if isinstance(cell, dict):
                cell[box] = None
            elif len(cell) < _LISTED_MAX:
                cell.append(box)
            else:
                self._cells[key] = dict.fromkeys((*cell, box))

    def remove(self, node: N) -> None:
        box = self._nodes.pop(node)
        sides = _side(box[0], box[1]), _side(box[2], box[3])
        if node in self._crowded:
            del self._crowded[node]
            sides = _WHOLE
        self._sides[sides] -= 1
        if not self._sides[sides]:
            del self._sides[sides]
        for key in _keys(box, sides):
            cell = self._cells[key]
            if isinstance(cell, dict):
                del cell[box]
            else:
                # The order within a cell is irrelevant: the last one takes its place.
                last = cell.pop()
                if last is not box:
                    cell[cell.index(box)] = last
            if not cell:
                del self._cells[key]

    def collect(self, values: Mapping[str, Value], found: Found[N]) -> None:
        x, y = _number(values, self._x), _number(values, self._y)
        if x is None or y is None:
            return
        matching: list[Any] = []
        cells, others = self._cells, self._others
        for side_x, side_y in self._sides:
            cell = cells.get((side_x, side_y, _cell(x, side_x), _cell(y, side_y)))
            if cell is None:
                continue
            if others:
                matching += [box for box in cell if box[0] <= x < box[1] and box[2] <= y < box[3]]
            else:
                matching += [box[4] for box in cell if box[0] <= x < box[1] and box[2] <= y < box[3]]
        if others and matching:
            matching = self._inside_others(matching, values)
        if matching:
            found.append((matching, 0, len(matching)))

    def _inside_others(self, boxes: list[_Box], values: Mapping[str, Value]) -> list[N]:
        for i, bound in enumerate(self._others, 5):
            value = bound.value_of(values)
            if value is None:
                return []
            if bound.is_low:
                boxes = [box for box in boxes if box[i] <= value]
            else:
                boxes = [box for box in boxes if value < box[i]]
        return [box[4] for box in boxes]

    def wider(self, narrow: Filter) -> Iterator[N]:
        """Those whose boxes contain the filter's own box."""
        x, last_x = _edges(narrow, self._x)
        y, last_y = _edges(narrow, self._y)
        if x is None or y is None or last_x is None or last_y is None:
            return
        least_x = _side(x, last_x) if x < last_x else _SIDE_MIN
        least_y = _side(y, last_y) if y < last_y else _SIDE_MIN
        for side_x, side_y in self._sides:
            if side_x < least_x or side_y < least_y:
                # These boxes are smaller than the filter's.
                continue
            for box in self._cells.get((side_x, side_y, _cell(x, side_x), _cell(y, side_y)), ()):
                if box[0] <= x and last_x <= box[1] and box[2] <= y and last_y <= box[3]:
                    yield cast("N", box[4])


def _interval(filter: Filter, path: str | None) -> tuple[float, float]:
    constraint = None if path is None else filter.of(path)
    if constraint is None:
        return -math.inf, math.inf
    low, high = constraint.low, constraint.high
    assert isinstance(low, float) and isinstance(high, float), "a filter is in the group of its shape"
    return low, high


def _side(low: float, high: float) -> int:
    """The power of two of the cells' sides; `_SIDE_MAX`: one cell for all."""
    width = high - low
    if not 0 < width < 2.0**_SIDE_MAX or max(abs(low), abs(high)) >= 2.0**52:
        return _SIDE_MAX
    return max(_SIDE_MIN, math.frexp(width)[1])


def _cell(value: float, side: int) -> int:
    if side == _SIDE_MAX:
        return 0
    return math.floor(math.ldexp(value, -side))


def _keys(box: _Box, sides: _Sides) -> Iterator[_Key]:
    low_x, high_x, low_y, high_y = box[:4]
    side_x, side_y = sides
    for x in range(_cell(low_x, side_x), _cell(high_x, side_x) + 1):
        for y in range(_cell(low_y, side_y), _cell(high_y, side_y) + 1):
            yield side_x, side_y, x, y


def _number(values: Mapping[str, Value], path: str | None) -> float | None:
    if path is None:
        return 0.0
    value = values.get(path)
    return value if type(value) is float else None


def _edges(narrow: Filter, path: str | None) -> tuple[float | None, float | None]:
    """The least value that the filter accepts of an attribute, and an upper bound."""
    if path is None:
        return 0.0, 0.0
    constraint = narrow.of(path)
    low, high = (None, None) if constraint is None else edges_of(constraint)
    return low if isinstance(low, float) else None, high if isinstance(high, float) else None
