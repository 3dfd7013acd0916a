"""XPENDING, XCLAIM and XAUTOCLAIM: entries that were delivered and not acknowledged."""

from __future__ import annotations

from dataclasses import dataclass

from equipoise.log.call import LogCall, array_of, integer_of, no_group, nothing, show
from equipoise.log.consumer_group import ConsumerGroup
from equipoise.log.errors import SYNTAX, LogCommandError
from equipoise.log.ids import ID_MAX, ID_MIN, EntryId, parse_bound, parse_id, spell_id
from equipoise.log.read import require_place
from equipoise.log.records import ConsumerCreated, EntriesAcked, EntriesPending, GroupMoved
from equipoise.log.topic_log import TopicLog
from equipoise.resp.replies import bulk, integer, null

__all__ = ["xautoclaim", "xclaim", "xpending"]

# Entries that XAUTOCLAIM scans per entry of COUNT.
_LOOKED_AT = 10
_CLAIMED_DEFAULT = 100
_COUNT_MAX = (2**63 - 1) // 16


# --- XPENDING


def xpending(log: TopicLog, call: LogCall) -> bytes:
    words = call.words
    if len(words) == 3:
        return _summary(_group(log, words), call.proto)
    if not 6 <= len(words) <= 9:
        raise LogCommandError(SYNTAX)
    i, idle_ms = 3, 0
    if words[3].lower() == b"idle":
        idle_ms = integer_of(words[4])
        if len(words) < 8:
            raise LogCommandError(SYNTAX)
        i = 5
    count = max(0, integer_of(words[i + 2]))
    start, end = parse_bound(words[i], is_start=True), parse_bound(words[i + 1], is_start=False)
    group = _group(log, words)
    entries = group.pending
    if i + 3 < len(words):
        consumer = group.consumers.get(words[i + 3])
        if consumer is None:
            return array_of([])
        entries = consumer.pending
    rows: list[bytes] = []
    for at, entry in entries.range(start, end):
        idle = call.now_ms - entry.delivered_ms
        if len(rows) >= count:
            break
        if idle_ms and idle < idle_ms:
            continue
        facts = (integer(max(0, idle)), integer(entry.deliveries))
        rows.append(array_of([bulk(spell_id(at)), bulk(entry.consumer.name), *facts]))
    return array_of(rows)


def _summary(group: ConsumerGroup, proto: int) -> bytes:
    entries = group.pending
    if not len(entries):
        return array_of([integer(0), null(proto), null(proto), nothing(proto)])
    consumers = [
        array_of([bulk(consumer.name), bulk(b"%d" % len(consumer.pending))])
        for _, consumer in sorted(group.consumers.items())
        if len(consumer.pending)
    ]
    ends = (bulk(spell_id(entries.first())), bulk(spell_id(entries.last())))
    return array_of([integer(len(entries)), *ends, array_of(consumers)])


def _group(log: TopicLog, words: list[bytes]) -> ConsumerGroup:
    group = log.groups.get(words[2])
    if group is None:
        raise no_group(words[1], words[2])
    return group


# --- XCLAIM


@dataclass(slots=True)
class _Claim:
    """The options of XCLAIM."""

    delivered_ms: int | None = None
    deliveries: int = -1
    is_forced: bool = False
    is_brief: bool = False
    last: EntryId = ID_MIN


def xclaim(log: TopicLog, call: LogCall) -> bytes:
    words, now_ms = call.words, call.now_ms
    group = _group(log, words)
    idle_ms = max(0, integer_of(words[4], "ERR Invalid min-idle-time argument for XCLAIM"))
    ids, i = _leading_ids(words, 5)
    claim = _parse_claim(words, i, now_ms)
    require_place(group, words[3], words[1])
    if claim.last > group.last:
        log.change(GroupMoved(group.name, claim.last, group.entries_read))
    delivered_ms = claim.delivered_ms
    if delivered_ms is None or not 0 <= delivered_ms <= now_ms:
        delivered_ms = now_ms
    pieces: list[bytes] = []
    for at in ids:
        entry, piece = group.pending.by_id.get(at), log.entries.get(at)
        if piece is None:
            if entry is not None:
                log.change(EntriesAcked(group.name, (at,)))
            continue
        if entry is None and not claim.is_forced:
            continue
        if entry is not None and idle_ms and now_ms - entry.delivered_ms < idle_ms:
            continue
        deliveries = 1 if entry is None else entry.deliveries
        if claim.deliveries >= 0:
            deliveries = claim.deliveries
        elif not claim.is_brief:
            deliveries += 1
        _see(log, group, words[3], now_ms)
        log.change(EntriesPending(group.name, words[3], ((at, delivered_ms, deliveries),)))
        pieces.append(bulk(spell_id(at)) if claim.is_brief else piece)
    return array_of(pieces)


def _leading_ids(words: list[bytes], i: int) -> tuple[list[EntryId], int]:
    """The ids from `i` on, and the index of the first word that is not an id."""
    ids: list[EntryId] = []
    for word in words[i:]:
        try:
            ids.append(parse_id(word))
        except LogCommandError:
            break
    return ids, i + len(ids)


def _parse_claim(words: list[bytes], i: int, now_ms: int) -> _Claim:
    claim = _Claim()
    while i < len(words):
        option = words[i].lower()
        has_value = i + 1 < len(words)
        if option == b"force":
            claim.is_forced = True
        elif option == b"justid":
            claim.is_brief = True
        elif option == b"idle" and has_value:
            i += 1
            claim.delivered_ms = now_ms - integer_of(words[i], "ERR Invalid IDLE option argument for XCLAIM")
        elif option == b"time" and has_value:
            i += 1
            claim.delivered_ms = integer_of(words[i], "ERR Invalid TIME option argument for XCLAIM")
        elif option == b"retrycount" and has_value:
            i += 1
            claim.deliveries = integer_of(words[i], "ERR Invalid RETRYCOUNT option argument for XCLAIM")
        elif option == b"lastid" and has_value:
            i += 1
            claim.last = parse_id(words[i])
        else:
            raise LogCommandError(f"ERR Unrecognized XCLAIM option '{show(words[i])}'")
        i += 1
    return claim


def _see(log: TopicLog, group: ConsumerGroup, name: bytes, now_ms: int) -> None:
    """Create the consumer if needed and record its activity."""
    if name not in group.consumers:
        log.change(ConsumerCreated(group.name, name, now_ms))
    group.consumers[name].seen_ms = now_ms


# --- XAUTOCLAIM


def xautoclaim(log: TopicLog, call: LogCall) -> bytes:
    words, now_ms = call.words, call.now_ms
    idle_ms = max(0, integer_of(words[4], "ERR Invalid min-idle-time argument for XAUTOCLAIM"))
    start = parse_bound(words[5], is_start=True)
    count, is_brief = _parse_autoclaim(words)
    group = _group(log, words)
    require_place(group, words[3], words[1])
    claimed: list[bytes] = []
    gone: list[EntryId] = []
    rows: list[tuple[EntryId, int, int]] = []
    attempts = count * _LOOKED_AT
    following = ID_MIN
    for at, entry in group.pending.range(start, ID_MAX):
        if not attempts or not count:
            following = at
            break
        attempts -= 1
        piece = log.entries.get(at)
        if piece is None:
            gone.append(at)
            count -= 1
        elif not idle_ms or now_ms - entry.delivered_ms >= idle_ms:
            rows.append((at, now_ms, entry.deliveries + (not is_brief)))
            claimed.append(bulk(spell_id(at)) if is_brief else piece)
            count -= 1
    if gone:
        log.change(EntriesAcked(group.name, tuple(gone)))
    if rows:
        _see(log, group, words[3], now_ms)
        log.change(EntriesPending(group.name, words[3], tuple(rows)))
    deleted = array_of([bulk(spell_id(at)) for at in gone])
    return array_of([bulk(spell_id(following)), array_of(claimed), deleted])


def _parse_autoclaim(words: list[bytes]) -> tuple[int, bool]:
    count, is_brief = _CLAIMED_DEFAULT, False
    i = 6
    while i < len(words):
        option = words[i].lower()
        if option == b"count" and i + 1 < len(words):
            count = integer_of(words[i + 1], "ERR COUNT must be > 0")
            if not 1 <= count <= _COUNT_MAX:
                raise LogCommandError("ERR COUNT must be > 0")
            i += 1
        elif option == b"justid":
            is_brief = True
        else:
            raise LogCommandError(SYNTAX)
        i += 1
    return count, is_brief
