"""Subscribe and unsubscribe: all five kinds, their counts, and what a subscriber then gets."""

from __future__ import annotations

from itertools import pairwise

import pytest

from hub.world import Error, World, pipeline

# (prefix of the command, what a message to topic "news" looks like, protocol)
KINDS = [
    pytest.param("", [b"message", b"news", b"hi"], 2, id="name-2"),
    pytest.param("", [b"message", b"news", b"hi"], 3, id="name-3"),
    pytest.param("p", [b"pmessage", b"news", b"news", b"hi"], 2, id="pattern-2"),
    pytest.param("p", [b"pmessage", b"news", b"news", b"hi"], 3, id="pattern-3"),
    pytest.param("s", [b"smessage", b"news", b"hi"], 2, id="shard-2"),
    pytest.param("s", [b"smessage", b"news", b"hi"], 3, id="shard-3"),
    pytest.param("eq.", [b"eq.message", b"news", "epoch", 1, b"hi"], 3, id="positioned-name"),
    pytest.param("eq.p", [b"eq.pmessage", b"news", b"news", "epoch", 1, b"hi"], 3, id="positioned-pattern"),
]


def publish_to(world: World, prefix: str, payload: bytes = b"hi") -> object:
    return world.client().do("SPUBLISH" if prefix == "s" else "PUBLISH", "news", payload)


@pytest.mark.parametrize(("prefix", "message", "proto"), KINDS)
def test_a_subscriber_gets_each_message_once_until_it_unsubscribes(
    prefix: str, message: list[object], proto: int
) -> None:
    world = World()
    client = world.client(proto)
    answer = client.do(f"{prefix}subscribe", "news")
    assert answer[:3] == [f"{prefix}subscribe".encode(), b"news", 1]
    assert publish_to(world, prefix) == 1
    (delivered,) = client.read()
    epochs = [part for part in delivered if isinstance(part, int) and part > 1]
    assert [part if part not in epochs else "epoch" for part in delivered] == message
    assert client.do(f"{prefix}unsubscribe", "news") == [f"{prefix}unsubscribe".encode(), b"news", 0]
    assert publish_to(world, prefix) == 0
    assert client.read() == []


@pytest.mark.parametrize(("prefix", "message", "proto"), KINDS)
def test_subscribing_twice_counts_and_delivers_once(prefix: str, message: list[object], proto: int) -> None:
    world = World()
    client = world.client(proto)
    client.send(f"{prefix}subscribe", "news", "news")
    client.send(f"{prefix}subscribe", "news")
    assert [answer[2] for answer in client.read()] == [1, 1, 1]
    assert publish_to(world, prefix) == 1
    assert len(client.read()) == 1


@pytest.mark.parametrize(("prefix", "message", "proto"), KINDS)
def test_unsubscribing_without_names_ends_all_of_the_kind_one_by_one(
    prefix: str, message: list[object], proto: int
) -> None:
    world = World()
    client = world.client(proto)
    client.send(f"{prefix}subscribe", "a", "b", "c")
    client.read()
    client.send(f"{prefix}unsubscribe")
    word = f"{prefix}unsubscribe".encode()
    assert client.read() == [[word, b"a", 2], [word, b"b", 1], [word, b"c", 0]]
    assert client.do(f"{prefix}unsubscribe") == [word, None, 0]
    assert client.do(f"{prefix}unsubscribe", "x") == [word, b"x", 0]


def test_names_and_patterns_are_counted_together_shards_and_positions_apart() -> None:
    client = World().client(3)
    counts: list[int] = []
    for command in ("subscribe", "psubscribe", "ssubscribe", "eq.subscribe", "eq.psubscribe", "subscribe"):
        counts.append(client.do(command, f"{command}-{len(counts)}")[2])
    assert counts == [1, 2, 1, 1, 2, 3]
    client.send("unsubscribe")
    assert [answer[2] for answer in client.read()] == [2, 1]
    assert client.do("punsubscribe")[2] == 0


def test_messages_arrive_by_name_first_and_then_by_each_pattern() -> None:
    world = World()
    client = world.client()
    client.send("PSUBSCRIBE", "n*", "*")
    client.send("SUBSCRIBE", "news")
    client.read()
    assert world.client().do("PUBLISH", "news", "1") == 3
    first, *others = client.read()
    assert first == [b"message", b"news", b"1"]
    assert sorted(others) == [[b"pmessage", b"*", b"news", b"1"], [b"pmessage", b"n*", b"news", b"1"]]


def test_a_run_reaches_a_subscriber_of_several_forms_message_by_message() -> None:
    world = World()
    client = world.client()
    client.send("SUBSCRIBE", "news")
    client.send("PSUBSCRIBE", "n*")
    client.read()
    world.client().send_raw(pipeline(["PUBLISH", "news", str(i)] for i in range(5)))
    assert [delivery[-1] for delivery in client.read()] == [b"%d" % (i // 2) for i in range(10)]


def test_interleaved_topics_keep_their_order_for_a_subscriber_of_both() -> None:
    world = World()
    both, one = world.client(), world.client()
    both.send("SUBSCRIBE", "a", "b")
    one.send("SUBSCRIBE", "a")
    both.read(), one.read()
    publisher = world.client()
    publisher.send_raw(pipeline(["PUBLISH", "ab"[i % 2], str(i)] for i in range(20)))
    assert publisher.read() == [2, 1] * 10
    assert [delivery[2] for delivery in both.read()] == [b"%d" % i for i in range(20)]
    assert [delivery[2] for delivery in one.read()] == [b"%d" % i for i in range(0, 20, 2)]


def test_order_holds_for_a_client_that_subscribes_to_a_second_topic() -> None:
    """
    1. Two clients subscribe to one topic each, so a batch may be grouped by topic.
    2. One of them subscribes to the other topic, by name or by pattern.
    3. The next interleaved batch reaches it in the order of publication.
    """
    for command, name in (("SUBSCRIBE", "b"), ("PSUBSCRIBE", "b*"), ("PSUBSCRIBE", "*")):
        world = World()
        left, right, publisher = world.client(), world.client(), world.client()
        left.send("SUBSCRIBE", "a")
        right.send("SUBSCRIBE", "b")
        batch = pipeline(["PUBLISH", "ab"[i % 2], str(i)] for i in range(20))
        publisher.send_raw(batch)
        left.send(command, name)
        left.read()
        publisher.send_raw(batch)
        numbers = [int(delivery[-1]) for delivery in left.read()]
        assert all(a <= b for a, b in pairwise(numbers)), command
        assert set(numbers) == set(range(20))


def test_a_resp3_client_gets_what_it_publishes_to_itself_before_the_reply() -> None:
    client = World().client(3)
    client.send("SUBSCRIBE", "me")
    client.read()
    client.send_raw(
        pipeline([["PING"], ["PUBLISH", "me", "1"], ["PUBLISH", "me", "2"], ["PUBLISH", "me", "3"]])
    )
    assert client.read() == [
        b"PONG",
        [b"message", b"me", b"1"],
        1,
        [b"message", b"me", b"2"],
        1,
        [b"message", b"me", b"3"],
        1,
    ]


def test_shard_channels_and_topics_of_one_name_are_apart() -> None:
    world = World()
    client, publisher = world.client(3), world.client()
    client.send("SSUBSCRIBE", "news")
    client.send("PSUBSCRIBE", "*")
    client.read()
    assert publisher.do("PUBLISH", "news", "1") == 1
    assert publisher.do("SPUBLISH", "news", "2") == 1
    assert client.read() == [[b"pmessage", b"*", b"news", b"1"], [b"smessage", b"news", b"2"]]


def test_system_names_match_only_patterns_that_start_with_a_dollar() -> None:
    world = World()
    client, publisher = world.client(), world.client()
    client.send("PSUBSCRIBE", "*", "?sys*", "$*")
    client.read()
    assert publisher.do("PUBLISH", "$sys.load", "1") == 1
    assert client.read() == [[b"pmessage", b"$*", b"$sys.load", b"1"]]


@pytest.mark.parametrize("command", ["SUBSCRIBE", "PSUBSCRIBE"])
def test_a_change_of_protocol_reaches_live_subscriptions(command: str) -> None:
    world = World()
    client, publisher = world.client(3), world.client()
    client.send(command, "news")
    client.read()
    for hello, mark in (("2", b"*"), ("3", b">")):
        if hello == "3":
            client.send("RESET")
            client.send("HELLO", "3")
            client.send(command, "news")
        else:
            publisher.do("PUBLISH", "news", "warm up")
            client.send("HELLO", hello)
        client.read()
        before = len(client.wire.sent)
        publisher.do("PUBLISH", "news", "x")
        assert client.wire.sent[before : before + 1] == mark
        client.read()


def test_positions_need_resp3() -> None:
    client = World().client()
    for command in ("EQ.SUBSCRIBE", "EQ.PSUBSCRIBE", "EQ.UNSUBSCRIBE", "EQ.PUNSUBSCRIBE"):
        assert client.do(command, "t") == Error("ERR EQ commands need RESP3: send HELLO 3 first")


def test_hello_2_is_rejected_while_positions_are_subscribed_to() -> None:
    """Positioned messages are pushes, which RESP2 does not have."""
    client = World().client(3)
    client.send("EQ.SUBSCRIBE", "t")
    client.read()
    assert client.do("HELLO", "2") == Error("ERR end EQ subscriptions before HELLO 2: they need RESP3")
    assert client.session.proto == 3
    client.do("EQ.UNSUBSCRIBE")
    assert client.do("HELLO", "2")[:2] == [b"server", b"redis"]


def test_pubsub_counts_subscribers() -> None:
    world = World()
    asker, a, b = world.client(), world.client(3), world.client()
    a.send("SUBSCRIBE", "x", "$y")
    a.send("EQ.SUBSCRIBE", "x")
    b.send("SUBSCRIBE", "x")
    b.send("SSUBSCRIBE", "s")
    b.send("PSUBSCRIBE", "p*", "q*")
    a.send("PSUBSCRIBE", "p*")
    asker.do("PUBLISH", "unused", "x")
    assert asker.do("PUBSUB", "CHANNELS") == [b"x"]
    assert asker.do("PUBSUB", "CHANNELS", "$*") == [b"$y"]
    assert asker.do("PUBSUB", "NUMSUB", "x", "unused") == [b"x", 2, b"unused", 0]
    assert asker.do("PUBSUB", "NUMPAT") == 2
    assert asker.do("PUBSUB", "SHARDCHANNELS") == [b"s"]
    assert asker.do("PUBSUB", "SHARDNUMSUB", "s") == [b"s", 1]
