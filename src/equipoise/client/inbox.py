"""The queue of received messages that the application has not taken yet. Pure.

Bounded in messages and in bytes of payload. When full, it drops the oldest messages, because a slow consumer needs the
latest ones, and puts one gap per topic in their place, with the exact count.

Always true:
    waiting messages and gaps together are at most `messages_max`, payloads at most `bytes_max`;
    taken + dropped + waiting = put, per topic;
    events are taken in the order in which they were put, a gap in the place of its messages.

Batches are stored as received; a Message is created when it is taken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from equipoise.client.events import Event, Gap, GapReason, Message
from equipoise.stream.position import Position

DROPS_MAX = 1_000
"""Separate gaps kept in front of the queue. Beyond it, those of a pattern become one without topic."""


class Batch(NamedTuple):
    """Consecutive messages of one topic. Immutable: several inboxes may share it."""

    topic: str
    pattern: str | None
    epoch: int
    n: int
    """Position of the first; 0 when the server has no positions."""
    payloads: Sequence[bytes]


_Drop: TypeAlias = tuple[str | None, str | None, GapReason]


class Inbox:
    """Owned by one subscription."""

    __slots__ = ("_bytes_max", "_drops", "_entries", "_messages_max", "_taken", "bytes", "messages")

    def __init__(self, messages_max: int, bytes_max: int) -> None:
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._entries: deque[Batch | Gap] = deque()
        # How many of the first batch are taken or dropped.
        self._taken = 0
        # Gaps before the first entry.
        self._drops: dict[_Drop, Gap] = {}
        self.messages = 0
        """Messages and gaps in the queue, without the gaps before the first entry."""
        self.bytes = 0

    def put(self, batch: Batch) -> None:
        self.bytes += sum(map(len, batch.payloads))
        self.messages += len(batch.payloads)
        self._entries.append(batch)
        if self.messages > self._messages_max or self.bytes > self._bytes_max:
            self._drop_oldest()

    def put_gap(self, gap: Gap) -> None:
        # A gap takes a place, too: a hub that flaps must not fill the memory of a stuck consumer.
        self._entries.append(gap)
        self.messages += 1
        if self.messages > self._messages_max:
            self._drop_oldest()

    def take(self) -> Event | None:
        """The next event, or None if the queue is empty."""
        if self._drops:
            return self._take_drop()
        if not self._entries:
            return None
        head = self._entries[0]
        self.messages -= 1
        if isinstance(head, Gap):
            self._entries.popleft()
            return head
        topic, pattern, epoch, n, payloads = head
        index = self._taken
        payload = payloads[index]
        self.bytes -= len(payload)
        if index + 1 == len(payloads):
            self._entries.popleft()
            self._taken = 0
        else:
            self._taken = index + 1
        return Message(topic, payload, Position(epoch, n + index) if n else None, pattern)

    def _take_drop(self) -> Gap:
        return self._drops.pop(next(iter(self._drops)))

    def _drop_oldest(self) -> None:
        while self.messages > self._messages_max or self.bytes > self._bytes_max:
            head = self._entries[0]
            if isinstance(head, Gap):
                self._entries.popleft()
                self.messages -= 1
                self._count_drop(head)
            else:
                self._drop_from(head)

    def _drop_from(self, batch: Batch) -> None:
        """Drop as many messages as necessary from the first batch, beginning with its first one."""
        start = index = self._taken
        end = len(batch.payloads)
        while index < end and (self.messages > self._messages_max or self.bytes > self._bytes_max):
            self.messages -= 1
            self.bytes -= len(batch.payloads[index])
            index += 1
        self._count_drop(Gap(batch.topic, index - start, GapReason.QUEUE_FULL, batch.pattern))
        if index == end:
            self._entries.popleft()
            index = 0
        self._taken = index

    def _count_drop(self, gap: Gap) -> None:
        drop = (gap.topic, gap.pattern, gap.reason)
        if drop not in self._drops and len(self._drops) >= DROPS_MAX and gap.pattern is not None:
            drop = (None, gap.pattern, gap.reason)
            gap = gap._replace(topic=None)
        before = self._drops.get(drop)
        if before is not None:
            gap = gap._replace(missed=_sum(before.missed, gap.missed), span=_sum(before.span, gap.span))
        self._drops[drop] = gap


def _sum(before: int | None, more: int | None) -> int | None:
    return None if before is None or more is None else before + more
