"""EQ.TELEMETRY and EQ.ARRIVALS: by offset, once each, in order, to permitted users."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.hub.settings import Limits
from equipoise.hub.telemetry.settings import TelemetrySettings
from hub.metered import MeteredWorld, Reader, Record
from hub.world import Error, World, pipeline, users
from telemetry.records import read_stream

OPERATOR = 'operate = ["*"]'
PUBLISHER = 'publish = ["*"]\ncreate = ["*"]'
TENANT = 'operate = ["a.*"]'


@pytest.fixture
def world() -> MeteredWorld:
    return MeteredWorld()


def publish(world: MeteredWorld, *names: str) -> None:
    world.client().send_raw(pipeline(("PUBLISH", name, "x") for name in names))
    world.advance()


def numbers(records: list[Record]) -> list[int]:
    return [record["sequence"] for record in records]


@pytest.mark.parametrize("proto", [2, 3])
def test_a_new_reader_learns_the_first_offset(world: MeteredWorld, proto: int) -> None:
    publish(world, "t")
    world.end_window()
    incarnation, first, following, stream, end = Reader(world.client(proto), world).ask(0, 0, 1 << 20)
    assert (incarnation, first, following, end) == (world.core.incarnation, 0, 0, 2)
    assert read_stream(stream) == []


@pytest.mark.parametrize("proto", [2, 3])
def test_records_are_given_from_an_offset_on(world: MeteredWorld, proto: int) -> None:
    publish(world, "t", "u", "v")
    world.end_window()
    reader = Reader(world.client(proto), world)
    incarnation, first, following, stream, end = reader.ask(world.core.incarnation, 1, 1 << 20)
    assert (incarnation, first, following, end) == (world.core.incarnation, 1, 4, 4)
    assert [record["topic"] for record in read_stream(stream)] == [b"u", b"v", None]


def test_a_read_without_new_records_is_an_empty_stream(world: MeteredWorld) -> None:
    world.end_window()
    _, first, following, stream, end = Reader(world.client(), world).ask(world.core.incarnation, 1, 1 << 20)
    assert (first, following, end, read_stream(stream)) == (1, 1, 1, [])


def test_a_read_of_0_bytes_returns_only_the_numbers(world: MeteredWorld) -> None:
    publish(world, "t")
    world.end_window()
    _, first, following, stream, end = Reader(world.client(), world).ask(world.core.incarnation, 0, 0)
    assert (first, following, end, read_stream(stream)) == (0, 0, 2, [])


def test_at_least_one_record_is_returned_however_few_bytes_are_requested(world: MeteredWorld) -> None:
    publish(world, *(f"t{i}" for i in range(20)))
    world.end_window()
    reader = Reader(world.client(), world)
    reader.read()
    for at in range(21):
        assert numbers(reader.read(1)) == [at]
    assert reader.read(1) == []


def test_a_reply_is_not_longer_than_requested(world: MeteredWorld) -> None:
    publish(world, *(f"t{i:05d}{'x' * (i % 900)}" for i in range(2_500)))
    world.end_window()
    client = world.client()
    reader = Reader(client, world)
    reader.read()
    found: list[Record] = []
    while reader.next < reader.end or not found:
        _, first, following, stream, reader.end = reader.ask(world.core.incarnation, reader.next, 60_000)
        assert len(stream) <= 60_000 and first == reader.next < following
        found += read_stream(stream)
        reader.next = following
    assert numbers(found) == list(range(reader.end)) and len(found) == 2_501


def test_no_reply_exceeds_the_output_limit_of_its_reader() -> None:
    world = MeteredWorld(limits=Limits(output_soft_bytes=64 * 1024))
    publish(world, *(f"topic-with-a-name-{i}" for i in range(2_000)))
    world.end_window()
    reply = Reader(world.client(), world).ask(world.core.incarnation, 0, 1 << 40)
    assert len(reply[3]) <= 64 * 1024


def test_dropped_records_show_by_their_number() -> None:
    world = MeteredWorld(telemetry=TelemetrySettings(retention_s=3.0))
    world.advance(20.0)
    reader = Reader(world.client(), world)
    oldest = world.core.metering.ring.oldest
    assert oldest > 10
    _, first, _, stream, _ = reader.ask(world.core.incarnation, 2, 1 << 20)
    assert first == oldest and numbers(read_stream(stream))[0] == oldest


def test_after_a_restart_of_the_hub_the_reader_starts_again(world: MeteredWorld) -> None:
    """
    1. A reader has read some records.
    2. The hub begins another life.
    3. The reader, which still names the former one, gets the current one and its first offset.
    """
    world.end_window()
    former = world.core.incarnation
    world.core.begin_anew()
    world.advance()
    world.end_window()
    reader = Reader(world.client(), world)
    reader.incarnation, reader.next = former, 1
    assert reader.read() == []
    assert (reader.incarnation, reader.next) == (world.core.incarnation, 0)
    assert numbers(reader.read()) == [0]


@pytest.mark.parametrize(
    "words",
    [
        ("x", "0", "1"),
        ("0", "-1", "1"),
        ("0", "0", "-1"),
        ("0", "1_000", "1"),
        ("0", " 1", "1"),
        ("0", "0", "9" * 19),
        ("0", "0", "1" * 20),
        ("", "0", "1"),
        ("0", "0", "0x10"),
        ("\u0661", "0", "1"),
    ],
)
def test_an_invalid_number_is_rejected(world: MeteredWorld, words: tuple[str, str, str]) -> None:
    reply = world.client().do("EQ.TELEMETRY", *words)
    assert reply == Error("ERR incarnation, from-sequence and max-bytes must be numbers of 0 or more")


@pytest.mark.parametrize("count", [0, 1, 2, 4, 9])
def test_the_number_of_arguments_is_fixed(world: MeteredWorld, count: int) -> None:
    reply = world.client().do("EQ.TELEMETRY", *["0"] * count)
    assert reply == Error("ERR wrong number of arguments for 'eq.telemetry' command")


def test_an_offset_beyond_the_end_is_an_error_that_names_the_end(world: MeteredWorld) -> None:
    world.end_window()
    reply = world.client().do("EQ.TELEMETRY", str(world.core.incarnation), str(2**62), "1000")
    assert reply == Error(f"ERR there is no record {2**62} yet; continue from 1")


def test_a_hub_with_recording_off_replies_with_an_error() -> None:
    client = World().client()
    off = Error("ERR telemetry is off on this hub (telemetry.enabled)")
    assert client.do("EQ.TELEMETRY", "0", "0", "0") == off
    assert client.do("EQ.ARRIVALS", "t", "ON") == off


def test_commands_behind_a_read_are_answered_behind_it(world: MeteredWorld) -> None:
    publish(world, *(f"t{i}" for i in range(3_000)))
    world.end_window()
    client = world.client()
    ask = ("EQ.TELEMETRY", str(world.core.incarnation), "0", "10000000")
    client.send_raw(pipeline([ask, ("PING",), ask, ("PING",)]))
    for _ in range(100):
        world.advance()
    first, ping, second, last_ping = client.read()
    assert (ping, last_ping) == (b"PONG", b"PONG")
    assert first == second and numbers(read_stream(first[3])) == list(range(3_001))


def test_a_reader_that_disconnects_during_its_reply_leaves_no_state(world: MeteredWorld) -> None:
    publish(world, *(f"t{i}" for i in range(3_000)))
    world.end_window()
    client = world.client()
    client.send("EQ.TELEMETRY", str(world.core.incarnation), "0", "10000000")
    world.core.cut(client.session, "test")
    world.advance(1.0)
    assert not client.is_connected() and client.read() == []


def test_a_reply_is_written_in_short_steps(world: MeteredWorld) -> None:
    publish(world, *(f"t{i}" for i in range(5_000)))
    world.end_window()
    client = world.client()
    client.send("EQ.TELEMETRY", str(world.core.incarnation), "0", "10000000")
    assert client.read() == []
    steps = 0
    while not client.read():
        world.shell.run_one()
        steps += 1
    assert steps >= 5


@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("publish"), st.integers(0, 40)),
            st.tuples(st.just("pass"), st.integers(1, 30)),
            st.tuples(st.just("read"), st.integers(1, 40_000)),
        ),
        max_size=25,
    )
)
def test_any_sequence_of_reads_returns_each_record_once_and_in_order(steps: list[tuple[str, int]]) -> None:
    world = MeteredWorld()
    reader = Reader(world.client(3), world)
    reader.read()
    found: list[Record] = []
    for what, number in steps:
        if what == "publish":
            publish(world, *(f"t{i}" for i in range(number)))
        elif what == "pass":
            world.advance(number / 10)
        else:
            found += reader.read(number)
    found += reader.read_all()
    assert numbers(found) == list(range(world.core.metering.ring.end))
    assert reader.missed == 0


# --- who may


def people() -> MeteredWorld:
    return MeteredWorld(users(ops=OPERATOR, pub=PUBLISHER, tenant=TENANT))


def test_reading_needs_the_right_to_observe_and_recording_that_to_operate() -> None:
    world = people()
    for command in (("EQ.TELEMETRY", "0", "0", "0"), ("EQ.ARRIVALS", "a.t", "ON")):
        reply = world.client(user="pub").do(*command)
        action = "observe" if command[0] == "EQ.TELEMETRY" else "operate"
        assert reply.startswith(f"NOPERM user 'pub' may not {action}")
    assert world.info_as("ops", "acl_access_denied_channel") == "2"


def test_an_unauthenticated_client_must_log_in() -> None:
    world = people()
    assert world.client().do("EQ.TELEMETRY", "0", "0", "0") == Error("NOAUTH Authentication required.")


def test_an_operator_of_some_topics_gets_only_their_records() -> None:
    world = people()
    publisher = world.client(user="pub")
    publisher.send_raw(pipeline(("PUBLISH", name, "x") for name in ("a.1", "b.1", "a.2", "b.2")))
    world.end_window()
    publisher.send("PUBLISH", "a.3", "x")
    world.end_window()
    reader = Reader(world.client(user="tenant"), world)
    records = reader.read_all() + reader.read_all()
    assert [record["topic"] for record in records] == [b"a.1", b"a.2", b"a.3"]
    assert numbers(records) == [0, 2, 5]
    assert reader.next == reader.end == world.core.metering.ring.end
    everything = Reader(world.client(user="ops"), world)
    assert len(everything.read_all() + everything.read_all()) == reader.end


def test_a_user_without_visible_records_still_gets_offsets() -> None:
    world = people()
    world.client(user="pub").send_raw(pipeline(("PUBLISH", f"b.{i}", "x") for i in range(1_500)))
    world.advance()
    world.end_window()
    reader = Reader(world.client(user="tenant"), world)
    assert reader.read_all(bytes_max=1) == [] and reader.read_all(bytes_max=1) == []
    assert reader.next == reader.end == 1_501


def test_a_change_of_rules_during_a_reply_takes_effect() -> None:
    world = people()
    world.client(user="pub").send_raw(pipeline(("PUBLISH", f"b.{i}", "x") for i in range(3_000)))
    world.advance()
    world.end_window()
    client = world.client(user="ops")
    client.send("EQ.TELEMETRY", str(world.core.incarnation), "0", "10000000")
    world.core.reload_users(users(ops=TENANT, pub=PUBLISHER))
    world.advance()
    assert client.read() == [Error("TRYAGAIN the access rules have changed meanwhile")]


# --- arrivals


def arrivals(records: list[Record]) -> list[Record]:
    return [record for record in records if record["kind"] == "arrival"]


def test_arrivals_are_recorded_on_request_one_by_one(world: MeteredWorld) -> None:
    operator, publisher = world.client(), world.client()
    assert operator.do("EQ.ARRIVALS", "t", "on") == b"OK"
    for payload in ("", "x", "xx"):
        publisher.send("PUBLISH", "t", payload)
        world.advance(0.01)
    publisher.send("PUBLISH", "other", "x")
    found = arrivals(world.window())
    assert [(record["topic"], record["size_bytes"], record["window_us"]) for record in found] == [
        (b"t", 0, 0),
        (b"t", 1, 0),
        (b"t", 2, 0),
    ]
    times = [record["time"].timestamp() for record in found]
    assert [later - earlier for earlier, later in pairwise(times)] == pytest.approx([0.01, 0.01])
    assert operator.do("EQ.ARRIVALS", "t", "OFF") == b"OK"
    publisher.send("PUBLISH", "t", "x")
    assert arrivals(world.window()) == []


def test_a_run_of_messages_is_one_record_with_its_count(world: MeteredWorld) -> None:
    world.client().send("EQ.ARRIVALS", "t", "ON")
    world.client().send_raw(pipeline(("PUBLISH", "t", "x" * i) for i in range(50)))
    (record,) = arrivals(world.window())
    assert (record["messages"], record["size_bytes"]) == (50, sum(range(50)))


def test_publishes_with_a_receipt_are_arrivals_too(world: MeteredWorld) -> None:
    """Before, EQ.PUBLISH of smart clients went past the recording."""
    world.client().send("EQ.ARRIVALS", "t", "ON")
    world.client(3).do("EQ.PUBLISH", "t", "x", "xx")
    assert [(record["messages"], record["size_bytes"]) for record in arrivals(world.window())] == [(2, 3)]


def test_publishers_have_different_pseudonyms(world: MeteredWorld) -> None:
    world.client().send("EQ.ARRIVALS", "t", "ON")
    first, second = world.client(), world.client()
    for publisher in (first, second, first):
        publisher.send("PUBLISH", "t", "x")
    names = [record["publisher"] for record in arrivals(world.window())]
    assert names[0] == names[2] != names[1]
    assert not {first.session.id, second.session.id} & set(names)


def test_a_client_that_reconnects_keeps_its_pseudonym(world: MeteredWorld) -> None:
    world.client().send("EQ.ARRIVALS", "t", "ON")
    for _ in range(2):
        publisher = world.client(3)
        publisher.send("EQ.LINK", "one-and-the-same")
        publisher.send("PUBLISH", "t", "x")
    assert len({record["publisher"] for record in arrivals(world.window())}) == 1


def test_pseudonyms_end_with_the_incarnation_of_the_hub(world: MeteredWorld) -> None:
    keys = iter((b"k" * 32, b"l" * 32))
    world.core.metering.randbytes = lambda count: next(keys)
    seen: list[Any] = []
    for _ in range(2):
        publisher = world.client(3)
        publisher.send("EQ.LINK", "one-and-the-same")
        publisher.send("EQ.ARRIVALS", "t", "ON")
        publisher.send("PUBLISH", "t", "x")
        seen += arrivals(world.window())
        world.core.begin_anew()
        world.advance()
    assert seen[0]["publisher"] != seen[1]["publisher"]


def test_the_group_is_the_user_where_there_are_users() -> None:
    world = people()
    world.client(user="ops").send("EQ.ARRIVALS", "a.t", "ON")
    world.client(user="pub").send("PUBLISH", "a.t", "x")
    world.end_window()
    reader = Reader(world.client(user="ops"), world)
    found = arrivals(reader.read_all() + reader.read_all())
    assert [record["publisher_group"] for record in found] == ["pub"]
    world = MeteredWorld()
    world.client().send("EQ.ARRIVALS", "t", "ON")
    world.client().send("PUBLISH", "t", "x")
    assert [record["publisher_group"] for record in arrivals(world.window())] == [None]


def test_a_topic_may_be_created_after_recording_was_requested(world: MeteredWorld) -> None:
    world.client().send("EQ.ARRIVALS", "later", "ON")
    world.advance(3.0)
    world.client().send("PUBLISH", "later", "x")
    assert len(arrivals(world.window())) == 1


def test_the_number_of_topics_with_recorded_arrivals_is_limited() -> None:
    world = MeteredWorld(telemetry=TelemetrySettings(arrivals_topics_max=2))
    client = world.client()
    assert [client.do("EQ.ARRIVALS", name, "ON") for name in ("a", "b", "a")] == [b"OK"] * 3
    assert client.do("EQ.ARRIVALS", "c", "ON").startswith("ERR arrivals of 2 topics are already recorded")
    client.send("EQ.ARRIVALS", "a", "OFF")
    client.read()
    assert client.do("EQ.ARRIVALS", "c", "ON") == b"OK"
    assert world.info("telemetry_arrivals_topics") == "2"


def test_arrivals_above_the_limit_are_counted() -> None:
    world = MeteredWorld(telemetry=TelemetrySettings(arrivals_per_s_max=10))
    world.client().send("EQ.ARRIVALS", "t", "ON")
    publishers = [world.client() for _ in range(12)]
    for publisher in publishers * 3:
        publisher.send("PUBLISH", "t", "x")
    found = Counter(record["publisher"] for record in arrivals(world.window()))
    # Whole publishers are left out, never parts of one.
    assert set(found.values()) == {3}
    assert 0 < len(found) <= 3
    assert world.info("telemetry_arrivals_left_out") == str(36 - 3 * len(found))
    assert float(world.info("telemetry_arrivals_kept")) < 1.0


def test_pseudonyms_by_one_key_are_the_same_at_all_hubs_and_for_all_links_of_a_client() -> None:
    seen = []
    for number in range(2):
        world = MeteredWorld()
        assert world.client().do("EQ.ARRIVALS", "t", "ON", "ab" * 32) == b"OK"
        publisher = world.client(3)
        publisher.send("EQ.LINK", f"0123456789abcdef-link-{number}")
        publisher.send("PUBLISH", "t", "x")
        seen += [record["publisher"] for record in arrivals(world.window())]
    assert seen[0] == seen[1]
    assert "syntax" in str(MeteredWorld().client().do("EQ.ARRIVALS", "t", "ON", "ab"))


def test_recording_of_arrivals_ends_by_itself() -> None:
    world = MeteredWorld(telemetry=TelemetrySettings(arrivals_duration_s=5.0))
    client = world.client()
    client.send("EQ.ARRIVALS", "t", "ON")
    world.advance(4.0)
    client.send("EQ.ARRIVALS", "t", "ON")
    world.advance(4.0)
    assert world.info("telemetry_arrivals_topics") == "1"
    world.advance(4.0)
    client.send("PUBLISH", "t", "x")
    assert arrivals(world.window()) == []
    assert world.info("telemetry_arrivals_topics") == "0"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("t", "maybe"), "ERR 'maybe' is neither ON nor OFF"),
        (("t", "a\r\nb"), "ERR 'a  b' is neither ON nor OFF"),
        (("$sys", "ON"), "ERR names starting with '$' belong to the system and are not recorded"),
        (("x" * 5_000, "ON"), "ERR topic name longer than 4096 bytes (topic_bytes_max)"),
    ],
)
def test_arrivals_of_an_invalid_topic_are_rejected(
    world: MeteredWorld, words: tuple[str, str], problem: str
) -> None:
    client = world.client()
    assert client.do("EQ.ARRIVALS", *words) == Error(problem)


def test_a_tenant_profiles_its_own_topics_only() -> None:
    world = people()
    client = world.client(user="tenant")
    assert client.do("EQ.ARRIVALS", "a.t", "ON") == b"OK"
    assert client.do("EQ.ARRIVALS", "b.t", "ON") == Error("NOPERM user 'tenant' may not operate 'b.t'")
