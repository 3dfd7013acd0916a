"""XINFO STREAM, XINFO GROUPS and XINFO CONSUMERS."""

from __future__ import annotations

from itertools import islice

from equipoise.log.call import LogCall, array_of, integer_of, show
from equipoise.log.consumer_group import UNKNOWN_READ, Consumer, ConsumerGroup
from equipoise.log.errors import NO_SUCH_KEY, LogCommandError
from equipoise.log.ids import ID_MAX, ID_MIN, spell_id
from equipoise.log.topic_log import TopicLog
from equipoise.resp.replies import bulk, integer, mapping, null

__all__ = ["info_consumers", "info_groups", "info_stream"]

_SHOWN_DEFAULT = 10


def info_stream(log: TopicLog, call: LogCall) -> bytes:
    _require(log)
    words = call.words
    is_full, shown = False, _SHOWN_DEFAULT
    if len(words) > 3:
        is_full, shown = True, _parse_full(words)
    entries = log.entries
    facts: list[tuple[str, bytes]] = [
        ("length", integer(entries.count)),
        ("radix-tree-keys", integer(entries.blocks)),
        # Redis's field. There is no radix tree here: as many nodes as Redis needs for one without common prefixes.
        ("radix-tree-nodes", integer(entries.blocks + 1)),
        ("last-generated-id", bulk(spell_id(log.last))),
        ("max-deleted-entry-id", bulk(spell_id(log.max_deleted))),
        ("entries-added", integer(log.entries_added)),
        ("recorded-first-entry-id", bulk(spell_id(log.first))),
    ]
    if is_full:
        pieces = [piece for _, piece in islice(entries.range(), shown or None)]
        groups = [_full_group(log, group, shown, call.proto) for _, group in sorted(log.groups.items())]
        facts += [("entries", array_of(pieces)), ("groups", array_of(groups))]
    else:
        first = next((piece for _, piece in entries.range()), None)
        last = next((piece for _, piece in entries.range(is_reverse=True)), None)
        facts += [
            ("groups", integer(len(log.groups))),
            ("first-entry", null(call.proto) if first is None else first),
            ("last-entry", null(call.proto) if last is None else last),
        ]
    return _map(facts, call.proto)


def _parse_full(words: list[bytes]) -> int:
    """Parse XINFO STREAM key FULL [COUNT n]: the number of entries to show; 0: all."""
    if words[3].lower() != b"full" or len(words) not in (4, 6):
        raise _syntax(words)
    if len(words) == 4:
        return _SHOWN_DEFAULT
    if words[4].lower() != b"count":
        raise _syntax(words)
    count = integer_of(words[5])
    return count if count >= 0 else _SHOWN_DEFAULT


def _syntax(words: list[bytes]) -> LogCommandError:
    return LogCommandError(
        f"ERR unknown subcommand or wrong number of arguments for '{show(words[1])}'. Try XINFO HELP."
    )


def _full_group(log: TopicLog, group: ConsumerGroup, shown: int, proto: int) -> bytes:
    pending = [
        array_of(
            [
                bulk(spell_id(at)),
                bulk(entry.consumer.name),
                integer(entry.delivered_ms),
                integer(entry.deliveries),
            ]
        )
        for at, entry in islice(group.pending.range(ID_MIN, ID_MAX), shown or None)
    ]
    consumers = [_full_consumer(each, shown, proto) for _, each in sorted(group.consumers.items())]
    facts = [
        ("name", bulk(group.name)),
        ("last-delivered-id", bulk(spell_id(group.last))),
        *_progress(log, group, proto),
        ("pel-count", integer(len(group.pending))),
        ("pending", array_of(pending)),
        ("consumers", array_of(consumers)),
    ]
    return _map(facts, proto)


def _full_consumer(consumer: Consumer, shown: int, proto: int) -> bytes:
    pending = [
        array_of([bulk(spell_id(at)), integer(entry.delivered_ms), integer(entry.deliveries)])
        for at, entry in islice(consumer.pending.range(ID_MIN, ID_MAX), shown or None)
    ]
    facts = [
        ("name", bulk(consumer.name)),
        ("seen-time", integer(consumer.seen_ms)),
        ("pel-count", integer(len(consumer.pending))),
        ("pending", array_of(pending)),
    ]
    return _map(facts, proto)


def info_groups(log: TopicLog, call: LogCall) -> bytes:
    _require(log)
    rows = [
        _map(
            [
                ("name", bulk(name)),
                ("consumers", integer(len(group.consumers))),
                ("pending", integer(len(group.pending))),
                ("last-delivered-id", bulk(spell_id(group.last))),
                *_progress(log, group, call.proto),
            ],
            call.proto,
        )
        for name, group in sorted(log.groups.items())
    ]
    return array_of(rows)


def info_consumers(log: TopicLog, call: LogCall) -> bytes:
    _require(log)
    key, name = call.words[2], call.words[3]
    group = log.groups.get(name)
    if group is None:
        raise LogCommandError(f"NOGROUP No such consumer group '{show(name)}' for key name '{show(key)}'")
    rows = [
        _map(
            [
                ("name", bulk(each.name)),
                ("pending", integer(len(each.pending))),
                ("idle", integer(max(0, call.now_ms - each.seen_ms))),
            ],
            call.proto,
        )
        for _, each in sorted(group.consumers.items())
    ]
    return array_of(rows)


def _progress(log: TopicLog, group: ConsumerGroup, proto: int) -> list[tuple[str, bytes]]:
    lag = log.lag(group)
    read = null(proto) if group.entries_read == UNKNOWN_READ else integer(group.entries_read)
    return [("entries-read", read), ("lag", null(proto) if lag is None else integer(lag))]


def _require(log: TopicLog) -> None:
    if not log.exists:
        raise LogCommandError(NO_SUCH_KEY)


def _map(facts: list[tuple[str, bytes]], proto: int) -> bytes:
    return mapping({bulk(name.encode()): value for name, value in facts}, proto)
