"""Durable subscribers of a log: whose turn it is to read, what comes again, and what goes to a dead-letter topic."""

from __future__ import annotations

import hiredis
import pytest

from equipoise.log import read
from equipoise.log.entries import fields_of
from equipoise.log.records import decode_run, encode_run
from equipoise.log.topic_log import TopicLog
from log.logs import Logs


class Subscribed:
    """A log with entries, and a subscriber that attaches."""

    def __init__(self, entries: int = 3) -> None:
        self.logs = Logs()
        for number in range(entries):
            self.run("XADD", "t", f"1-{number + 1}", "payload", f"m{number}")
        self.serial = 0

    def run(self, *words: str) -> bytes:
        return self.logs.run(*words)

    def attach(self, name: str = "billing", client: str = "c", *options: str, group: str = "") -> str:
        self.serial += 1
        words = ("EQ.GROUP", "ATTACH", "t", group or name, name, client, str(self.serial))
        reply = self.run(*words, *(options or ("START", "0")))
        assert reply.startswith(b"*3\r\n"), reply
        return f"{name}@{client}.{self.serial}"

    def read(self, consumer: str, since: str = ">", *, group: str = "billing", count: int = 100) -> list[str]:
        """The entries as number of their delivery and payload."""
        words = ("EQ.READGROUP", "GROUP", group, consumer, "COUNT", str(count), "STREAMS", "t", since)
        return rows_of(self.run(*words))

    @property
    def log(self) -> TopicLog:
        return self.logs.logs[b"t"]


def rows_of(reply: bytes) -> list[str]:
    parser = hiredis.Reader()
    parser.feed(reply)
    found = parser.gets()
    if found is None:
        return []
    assert isinstance(found, list), found
    return [f"{row[2]} {None if row[1] is None else row[1][1].decode()}" for row in found[0][1]]


def test_a_new_subscriber_begins_where_it_says_and_an_old_one_where_it_left_off() -> None:
    world = Subscribed()
    assert world.read(world.attach()) == ["1 m0", "1 m1", "1 m2"]
    assert world.read(world.attach("late", "c", "START", "$"), group="late") == []
    assert world.read(world.attach("middle", "c", "START", "1-1"), group="middle") == ["1 m1", "1 m2"]
    assert world.run("XACK", "t", "billing", "1-1", "1-2") == b":2\r\n"
    again = world.attach("billing", "another")
    assert world.read(again, "0") == ["2 m2"]
    assert world.read(again) == []


def test_what_was_delivered_to_the_same_process_is_not_counted_again() -> None:
    world = Subscribed()
    world.read(world.attach())
    assert world.read(world.attach(), "0") == ["1 m0", "1 m1", "1 m2"]
    assert world.read(world.attach("billing", "restarted"), "0") == ["2 m0", "2 m1", "2 m2"]


def test_a_former_life_of_a_subscriber_takes_nothing() -> None:
    world = Subscribed()
    former = world.attach()
    present = world.attach()
    words = ("GROUP", "billing", former, "STREAMS", "t", ">")
    assert world.run("EQ.READGROUP", *words).startswith(b"-DISPLACED")
    assert world.run("XREADGROUP", *words).startswith(b"-DISPLACED")
    assert world.run("XREADGROUP", "GROUP", "billing", "stranger", "STREAMS", "t", ">").startswith(
        b"-DISPLACED"
    )
    assert world.run("XCLAIM", "t", "billing", former, "0", "1-1").startswith(b"-DISPLACED")
    assert world.run("XAUTOCLAIM", "t", "billing", former, "0", "0").startswith(b"-DISPLACED")
    assert world.read(present) == ["1 m0", "1 m1", "1 m2"]
    late = world.run("EQ.GROUP", "ATTACH", "t", "billing", "billing", "c", "1")
    assert late.startswith(b"-STALE")


def test_subscribers_of_a_group_share_messages_with_consumers_of_redis() -> None:
    world = Subscribed(6)
    one = world.attach("one", "c", "SHARED", "START", "0", group="g")
    two = world.attach("two", "d", "SHARED", group="g")
    assert world.read(one, group="g", count=2) == ["1 m0", "1 m1"]
    assert world.read(two, group="g", count=2) == ["1 m2", "1 m3"]
    assert b"m4" in world.run("XREADGROUP", "GROUP", "g", "plain", "STREAMS", "t", ">")
    again = world.attach("one", "restarted", "SHARED", group="g")
    assert world.read(again, "0", group="g") == ["2 m0", "2 m1"]
    assert world.run("XREADGROUP", "GROUP", "g", one, "STREAMS", "t", ">").startswith(b"-DISPLACED")


def test_ack_up_to_an_id_concerns_the_consumer_alone() -> None:
    world = Subscribed(6)
    one = world.attach("one", "c", "SHARED", "START", "0", group="g")
    two = world.attach("two", "d", "SHARED", group="g")
    world.read(one, group="g", count=1)
    world.read(two, group="g", count=1)
    world.read(one, group="g", count=2)
    assert world.run("EQ.GROUP", "ACKUPTO", "t", "g", one, "1-3") == b":2\r\n"
    assert world.run("EQ.GROUP", "ACKUPTO", "t", "g", "other", "9-9") == b":0\r\n"
    assert sorted(world.log.groups[b"g"].pending.by_id) == [(1, 2), (1, 4)]


def test_the_window_bounds_what_is_not_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "WINDOW_ENTRIES", 2)
    world = Subscribed()
    consumer = world.attach()
    assert world.read(consumer) == ["1 m0", "1 m1"]
    refusal = world.run("EQ.READGROUP", "GROUP", "billing", consumer, "STREAMS", "t", ">")
    assert refusal.startswith(b"-WINDOW 2 entries")
    world.run("XACK", "t", "billing", "1-1")
    assert world.read(consumer) == ["1 m2"]
    monkeypatch.setattr(read, "WINDOW_ENTRIES", 100)
    monkeypatch.setattr(read, "WINDOW_BYTES", world.log.groups[b"billing"].pending.bytes + 10)
    world.run("XADD", "t", "*", "payload", "x" * 100)
    refusal = world.run("EQ.READGROUP", "GROUP", "billing", consumer, "STREAMS", "t", ">")
    assert refusal.startswith(b"-WINDOW 2 entries")


def test_what_is_not_acknowledged_in_time_comes_again() -> None:
    world = Subscribed(2)
    one = world.attach("one", "c", "SHARED", "START", "0", group="g")
    two = world.attach("two", "d", "SHARED", group="g")
    assert world.run("EQ.GROUP", "SET", "t", "g", "ACKTIMEOUT", "1000") == b"+OK\r\n"
    assert world.read(one, group="g", count=1) == ["1 m0"]
    world.logs.now_ms += 999
    assert world.read(two, group="g") == ["1 m1"]
    world.logs.now_ms += 1
    assert world.read(two, group="g") == ["2 m0"]
    assert world.read(one, group="g") == []
    world.logs.now_ms += 1_000
    # A client of Redis gets it, too.
    shown = world.run("XREADGROUP", "GROUP", "g", "plain", "STREAMS", "t", ">")
    assert b"m0" in shown
    assert b"m1" in shown


def test_a_refused_message_comes_again_after_its_delay_and_not_before() -> None:
    world = Subscribed(2)
    consumer = world.attach()
    world.read(consumer)
    assert world.run("EQ.GROUP", "NACK", "t", "billing", "500", "later", "1-1", "9-9") == b":1\r\n"
    assert world.read(consumer) == []
    # Not by attaching again either.
    consumer = world.attach("billing", "restarted")
    assert world.read(consumer, "0") == ["2 m1"]
    world.logs.now_ms += 500
    assert world.read(consumer) == ["2 m0"]


def test_what_was_delivered_too_often_is_left_to_the_dead_letter_topic() -> None:
    world = Subscribed(1)
    consumer = world.attach()
    assert world.run("EQ.GROUP", "SET", "t", "billing", "DELIVERIES", "2").startswith(b"-ERR DELIVERIES and")
    own = world.run("EQ.GROUP", "SET", "t", "billing", "DELIVERIES", "2", "DEADLETTER", "t")
    assert own.startswith(b"-ERR a topic cannot")
    assert world.run("EQ.GROUP", "SET", "t", "billing", "DELIVERIES", "2", "DEADLETTER", "d") == b"+OK\r\n"
    group = world.log.groups[b"billing"]
    for number in (1, 2):
        assert world.read(consumer) == [f"{number} m0"]
        assert not group.dying(world.logs.now_ms)
        world.run("EQ.GROUP", "NACK", "t", "billing", "10", "bad", "1-1")
        world.logs.now_ms += 10
    assert world.read(consumer) == []
    ((at, entry),) = group.dying(world.logs.now_ms)
    assert (at, entry.deliveries, entry.reason) == ((1, 1), 2, b"bad")
    assert world.log.next_due_ms() == world.logs.now_ms


def test_what_is_trimmed_is_told_once() -> None:
    world = Subscribed(4)
    consumer = world.attach()
    assert world.read(consumer, count=1) == ["1 m0"]
    world.run("XTRIM", "t", "MINID", "1-4")
    assert world.read(consumer) == ["2 None", "1 m3"]
    world.run("XADD", "t", "*", "payload", "next")
    assert world.read(consumer) == ["1 next"]
    assert world.read(world.attach("billing", "restarted"), "0") == ["2 None", "2 m3", "2 next"]


def test_a_snapshot_has_subscribers_policies_and_refusals() -> None:
    world = Subscribed(4)
    consumer = world.attach()
    world.run("EQ.GROUP", "SET", "t", "billing", "ACKTIMEOUT", "700", "DELIVERIES", "3", "DEADLETTER", "d")
    world.read(consumer, count=3)
    world.run("EQ.GROUP", "NACK", "t", "billing", "200", "bad", "1-2")
    world.run("EQ.GROUP", "ACKUPTO", "t", "billing", consumer, "1-1")
    copy = TopicLog()
    copy.apply_all(decode_run(encode_run([world.log.snapshot()]), "test"))
    assert copy.snapshot().groups == world.log.snapshot().groups
    group, twin = world.log.groups[b"billing"], copy.groups[b"billing"]
    assert (twin.holders, twin.policy, twin.is_exclusive) == (group.holders, group.policy, True)
    assert twin.next_due_ms() == group.next_due_ms()
    assert twin.is_displaced(b"billing@c.0")


def test_a_group_is_shown_and_reset() -> None:
    world = Subscribed(4)
    consumer = world.attach()
    world.read(consumer, count=3)
    world.run("XACK", "t", "billing", "1-1")
    shown = world.run("EQ.GROUP", "SHOW", "t", "billing")
    assert b"mark\r\n$3\r\n1-1\r\n" in shown
    assert b"lag\r\n:1\r\n" in shown
    assert world.run("EQ.GROUP", "RESET", "t", "billing", "0") == b"+OK\r\n"
    assert world.read(consumer) == ["1 m0", "1 m1", "1 m2", "1 m3"]
    assert world.run("EQ.GROUP", "SHOW", "t", "none").startswith(b"-NOGROUP")


@pytest.mark.parametrize(
    "words",
    [
        ("ATTACH", "t", "", "s", "c", "1"),
        ("ATTACH", "t", "g", "s", "c@d", "1"),
        ("ATTACH", "t", "g", "s", "c", "one"),
        ("ATTACH", "t", "g", "s", "c", "1", "START"),
        ("ATTACH", "t", "g", "s", "c", "1", "START", "soon"),
        ("ATTACH", "t", "g", "s", "c", "1", "NEAR"),
        ("NACK", "t", "billing", "-1", "", "1-1"),
        ("SET", "t", "billing", "ACKTIMEOUT", "99999999999"),
        ("SET", "t", "billing", "COLOUR", "red"),
        ("RESET", "t", "billing", "soon"),
    ],
)
def test_wrong_words_are_refused_and_change_nothing(words: tuple[str, ...]) -> None:
    world = Subscribed()
    world.attach()
    before = world.log.snapshot()
    assert world.run("EQ.GROUP", *words)[:1] == b"-"
    assert world.log.snapshot() == before


def test_the_fields_of_an_entry_are_read_back() -> None:
    world = Subscribed(0)
    world.run("XADD", "t", "1-1", "a", "*2\r\n$1\r\n", "", "$")
    piece = world.log.entries.get((1, 1))
    assert piece is not None
    assert fields_of(piece) == [b"a", b"*2\r\n$1\r\n", b"", b"$"]


@pytest.mark.parametrize(
    ("number", "first"), [(0, "m0"), (1, "m1"), (2, "m3"), (3, "m3"), (119, "m119"), (120, None), (500, None)]
)
def test_a_subscriber_begins_at_a_position_whatever_is_deleted_before_it(
    number: int, first: str | None
) -> None:
    log = Subscribed(entries=120)
    log.run("XDEL", "t", "1-3")
    consumer = log.attach("billing", "c", "START", f"#{number}")
    assert log.read(consumer, count=1) == ([] if first is None else [f"1 {first}"])
    assert log.run("EQ.GROUP", "RESET", "t", "billing", "#1") == b"+OK\r\n"
    assert log.read(consumer, count=1) == ["1 m1"]
    assert log.run("EQ.GROUP", "RESET", "t", "billing", "#x").startswith(b"-ERR")
