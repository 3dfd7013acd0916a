"""EQ.GROUP: durable subscribers and redelivery.

A durable subscriber is a consumer group of its own, or a consumer of a group that several subscribers share. It
attaches before it reads, and after each loss of its connection; from then on its earlier reads cannot take entries. It
first receives its pending entries, then new ones, both by EQ.READGROUP.

  ATTACH topic group subscriber client serial [SHARED] [START id]
                     the consumer to read as, and whether the subscriber is new
  ACKUPTO topic group consumer id    acknowledge the consumer's pending entries up to the id
  NACK topic group delay-ms reason id [id …]
                     redeliver the entries after the delay
  SET topic group [ACKTIMEOUT ms] [DELIVERIES n DEADLETTER topic]
                     redeliver unacknowledged entries after a timeout, up to a number of times
  RESET topic group id               start again after the id, without pending entries
  SHOW topic group                   state of the group
"""

from __future__ import annotations

from equipoise.log.call import LogCall, array_of, integer_of, option_value, show
from equipoise.log.consumer_group import ConsumerGroup, RetryPolicy
from equipoise.log.errors import SYNTAX, LogCommandError
from equipoise.log.groups import known_group
from equipoise.log.ids import ID_MIN, EntryId, before, parse_id, spell_id
from equipoise.log.records import (
    ConsumerAttached,
    EntriesAckedUpTo,
    EntriesRefused,
    GroupCreated,
    GroupReset,
    LogCreated,
    RetryPolicySet,
)
from equipoise.log.topic_log import TopicLog
from equipoise.resp.replies import OK, bulk, integer, mapping, null

__all__ = [
    "NAME_BYTES_MAX",
    "group_acks_up_to",
    "group_attach",
    "group_nack",
    "group_reset",
    "group_set",
    "group_show",
]

# Maximum length of the names of groups, subscribers and clients, and of the reason of a negative ack.
NAME_BYTES_MAX = 256
# A day. A longer delay is probably a wrong unit.
_MS_MAX = 24 * 60 * 60 * 1_000
_DELIVERIES_MAX = 1_000_000


def group_attach(log: TopicLog, call: LogCall) -> bytes:
    words = call.words
    name, subscriber, client = words[3:6]
    serial = integer_of(words[6])
    is_shared, start = _parse_attach(words)
    if not 1 <= len(name) <= NAME_BYTES_MAX or not 1 <= len(subscriber) <= NAME_BYTES_MAX:
        raise LogCommandError(f"ERR the name of a durable subscriber has 1 to {NAME_BYTES_MAX} bytes")
    if b"@" in client or not 1 <= len(client) <= NAME_BYTES_MAX:
        raise LogCommandError("ERR the name of the client has to be given, and has no '@'")
    group = log.groups.get(name)
    former = b"" if group is None else group.holders.get(subscriber, b"")
    held_by, former_serial = _parse_consumer(former)
    if held_by == client and serial <= former_serial:
        raise LogCommandError(f"STALE '{show(subscriber)}' has attached again since")
    if group is None:
        last = _behind(log, start)
        if not log.exists:
            log.change(LogCreated())
        log.change(GroupCreated(name, last, log.entries_until(last)))
    consumer = b"%b@%b.%d" % (subscriber, client, serial)
    is_restarted = held_by != client
    log.change(ConsumerAttached(name, subscriber, consumer, call.now_ms, not is_shared, is_restarted))
    return array_of([bulk(consumer), integer(group is None), bulk(spell_id(log.groups[name].last))])


def _behind(log: TopicLog, start: bytes, *, is_strict: bool = True) -> EntryId:
    """The id after which to start: an id, `$` for the last entry, or `#5` for the fifth."""
    if start == b"$":
        return log.last
    if start[:1] != b"#":
        return parse_id(start, is_strict=is_strict)
    number = integer_of(start[1:])
    return log.last if number >= log.entries.number else log.entries.id_up_to(number) or ID_MIN


def _parse_attach(words: list[bytes]) -> tuple[bool, bytes]:
    is_shared, start, i = False, b"$", 7
    while i < len(words):
        option = words[i].lower()
        if option == b"shared":
            is_shared = True
            i += 1
        elif option == b"start":
            start = option_value(words, i)
            i += 2
        else:
            raise LogCommandError(SYNTAX)
    return is_shared, start


def _parse_consumer(consumer: bytes) -> tuple[bytes, int]:
    """The client and the serial number in the name of a holder."""
    client, _, serial = consumer.rpartition(b"@")[2].rpartition(b".")
    return client, int(serial) if serial.isdigit() else -1


def group_acks_up_to(log: TopicLog, call: LogCall) -> bytes:
    group = log.groups.get(call.words[3])
    last = parse_id(call.words[5])
    consumer = None if group is None else group.consumers.get(call.words[4])
    if group is None or consumer is None:
        return integer(0)
    were_pending = len(group.pending)
    if next(consumer.pending.range(ID_MIN, last), None) is not None:
        log.change(EntriesAckedUpTo(group.name, consumer.name, last))
    return integer(were_pending - len(group.pending))


def group_nack(log: TopicLog, call: LogCall) -> bytes:
    words = call.words
    group = known_group(log, words)
    delay_ms = _milliseconds(words[4])
    reason = words[5][:NAME_BYTES_MAX] or b"refused"
    ids = dict.fromkeys(parse_id(word) for word in words[6:])
    pending = tuple(at for at in ids if at in group.pending.by_id)
    if pending:
        log.change(EntriesRefused(group.name, pending, call.now_ms + max(1, delay_ms), reason))
    return integer(len(pending))


def group_set(log: TopicLog, call: LogCall) -> bytes:
    group = known_group(log, call.words)
    policy = parse_policy(call.words, 4)
    if policy.dead_letter == call.words[2]:
        raise LogCommandError("ERR a topic cannot be its own dead-letter topic")
    if policy != group.policy:
        log.change(RetryPolicySet(group.name, *policy))
    return OK


def parse_policy(words: list[bytes], i: int) -> RetryPolicy:
    timeout_ms, deliveries, dead_letter = 0, 0, b""
    while i < len(words):
        option, value = words[i].lower(), option_value(words, i)
        if option == b"acktimeout":
            timeout_ms = _milliseconds(value)
        elif option == b"deliveries":
            deliveries = integer_of(value)
            if not 0 <= deliveries <= _DELIVERIES_MAX:
                raise LogCommandError(f"ERR DELIVERIES is a number from 0 to {_DELIVERIES_MAX}")
        elif option == b"deadletter":
            dead_letter = value
        else:
            raise LogCommandError(SYNTAX)
        i += 2
    if bool(deliveries) != bool(dead_letter):
        raise LogCommandError(
            "ERR DELIVERIES and DEADLETTER go together: name the topic that gets the entries"
        )
    return RetryPolicy(timeout_ms, deliveries, dead_letter)


def _milliseconds(word: bytes) -> int:
    number = integer_of(word)
    if not 0 <= number <= _MS_MAX:
        raise LogCommandError(f"ERR a time is a number of milliseconds from 0 to {_MS_MAX}")
    return number


def group_reset(log: TopicLog, call: LogCall) -> bytes:
    group = known_group(log, call.words)
    start = call.words[4]
    last = _behind(log, start, is_strict=False)
    log.change(GroupReset(group.name, last, log.entries_until(last)))
    return OK


def group_show(log: TopicLog, call: LogCall) -> bytes:
    group = known_group(log, call.words)
    lag, policy = log.lag(group), group.policy
    facts = [
        ("name", bulk(group.name)),
        ("mark", bulk(spell_id(mark_of(group)))),
        ("last-delivered-id", bulk(spell_id(group.last))),
        ("lag", null(call.proto) if lag is None else integer(lag)),
        ("pending", integer(len(group.pending))),
        ("pending-bytes", integer(group.pending.bytes)),
        ("is-exclusive", integer(group.is_exclusive)),
        ("ack-timeout-ms", integer(policy.ack_timeout_ms)),
        ("deliveries-max", integer(policy.deliveries_max)),
        ("dead-letter", bulk(policy.dead_letter)),
        ("consumers", array_of([bulk(name) for name in sorted(group.consumers)])),
        ("missed", integer(log.missed(group))),
    ]
    return mapping({bulk(name.encode()): value for name, value in facts}, call.proto)


def mark_of(group: ConsumerGroup) -> EntryId:
    """The id up to which all entries are acknowledged. Later entries may be delivered again."""
    if not len(group.pending):
        return group.last
    return before(group.pending.first()) or ID_MIN
