"""The entries of a batch: offsets in logs and ranges between them. Pure.

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
    # The number at which reading it began.
    since: int
    # How often it was begun anew because the log had been deleted.
    life: int = 0


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
    """Before all entries of a log; `found` is of what is behind the least id."""
    n = found.added - found.behind
    return LogMark(ID_MIN, n, n, life)


def mark_behind(mark: LogMark, found: LogSteps, taken: int) -> LogMark:
    """The mark so many entries further; `found` is of what is behind the mark, with the id of that entry."""
    if taken >= found.behind:
        return mark._replace(at=max(mark.at, found.last), n=found.added)
    n = found.added - found.behind + taken
    return mark._replace(at=found.ids[0] if taken else mark.at, n=n)


def missing(mark: LogMark, found: LogSteps) -> int | None:
    """How many entries behind the mark are gone; None: the whole log was deleted, and this is another."""
    gone = found.added - mark.n - found.behind
    # More behind the mark than were added since: they were added to another log.
    return None if gone < 0 or found.last < mark.at else gone


def begun(start: LogMark | None, end: LogMark) -> LogMark:
    """Where a range begins that ends at `end`: at the first entry if the log is new, or has been begun anew."""
    if start is None or start.life != end.life:
        return LogMark(ID_MIN, end.since, end.since, end.life)
    return start


def divided(topic: str, start: LogMark, end: LogMark, step: int, ids: tuple[EntryId, ...]) -> list[LogRange]:
    """What lies between two marks, divided at the ids of every `step`-th entry."""
    inside = [at for at in ids if start.at < at < end.at]
    bounds = [start.at, *inside, end.at]
    counts = [step] * len(inside) + [end.n - start.n - step * len(inside)]
    return [
        LogRange(topic, after, until, count)
        for after, until, count in zip(bounds, bounds[1:], counts, strict=False)
    ]
