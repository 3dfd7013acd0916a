"""A call of a command on a log (words, caller, time), and helpers to parse its words."""

from __future__ import annotations

from typing import NamedTuple

from equipoise.log.errors import NOT_AN_INTEGER, SYNTAX, LogCommandError

__all__ = ["LogCall", "array_of", "integer_of", "no_group", "nothing", "show"]


class LogCall(NamedTuple):
    """`words`: the whole command, the name first. `now_ms`: wall time. `proto`: the RESP version of the caller."""

    words: list[bytes]
    now_ms: int
    proto: int = 2


def integer_of(word: bytes, problem: str = NOT_AN_INTEGER) -> int:
    """Parse a number as Redis does: an optional minus, digits without leading zeros, 64 bits."""
    digits = word.removeprefix(b"-")
    if word == b"0":
        return 0
    if not (digits.isdigit() and digits.isascii()) or digits[:1] == b"0" or len(digits) > 19:
        raise LogCommandError(problem)
    number = int(word)
    if not -(2**63) <= number < 2**63:
        raise LogCommandError(problem)
    return number


def array_of(pieces: list[bytes]) -> bytes:
    return b"*%d\r\n%b" % (len(pieces), b"".join(pieces))


def nothing(proto: int) -> bytes:
    """Encode Redis's null array."""
    return b"_\r\n" if proto == 3 else b"*-1\r\n"


def show(word: bytes) -> str:
    """Decode a name for an error message. Redis prints C strings, which end at a NUL."""
    return word.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def no_group(key: bytes, group: bytes, where: str = "") -> LogCommandError:
    return LogCommandError(f"NOGROUP No such key '{show(key)}' or consumer group '{show(group)}'{where}")


def option_value(words: list[bytes], i: int) -> bytes:
    """The word after an option."""
    if i + 1 >= len(words):
        raise LogCommandError(SYNTAX)
    return words[i + 1]
