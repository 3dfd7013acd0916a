"""Groups of filters with several bounds that no grid can index.

The filters are sorted by each bound. For each bound, the filters that the message's value satisfies are a slice; the
filters of the shortest slice are tested with their other bounds, in some 40 ns each.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from operator import itemgetter
from typing import Any, Generic

from equipoise.content.filter import Filter, Value
from equipoise.content.groups import Axis, Found, N, bounds_of

__all__ = ["Corners"]

# The bounds of a filter, then its number, then its node.
_Row = tuple[Any, ...]


class Corners(Generic[N]):
    """`_rows[i]` are in the order of bound i, which is `_sorted[i]`, and of their numbers where it is equal."""

    __slots__ = ("_bounds", "_known", "_number_of", "_numbers", "_rows", "_sorted")

    def __init__(self, axes: Sequence[Axis]) -> None:
        self._bounds = bounds_of(axes)
        self._sorted: list[list[Any]] = [[] for _ in self._bounds]
        self._rows: list[list[_Row]] = [[] for _ in self._bounds]
        self._known: dict[N, _Row] = {}
        self._numbers = count()
        self._number_of = itemgetter(len(self._bounds))

    def __len__(self) -> int:
        return len(self._known)

    def add(self, node: N) -> None:
        edges = [bound.of(node.filter) for bound in self._bounds]
        row = self._known[node] = (*edges, next(self._numbers), node)
        for edge, known, rows in zip(edges, self._sorted, self._rows, strict=True):
            at = bisect_right(known, edge)
            known.insert(at, edge)
            rows.insert(at, row)

    def remove(self, node: N) -> None:
        row = self._known.pop(node)
        for edge, known, rows in zip(row, self._sorted, self._rows, strict=False):
            first, last = bisect_left(known, edge), bisect_right(known, edge)
            at = bisect_left(rows, self._number_of(row), first, last, key=self._number_of)
            del known[at], rows[at]

    def collect(self, values: Mapping[str, Value], found: Found[N]) -> None:
        at = [bound.value_of(values) for bound in self._bounds]
        matching = self._inside(at, is_closed=False)
        if matching:
            found.append((matching, 0, len(matching)))

    def wider(self, narrow: Filter) -> Iterator[N]:
        """Those whose bounds are no tighter than the filter's."""
        return iter(self._inside([bound.edge_of(narrow) for bound in self._bounds], is_closed=True))

    def _inside(self, values: Sequence[Any], *, is_closed: bool) -> list[N]:
        """Filters whose bounds contain all the values; `is_closed`: or have one as upper bound."""
        if None in values:
            return []
        slices: list[tuple[int, int]] = []
        for bound, known, value in zip(self._bounds, self._sorted, values, strict=True):
            at = (bisect_left if is_closed and not bound.is_low else bisect_right)(known, value)
            slices.append((0, at) if bound.is_low else (at, len(known)))
        shortest = min(range(len(slices)), key=lambda i: slices[i][1] - slices[i][0])
        start, stop = slices[shortest]
        rows = self._rows[shortest][start:stop]
        for i, (bound, value) in enumerate(zip(self._bounds, values, strict=True)):
            if i == shortest:
                continue
            if bound.is_low:
                rows = [row for row in rows if row[i] <= value]
            elif is_closed:
                rows = [row for row in rows if value <= row[i]]
            else:
                rows = [row for row in rows if value < row[i]]
        return [row[-1] for row in rows]
