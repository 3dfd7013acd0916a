"""Batches with publisher sequence numbers: a resent batch is added once.

A publisher has one batch in flight and resends it until it receives a reply. The entries of a batch have consecutive
ids and numbers. The log therefore needs only the last number of each publisher and its id to reply to a resent batch as
to the original.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from equipoise.log.append import next_id
from equipoise.log.call import integer_of
from equipoise.log.entries import payload_body
from equipoise.log.errors import LogCommandError
from equipoise.log.ids import ID_MAX, EntryId, spell_id
from equipoise.log.records import ProducerAdvanced
from equipoise.log.topic_log import TopicLog
from equipoise.resp.replies import array, bulk, integer, null
from equipoise.stream.position import DURABLE_EPOCH, TRUNK

__all__ = ["NumberedBatch", "add_numbered"]

_EXHAUSTED = "ERR the ids of this millisecond are exhausted, unable to add the batch"


class NumberedBatch(NamedTuple):
    """The last message of a batch in the log. 0 and None: the log has it; its number and id are unknown."""

    number: int
    at: EntryId | None

    def receipt(self, receivers: int) -> bytes:
        """Encode the reply of EQ.PUBLISH, followed by the id."""
        at = null(3) if self.at is None else bulk(spell_id(self.at))
        words = (bulk(TRUNK), integer(DURABLE_EPOCH), integer(self.number), integer(receivers))
        return array((*words, at))


def add_numbered(log: TopicLog, words: Sequence[bytes], now_ms: int) -> NumberedBatch:
    """Add a batch unless the log has it. `words`: publisher, run, number of the first message, the messages.

    Raises LogCommandError.
    """
    publisher, run, first, payloads = words[0], integer_of(words[1]), integer_of(words[2]), words[3:]
    count = len(payloads)
    last = ProducerAdvanced(publisher, run, first + count - 1)
    is_known, known = log.sequences.known(publisher, run, last.n, count)
    if is_known:
        number = None if known is None else log.entries.number_of(known)
        return NumberedBatch(number or 0, known)
    ms, seq = next_id(log, now_ms, None)
    if seq + count - 1 > ID_MAX[1]:
        raise LogCommandError(_EXHAUSTED)
    log.change_all(ms, seq, list(map(payload_body, payloads)))
    log.change(last)
    return NumberedBatch(log.entries.number, log.last)
