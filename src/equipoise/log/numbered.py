"""Batches with publisher sequence numbers: a resent batch is added once.

A publisher sends one batch at a time, and sends the same one again until it is answered. So the last number and its id,
which the log remembers of each publisher, are enough to answer a repetition as the batch itself was: the entries of a
batch have ids and numbers in a row.
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
    """Of the last message of a batch in the log. 0 and None: it is there, and where is not remembered."""

    number: int
    at: EntryId | None

    def receipt(self, receivers: int) -> bytes:
        """As that of EQ.PUBLISH, and the id."""
        at = null(3) if self.at is None else bulk(spell_id(self.at))
        words = (bulk(TRUNK), integer(DURABLE_EPOCH), integer(self.number), integer(receivers))
        return array((*words, at))


def add_numbered(log: TopicLog, words: Sequence[bytes], now_ms: int) -> NumberedBatch:
    """Add a batch unless it is there. `words`: publisher, run, number of the first message, the messages.

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
