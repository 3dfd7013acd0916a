"""Find the filters of a topic that match a message without visiting the others.

A filter is indexed by the rarest of its equalities: a message looks up its values of the indexed attributes. A filter
without an equality is indexed by a prefix, then by its list of values; a filter with none of these is tested for each
message. Below that, filters of one shape with the same values are one group (`groups`).

Always true:
    a filter is in the index once, for all its subscribers; the same constraints are the same filter;
    matches are returned as slices of groups: count them with `count_of`, iterate with `listed`. They are valid until
    the index changes;
    adding and removing take time independent of the number of unrelated filters, except for the insertion into one
    sorted list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar

from equipoise.content.attributes import path_of, values_at
from equipoise.content.covering import covers
from equipoise.content.filter import Constraint, Filter, Value
from equipoise.content.groups import SCANNED_MAX, Found, Listed, N, places_of
from equipoise.content.shapes import NOTHING, FilterShape, ShapeKey, access_values, shape_key

__all__ = ["ATTRIBUTES_MAX", "SHAPES_MAX", "FilterIndex", "ScarceRoom", "count_of", "listed"]

# Shapes of filters of one topic: a message may have to look up each of them, a third of a microsecond each.
SHAPES_MAX = 1_000
# Attributes of one topic's filters: each is looked up in each message, in a fifth of a microsecond or more.
ATTRIBUTES_MAX = 10_000
# Filters that `covering` tests: 3 ms.
_LOOKED_AT_MAX = 1_000
_SHAPES = "shapes of filters"
_ATTRIBUTES = "attributes in filters"
_SCANNED = "filters that no index helps with (contains, suffix, != without an equality)"
_FOUND = "filters that one message may be compared with one by one (contains, suffix, != with an equality)"


K = TypeVar("K", str, int)
V = TypeVar("V", Value, str)


class ScarceRoom(NamedTuple, Generic[N]):
    """A limited resource of a topic's index."""

    noun: str
    # The limit, and the filter's need.
    most: int
    needed: int
    # The filters that use it, each as often as the places it takes; the first filter of each shape and each attribute.
    holders: Sequence[N]


# The shapes that are looked up for one value.
_Shapes = tuple[FilterShape[N], ...]


class FilterIndex(Generic[N]):
    """The filters of one topic. Its owner ensures that it does not change during an iteration over a match."""

    def __init__(self) -> None:
        # Each with the constraint by which it is indexed, if there is one.
        self._nodes: dict[Filter, N | tuple[N, Constraint]] = {}
        self._shapes: dict[ShapeKey, FilterShape[N]] = {}
        # By attribute and value; by attribute, length and prefix; and the rest, for every message.
        self._by_value: dict[str, dict[Value, _Shapes[N]]] = {}
        self._by_prefix: dict[str, dict[int, dict[str, _Shapes[N]]]] = {}
        self._always: _Shapes[N] = ()
        # How many filters have each equality, to find the rarest.
        self._frequency: dict[str, dict[Value, int]] = {}
        # The attributes of filters: the segments of each, the number of its filters, and the first of them.
        self._paths: dict[str, tuple[str, ...] | None] = {}
        self._uses: dict[str, int] = {}
        self._named_by: dict[str, N] = {}
        # Equal tuples of shapes are one.
        self._tuples: dict[_Shapes[N], _Shapes[N]] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[N]:
        return (known[0] if isinstance(known, tuple) else known for known in self._nodes.values())

    def get(self, filter: Filter) -> N | None:
        known = self._nodes.get(filter)
        return known[0] if isinstance(known, tuple) else known

    def scarce(self, filter: Filter, least: int = 0) -> Iterator[ScarceRoom[N]]:
        """The limited resources that the filter, which is not in the index, needs.

        Without those of which at most `least` would be used.
        """
        access = self._access(filter)
        key = shape_key(filter, access)
        shape = self._shapes.get(key)
        if shape is None and len(self._shapes) >= least:
            yield ScarceRoom(_SHAPES, SHAPES_MAX, 1, [shape.first for shape in self._shapes.values()])
        new = sum([path not in self._uses for path, *_ in filter.constraints])
        if new and len(self._uses) + new > least:
            yield ScarceRoom(_ATTRIBUTES, ATTRIBUTES_MAX, new, list(self._named_by.values()))
        if key.has_residue:
            yield from self._scarce_places(filter, access, shape, least)

    def _scarce_places(
        self, filter: Filter, access: Constraint | None, shape: FilterShape[N] | None, least: int
    ) -> Iterator[ScarceRoom[N]]:
        """The room among filters that are tested one by one."""
        needed = places_of(filter)
        if access is None:
            # Each message is compared with all of them, of any shape.
            noun = _SCANNED
            groups = [
                group
                for shape in self._always
                for group in shape.groups.values()
                if isinstance(group, Listed)
            ]
        else:
            # Each message is compared with one group of each shape at most.
            noun = _FOUND
            own = [
                group
                for value in access_values(access)
                for group in (shape.listed(value, filter) if shape else ())
            ]
            groups = [
                other.fullest
                for other in self._shapes.values()
                if other is not shape and other.key.has_residue and other.key.prefix_length != NOTHING
            ]
            mine = max(own, key=lambda group: group.places, default=None)
            if shape is not None and shape.fullest.places >= needed + (0 if mine is None else mine.places):
                return
            groups += [] if mine is None else [mine]
        if sum([group.places for group in groups]) + needed > least:
            yield ScarceRoom(
                noun, SCANNED_MAX, needed, [node for group in groups for node in group.holders()]
            )

    def objection(self, filter: Filter) -> str | None:
        """The exhausted resource that the filter needs, or None."""
        for room in self.scarce(filter, min(SHAPES_MAX, SCANNED_MAX)):
            if len(room.holders) + room.needed > room.most:
                return f"{room.most} {room.noun}"
        return None

    def add(self, node: N) -> None:
        """The filter must not be in it yet."""
        filter = node.filter
        assert filter not in self._nodes, "equal filters are one"
        access = self._access(filter)
        self._nodes[filter] = node if access is None else (node, access)
        for path, *_ in filter.constraints:
            if path not in self._named_by:
                self._named_by[path] = node
                self._paths[path] = path_of(path)[1]
        self._count(filter, 1)
        key = shape_key(filter, access)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = FilterShape(key, node)
        for value in access_values(access):
            if value not in shape.spread:
                self._file(shape, value, is_there=True)
            shape.add(value, node)

    def remove(self, node: N) -> None:
        filter = node.filter
        known = self._nodes.pop(filter)
        access = known[1] if isinstance(known, tuple) else None
        shape = self._shapes[shape_key(filter, access)]
        for value in access_values(access):
            shape.remove(value, node)
            if value not in shape.spread:
                self._file(shape, value, is_there=False)
        if not shape.size:
            del self._shapes[shape.key]
        self._count(filter, -1)

    def match(self, attributes: dict[str, Any]) -> Found[N]:
        values = values_at(attributes, self._paths.items())
        found: Found[N] = []
        for path, table in self._by_value.items():
            value = values.get(path)
            if value is not None:
                for shape in table.get(value, ()):
                    shape.collect(value, values, found)
        if self._by_prefix:
            for text, shapes in self._prefixed(values):
                for shape in shapes:
                    shape.collect(text, values, found)
        for shape in self._always:
            shape.collect(None, values, found)
        return found

    def covering(self, narrow: Filter) -> N | None:
        """A filter of the index that covers this one, other than itself; None: none is known."""
        for node in islice(self._wider(narrow), _LOOKED_AT_MAX // _effort(narrow)):
            if covers(node.filter, narrow) and node.filter != narrow:
                return node
        return None

    def _wider(self, narrow: Filter) -> Iterator[N]:
        for constraint in narrow.constraints:
            table = self._by_value.get(constraint.path)
            if table is not None and constraint.values is not None:
                value = constraint.values[0]
                for shape in table.get(value, ()):
                    yield from shape.wider(value, narrow)
            text = _sure_prefix(constraint)
            for length, prefixes in self._by_prefix.get(constraint.path, {}).items() if text else ():
                for shape in prefixes.get(text[:length], ()):
                    yield from shape.wider(text[:length], narrow)
        for shape in self._always:
            yield from shape.wider(None, narrow)

    def _prefixed(self, values: Mapping[str, Value]) -> Iterator[tuple[str, _Shapes[N]]]:
        for path, lengths in self._by_prefix.items():
            value = values.get(path)
            if isinstance(value, str):
                for length, prefixes in lengths.items():
                    text = value[:length]
                    shapes = prefixes.get(text)
                    if shapes is not None:
                        yield text, shapes

    def _access(self, filter: Filter) -> Constraint | None:
        """The constraint by which the filter is indexed."""
        equal: Constraint | None = None
        rarity = (0, 0)
        other: Constraint | None = None
        for constraint in filter.constraints:
            if constraint.values is not None and len(constraint.values) == 1:
                known = self._frequency.get(constraint.path, {})
                # Among equally rare ones, the one whose attribute has more values.
                rank = known.get(constraint.values[0], 0), -len(known)
                if equal is None or rank < rarity:
                    equal, rarity = constraint, rank
            elif _has_prefix(constraint) or (constraint.values is not None and other is None):
                other = constraint
        return equal or other

    def _count(self, filter: Filter, step: int) -> None:
        for path, _, values, *_ in filter.constraints:
            uses = self._uses.get(path, 0) + step
            if uses:
                self._uses[path] = uses
            else:
                del self._uses[path], self._paths[path], self._named_by[path]
            if values is not None and len(values) == 1:
                known = self._frequency.setdefault(path, {})
                count = known.get(values[0], 0) + step
                if count:
                    known[values[0]] = count
                else:
                    del known[values[0]]
                    if not known:
                        del self._frequency[path]

    def _file(self, shape: FilterShape[N], value: Value | None, *, is_there: bool) -> None:
        """Add the shape to the value's lookups, or remove it."""
        key = shape.key
        if value is None:
            self._always = _changed(self._always, shape, is_there=is_there)
            return
        if key.prefix_length < 0:
            _refile(self._by_value, key.access, value, shape, self._tuples, is_there=is_there)
            return
        lengths = self._by_prefix.setdefault(key.access, {})
        _refile(lengths, key.prefix_length, str(value), shape, self._tuples, is_there=is_there)
        if not lengths:
            del self._by_prefix[key.access]


def _refile(
    tables: dict[K, dict[V, _Shapes[N]]],
    at: K,
    value: V,
    shape: FilterShape[N],
    known: dict[_Shapes[N], _Shapes[N]],
    *,
    is_there: bool,
) -> None:
    table = tables.setdefault(at, {})
    shapes = _changed(table.get(value, ()), shape, is_there=is_there)
    if shapes:
        table[value] = known.setdefault(shapes, shapes)
        return
    del table[value]
    if not table:
        del tables[at]
        known.clear()


def count_of(found: Found[N]) -> int:
    """The number of filters in a match."""
    return sum([stop - start for _, start, stop in found])


def listed(found: Found[N]) -> list[N]:
    """The filters of a match: a list as long as the match."""
    nodes: list[N] = []
    for group, start, stop in found:
        nodes += group[start:stop]
    return nodes


def _changed(shapes: _Shapes[N], shape: FilterShape[N], *, is_there: bool) -> _Shapes[N]:
    return (*shapes, shape) if is_there else tuple(other for other in shapes if other is not shape)


def _effort(narrow: Filter) -> int:
    """The cost of testing whether another filter covers this one; 1 for most."""
    return max(
        max(len(values or ()), 0 if residue is None else len(residue.contained), 1)
        for _, _, values, _, _, residue in narrow.constraints
    )


def _has_prefix(constraint: Constraint) -> bool:
    return constraint.residue is not None and constraint.residue.prefix != ""


def _sure_prefix(constraint: Constraint) -> str:
    """The common prefix of all strings that the constraint accepts; empty if unknown."""
    if constraint.values is not None:
        value = constraint.values[0]
        return value if isinstance(value, str) else ""
    return "" if constraint.residue is None else constraint.residue.prefix
