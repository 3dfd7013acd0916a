"""XLEN, XRANGE, XREVRANGE, XREAD and XREADGROUP.

A read of several logs is parsed once (`parse_read`) and served log by log (`serve`): the logs may be at several hubs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from equipoise.log.call import LogCall, array_of, integer_of, no_group, nothing
from equipoise.log.consumer_group import UNKNOWN_READ, Consumer, ConsumerGroup
from equipoise.log.errors import SYNTAX, LogCommandError
from equipoise.log.ids import ID_MAX, EntryId, after, parse_bound, parse_id, spell_id
from equipoise.log.records import ConsumerCreated, EntriesDelivered, EntriesPending
from equipoise.log.topic_log import TopicLog
from equipoise.resp.replies import bulk, integer

__all__ = [
    "REPLY_BYTES_MAX",
    "LogRead",
    "assemble",
    "parse_read",
    "resolve",
    "serve",
    "steps",
    "xlen",
    "xrange",
    "xrevrange",
]

# What one reply brings at most, once it has an entry: a client that wants more asks again from the last id on.
REPLY_BYTES_MAX = 8 * 1024 * 1024

# Ids in one reply of EQ.STEPS.
_STEPS_MAX = 10_000

_NEW = b">"
_WITHIN = " in XREADGROUP with GROUP option"


def xlen(log: TopicLog, call: LogCall) -> bytes:
    return integer(log.entries.count)


def xrange(log: TopicLog, call: LogCall) -> bytes:
    return _range(log, call, call.words[2], call.words[3], is_reverse=False)


def xrevrange(log: TopicLog, call: LogCall) -> bytes:
    return _range(log, call, call.words[3], call.words[2], is_reverse=True)


def _range(log: TopicLog, call: LogCall, low: bytes, high: bytes, *, is_reverse: bool) -> bytes:
    start, end = parse_bound(low, is_start=True), parse_bound(high, is_start=False)
    count: int | None = None
    words = call.words
    for i in range(4, len(words), 2):
        if words[i].lower() != b"count" or i + 1 >= len(words):
            raise LogCommandError(SYNTAX)
        count = max(0, integer_of(words[i + 1]))
    if not log.exists:
        return array_of([])
    if count == 0:
        return nothing(call.proto)
    found = log.entries.range(start, end, is_reverse=is_reverse)
    return array_of([piece for _, piece in _bounded(found, count or 0)])


def _bounded(found: Iterator[tuple[EntryId, bytes]], count: int) -> list[tuple[EntryId, bytes]]:
    """The first so many of them, all if 0; no more than fit into a reply, but at least one."""
    taken: list[tuple[EntryId, bytes]] = []
    size = 0
    for item in found:
        size += len(item[1])
        if taken and size > REPLY_BYTES_MAX:
            break
        taken.append(item)
        if len(taken) == count:
            break
    return taken


def steps(log: TopicLog, call: LogCall) -> bytes:
    """EQ.STEPS topic after step limit: the places at which a reader may divide what is behind an id.

    The reply: how many entries were ever added, the last id, how many entries are behind `after`, and the id of every
    `step`-th of these, at most `limit` ids.
    """
    since, step, limit = parse_id(call.words[2]), integer_of(call.words[3]), integer_of(call.words[4])
    if step < 0 or not 0 <= limit <= _STEPS_MAX or (limit and not step):
        raise LogCommandError(f"ERR a step is at least 1, the limit at most {_STEPS_MAX}")
    start = after(since)
    count, ids = (0, []) if start is None else log.entries.steps(start, step, limit)
    spelled = array_of([bulk(spell_id(at)) for at in ids])
    return array_of([integer(log.entries_added), bulk(spell_id(log.last)), integer(count), spelled])


# --- XREAD and XREADGROUP


@dataclass(slots=True)
class LogRead:
    """What XREAD or XREADGROUP asks for. `group` None: XREAD."""

    keys: list[bytes]
    # As they were given; `resolve` says what they mean for a log.
    starts: list[bytes]
    # 0: all.
    count: int = 0
    # None: does not wait. 0: for ever.
    block_ms: int | None = None
    group: bytes | None = None
    consumer: bytes = b""
    is_acked: bool = False
    # By key, from where on to read once resolved; None: what the group has not got yet.
    since: dict[bytes, EntryId | None] = field(default_factory=dict)


def parse_read(words: list[bytes]) -> LogRead:
    """Raises LogCommandError."""
    name = words[0].lower()
    is_group = name == b"xreadgroup"
    read = LogRead([], [])
    i = 1
    while i < len(words):
        option, left = words[i].lower(), len(words) - 1 - i
        if option == b"block" and left:
            read.block_ms = _milliseconds(words[i + 1])
            i += 2
        elif option == b"count" and left:
            read.count = max(0, integer_of(words[i + 1]))
            i += 2
        elif option == b"group" and left >= 2:
            if not is_group:
                raise LogCommandError(
                    "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead."
                )
            read.group, read.consumer = words[i + 1], words[i + 2]
            i += 3
        elif option == b"noack":
            if not is_group:
                raise LogCommandError(
                    "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead."
                )
            read.is_acked = True
            i += 1
        elif option == b"streams" and left:
            _take_streams(read, words[i + 1 :])
            break
        else:
            raise LogCommandError(SYNTAX)
    if not read.keys:
        raise LogCommandError(SYNTAX)
    if is_group and read.group is None:
        raise LogCommandError("ERR Missing GROUP option for XREADGROUP")
    return read


def _take_streams(read: LogRead, words: list[bytes]) -> None:
    if len(words) % 2:
        raise LogCommandError(
            "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified."
        )
    half = len(words) // 2
    read.keys, read.starts = words[:half], words[half:]


def _milliseconds(word: bytes) -> int:
    number = integer_of(word, "ERR timeout is not an integer or out of range")
    if number < 0:
        raise LogCommandError("ERR timeout is negative")
    return number


def resolve(log: TopicLog, read: LogRead, key: bytes, start: bytes) -> None:
    """Take down from where on this log is to be read: `$`, `+` and `>` mean what they mean now."""
    if read.group is None:
        if start == b"$":
            read.since[key] = log.last
        elif start == b"+":
            # The last entry, or the next one if there is none.
            last = log.entries.last()
            read.since[key] = log.last if last is None else _before(last)
        elif start == _NEW:
            raise LogCommandError(
                "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option."
            )
        else:
            read.since[key] = parse_id(start)
        return
    if read.group not in log.groups:
        raise no_group(key, read.group, _WITHIN)
    if start == b"$":
        raise LogCommandError(
            "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer "
            "by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty "
            "result set."
        )
    read.since[key] = None if start == _NEW else parse_id(start)


def _before(at: EntryId) -> EntryId:
    ms, seq = at
    return (ms, seq - 1) if seq else (ms - 1, 2**64 - 1)


def serve(log: TopicLog, read: LogRead, key: bytes, now_ms: int, proto: int) -> list[bytes] | None:
    """The entries of one log; None if it has none to give. Called again when the log has grown."""
    since = read.since[key]
    if read.group is None:
        assert since is not None, "only groups know what they have got"
        if log.last <= since:
            return None
        start = after(since)
        found = log.entries.range(start) if start is not None else iter(())
        return [piece for _, piece in _bounded(found, read.count)] or None
    group = log.groups.get(read.group)
    if group is None:
        raise no_group(key, read.group, _WITHIN)
    if since is not None:
        consumer = _consumer(log, group, read.consumer, now_ms)
        return _history(log, group, consumer, since, read, now_ms, proto)
    return _deliver(log, group, read, now_ms)


def _consumer(log: TopicLog, group: ConsumerGroup, name: bytes, now_ms: int) -> Consumer:
    if name not in group.consumers:
        log.change(ConsumerCreated(group.name, name, now_ms))
    consumer = group.consumers[name]
    consumer.seen_ms = now_ms
    return consumer


def _deliver(log: TopicLog, group: ConsumerGroup, read: LogRead, now_ms: int) -> list[bytes] | None:
    """Entries that no consumer of the group has got."""
    start = after(group.last)
    found = _bounded(log.entries.range(start), read.count) if start is not None else []
    if not found:
        return None
    _consumer(log, group, read.consumer, now_ms)
    entries_read = group.entries_read
    for at, _ in found:
        if entries_read != UNKNOWN_READ and not log.has_deleted_since(at):
            entries_read += 1
        elif log.entries_added:
            entries_read = log.entries_until(at)
    ids = tuple(at for at, _ in found)
    log.change(EntriesDelivered(group.name, read.consumer, ids, now_ms, entries_read, not read.is_acked))
    return [piece for _, piece in found]


def _history(
    log: TopicLog,
    group: ConsumerGroup,
    consumer: Consumer,
    since: EntryId,
    read: LogRead,
    now_ms: int,
    proto: int,
) -> list[bytes]:
    """What the consumer has got and not acknowledged."""
    pieces: list[bytes] = []
    rows: list[tuple[EntryId, int, int]] = []
    start = after(since)
    pending = consumer.pending.range(start, ID_MAX) if start is not None else iter(())
    size = 0
    for at, entry in pending:
        size += len(pieces[-1]) if pieces else 0
        if (read.count and len(pieces) >= read.count) or size > REPLY_BYTES_MAX:
            break
        piece = log.entries.get(at)
        if piece is None:
            pieces.append(array_of([bulk(spell_id(at)), nothing(proto)]))
        else:
            pieces.append(piece)
            rows.append((at, now_ms, entry.deliveries + 1))
    if rows:
        log.change(EntriesPending(group.name, consumer.name, tuple(rows)))
    return pieces


def assemble(parts: list[tuple[bytes, list[bytes]]], proto: int) -> bytes:
    """The reply: entries by key. None at all: null."""
    if not parts:
        return nothing(proto)
    if proto == 3:
        return b"%%%d\r\n%b" % (len(parts), b"".join(bulk(key) + array_of(pieces) for key, pieces in parts))
    return array_of([array_of([bulk(key), array_of(pieces)]) for key, pieces in parts])
