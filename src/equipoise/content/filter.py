"""A filter in canonical form.

A filter is a conjunction of constraints, one per attribute, in the order of their paths. Two filters with different
spelling and the same meaning are equal: bounds on one attribute are merged, and every bound is stored as one half-open
interval, since for doubles and for strings `> x` is `>=` the value that follows x.

Always true:
    values of different types are never equal: a number matches no constraint on strings, and true is not 1;
    an attribute that is null or absent matches nothing; an array, an object or a very long string only exists;
    a filter can match some message, by the tests of `parsing`;
    the canonical text of a filter, parsed, is the same filter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

import msgspec

__all__ = [
    "PATH_SEPARATOR",
    "WORDS",
    "Compound",
    "Constraint",
    "Filter",
    "Residue",
    "Truth",
    "Value",
    "ValueType",
    "after",
    "before",
    "type_of",
]

# Separates the segments of a path in its key. No segment has this character.
PATH_SEPARATOR = "\0"
_PLAIN_SEGMENT = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
# Keywords of the language: an equal segment is quoted.
WORDS = frozenset({"and", "in", "prefix", "suffix", "contains", "exists", "true", "false"})


class Truth(Enum):
    """A boolean that is not equal to a number."""

    FALSE = "false"
    TRUE = "true"


class Compound(Enum):
    """An array, an object or a very long string: only its existence is known."""

    PRESENT = "compound"


# The types of an attribute in a message, and in a filter.
Value = str | float | Truth | Compound


class ValueType(Enum):
    """The type of a constraint's values. ANY: the attribute has to exist."""

    ANY = "any"
    NUMBER = "number"
    STRING = "string"
    BOOLEAN = "boolean"

    __hash__ = object.__hash__


_TYPES: dict[type, ValueType] = {
    str: ValueType.STRING,
    float: ValueType.NUMBER,
    Truth: ValueType.BOOLEAN,
    Compound: ValueType.ANY,
}


def type_of(value: Value) -> ValueType:
    return _TYPES[type(value)]


def after(value: str | float) -> str | float:
    """The least value above this one."""
    return value + "\0" if isinstance(value, str) else math.nextafter(value, math.inf)


def before(value: str | float) -> str | float | None:
    """The greatest value below this one; None: there is none, as below most strings."""
    if isinstance(value, str):
        return value[:-1] if value.endswith("\0") else None
    return math.nextafter(value, -math.inf)


class Residue(NamedTuple):
    """The part of a constraint beside values and bounds: no index orders it, so each one is tested separately."""

    prefix: str = ""
    suffix: str = ""
    contained: tuple[str, ...] = ()
    excluded: tuple[Value, ...] = ()

    def accepts(self, value: Value) -> bool:
        if value in self.excluded:
            return False
        if not isinstance(value, str):
            return True
        return (
            value.startswith(self.prefix)
            and value.endswith(self.suffix)
            and all(_is_in(part, value) for part in self.contained)
        )


# Longer texts are searched in linear time: `in` is slowest for a text that nearly occurs everywhere, and is faster for
# short strings.
_LINEAR_FROM = 256


def _is_in(part: str, value: str) -> bool:
    if len(value) < _LINEAR_FROM:
        return part in value
    return _searcher(part)(value) is not None


@lru_cache(maxsize=4_096)
def _searcher(part: str) -> Callable[[str], re.Match[str] | None]:
    """A regular expression without operators: its search takes linear time (Knuth, Morris, Pratt)."""
    return re.compile(re.escape(part)).search


class Constraint(NamedTuple):
    """The condition on one attribute: one of `values` if there are any, else within [low, high), and the residue."""

    path: str
    type: ValueType
    values: tuple[Value, ...] | None = None
    low: str | float | None = None
    high: str | float | None = None
    residue: Residue | None = None

    def accepts(self, value: Value | None) -> bool:
        if value is None:
            return False
        if self.type is ValueType.ANY:
            return True
        if type_of(value) is not self.type:
            return False
        if self.values is not None:
            return value in self.values
        return self._is_within(value) and (self.residue is None or self.residue.accepts(value))

    def _is_within(self, value: Value) -> bool:
        """The types are known to be equal."""
        is_above = self.low is None or value >= self.low  # type: ignore[operator]
        return is_above and (self.high is None or value < self.high)  # type: ignore[operator]

    def __str__(self) -> str:
        path = ".".join(map(_segment_text, self.path.split(PATH_SEPARATOR)))
        if self.type is ValueType.ANY:
            return f"{path} exists"
        if self.values is not None:
            texts = list(map(_value_text, self.values))
            return f"{path} = {texts[0]}" if len(texts) == 1 else f"{path} in ({', '.join(texts)})"
        terms: list[str] = []
        if self.low is not None:
            terms.append(_low_text(self.low))
        if self.high is not None:
            terms.append(_high_text(self.high))
        if self.residue is not None:
            prefix, suffix, contained, excluded = self.residue
            terms += [f"prefix {_value_text(prefix)}"] if prefix else []
            terms += [f"suffix {_value_text(suffix)}"] if suffix else []
            terms += [f"contains {_value_text(part)}" for part in contained]
            terms += [f"!= {_value_text(value)}" for value in excluded]
        return " and ".join(f"{path} {term}" for term in terms)


class Filter(NamedTuple):
    """The constraints, in the order of their paths: at least one."""

    constraints: tuple[Constraint, ...]

    def matches(self, values: Mapping[str, Value]) -> bool:
        """Whether a message with these attributes matches."""
        return all(constraint.accepts(values.get(constraint.path)) for constraint in self.constraints)

    def __str__(self) -> str:
        """The canonical text."""
        return " and ".join(map(str, self.constraints))

    def of(self, path: str) -> Constraint | None:
        for constraint in self.constraints:
            if constraint.path == path:
                return constraint
        return None


def _segment_text(segment: str) -> str:
    is_plain = (
        segment and _PLAIN_SEGMENT.issuperset(segment) and not (segment[0].isdigit() or segment[0] == "-")
    )
    return segment if is_plain and segment.lower() not in WORDS else _value_text(segment)


def _value_text(value: Value) -> str:
    if isinstance(value, Truth):
        return value.value
    if isinstance(value, float):
        text = repr(value)
        return text.removesuffix(".0")
    return msgspec.json.encode(value).decode()


def _low_text(low: str | float) -> str:
    """`> x` where x is the value before `low` and has the shorter text, else `>= low`."""
    if isinstance(low, str):
        return f"> {_value_text(low[:-1])}" if low.endswith("\0") else f">= {_value_text(low)}"
    return _shorter(">", math.nextafter(low, -math.inf), ">=", low)


def _high_text(high: str | float) -> str:
    if isinstance(high, str):
        return f"<= {_value_text(high[:-1])}" if high.endswith("\0") else f"< {_value_text(high)}"
    return _shorter("<=", math.nextafter(high, -math.inf), "<", high)


def _shorter(before_word: str, before: float, at_word: str, at: float) -> str:
    before_text, at_text = _value_text(before), _value_text(at)
    if math.isinf(at) or (not math.isinf(before) and len(before_text) < len(at_text)):
        return f"{before_word} {before_text}"
    return f"{at_word} {at_text}"
