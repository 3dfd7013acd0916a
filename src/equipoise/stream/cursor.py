"""Track a stream by position: detect duplicates, holes and new epochs.

A cursor holds the position after the last message. Messages that arrive are compared with it:
    position is the next one     in order
    before the next one          a duplicate, skipped
    after it, same epoch         a hole of known size
    greater epoch                a gap of unknown size
    smaller epoch                a duplicate: that epoch has ended
A position is never passed twice, except through `resume`, which accepts the position that a hub gives for its stream;
unless that hub may be a relay that lags. When a topic has moved, `open` gives the position that the new epoch follows,
so there is no gap. The subscriber handles gaps.
"""

from __future__ import annotations

from typing import NamedTuple


class Verdict(NamedTuple):
    """How to handle a batch: skip the first `skip` messages, and report `missed` before the rest."""

    skip: int
    missed: int | None
    """Number of missed messages; None: unknown, possibly 0."""


IN_ORDER = Verdict(0, 0)


def repeated(epoch: int, last_n: int, part_epoch: int, n: int, count: int) -> int:
    """How many of `count` messages from (part_epoch, n) on a stream at position (epoch, last_n) has passed."""
    if part_epoch != epoch:
        return count if part_epoch < epoch else 0
    return min(count, max(0, last_n + 1 - n))


class Cursor:
    """The position of one stream at one subscriber. Changes through `resume`, `accept` and `open`."""

    __slots__ = ("_floor", "behind", "epoch", "next_n")

    def __init__(self, epoch: int = -1, next_n: int = 0, *, floor: tuple[int, int] = (-1, -1)) -> None:
        """`floor`: the position up to which a returning subscriber has the stream."""
        # Epochs on the wire are never negative, so -1 is before all of them.
        self.epoch = epoch
        self.next_n = next_n
        self._floor = floor
        # The position of a hub's stream that seems to lag by whole epochs, until it has caught up.
        self.behind: tuple[int, int] | None = None

    @property
    def position(self) -> tuple[int, int]:
        """Epoch and n of the last message."""
        return self.epoch, self.next_n - 1

    def resume(self, epoch: int, last_n: int, *, may_lag: bool = False) -> int | None:
        """Follow a subscription that begins after (epoch, last_n); return how many messages were missed until there."""
        self.behind = None
        known = self.position if self.epoch >= 0 else self._floor
        if may_lag and (epoch, last_n) < known and not self._is_restarted(epoch):
            self.epoch, self.next_n = known[0], known[1] + 1
            self.behind = (epoch, last_n) if epoch < self.epoch else None
            return 0
        if self.epoch < 0:
            missed: int | None = 0
        elif epoch != self.epoch or last_n + 1 < self.next_n:
            missed = None
        else:
            missed = last_n + 1 - self.next_n
        self._leave_epoch()
        self.epoch, self.next_n = epoch, last_n + 1
        return missed

    def _leave_epoch(self) -> None:
        """Note the present epoch, if a message of it has arrived."""
        if self.next_n > 1:
            self._floor = self.position

    def _is_restarted(self, epoch: int) -> bool:
        """Whether a stream in a lower epoch is not behind: no message of the present epoch has arrived.

        Its hub may have restarted with an earlier clock before it sent the first one. Epochs of which messages have
        arrived are lower still.
        """
        return self.epoch >= 0 and self.next_n <= 1 and epoch > self._floor[0]

    def accept(self, epoch: int, n: int, count: int) -> Verdict:
        """Accept a batch of `count` messages, the first at position n."""
        if epoch == self.epoch:
            expected = self.next_n
            self.behind = None
            if n == expected:
                self.next_n = n + count
                return IN_ORDER
            if n > expected:
                self.next_n = n + count
                return Verdict(0, n - expected)
            self.next_n = max(expected, n + count)
            return Verdict(repeated(epoch, expected - 1, epoch, n, count), 0)
        if epoch < self.epoch:
            return Verdict(count, 0)
        self.epoch, self.next_n = epoch, n + count
        return Verdict(0, None)

    def open(self, epoch: int, after_epoch: int, after_n: int, at: int = 0) -> int | None:
        """The stream continues in a new epoch, after (after_epoch, after_n); return how many were missed until there.

        `at`: it continues after that position of the epoch, which may be the current one.
        """
        if epoch <= self.epoch:
            missed = 0
            if epoch == self.epoch:
                self.behind = None
                missed = max(0, at + 1 - self.next_n)
                self.next_n += missed
            return missed
        lost = max(0, after_n + 1 - self.next_n) if after_epoch == self.epoch else None
        self._leave_epoch()
        self.epoch, self.next_n = epoch, at + 1
        return None if lost is None else lost + at


class PatternCursor:
    """The positions of topics received by a pattern, for the latest `topics_max` topics.

    The first batch of a topic is in order: a pattern subscription has no positions of streams.
    """

    __slots__ = ("_topics", "_topics_max")

    def __init__(self, topics_max: int) -> None:
        self._topics: dict[tuple[bytes, bytes], Cursor] = {}
        self._topics_max = topics_max

    def forget(self) -> None:
        """Discard all positions after a reconnection: they do not show what was missed."""
        self._topics.clear()

    def accept(self, topic: tuple[bytes, bytes], epoch: int, n: int, count: int) -> Verdict:
        """Accept a batch of one stream. `topic`: the names of the topic and of the stream."""
        cursor = self._topics.get(topic)
        if cursor is None:
            if len(self._topics) >= self._topics_max:
                del self._topics[next(iter(self._topics))]
            self._topics[topic] = Cursor(epoch, n + count)
            return IN_ORDER
        if epoch > cursor.epoch and n == 1:
            # A hub removes an idle topic without subscribers by name and numbers it from 1 when it is used again; or
            # the topic has moved. This connection existed throughout, so nothing was missed: losses with a dead hub
            # are reported separately (eq.gap).
            cursor.resume(epoch, count)
            return IN_ORDER
        return cursor.accept(epoch, n, count)
