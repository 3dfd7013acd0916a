"""Which entries of a log may be trimmed: by age, count, size, or acknowledgement by every group.

An entry is trimmed as soon as one of the limits is exceeded. Its age is that of its id. Without a group, no entry
counts as consumed.
"""

from __future__ import annotations

from typing import Protocol

from equipoise.log.consumer_group import ConsumerGroup
from equipoise.log.ids import ID_MAX, ID_MIN, EntryId, after
from equipoise.log.records import EntriesTrimmed
from equipoise.log.topic_log import TopicLog

__all__ = ["RetentionLimits", "trim_log"]


class RetentionLimits(Protocol):
    """Limits of the spec of a topic. None: no limit."""

    @property
    def age_s(self) -> float | None: ...
    @property
    def bytes_max(self) -> int | None: ...
    @property
    def until_consumed(self) -> bool: ...


def trim_log(log: TopicLog, limits: RetentionLimits, now_ms: int) -> int:
    """Trim the entries beyond the limits. Returns how many."""
    first = ID_MIN
    if limits.age_s is not None:
        first = (max(0, now_ms - int(limits.age_s * 1_000)), 0)
    if limits.bytes_max is not None and log.entries.bytes > limits.bytes_max:
        first = max(first, _first_within(log, limits.bytes_max))
    if limits.until_consumed and log.groups:
        first = max(first, min(map(_first_needed, log.groups.values())))
    count = log.entries.count
    if not count or log.first >= first:
        return 0
    log.change(EntriesTrimmed(first))
    return count - log.entries.count


def _first_within(log: TopicLog, bytes_max: int) -> EntryId:
    """The first of the last entries that together have at most `bytes_max` bytes."""
    size = log.entries.bytes
    for at, piece in log.entries.range():
        if size <= bytes_max:
            return at
        size -= len(piece)
    return after(log.last) or ID_MAX


def _first_needed(group: ConsumerGroup) -> EntryId:
    """The first entry that the group has not acknowledged."""
    if len(group.pending):
        return group.pending.first()
    return after(group.last) or ID_MAX
