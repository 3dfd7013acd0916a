"""XGROUP and XACK."""

from __future__ import annotations

from equipoise.log.call import LogCall, integer_of, show
from equipoise.log.consumer_group import UNKNOWN_READ, ConsumerGroup
from equipoise.log.errors import LogCommandError
from equipoise.log.ids import EntryId, parse_id
from equipoise.log.records import (
    ConsumerCreated,
    ConsumerDeleted,
    EntriesAcked,
    GroupCreated,
    GroupDestroyed,
    GroupMoved,
    LogCreated,
)
from equipoise.log.topic_log import TopicLog
from equipoise.resp.replies import OK, integer

__all__ = [
    "group_create",
    "group_createconsumer",
    "group_delconsumer",
    "group_destroy",
    "group_setid",
    "known_group",
    "xack",
]

_NO_KEY = (
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option "
    "to create an empty stream automatically."
)


def group_create(log: TopicLog, call: LogCall) -> bytes:
    words = call.words
    entries_read, makes_log = _parse_options(words)
    if not log.exists and not makes_log:
        raise LogCommandError(_NO_KEY)
    last = _given_id(log, words[4], is_strict=True)
    if not log.exists:
        log.change(LogCreated())
    if words[3] in log.groups:
        raise LogCommandError("BUSYGROUP Consumer Group name already exists")
    log.change(GroupCreated(words[3], last, entries_read))
    return OK


def group_setid(log: TopicLog, call: LogCall) -> bytes:
    words = call.words
    entries_read, _ = _parse_options(words)
    group = known_group(log, words)
    log.change(GroupMoved(group.name, _given_id(log, words[4], is_strict=False), entries_read))
    return OK


def group_destroy(log: TopicLog, call: LogCall) -> bytes:
    if not log.exists:
        raise LogCommandError(_NO_KEY)
    name = call.words[3]
    if name not in log.groups:
        return integer(0)
    log.change(GroupDestroyed(name))
    return integer(1)


def group_createconsumer(log: TopicLog, call: LogCall) -> bytes:
    group = known_group(log, call.words)
    name = call.words[4]
    if name in group.consumers:
        return integer(0)
    log.change(ConsumerCreated(group.name, name, call.now_ms))
    return integer(1)


def group_delconsumer(log: TopicLog, call: LogCall) -> bytes:
    group = known_group(log, call.words)
    consumer = group.consumers.get(call.words[4])
    if consumer is None:
        return integer(0)
    pending = len(consumer.pending)
    log.change(ConsumerDeleted(group.name, consumer.name))
    return integer(pending)


def xack(log: TopicLog, call: LogCall) -> bytes:
    group = log.groups.get(call.words[2])
    if group is None:
        return integer(0)
    ids = dict.fromkeys(parse_id(word) for word in call.words[3:])
    pending = tuple(at for at in ids if at in group.pending.by_id)
    if pending:
        log.change(EntriesAcked(group.name, pending))
    return integer(len(pending))


def known_group(log: TopicLog, words: list[bytes]) -> ConsumerGroup:
    """The group that an XGROUP subcommand names."""
    if not log.exists:
        raise LogCommandError(_NO_KEY)
    group = log.groups.get(words[3])
    if group is None:
        raise LogCommandError(
            f"NOGROUP No such consumer group '{show(words[3])}' for key name '{show(words[2])}'"
        )
    return group


def _given_id(log: TopicLog, word: bytes, *, is_strict: bool) -> EntryId:
    return log.last if word == b"$" else parse_id(word, is_strict=is_strict)


def _parse_options(words: list[bytes]) -> tuple[int, bool]:
    """Parse ENTRIESREAD and, for CREATE, MKSTREAM."""
    subcommand = words[1].lower()
    entries_read, makes_log = UNKNOWN_READ, False
    i = 5
    while i < len(words):
        option = words[i].lower()
        if option == b"mkstream" and subcommand == b"create":
            makes_log = True
            i += 1
        elif option == b"entriesread" and i + 1 < len(words):
            entries_read = integer_of(words[i + 1])
            if entries_read < 0 and entries_read != UNKNOWN_READ:
                raise LogCommandError("ERR value for ENTRIESREAD must be positive or -1")
            i += 2
        else:
            raise LogCommandError(
                f"ERR unknown subcommand or wrong number of arguments for '{show(words[1])}'. Try XGROUP HELP."
            )
    return entries_read, makes_log
