"""Topics and patterns: their limits, when topics are removed, and that no state is left."""

from __future__ import annotations

import random

import pytest

from equipoise.hub.settings import Limits
from equipoise.model import Glob
from hub.world import Error, FakeClient, World, pipeline, users


def epoch_of(client: FakeClient, name: str) -> int:
    """The topic's epoch; the subscription that asks for it is ended again."""
    epoch = int(client.do("EQ.SUBSCRIBE", name)[3])
    client.do("EQ.UNSUBSCRIBE", name)
    return epoch


# --- idle topics


def test_a_topic_without_subscribers_and_messages_is_removed() -> None:
    world = World(limits=Limits(topic_idle_s=10))
    world.client().do("PUBLISH", "t", "x")
    world.advance(21)
    assert world.core.index.topics == {}
    assert world.info("topics_forgotten") == "1"


def test_a_topic_with_a_subscriber_is_never_removed() -> None:
    world = World(limits=Limits(topic_idle_s=10))
    world.client().do("SUBSCRIBE", "t")
    world.advance(1_000)
    assert list(world.core.index.topics) == [b"t"]


def test_a_topic_with_messages_is_not_removed() -> None:
    world = World(limits=Limits(topic_idle_s=10))
    publisher = world.client()
    for _ in range(50):
        publisher.do("PUBLISH", "t", "x")
        world.advance(6)
    assert world.core.index.topics[b"t"].n == 50


def test_a_subscriber_that_returns_soon_finds_the_same_epoch() -> None:
    """
    1. A topic is quiet for long, with one subscriber.
    2. The subscriber loses its connection just before the sweep comes by.
    3. It is back within the time an idle topic is kept, and learns that it has missed nothing.
    """
    world = World(limits=Limits(topic_idle_s=10))
    client = world.client(3)
    _, _, _, epoch, _ = client.do("EQ.SUBSCRIBE", "t")
    world.advance(39.9)
    client.wire.abort()
    world.advance(9)
    assert world.client(3).do("EQ.SUBSCRIBE", "t")[3] == epoch


def test_totals_never_decrease_when_topics_are_removed() -> None:
    world = World(limits=Limits(topic_idle_s=10))
    subscriber = world.client()
    subscriber.do("SUBSCRIBE", "t")
    world.client().do("PUBLISH", "t", "x")
    subscriber.wire.abort()
    world.advance(100)
    assert world.core.index.topics == {}
    assert (world.info("published"), world.info("delivered")) == ("1", "1")


def test_many_idle_topics_are_removed_in_slices() -> None:
    world = World(limits=Limits(topic_idle_s=10))
    world.client().send_raw(pipeline(["PUBLISH", f"t{i}", "x"] for i in range(2_500)))
    world.advance(10)
    world.advance(9.99)
    world.shell.advance(0.02)
    assert world.core.index.topics == {}


# --- how many


def test_the_longest_unused_topics_make_room_for_new_ones() -> None:
    world = World(limits=Limits(topics_max=100))
    publisher = world.client()
    for i in range(100):
        publisher.do("PUBLISH", f"t{i}", "x")
    for _ in range(3):
        publisher.do("PUBLISH", "t0", "used")
        publisher.do("PUBLISH", f"new{_}", "x")
    topics = world.core.index.topics
    assert len(topics) <= 100
    assert {b"new0", b"new1", b"new2"} <= topics.keys()


def test_topics_with_subscribers_are_not_removed_for_room() -> None:
    world = World(limits=Limits(topics_max=10))
    subscriber, publisher = world.client(), world.client()
    subscriber.send("SUBSCRIBE", *(f"s{i}" for i in range(10)))
    subscriber.read()
    refused = Error("ERR this hub has 10 topics in use already (topics_max)")
    assert publisher.do("PUBLISH", "new", "x") == refused
    assert world.client().do("SUBSCRIBE", "new") == refused
    assert publisher.do("PUBLISH", "s3", "x") == 1
    assert len(world.core.index.topics) == 10


def test_room_is_found_without_scanning_topics_that_have_subscribers() -> None:
    world = World(limits=Limits(topics_max=1_000))
    subscriber = world.client()
    subscriber.send("SUBSCRIBE", *(f"s{i}" for i in range(990)))
    publisher = world.client()
    for i in range(20):
        assert publisher.do("PUBLISH", f"new{i}", "x") == 0
    index = world.core.index
    assert len(index.topics) <= 1_000
    assert len(index._unheard) <= 10


def test_a_topic_removed_for_room_has_a_new_epoch() -> None:
    world = World(limits=Limits(topics_max=3))
    client = world.client(3)
    former = epoch_of(client, "t")
    for i in range(6):
        world.client().do("PUBLISH", f"other{i}", "x")
    assert epoch_of(client, "t") > former


def test_shard_channels_count_too() -> None:
    world = World(limits=Limits(topics_max=4))
    client = world.client()
    client.send("SSUBSCRIBE", *"abcd")
    client.read()
    assert isinstance(world.client().do("SSUBSCRIBE", "e"), Error)


@pytest.mark.parametrize("command", ["SUBSCRIBE", "SSUBSCRIBE", "PUBLISH", "SPUBLISH"])
def test_the_length_of_a_name_is_limited(command: str) -> None:
    client = World(limits=Limits(topic_bytes_max=16)).client(3)
    payload = ["x"] if "PUBLISH" in command else []
    assert not isinstance(client.do(command, "n" * 16, *payload), Error)
    refused = Error("ERR topic name longer than 16 bytes (topic_bytes_max)")
    assert client.do(command, "n" * 17, *payload) == refused


@pytest.mark.parametrize("command", ["PSUBSCRIBE", "EQ.PSUBSCRIBE", "PUBSUB CHANNELS", "CONFIG GET"])
def test_patterns_are_limited_in_every_command(command: str) -> None:
    client = World(limits=Limits(pattern_bytes_max=8, pattern_wildcards_max=2)).client(3)
    words = command.split()
    assert not isinstance(client.do(*words, "a?c*efgh"), Error)
    assert client.do(*words, "a*cdefghi") == Error("ERR pattern longer than 8 bytes (pattern_bytes_max)")
    assert client.do(*words, "*a*b*") == Error(
        "ERR pattern with more than 2 wildcards (pattern_wildcards_max)"
    )


@pytest.mark.parametrize(
    "command", ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "EQ.SUBSCRIBE", "EQ.PSUBSCRIBE"]
)
def test_the_subscriptions_of_a_connection_are_limited(command: str) -> None:
    client = World(limits=Limits(subscriptions_max=3)).client(3)
    client.send("SUBSCRIBE", "x")
    client.send(command, "a", "b")
    assert not any(isinstance(reply, Error) for reply in client.read())
    refused = Error("ERR more than 3 subscriptions on one connection (subscriptions_max)")
    assert client.do(command, "c") == refused
    client.send(command, "a", "b", "a")
    assert len(client.read()) == 3


@pytest.mark.parametrize("command", ["PSUBSCRIBE", "EQ.PSUBSCRIBE"])
def test_the_patterns_of_a_connection_are_limited(command: str) -> None:
    client = World(limits=Limits(patterns_max=2)).client(3)
    client.send("SUBSCRIBE", "x", "y", "z")
    client.send("PSUBSCRIBE", "a*")
    client.send(command, "b*")
    assert not any(isinstance(reply, Error) for reply in client.read())
    refused = Error("ERR more than 2 patterns on one connection (patterns_max)")
    assert client.do(command, "c*") == refused


# --- patterns


def test_patterns_found_by_prefix_are_those_that_match() -> None:
    rng = random.Random(7)
    world = World()
    client = world.client()
    alphabet = "ab."
    held: set[str] = set()
    for _ in range(400):
        pattern = "".join(rng.choice("ab.*?") for _ in range(rng.randint(1, 5)))
        if pattern in held and rng.random() < 0.5:
            client.do("PUNSUBSCRIBE", pattern)
            held.discard(pattern)
        else:
            client.do("PSUBSCRIBE", pattern)
            held.add(pattern)
        name = "".join(rng.choice(alphabet) for _ in range(rng.randint(1, 6))).encode()
        found = [found.glob.pattern for found in world.core.index.patterns.matching(name)]
        expected = [p.encode() for p in held if Glob(p.encode()).matches(name)]
        assert sorted(found) == sorted(expected)
    client.send("PUNSUBSCRIBE")
    assert len(world.core.index.patterns) == 0


def test_a_pattern_subscribed_to_after_a_topic_was_published_to_reaches_it() -> None:
    world = World()
    client, publisher = world.client(), world.client()
    assert publisher.do("PUBLISH", "t", "x") == 0
    client.do("PSUBSCRIBE", "t*")
    assert publisher.do("PUBLISH", "t", "x") == 1
    client.read()
    client.do("PUNSUBSCRIBE", "t*")
    assert publisher.do("PUBLISH", "t", "x") == 0


# --- nothing is left


def test_thousands_of_short_connections_leave_no_state() -> None:
    world = World(limits=Limits(topic_idle_s=10))
    rng = random.Random(3)
    for i in range(1_500):
        client = world.client(3)
        client.send("EQ.LINK", f"link-{i:016}")
        for command in ("SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "EQ.SUBSCRIBE", "EQ.PSUBSCRIBE"):
            client.send(command, f"t{rng.randrange(50)}*", f"t{rng.randrange(50)}")
        client.wire.is_stuck = rng.random() < 0.2
        client.send("PUBLISH", f"t{rng.randrange(50)}", b"x" * rng.choice((1, 100_000)))
        ending = rng.randrange(4)
        if ending == 0:
            client.send("QUIT")
        elif ending == 1:
            client.send("RESET")
            client.wire.abort()
        elif ending == 2:
            client.wire.abort()
        else:
            world.core.cut(client.session, "the test says so")
        world.advance(0.01)
    world.advance(100)
    core = world.core
    assert (core.sessions, core.links, core.index.topics, core.index.shards) == ({}, {}, {}, {})
    assert len(core.index.patterns) == core.index.heard == core.backlogs.bytes == 0
    assert core.backlogs.lagging == {}
    assert world.shell.timers_pending == 0


def test_a_closed_hub_leaves_no_state() -> None:
    world = World(users(alice='create = ["*"]\npublish = ["*"]\nsubscribe = ["*"]'))
    stranger, idle, slow = world.client(), world.client(user="alice"), world.client(user="alice")
    pending = world.client()
    pending.send("AUTH", "alice", "right")
    for client in (idle, slow):
        client.send("SUBSCRIBE", "t")
    slow.wire.is_stuck = True
    publisher = world.client(user="alice")
    for _ in range(5):
        publisher.do("PUBLISH", "t", b"x" * 900_000)
    assert slow.session in world.core.backlogs.lagging
    world.core.close()
    world.core.abort_leaving()
    world.advance()
    world.check_secrets()
    assert all(client.wire.is_gone() for client in (stranger, idle, slow, pending, publisher))
    assert world.core.backlogs.bytes == 0
    assert world.shell.timers_pending == 0
