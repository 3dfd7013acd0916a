"""Groups of filters with equal shape: the matching filters of a group are a slice of it.

A group holds filters of one shape with equal values for all their equalities. Their other comparisons are bounds, whose
number determines the structure of the group:

    Ordered   one bound: sorted by it, so that the matching filters are a slice
    Cells     an attribute with both bounds: boxes in a grid (`cells`)
    Corners   several bounds: sorted by each, the shortest slice is tested (`corners`)
    Listed    no order helps: tested one by one, with at most `SCANNED_MAX` texts to search for
    Same      no other comparison: all match, as lists of values with a common value

The time to add or remove a filter does not grow with the group, except for shifting a sorted list.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from equipoise.content.covering import edges_of
from equipoise.content.filter import Filter, Value, ValueType

__all__ = [
    "SCANNED_MAX",
    "Axis",
    "Bound",
    "FilterGroup",
    "FilterNode",
    "Found",
    "Listed",
    "N",
    "Ordered",
    "Same",
    "bounds_of",
    "places_of",
]

# Filters tested one by one for a message. Half a millisecond per message, and 16 ms with the longest strings.
SCANNED_MAX = 1_000
# Constraints that take as long to test as one text to search for.
_CONSTRAINTS_PER_PLACE = 16


class FilterNode:
    """A filter where it is kept. Made by the index's owner, who may add to it."""

    __slots__ = ("children", "cover", "filter")

    def __init__(self, filter: Filter) -> None:
        self.filter = filter
        # Set by CoverSet: the filter's cover, unless it is a root; and the filters that it covers.
        self.cover: FilterNode | None = None
        self.children: dict[FilterNode, None] | None = None


def places_of(filter: Filter) -> int:
    """The places of `SCANNED_MAX` that the filter takes: one for each text to search for, or for 16 attributes."""
    texts = sum(
        [
            len(constraint.residue.contained)
            for constraint in filter.constraints
            if constraint.residue is not None
        ]
    )
    return max(1, texts, len(filter.constraints) // _CONSTRAINTS_PER_PLACE)


N = TypeVar("N", bound=FilterNode)
# Matches, as slices of lists that must not be changed meanwhile.
Found = list[tuple[Sequence[N], int, int]]


class Axis(NamedTuple):
    """An attribute with bounds, and which of them."""

    path: str
    type: ValueType
    has_low: bool
    has_high: bool

    @property
    def is_box(self) -> bool:
        """Whether a grid can index it."""
        return self.has_low and self.has_high and self.type is ValueType.NUMBER


class Bound(NamedTuple):
    """One bound of an axis."""

    path: str
    type: ValueType
    is_low: bool

    def of(self, filter: Filter) -> str | float:
        constraint = filter.of(self.path)
        assert constraint is not None, "a filter is in the group of its shape"
        bound = constraint.low if self.is_low else constraint.high
        assert bound is not None, "a filter is in the group of its shape"
        return bound

    def value_of(self, values: Mapping[str, Value]) -> str | float | None:
        """The message's value, if it can be compared with the bound."""
        value = values.get(self.path)
        return value if type(value) is (float if self.type is ValueType.NUMBER else str) else None

    def edge_of(self, narrow: Filter) -> str | float | None:
        """The tightest bound that still contains everything that the filter accepts."""
        constraint = narrow.of(self.path)
        if constraint is None or constraint.type is not self.type:
            return None
        return edges_of(constraint)[0 if self.is_low else 1]


def bounds_of(axes: Iterable[Axis]) -> tuple[Bound, ...]:
    return tuple(
        Bound(axis.path, axis.type, is_low)
        for axis in axes
        for is_low, is_there in ((True, axis.has_low), (False, axis.has_high))
        if is_there
    )


class FilterGroup(Protocol[N]):
    def __len__(self) -> int: ...
    def add(self, node: N) -> None: ...
    def remove(self, node: N) -> None: ...
    def collect(self, values: Mapping[str, Value], found: Found[N]) -> None:
        """Add the matching filters."""

    def wider(self, narrow: Filter) -> Iterator[N]:
        """Filters of the group that may cover the given one: if any does, one of these."""


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


class Same(Generic[N]):
    """All of them match when their group is found."""

    __slots__ = ("_at", "_nodes")

    def __init__(self) -> None:
        self._nodes: list[N] = []
        # The index of each in the list.
        self._at: dict[N, int] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def add(self, node: N) -> None:
        self._at[node] = len(self._nodes)
        self._nodes.append(node)

    def remove(self, node: N) -> None:
        # The last one takes its place: the order is irrelevant.
        at, last = self._at.pop(node), self._nodes.pop()
        if last is not node:
            self._nodes[at] = last
            self._at[last] = at

    def collect(self, values: Mapping[str, Value], found: Found[N]) -> None:
        found.append((self._nodes, 0, len(self._nodes)))

    def wider(self, narrow: Filter) -> Iterator[N]:
        return iter(self._nodes)


class Ordered(Generic[N]):
    """By one bound. `_bounds` is sorted, and `_nodes` in its order: no two are equal, as equal filters are one."""

    __slots__ = ("_bound", "_bounds", "_nodes")

    def __init__(self, axis: Axis) -> None:
        (self._bound,) = bounds_of((axis,))
        self._bounds: list[str | float] = []
        self._nodes: list[N] = []

    def __len__(self) -> int:
        return len(self._nodes)

    def add(self, node: N) -> None:
        bound = self._bound.of(node.filter)
        at = bisect_right(self._bounds, bound)
        self._bounds.insert(at, bound)
        self._nodes.insert(at, node)

    def remove(self, node: N) -> None:
        at = bisect_left(self._bounds, self._bound.of(node.filter))
        while self._nodes[at] is not node:
            at += 1
        del self._bounds[at], self._nodes[at]

    def collect(self, values: Mapping[str, Value], found: Found[N]) -> None:
        value = self._bound.value_of(values)
        if value is None:
            return
        # The number of bounds at most the value: lows that it reaches, highs that it is not below.
        at = bisect_right(self._bounds, value)
        start, stop = (0, at) if self._bound.is_low else (at, len(self._nodes))
        if start < stop:
            found.append((self._nodes, start, stop))

    def wider(self, narrow: Filter) -> Iterator[N]:
        """Only the loosest one: it covers all others here."""
        if self._nodes:
            yield self._nodes[0 if self._bound.is_low else -1]
