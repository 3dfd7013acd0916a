"""Which entries a batch has: marks in logs, and ranges between them. Pure.

A mark is the id of an entry and how many entries had been added to the log up to it. Ids say what to read, the numbers
how much that must be: entries that were trimmed or deleted before they were read are noticed by count.

Always true: two states alone say which entries a batch has, so a batch that is repeated has the same ones.
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
    """How far a log has been read."""

    at: EntryId
    n: int
    # The number at which reading it began. It changes when the log was deleted, and is begun anew.
    since: int


Marks = dict[str, LogMark]


class LogSteps(NamedTuple):
    """What EQ.STEPS answers of the entries behind an id."""

    added: int
    last: EntryId
    behind: int
    ids: tuple[EntryId, ...] = ()


class LogRange(NamedTuple):
    """What one task reads of a log: entries behind `after`, up to `until`."""

    topic: str
    after: EntryId
    until: EntryId
    entries: int


def decode(raw: Mapping[str, Any]) -> Marks:
    return {topic: LogMark(to_id(at), int(n), int(since)) for topic, (at, n, since) in raw.items()}


def encode(marks: Marks) -> dict[str, Any]:
    return {topic: [spelled(mark.at), mark.n, mark.since] for topic, mark in sorted(marks.items())}


def spelled(at: EntryId) -> str:
    return f"{at[0]}-{at[1]}"


def to_id(text: str) -> EntryId:
    """Raises ValueError."""
    ms, _, seq = text.partition("-")
    return int(ms), int(seq or 0)


def first_mark(found: LogSteps) -> LogMark:
    """Before all entries of a log; `found` is of what is behind the least id."""
    n = found.added - found.behind
    return LogMark(ID_MIN, n, n)


def mark_behind(mark: LogMark, found: LogSteps, taken: int) -> LogMark:
    """The mark so many entries further; `found` is of what is behind the mark, with the id of that entry."""
    if taken >= found.behind:
        return LogMark(max(mark.at, found.last), found.added, mark.since)
    n = found.added - found.behind + taken
    return LogMark(found.ids[0] if taken else mark.at, n, mark.since)


def missing(mark: LogMark, found: LogSteps) -> int | None:
    """How many entries behind the mark are gone; None: the whole log was deleted, and this is another."""
    if found.added < mark.n or found.last < mark.at:
        return None
    return max(0, found.added - mark.n - found.behind)


def begun(start: LogMark | None, end: LogMark) -> LogMark:
    """Where a range begins that ends at `end`: at the first entry if the log is new, or has been begun anew."""
    return LogMark(ID_MIN, end.since, end.since) if start is None or start.since != end.since else start


def divided(topic: str, start: LogMark, end: LogMark, step: int, ids: tuple[EntryId, ...]) -> list[LogRange]:
    """What lies between two marks, divided at the ids of every `step`-th entry."""
    inside = [at for at in ids if start.at < at < end.at]
    bounds = [start.at, *inside, end.at]
    counts = [step] * len(inside) + [end.n - start.n - step * len(inside)]
    return [
        LogRange(topic, after, until, count)
        for after, until, count in zip(bounds, bounds[1:], counts, strict=False)
    ]
