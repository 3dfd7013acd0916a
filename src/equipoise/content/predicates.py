"""Merge the predicates of a filter into one constraint per attribute; reject filters that never match."""

from __future__ import annotations

import math
import sys
from enum import Enum
from functools import lru_cache

from equipoise.content.filter import (
    Constraint,
    Filter,
    Residue,
    Truth,
    Value,
    ValueType,
    after,
    before,
    type_of,
)
from equipoise.errors import FilterError

__all__ = ["Conjunction", "Operator"]


class Operator(Enum):
    """The comparison of a predicate. The value is the word, or the sign, of the language."""

    EQUAL = "="
    UNEQUAL = "!="
    LESS = "<"
    AT_MOST = "<="
    MORE = ">"
    AT_LEAST = ">="
    IN = "in"
    PREFIX = "prefix"
    SUFFIX = "suffix"
    CONTAINS = "contains"
    EXISTS = "exists"


class Conjunction:
    """Predicates as parsed. `filter` returns their conjunction."""

    def __init__(self) -> None:
        self._by_path: dict[str, _Merged] = {}

    def add(self, at: int, path: str, operator: Operator, operands: list[Value]) -> None:
        """Raises FilterError if no message can match this and the predicates before it."""
        merged = self._by_path.get(path)
        if merged is None:
            merged = self._by_path[path] = _Merged(path)
        merged.add(at, operator, operands)

    def filter(self) -> Filter:
        return Filter(tuple(self._by_path[path].constraint for path in sorted(self._by_path)))


class _Merged:
    """The predicates on one attribute."""

    def __init__(self, path: str) -> None:
        self.constraint = Constraint(path, ValueType.ANY)

    def add(self, at: int, operator: Operator, operands: list[Value]) -> None:
        if operator is Operator.EXISTS:
            return
        operand = operands[0]
        now = self.constraint
        kind = type_of(operand)
        if now.type not in (ValueType.ANY, kind):
            raise _never(at)
        now = now._replace(type=kind)
        residue = now.residue or Residue()
        match operator:
            case Operator.EQUAL | Operator.IN:
                now = now._replace(values=_both(now.values, operands))
            case Operator.UNEQUAL:
                residue = residue._replace(excluded=_ordered((*residue.excluded, operand)))
            case Operator.PREFIX | Operator.SUFFIX | Operator.CONTAINS:
                residue = _with_text(at, residue, operator, str(operand))
            case _:
                now = _bounded(at, now, operator, operand)
        self.constraint = _simplest(at, now, residue)


def _both(values: tuple[Value, ...] | None, operands: list[Value]) -> tuple[Value, ...]:
    return _ordered(operands if values is None else [value for value in operands if value in values])


def _ordered(values: list[Value] | tuple[Value, ...]) -> tuple[Value, ...]:
    """All are of one type."""
    return tuple(
        sorted(set(values), key=lambda value: value.value if isinstance(value, Truth) else value)  # type: ignore[arg-type,return-value]
    )


def _bounded(at: int, now: Constraint, operator: Operator, operand: Value) -> Constraint:
    if not isinstance(operand, str | float):
        raise FilterError(at, "= or != with true and false: they have no order")
    is_next = operator in (Operator.MORE, Operator.AT_MOST)
    bound = after(operand) if is_next else operand
    if operator in (Operator.MORE, Operator.AT_LEAST):
        low = bound if now.low is None else max(now.low, bound)
        return now._replace(low=low)
    high = bound if now.high is None else min(now.high, bound)
    return now._replace(high=high)


def _with_text(at: int, residue: Residue, operator: Operator, text: str) -> Residue:
    if operator is Operator.PREFIX:
        shorter, longer = sorted((residue.prefix, text), key=len)
        if not longer.startswith(shorter):
            raise _never(at)
        return residue._replace(prefix=longer)
    if operator is Operator.SUFFIX:
        shorter, longer = sorted((residue.suffix, text), key=len)
        if not longer.endswith(shorter):
            raise _never(at)
        return residue._replace(suffix=longer)
    return residue._replace(contained=tuple(sorted({*residue.contained, text})))


def _simplest(at: int, now: Constraint, residue: Residue) -> Constraint:
    """The same in canonical form: only values if there are any, and no redundant condition."""
    now = now._replace(residue=None)
    if now.type is ValueType.BOOLEAN and now.values is None:
        now = now._replace(values=(Truth.FALSE, Truth.TRUE))
    if now.low is not None and now.high is not None and after(now.low) == now.high:
        # One value is left.
        now = now._replace(values=_both(now.values, [now.low]))
    if now.values is not None:
        bounds = now._replace(values=None, residue=residue)
        values = tuple(value for value in now.values if bounds.accepts(value))
        if not values:
            raise _never(at)
        return _one_of(now.path, now.type, values)
    if now.low is not None and now.high is not None and not now.low < now.high:  # type: ignore[operator]
        raise _never(at)
    if now.low == math.inf or now.high in ("", -sys.float_info.max):
        raise _never(at)
    low, high, excluded = _unexcluded(now, residue)
    parts = (residue.prefix, residue.suffix, *residue.contained)
    contained = tuple(
        part
        for i, part in enumerate(residue.contained)
        if part and not any(part in other for j, other in enumerate(parts) if j != i + 2)
    )
    # Every string contains the empty one, so that only the type is left.
    left = Residue(residue.prefix, residue.suffix, contained, excluded)
    narrowed = now._replace(low=low, high=high)
    if (low, high) != (now.low, now.high):
        return _simplest(at, narrowed, left)
    if now.type is ValueType.STRING and low is None and high is None and left == Residue():
        # `contains ""`: every string. The least string is the empty one.
        return narrowed._replace(low="")
    if low == "" and (high is not None or left != Residue()):
        narrowed = narrowed._replace(low=None)
    return narrowed if left == Residue() else narrowed._replace(residue=left)


@lru_cache(maxsize=16_384)
def _one_of(path: str, kind: ValueType, values: tuple[Value, ...]) -> Constraint:
    """Many filters share such a constraint, and its memory."""
    return Constraint(path, kind, values)


def _unexcluded(
    now: Constraint, residue: Residue
) -> tuple[str | float | None, str | float | None, tuple[Value, ...]]:
    """The bounds without excluded values at their ends, and the exclusions that still have an effect."""
    low, high = now.low, now.high
    without = now._replace(residue=residue._replace(excluded=()))
    excluded = tuple(value for value in residue.excluded if without.accepts(value))
    while low is not None and low in excluded:
        excluded = tuple(value for value in excluded if value != low)
        low = after(low)
    while high is not None and (last := before(high)) in excluded:
        excluded = tuple(value for value in excluded if value != last)
        high = last
    return low, high, excluded


def _never(at: int) -> FilterError:
    return FilterError(
        at, "a predicate that can hold together with the ones before it: no message would match"
    )
