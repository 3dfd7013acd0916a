"""The shape of a filter: the attributes that it compares and how, without their values.

A shape groups its filters by the values of their equalities, so that a message with these values looks up one group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple

from equipoise.content.cells import Cells
from equipoise.content.corners import Corners
from equipoise.content.filter import Constraint, Filter, Value, ValueType
from equipoise.content.groups import Axis, FilterGroup, Found, Listed, N, Ordered, Same

__all__ = ["NOTHING", "FilterShape", "ShapeKey", "access_values", "shape_key"]


# A `prefix_length`: not indexed.
NOTHING = -2


class ShapeKey(NamedTuple):
    """The common properties of filters of one shape: how they are indexed, and how they compare which attributes."""

    # The length of the prefix by which they are indexed; -1: by a value; NOTHING: not indexed.
    prefix_length: int
    access: str
    equal: tuple[str, ...]
    present: tuple[str, ...]
    axes: tuple[Axis, ...]
    has_residue: bool
    # Whether they are indexed by each of several values, so that different filters have the same one.
    has_list: bool


class FilterShape(Generic[N]):
    """The filters of one shape, in groups by their values. A group of one filter at most is that filter."""

    __slots__ = ("_by_places", "first", "groups", "is_single", "key", "size", "spread")

    def __init__(self, key: ShapeKey, first: N) -> None:
        self.key = key
        # The first filter, which may have been removed.
        self.first = first
        self.size = 0
        self.is_single = not (key.axes or key.has_residue or key.has_list)
        self.groups: dict[Any, N | FilterGroup[N]] = {}
        # By index key, the number of filters.
        self.spread: dict[Value | None, int] = {}
        # The groups that are tested one by one, by the places that they take.
        self._by_places: dict[int, dict[Listed[N], None]] = {}

    @property
    def fullest(self) -> Listed[N]:
        """The largest group that is tested one by one: a message is compared with at most one of them."""
        return next(iter(self._by_places[max(self._by_places)]))

    def add(self, access: Value | None, node: N) -> None:
        at = self._group_key(access, node.filter)
        self.size += 1
        self.spread[access] = self.spread.get(access, 0) + 1
        if self.is_single:
            self.groups[at] = node
            return
        group = self.groups.get(at)
        if group is None:
            _, _, _, _, axes, has_residue, has_list = self.key
            group = self.groups[at] = _group_for(axes, has_residue=has_residue, has_list=has_list)
        if isinstance(group, Listed):
            self._note_places(group, is_there=False)
        group.add(node)  # type: ignore[union-attr]
        if isinstance(group, Listed):
            self._note_places(group, is_there=True)

    def remove(self, access: Value | None, node: N) -> None:
        at = self._group_key(access, node.filter)
        self.size -= 1
        self.spread[access] -= 1
        if not self.spread[access]:
            del self.spread[access]
        group = self.groups[at]
        if isinstance(group, Listed):
            self._note_places(group, is_there=False)
        if not self.is_single:
            group.remove(node)  # type: ignore[union-attr]
        if isinstance(group, Listed):
            self._note_places(group, is_there=True)
        if self.is_single or not len(group):  # type: ignore[arg-type]
            del self.groups[at]

    def listed(self, access: Value | None, filter: Filter) -> Iterator[Listed[N]]:
        """The group in which the filter would be, if that is tested one by one."""
        group = self.groups.get(self._group_key(access, filter))
        if isinstance(group, Listed):
            yield group

    def collect(self, access: Value | None, values: Mapping[str, Value], found: Found[N]) -> None:
        key = self.key
        at: Any = access
        if key.equal:
            at = (access, *[values.get(path) for path in key.equal])
        group = self.groups.get(at)
        if group is None:
            return
        for path in key.present:
            if path not in values:
                return
        if self.is_single:
            found.append(((group,), 0, 1))  # type: ignore[arg-type]
        else:
            group.collect(values, found)  # type: ignore[union-attr]

    def wider(self, access: Value | None, narrow: Filter) -> Iterator[N]:
        """Those that may cover the filter."""
        at: Any = access
        if self.key.equal:
            equal = [narrow.of(path) for path in self.key.equal]
            at = (access, *[_only_value(constraint) for constraint in equal])
        group = self.groups.get(at)
        if group is None:
            return
        if self.is_single:
            yield group  # type: ignore[misc]
        else:
            yield from group.wider(narrow)  # type: ignore[union-attr]

    def _note_places(self, group: Listed[N], *, is_there: bool) -> None:
        if not group.places:
            return
        if is_there:
            self._by_places.setdefault(group.places, {})[group] = None
            return
        level = self._by_places[group.places]
        del level[group]
        if not level:
            del self._by_places[group.places]

    def _group_key(self, access: Value | None, filter: Filter) -> Any:
        if not self.key.equal:
            return access
        return (access, *[_only_value(filter.of(path)) for path in self.key.equal])


def access_values(access: Constraint | None) -> tuple[Value | None, ...]:
    if access is None:
        return (None,)
    if access.values is not None:
        return access.values
    assert access.residue is not None, "a filter is found by values or by a prefix"
    return (access.residue.prefix,)


def shape_key(filter: Filter, access: Constraint | None) -> ShapeKey:
    equal: list[str] = []
    present: list[str] = []
    axes: list[Axis] = []
    has_residue = False
    for constraint in filter.constraints:
        path, kind, values, low, high, residue = constraint
        is_access = access is not None and path == access.path
        if values is not None:
            if not is_access:
                equal += [path] if len(values) == 1 else []
                has_residue |= len(values) > 1
        elif kind is ValueType.ANY:
            present.append(path)
        else:
            if low is not None or high is not None:
                axes.append(Axis(path, kind, low is not None, high is not None))
            is_bare = is_access and residue is not None and residue == (residue.prefix, "", (), ())
            has_residue |= residue is not None and not is_bare
    if access is None:
        length = NOTHING
    elif access.values is not None:
        length = -1
    else:
        assert access.residue is not None, "a filter is found by values or by a prefix"
        length = len(access.residue.prefix)
    path = "" if access is None else access.path
    has_list = access is not None and access.values is not None and len(access.values) > 1
    return ShapeKey(length, path, tuple(equal), tuple(present), tuple(axes), has_residue, has_list)


def _only_value(constraint: Constraint | None) -> Value | None:
    values = None if constraint is None else constraint.values
    return values[0] if values is not None and len(values) == 1 else None


def _group_for(axes: Sequence[Axis], *, has_residue: bool, has_list: bool) -> FilterGroup[N]:
    """`has_list`: the filters have different lists of values, so the loosest bound need not cover the others."""
    if has_residue:
        return Listed()
    if not axes:
        return Same()
    if len(axes) == 1 and axes[0].has_low != axes[0].has_high and not has_list:
        return Ordered(axes[0])
    if any(axis.is_box for axis in axes):
        return Cells(axes)
    return Corners(axes)
