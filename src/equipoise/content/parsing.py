"""Parse a filter: `symbol = "YHOO" and volume > 150`.

    filter     predicate { "and" predicate }
    predicate  path ("=" | "!=" | "<" | "<=" | ">" | ">=") value
               path "in" "(" value { "," value } ")"
               path ("prefix" | "suffix" | "contains") string
               path "exists"
    path       segment { "." segment }       a segment is a word, or a string in quotes
    value      string | number | "true" | "false"

Strings are in double or single quotes, with the escapes of JSON and an escaped single quote. Keywords may be in
capitals. Numbers are doubles: a whole number beyond 2^53 would be rounded, and is rejected.

Every error has the offset of the byte, and the expected syntax.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from equipoise.content.filter import PATH_SEPARATOR, WORDS, Filter, Truth, Value, type_of
from equipoise.content.predicates import Conjunction, Operator
from equipoise.errors import FilterError

__all__ = [
    "CANONICAL_BYTES_MAX",
    "FILTER_BYTES_MAX",
    "PREDICATES_MAX",
    "VALUES_MAX",
    "FilterRequest",
    "parse_filter",
    "read_name",
]

FILTER_BYTES_MAX = 4 * 1024
# Length of a canonical text: a control character has six bytes there.
CANONICAL_BYTES_MAX = 8 * FILTER_BYTES_MAX
PREDICATES_MAX = 64
VALUES_MAX = 256
SEGMENTS_MAX = 16
_INTEGER_MAX = 2**53

_SPACE = re.compile(r"[ \t\r\n]*")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_OPERATOR = re.compile(r"!=|<=|>=|=|<|>")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"' + r"|'(?:[^'\\]|\\.)*'", re.DOTALL)
# JSON has no escaped single quote, and needs an escape for double quotes inside single ones.
_SINGLE = re.compile(r"\\(.)|(\")", re.DOTALL)
# Characters of a pattern: a filter has one topic.
_WILDCARD = re.compile(rb"[*?\[\\]")
_CONTROL = re.compile(r"[\x00-\x1f]")
_TRUTHS = {"true": Truth.TRUE, "false": Truth.FALSE}
_STRING_OPERATORS = {"prefix": Operator.PREFIX, "suffix": Operator.SUFFIX, "contains": Operator.CONTAINS}


class FilterRequest(NamedTuple):
    """The topic and the filter of one subscription."""

    topic: bytes
    filter: Filter


def parse_filter(data: bytes, offset: int = 0, *, bytes_max: int = FILTER_BYTES_MAX) -> Filter:
    """The filter in the bytes after `offset`. Raises FilterError, with a byte counted from the first."""
    if len(data) - offset > bytes_max:
        raise FilterError(offset + bytes_max, f"the end: a filter has at most {bytes_max} bytes")
    return _Reader(_decoded(data), offset=_characters(data, offset)).filter()


def read_name(data: bytes, offset: int = 0) -> tuple[bytes, int]:
    """The topic's name at the offset, quoted if necessary, and the index after it. Raises FilterError."""
    quote = data[offset : offset + 1]
    if quote not in (b'"', b"'"):
        end = data.find(b" ", offset)
        if end in (-1, offset):
            if end == -1 and offset < len(data):
                raise FilterError(len(data), "a space, and a filter such as volume > 150")
            raise FilterError(offset, "the name of a topic, a space, and a filter")
        if (wildcard := _WILDCARD.search(data, offset, end)) is not None:
            raise FilterError(
                wildcard.start(), "the name of one topic, not a pattern; a name with this character in quotes"
            )
        return data[offset:end], end + 1
    reader = _Reader(_decoded(data), offset=_characters(data, offset))
    name = reader.string()
    reader.expect_space()
    return name.encode(), reader.byte


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as problem:
        raise FilterError(problem.start, "UTF-8") from problem


def _characters(data: bytes, offset: int) -> int:
    return len(data[:offset].decode())


class _Reader:
    """One pass over the text. `_at` is the index of the next character."""

    def __init__(self, text: str, *, offset: int) -> None:
        self._text = text
        self._at = offset

    @property
    def byte(self) -> int:
        return len(self._text[: self._at].encode())

    def filter(self) -> Filter:
        conjunction = Conjunction()
        for _ in range(PREDICATES_MAX):
            self._predicate(conjunction)
            self._skip()
            if self._at == len(self._text):
                return conjunction.filter()
            at = self._at
            if self._word() != "and":
                self._at = at
                raise self._error("`and`, or the end")
        self._at = at
        raise self._error(f"the end: a filter has at most {PREDICATES_MAX} predicates")

    def string(self) -> str:
        found = _STRING.match(self._text, self._at)
        if found is None:
            raise self._error("a string in quotes")
        text = found.group()
        if text[0] == "'":
            text = '"' + _SINGLE.sub(_requote, text[1:-1]) + '"'
        text = _CONTROL.sub(lambda match: f"\\u{ord(match.group()):04x}", text)
        try:
            decoded = msgspec.json.decode(text, type=str)
            decoded.encode()
        except (msgspec.DecodeError, UnicodeError) as problem:
            raise self._error("a string with the escapes of JSON") from problem
        self._at = found.end()
        return decoded

    def expect_space(self) -> None:
        if self._text[self._at : self._at + 1] != " ":
            raise self._error("a space, and a filter")
        self._at += 1

    def _predicate(self, conjunction: Conjunction) -> None:
        self._skip()
        at = self.byte
        path = self._path()
        self._skip()
        symbol = _OPERATOR.match(self._text, self._at)
        if symbol is not None:
            self._at = symbol.end()
            self._skip()
            operator, operands = Operator(symbol.group()), [self._value()]
        else:
            operator, operands = self._word_operator()
        conjunction.add(at, path, operator, operands)

    def _word_operator(self) -> tuple[Operator, list[Value]]:
        at = self._at
        word = self._word()
        self._skip()
        if word == "exists":
            return Operator.EXISTS, []
        if word == "in":
            return Operator.IN, self._values()
        if word in _STRING_OPERATORS:
            return _STRING_OPERATORS[word], [self.string()]
        self._at = at
        raise self._error("one of = != < <= > >= in prefix suffix contains exists")

    def _path(self) -> str:
        segments = [self._segment()]
        while self._text[self._at : self._at + 1] == ".":
            self._at += 1
            if len(segments) == SEGMENTS_MAX:
                raise self._error(f"an operator: a path has at most {SEGMENTS_MAX} segments")
            segments.append(self._segment())
        return PATH_SEPARATOR.join(segments)

    def _segment(self) -> str:
        at = self._at
        if self._text[at : at + 1] in ('"', "'"):
            segment = self.string()
        else:
            found = _WORD.match(self._text, at)
            segment = "" if found is None or found.group().lower() in WORDS else found.group()
            self._at = at if found is None else found.end()
            if not segment:
                self._at = at
                raise self._error("the name of an attribute")
        if PATH_SEPARATOR in segment:
            self._at = at
            raise self._error("a name without the character NUL")
        return segment

    def _values(self) -> list[Value]:
        if self._text[self._at : self._at + 1] != "(":
            raise self._error("( and a list of values")
        values: list[Value] = []
        while True:
            self._at += 1
            self._skip()
            if len(values) == VALUES_MAX:
                raise self._error(f"): a list has at most {VALUES_MAX} values")
            at = self._at
            values.append(self._value())
            # Values of another type than the filter's other predicates on the attribute match nothing.
            if type_of(values[-1]) is not type_of(values[0]):
                self._at = at
                raise self._error(f"a {type_of(values[0]).value}: a list has values of one type")
            self._skip()
            mark = self._text[self._at : self._at + 1]
            if mark == ")":
                self._at += 1
                return values
            if mark != ",":
                raise self._error(", or )")

    def _value(self) -> Value:
        at = self._at
        if self._text[at : at + 1] in ('"', "'"):
            return self.string()
        number = _NUMBER.match(self._text, at)
        if number is not None:
            self._at = number.end()
            return self._number(number, at)
        truth = _TRUTHS.get(self._word() or "")
        if truth is None:
            self._at = at
            raise self._error("a string in quotes, a number, true or false")
        return truth

    def _number(self, number: re.Match[str], at: int) -> float:
        value = float(number.group())
        is_whole = number.group(1) is None is number.group(2)
        if is_whole and abs(int(number.group())) > _INTEGER_MAX:
            self._at = at
            raise self._error("a number up to 2^53: numbers are doubles")
        if value in (float("inf"), float("-inf")):
            self._at = at
            raise self._error("a number that fits a double")
        # -0 becomes 0.
        return value + 0.0

    def _word(self) -> str | None:
        found = _WORD.match(self._text, self._at)
        if found is None:
            return None
        self._at = found.end()
        return found.group().lower()

    def _skip(self) -> None:
        found = _SPACE.match(self._text, self._at)
        self._at = self._at if found is None else found.end()

    def _error(self, expected: str) -> FilterError:
        return FilterError(self.byte, expected)


def _requote(found: re.Match[str]) -> str:
    if found.group(2):
        return '\\"'
    return "'" if found.group(1) == "'" else found.group()
