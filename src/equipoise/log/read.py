"""XLEN, XRANGE, XREVRANGE, XREAD, XREADGROUP and EQ.READGROUP.

A read of several logs is parsed once (`parse_read`) and executed per log (`serve`), because the logs may be at several
hubs.

EQ.READGROUP is XREADGROUP for durable subscribers: each entry is returned with its delivery count, and reading pending
entries does not increase the count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from equipoise.log.call import LogCall, array_of, integer_of, no_group, nothing, show
from equipoise.log.consumer_group import UNKNOWN_READ, Consumer, ConsumerGroup, PendingEntry
from equipoise.log.errors import SYNTAX, LogCommandError
from equipoise.log.ids import ID_MAX, EntryId, after, parse_bound, parse_id, spell_id
from equipoise.log.records import ConsumerCreated, EntriesAcked, EntriesDelivered, EntriesPending
from equipoise.log.topic_log import TopicLog
from equipoise.resp.replies import bulk, integer, null

__all__ = [
    "REPLY_BYTES_MAX",
    "WINDOW_BYTES",
    "WINDOW_ENTRIES",
    "WITHIN",
    "LogRead",
    "assemble",
    "group_start",
    "parse_read",
    "require_place",
    "resolve",
    "serve",
    "steps",
    "xlen",
    "xrange",
    "xrevrange",
]

# Maximum bytes of entries in a reply, which has at least one entry. A client reads on from the last id.
REPLY_BYTES_MAX = 8 * 1024 * 1024

# Ids in one reply of EQ.STEPS.
_STEPS_MAX = 10_000
# Limits of unacknowledged entries per durable subscriber.
WINDOW_ENTRIES = 10_000
WINDOW_BYTES = 32 * 1024 * 1024

_NEW = b">"
WITHIN = " in XREADGROUP with GROUP option"


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
    """The first `count` entries (0: all) that fit into a reply, at least one."""
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
    """EQ.STEPS topic after step limit: positions at which a reader can split the entries after an id.

    Returns the number of entries ever added, the last id, the number of entries after `after`, and the id of every
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
    """The arguments of XREAD or XREADGROUP. `group` None: XREAD."""

    keys: list[bytes]
    # As given; `resolve` interprets them for a log.
    starts: list[bytes]
    # 0: all.
    count: int = 0
    # None: does not block. 0: blocks without a timeout.
    block_ms: int | None = None
    group: bytes | None = None
    consumer: bytes = b""
    is_acked: bool = False
    # EQ.READGROUP.
    is_counted: bool = False
    # Start by key, once resolved; None: entries not yet delivered to the group.
    since: dict[bytes, EntryId | None] = field(default_factory=dict)


def parse_read(words: list[bytes]) -> LogRead:
    """Raises LogCommandError."""
    name = words[0].lower()
    is_group = name != b"xread"
    read = LogRead([], [], is_counted=name == b"eq.readgroup")
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
    """Resolve where to start in this log: `$`, `+` and `>` refer to the present state."""
    if read.group is None:
        if start == b"$":
            read.since[key] = log.last
        elif start == b"+":
            # The last entry, or the next one if the log is empty.
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
        raise no_group(key, read.group, WITHIN)
    require_place(log.groups[read.group], read.consumer, key)
    read.since[key] = group_start(start)


def group_start(start: bytes) -> EntryId | None:
    """Where a consumer starts in its pending entries; None: entries new to its group. Raises LogCommandError."""
    if start == b"$":
        raise LogCommandError(
            "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer "
            "by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty "
            "result set."
        )
    return None if start == _NEW else parse_id(start)


def _before(at: EntryId) -> EntryId:
    ms, seq = at
    return (ms, seq - 1) if seq else (ms - 1, 2**64 - 1)


def serve(log: TopicLog, read: LogRead, key: bytes, now_ms: int, proto: int) -> list[bytes] | None:
    """The entries of one log; None if it has none to deliver. Called again after the log has grown."""
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
        raise no_group(key, read.group, WITHIN)
    require_place(group, read.consumer, key)
    if since is not None:
        consumer = _consumer(log, group, read.consumer, now_ms)
        return _history(log, group, consumer, since, read, now_ms, proto)
    if read.is_acked:
        return _deliver(log, group, read, read.count, now_ms, proto)
    again = _deliver_again(log, group, read, now_ms)
    left = read.count - len(again)
    new = _deliver(log, group, read, left, now_ms, proto) if left or not read.count else None
    if not again and new is None:
        _require_room(log, group, read.consumer, key)
    return again + (new or []) or None


def _require_room(log: TopicLog, group: ConsumerGroup, name: bytes, key: bytes) -> None:
    """Refuse a durable subscriber that reached its limit of unacknowledged entries while more entries are available."""
    start, reader = after(group.last), group.consumers.get(name)
    if start is None or reader is None or not group.is_held_by(name):
        return
    if next(log.entries.range(start), None) is not None:
        pending = reader.pending
        raise LogCommandError(
            f"WINDOW {len(pending)} entries ({pending.bytes} bytes) of '{show(key)}' are not acknowledged by "
            f"'{show(group.name)}': acknowledge some of them to get more"
        )


def require_place(group: ConsumerGroup, consumer: bytes, key: bytes) -> None:
    """Refuse a consumer that was displaced by another."""
    if group.is_displaced(consumer):
        raise LogCommandError(
            f"DISPLACED a durable subscriber has attached to '{show(group.name)}' of '{show(key)}' and reads in the "
            f"place of '{show(consumer)}': subscribe under another name, or attach again to take its place"
        )


def _consumer(log: TopicLog, group: ConsumerGroup, name: bytes, now_ms: int) -> Consumer:
    if name not in group.consumers:
        log.change(ConsumerCreated(group.name, name, now_ms))
    consumer = group.consumers[name]
    consumer.seen_ms = now_ms
    return consumer


def _deliver_again(log: TopicLog, group: ConsumerGroup, read: LogRead, now_ms: int) -> list[bytes]:
    """Deliver entries that are due for redelivery."""
    due = group.due(now_ms)
    taken: list[tuple[EntryId, PendingEntry, bytes]] = []
    trimmed = tuple(at for at, _ in due if log.entries.get(at) is None)
    if trimmed:
        log.change(EntriesAcked(group.name, trimmed))
    size = 0
    for at, entry in due:
        piece = log.entries.get(at)
        if piece is None:
            continue
        size += len(piece)
        if (read.count and len(taken) >= read.count) or (taken and size > REPLY_BYTES_MAX):
            break
        taken.append((at, entry, piece))
    if not taken:
        return []
    _consumer(log, group, read.consumer, now_ms)
    rows = tuple((at, now_ms, entry.deliveries + 1) for at, entry, _ in taken)
    log.change(EntriesPending(group.name, read.consumer, rows))
    return [_counted(read, piece, row[2]) for (_, _, piece), row in zip(taken, rows, strict=True)]


def _deliver(
    log: TopicLog, group: ConsumerGroup, read: LogRead, count: int, now_ms: int, proto: int
) -> list[bytes] | None:
    """Deliver the first `count` entries that are new to the group; all if `count` is 0."""
    start = after(group.last)
    if start is None:
        return None
    found = log.entries.range(start)
    reader = group.consumers.get(read.consumer)
    if reader is not None and group.is_held_by(reader.name):
        found = _within_window(reader, found)
    taken = _bounded(found, count)
    if not taken:
        return None
    _consumer(log, group, read.consumer, now_ms)
    missed = log.missed(group) if read.is_counted else 0
    entries_read = group.entries_read + missed
    for at, _ in taken:
        if entries_read != UNKNOWN_READ and not log.has_deleted_since(at):
            entries_read += 1
        elif log.entries_added:
            entries_read = log.entries_until(at)
    ids = tuple(at for at, _ in taken)
    log.change(EntriesDelivered(group.name, read.consumer, ids, now_ms, entries_read, not read.is_acked))
    # A gap item: the id 0-0, null fields, and the number of trimmed entries that the group missed.
    gap = [array_of([bulk(b"0-0"), null(proto), integer(missed)])] if missed else []
    return gap + [_counted(read, piece, 1) for _, piece in taken]


def _within_window(
    consumer: Consumer, found: Iterator[tuple[EntryId, bytes]]
) -> Iterator[tuple[EntryId, bytes]]:
    entries, size = len(consumer.pending), consumer.pending.bytes
    for at, piece in found:
        entries += 1
        size += len(piece)
        if entries > WINDOW_ENTRIES or (size > WINDOW_BYTES and entries > 1):
            return
        yield at, piece


def _counted(read: LogRead, piece: bytes, deliveries: int) -> bytes:
    """The entry, with its delivery count for EQ.READGROUP."""
    return b"*3%b%b" % (piece[2:], integer(deliveries)) if read.is_counted else piece


def _history(
    log: TopicLog,
    group: ConsumerGroup,
    consumer: Consumer,
    since: EntryId,
    read: LogRead,
    now_ms: int,
    proto: int,
) -> list[bytes]:
    """The entries pending for the consumer."""
    pieces: list[bytes] = []
    rows: list[tuple[EntryId, int, int]] = []
    start = after(since)
    pending = consumer.pending.range(start, ID_MAX) if start is not None else iter(())
    size = 0
    for at, entry in pending:
        if read.is_counted and entry.reason:
            # Negatively acknowledged: redelivered when it is due.
            continue
        size += len(pieces[-1]) if pieces else 0
        if (read.count and len(pieces) >= read.count) or size > REPLY_BYTES_MAX:
            break
        piece = log.entries.get(at)
        if piece is None:
            gone = array_of([bulk(spell_id(at)), nothing(proto)])
            pieces.append(_counted(read, gone, entry.deliveries))
        elif read.is_counted:
            pieces.append(_counted(read, piece, entry.deliveries))
        else:
            pieces.append(piece)
            rows.append((at, now_ms, entry.deliveries + 1))
    if rows:
        log.change(EntriesPending(group.name, consumer.name, tuple(rows)))
    return pieces


def assemble(parts: list[tuple[bytes, list[bytes]]], proto: int) -> bytes:
    """Encode the reply: entries by key; null without any."""
    if not parts:
        return nothing(proto)
    if proto == 3:
        return b"%%%d\r\n%b" % (len(parts), b"".join(bulk(key) + array_of(pieces) for key, pieces in parts))
    return array_of([array_of([bulk(key), array_of(pieces)]) for key, pieces in parts])
