"""Groups of filters with equal shape: the matching filters of a group are a slice of it.

A group holds filters of one shape with equal values for all their equalities. Their other comparisons are bounds, whose
number determines the structure of the group:

    Ordered   one bound: sorted by it, so that the matching filters are a slice
    Cells     an attribute with both bounds: boxes in a grid, whose cells are about as large as the boxes
    Corners   several attributes with one bound each: sorted by each, the shortest slice is tested
    Listed    no order helps: tested one by one, with at most `SCANNED_MAX` texts to search for
    Same      no other comparison: all match, as lists of values with a common value

A cell's side is a power of two between the box's side and twice that, so a box lies in at most two cells of each axis,
which determines its memory. A message tests one cell for each pair of sides in use. There are no rebuilds: the grid
does not depend on the distribution of values. Two axes are enough to leave few candidates; other bounds are tested one
by one.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from equipoise.content.covering import edges_of
from equipoise.content.filter import Filter, Value, ValueType

__all__ = ["SCANNED_MAX", "Axis", "FilterGroup", "FilterNode", "Found", "Listed", "group_for", "places_of"]

# Filters tested one by one for a message; a filter with several texts to search for takes one place for each. Half a
# millisecond per message, and less than 50 ms with the longest strings.
SCANNED_MAX = 1_000
# Sides of cells, as powers of two: beyond, an axis does not help.
_SIDE_MIN, _SIDE_MAX = -32, 32


class FilterNode:
    """A filter where it is kept. Made by the index's owner, who may add to it."""

    __slots__ = ("children", "cover", "filter")

    def __init__(self, filter: Filter) -> None:
        self.filter = filter
        # Set by CoverSet: the filter's cover, unless it is a root; and the filters that it covers.
        self.cover: FilterNode | None = None
        self.children: dict[FilterNode, None] | None = None


def places_of(filter: Filter) -> int:
    """The places of `SCANNED_MAX` that the filter takes when filters are tested one by one."""
    residues = [constraint.residue for constraint in filter.constraints if constraint.residue is not None]
    return max(1, sum([len(residue.contained) for residue in residues]))


N = TypeVar("N", bound=FilterNode)
# Matches, as slices of lists that must not be changed meanwhile.
Found = list[tuple[Sequence[N], int, int]]


class Axis(NamedTuple):
    """An attribute with bounds, and which of them."""

    path: str
    type: ValueType
    has_low: bool
    has_high: bool


class FilterGroup(Protocol[N]):
    def __len__(self) -> int: ...
    def add(self, node: N) -> None: ...
    def remove(self, node: N) -> None: ...
    def collect(self, values: Mapping[str, Value], found: Found[N]) -> None:
        """Add the matching filters."""

    def wider(self, narrow: Filter) -> Iterator[N]:
        """Filters of the group that may cover the given one: if any does, one of these."""

    def nodes(self) -> Sequence[N]: ...


def group_for(axes: Sequence[Axis], *, has_residue: bool, has_list: bool) -> FilterGroup[N]:
    """`has_list`: the filters have different lists of values, so the loosest bound need not cover the others."""
    if has_residue:
        return Listed()
    if not axes:
        return Same()
    if len(axes) == 1 and axes[0].has_low != axes[0].has_high and not has_list:
        return Ordered(axes[0])
    if any(axis.has_low and axis.has_high for axis in axes):
        return Cells(axes)
    return Corners(axes)


class Listed(Generic[N]):
    __slots__ = ("_nodes", "places")

    def __init__(self) -> None:
        self._nodes: list[N] = []
        self.places = 0

    def __len__(self) -> int:
        return len(self._nodes)

    def add(self, node: N) -> None:
        self._nodes.append(node)
        self.places += places_of(node.filter)

    def remove(self, node: N) -> None:
        self._nodes.remove(node)
        self.places -= places_of(node.filter)

    def holders(self) -> list[N]:
        """Each as often as the places it takes."""
        return [node for node in self._nodes for _ in range(places_of(node.filter))]

    def collect(self, values: Mapping[str, Value], found: Found[N]) -> None:
        matching = [node for node in self._nodes if node.filter.matches(values)]
        if matching:
            found.append((matching, 0, len(matching)))

    def wider(self, narrow: Filter) -> Iterator[N]:
        return iter(self._nodes)

    def nodes(self) -> Sequence[N]:
        return self._nodes


class Same(Listed[N]):
    """All of them match when their group is found."""

    __slots__ = ()

    def collect(self, values: Mapping[str, Value], found: Found[N]) -> None:
        found.append((self._nodes, 0, len(self._nodes)))

    def wider(self, narrow: Filter) -> Iterator[N]:
        """No more than are tested one by one: the caller also tests another cover."""
        return iter(self._nodes[:SCANNED_MAX])


class Ordered(Generic[N]):
    """By one bound. `_bounds` is sorted, and `_nodes` in its order."""

    __slots__ = ("_bounds", "_nodes", "axis")

    def __init__(self, axis: Axis) -> None:
        self.axis = axis
        self._bounds: list[str | float] = []
        self._nodes: list[N] = []

    def __len__(self) -> int:
        return len(self._nodes)

    def add(self, node: N) -> None:
        bound = self._bound(node.filter)
        at = bisect_right(self._bounds, bound)
        self._bounds.insert(at, bound)
        self._nodes.insert(at, node)

    def remove(self, node: N) -> None:
        at = bisect_left(self._bounds, self._bound(node.filter))
        while self._nodes[at] is not node:
            at += 1
        del self._bounds[at], self._nodes[at]

    def collect(self, values: Mapping[str, Value], found: Found[N]) -> None:
        start, stop = self.slice(values)
        if start < stop:
            found.append((self._nodes, start, stop))

    def slice(self, values: Mapping[str, Value]) -> tuple[int, int]:
        axis = self.axis
        value = values.get(axis.path)
        if type(value) is not (float if axis.type is ValueType.NUMBER else str):
            return 0, 0
        # The number of bounds at most the value: lows that it reaches, highs that it is not below.
        at = bisect_right(self._bounds, value)
        return (0, at) if axis.has_low else (at, len(self._nodes))

    def wider(self, narrow: Filter) -> Iterator[N]:
        """Only the loosest one: it covers all others here."""
        if self._nodes:
            yield self._nodes[0 if self.axis.has_low else -1]

    def wider_slice(self, narrow: Filter) -> tuple[int, int]:
        """Those whose bound is no tighter than the filter's."""
        constraint = narrow.of(self.axis.path)
        edges = None if constraint is None or constraint.type is not self.axis.type else edges_of(constraint)
        if edges is None:
            return 0, 0
        low, high = edges
        if self.axis.has_low:
            return (0, bisect_right(self._bounds, low)) if low is not None else (0, 0)
        return (bisect_left(self._bounds, high), len(self._nodes)) if high is not None else (0, 0)

    def nodes(self) -> Sequence[N]:
        return self._nodes

    def _bound(self, filter: Filter) -> str | float:
        constraint = filter.of(self.axis.path)
        assert constraint is not None, "a filter is in the group of its shape"
        bound = constraint.low if self.axis.has_low else constraint.high
        assert bound is not None, "a filter is in the group of its shape"
        return bound


class Corners(Generic[N]):
    __slots__ = ("_ordered",)

    def __init__(self, axes: Sequence[Axis]) -> None:
        self._ordered: list[Ordered[N]] = [Ordered(axis) for axis in axes]

    def __len__(self) -> int:
        return len(self._ordered[0])

    def add(self, node: N) -> None:
        for ordered in self._ordered:
            ordered.add(node)

    def remove(self, node: N) -> None:
        for ordered in self._ordered:
            ordered.remove(node)

    def collect(self, values: Mapping[str, Value], found: Found[N]) -> None:
        slices = [ordered.slice(values) for ordered in self._ordered]
        matching = [node for node in self._shortest(slices) if node.filter.matches(values)]
        if matching:
            found.append((matching, 0, len(matching)))

    def wider(self, narrow: Filter) -> Iterator[N]:
        yield from self._shortest([ordered.wider_slice(narrow) for ordered in self._ordered])

    def nodes(self) -> Sequence[N]:
        return self._ordered[0].nodes()

    def _shortest(self, slices: Sequence[tuple[int, int]]) -> Sequence[N]:
        at = min(range(len(slices)), key=lambda i: slices[i][1] - slices[i][0])
        start, stop = slices[at]
        return self._ordered[at].nodes()[start:stop]


# A box in a cell: bounds on the two axes of the grid, and the node.
_Box = tuple[float, float, float, float, N]
_Key = tuple[int, int, int, int]


class Cells(Generic[N]):
    """`_x` and `_y` are the axes of the grid; `_y` is None where only one attribute has both bounds."""

    __slots__ = ("_cells", "_is_whole", "_nodes", "_sides", "_x", "_y")

    def __init__(self, axes: Sequence[Axis]) -> None:
        closed = [axis for axis in axes if axis.has_low and axis.has_high and axis.type is ValueType.NUMBER][
            :2
        ]
        self._x = closed[0].path if closed else None
        self._y = closed[1].path if len(closed) > 1 else None
        # Whether the two axes are all comparisons.
        self._is_whole = len(axes) == len(closed)
        # Each with its box, which is the same object in all its cells.
        self._nodes: dict[N, _Box[N]] = {}
        self._cells: dict[_Key, list[_Box[N]]] = {}
        # The number of boxes with cells of these sides.
        self._sides: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def add(self, node: N) -> None:
        low_x, high_x = _interval(node.filter, self._x)
        low_y, high_y = _interval(node.filter, self._y)
        box = self._nodes[node] = low_x, high_x, low_y, high_y, node
        sides = _side(low_x, high_x), _side(low_y, high_y)
        self._sides[sides] = self._sides.get(sides, 0) + 1
        for key in _keys(box, sides):
            self._cells.setdefault(key, []).append(box)

    def remove(self, node: N) -> None:
        box = self._nodes.pop(node)
        sides = _side(box[0], box[1]), _side(box[2], box[3])
        self._sides[sides] -= 1
        if not self._sides[sides]:
            del self._sides[sides]
        for key in _keys(box, sides):
            cell = self._cells[key]
            # The order within a cell is irrelevant: the last one takes its place.
            last = cell.pop()
            if last is not box:
                cell[cell.index(box)] = last
            elif not cell:
                del self._cells[key]

    def collect(self, values: Mapping[str, Value], found: Found[N]) -> None:
        x, y = _number(values, self._x), _number(values, self._y)
        if x is None or y is None:
            return
        matching: list[N] = []
        cells = self._cells
        for side_x, side_y in self._sides:
            cell = cells.get((side_x, side_y, _cell(x, side_x), _cell(y, side_y)))
            if cell is not None:
                matching += [box[4] for box in cell if box[0] <= x < box[1] and box[2] <= y < box[3]]
        if not self._is_whole:
            matching = [node for node in matching if node.filter.matches(values)]
        if matching:
            found.append((matching, 0, len(matching)))

    def wider(self, narrow: Filter) -> Iterator[N]:
        """Those whose cells contain the filter's own box."""
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
            cell = self._cells.get((side_x, side_y, _cell(x, side_x), _cell(y, side_y)), ())
            yield from [
                box[4]
                for box in cell
                if box[0] <= x and last_x <= box[1] and box[2] <= y and last_y <= box[3]
            ]

    def nodes(self) -> Sequence[N]:
        return list(self._nodes)


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


def _keys(box: _Box[N], sides: tuple[int, int]) -> Iterator[_Key]:
    low_x, high_x, low_y, high_y, _ = box
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
