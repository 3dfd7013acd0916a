"""Redeliver entries when they are due; move entries over the delivery limit to the dead-letter topic.

Which entries are due, and when, is state of the log (log/consumer_group.py). This module has the timers: blocked reads
are woken when an entry is due. An entry that is due for the last time is appended to the dead-letter topic, which
another hub may own, with the reason; then it is acknowledged for its group. If the hub fails in between, the next owner
repeats the append with the same producer and token, so the dead-letter topic stores the entry once, as long as it keeps
the token.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.data.reply import REPLY_S, Reply
from equipoise.hub.logs.live_log import LiveLog, LogStage
from equipoise.hub.logs.log_request import LogRequest
from equipoise.log.entries import fields_of
from equipoise.log.ids import EntryId, spell_id
from equipoise.log.records import EntriesAcked
from equipoise.resp.replies import integer

if TYPE_CHECKING:
    from equipoise.hub.data.ports import Timer
    from equipoise.log.consumer_group import ConsumerGroup, PendingEntry
    from equipoise.log.topic_log import TopicLog

__all__ = ["LogRetries"]

# The shortest delays until a log is checked again, in seconds. The longer one is for logs with an entry on its way to
# the dead-letter topic: such an entry stays due.
_LEAST_S = 0.02
_MOVING_LEAST_S = 0.5
# The longest delay: an entry that is due later is checked more than once.
_MOST_S = 60.0


class _Logs(Protocol):
    """What LogRetries needs of HubLogs."""

    @property
    def by_name(self) -> dict[bytes, LiveLog]: ...
    def submit(self, key: bytes, request: LogRequest) -> bytes | Reply: ...
    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Timer: ...
    def now_ms(self) -> int: ...


class LogRetries:
    """Owned by HubLogs."""

    def __init__(self, logs: _Logs) -> None:
        self._logs = logs
        # By log: the time of its next check in milliseconds, and the timer.
        self._timers: dict[bytes, tuple[int, Timer]] = {}
        # Log, group and id of the entries on their way to a dead-letter topic.
        self._moving: set[tuple[bytes, bytes, EntryId]] = set()

    def follow(self, live: LiveLog) -> None:
        """The log was opened, or has changed: check it when an entry of it is due."""
        due_ms = live.log.next_due_ms() if live.log.groups else None
        if due_ms is None:
            return
        known = self._timers.get(live.name)
        if known is not None:
            if known[0] <= due_ms:
                return
            known[1].cancel()
        least_s = _MOVING_LEAST_S if any(name == live.name for name, _, _ in self._moving) else _LEAST_S
        delay_s = min(max(least_s, (due_ms - self._logs.now_ms()) / 1_000), _MOST_S)
        self._timers[live.name] = due_ms, self._logs.call_later(delay_s, partial(self._check, live.name))

    def _check(self, name: bytes) -> None:
        self._timers.pop(name, None)
        live = self._logs.by_name.get(name)
        if live is None or live.stage is not LogStage.OPEN or live.is_sealing:
            return
        # A delivery that is not committed may never have reached a consumer.
        live.when_committed(lambda is_committed: self._send_dead_letters(live) if is_committed else None)
        live.append_now()
        self.follow(live)

    def _send_dead_letters(self, live: LiveLog) -> None:
        """Append the entries that are due for the last time to the dead-letter topics."""
        for group in live.log.groups.values():
            for at, entry in group.dying(self._logs.now_ms()):
                piece, place = live.log.entries.get(at), (live.name, group.name, at)
                if piece is None:
                    live.log.change(EntriesAcked(group.name, (at,)))
                    live.changed()
                elif place not in self._moving:
                    self._moving.add(place)
                    self._move(live, place, _letter(live.name, group, at, entry, piece), group)

    def _move(
        self, live: LiveLog, place: tuple[bytes, bytes, EntryId], words: list[bytes], group: ConsumerGroup
    ) -> None:
        outcome = self._logs.submit(group.policy.dead_letter, LogRequest("xadd", words))

        def answered() -> None:
            self._moving.discard(place)
            answer = outcome if isinstance(outcome, bytes) else b"".join(outcome.pieces or ())
            if answer[:1] == b"$" and self._logs.by_name.get(live.name) is live:
                live.submit(partial(_acknowledge, place[1], place[2]))
            self.follow(live)

        if isinstance(outcome, bytes) or outcome.pieces is not None:
            answered()
        else:
            outcome.owe(answered, 0.0, is_muted=False)
            self._logs.call_later(REPLY_S, outcome.expire)


def _acknowledge(group: bytes, at: EntryId, log: TopicLog) -> bytes:
    known = log.groups.get(group)
    if known is not None and at in known.pending.by_id:
        log.change(EntriesAcked(group, (at,)))
    return integer(1)


def _letter(
    topic: bytes, group: ConsumerGroup, at: EntryId, entry: PendingEntry, piece: bytes
) -> list[bytes]:
    """The XADD to the dead-letter topic: the fields of the entry, and why, from where and after how many deliveries."""
    producer = hashlib.blake2b(b"%d %b%b" % (len(topic), topic, group.name), digest_size=16).hexdigest()
    reason = entry.reason or b"not acknowledged within %d ms" % group.policy.ack_timeout_ms
    facts = {
        b"dead-letter-reason": reason,
        b"dead-letter-topic": topic,
        b"dead-letter-group": group.name,
        b"dead-letter-id": spell_id(at),
        b"dead-letter-deliveries": b"%d" % entry.deliveries,
    }
    words = [b"XADD", group.policy.dead_letter, b"IDMP", producer.encode(), spell_id(at), b"*"]
    return [*words, *fields_of(piece), *(word for fact in facts.items() for word in fact)]
