"""The entries of a batch: offsets in logs and ranges between them. Pure.

A mark is the id of an entry and the number of entries added to the log up to it. Ids determine what to read, the
numbers how much that must be: entries that were trimmed or deleted before they were read are detected by count.

Always true: two states determine the entries of a batch, so a repeated batch has the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from equipoise.log.ids import ID_MIN, EntryId

__all__ = [
    "LogMark",
    "LogRange",
    "LogSteps",
    "Marks",
    "begun",
    "decode",
    "divided",
    "encode",
    "first_mark",
    "mark_behind",
    "missing",
    "spelled",
    "to_id",
]


class LogMark(NamedTuple):
    """The position of a reader in a log."""

    at: EntryId
    n: int
    # The number at which reading began.
    since: int
    # How often it began anew because the log had been deleted.
    life: int = 0


Marks = dict[str, LogMark]


class LogSteps(NamedTuple):
    """The reply of EQ.STEPS about the entries after an id."""

    added: int
    last: EntryId
    behind: int
    ids: tuple[EntryId, ...] = ()


class LogRange(NamedTuple):
    """The range of one task in a log: entries after `after`, up to `until`."""

    topic: str
    after: EntryId
    until: EntryId
    entries: int


def decode(raw: Mapping[str, Any]) -> Marks:
    return {topic: LogMark(to_id(at), *map(int, numbers)) for topic, (at, *numbers) in raw.items()}


def encode(marks: Marks) -> dict[str, Any]:
    return {topic: [spelled(at), *numbers] for topic, (at, *numbers) in sorted(marks.items())}


def spelled(at: EntryId) -> str:
    return f"{at[0]}-{at[1]}"


def to_id(text: str) -> EntryId:
    """Raises ValueError."""
    ms, _, seq = text.partition("-")
    return int(ms), int(seq or 0)


def first_mark(found: LogSteps, life: int = 0) -> LogMark:
    """The mark before all entries of a log; `found`: the steps after the least id."""
    n = found.added - found.behind
    return LogMark(ID_MIN, n, n, life)


def mark_behind(mark: LogMark, found: LogSteps, taken: int) -> LogMark:
    """The mark this many entries further; `found`: the steps after the mark, with the id of that entry."""
    if taken >= found.behind:
        return mark._replace(at=max(mark.at, found.last), n=found.added)
    n = found.added - found.behind + taken
    return mark._replace(at=found.ids[0] if taken else mark.at, n=n)


def missing(mark: LogMark, found: LogSteps) -> int | None:
    """The number of missing entries after the mark; None: the whole log was deleted, and this is another."""
    gone = found.added - mark.n - found.behind
    # More entries after the mark than were added since: they were added to another log.
    return None if gone < 0 or found.last < mark.at else gone


def begun(start: LogMark | None, end: LogMark) -> LogMark:
    """The beginning of a range that ends at `end`: the first entry if the log is new, or has begun anew."""
    if start is None or start.life != end.life:
        return LogMark(ID_MIN, end.since, end.since, end.life)
    return start


def divided(topic: str, start: LogMark, end: LogMark, step: int, ids: tuple[EntryId, ...]) -> list[LogRange]:
    """The ranges between two marks, divided at the ids of every `step`-th entry."""
    inside = [at for at in ids if start.at < at < end.at]
    bounds = [start.at, *inside, end.at]
    counts = [step] * len(inside) + [end.n - start.n - step * len(inside)]
    return [
        LogRange(topic, after, until, count)
        for after, until, count in zip(bounds, bounds[1:], counts, strict=False)
    ]
