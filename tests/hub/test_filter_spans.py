"""Filters with positions: the span of a push, spans by subscriber, and rejected requests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from equipoise.hub.settings import Limits
from hub.world import Error, FakeClient, World, pipeline, users

BIG = "volume > 150"


def quote(volume: int) -> bytes:
    return json.dumps({"volume": volume}).encode()


def publish(world: World, *volumes: int) -> list[Any]:
    client = world.client()
    client.send_raw(pipeline(["PUBLISH", "t", quote(volume)] for volume in volumes))
    return client.read()


def subscribed(world: World, number: str = "1", where: str = BIG) -> tuple[FakeClient, int]:
    """The client, and the epoch that it received."""
    client = world.client(3)
    word, name, count, epoch, n = client.do("EQ.FSUBSCRIBE", number, "t", where)
    assert (word, name, count) == (b"eq.fsubscribe", number.encode(), 1)
    topic = world.core.index.topics[b"t"]
    assert (epoch, n) == (topic.epoch, topic.n)
    return client, epoch


def test_a_push_covers_messages_that_do_not_match() -> None:
    world = World()
    client, epoch = subscribed(world)
    assert publish(world, 1, 200, 2, 300, 3) == [0, 1, 0, 1, 0]
    assert client.read() == [[b"eq.fmessage", b"1", epoch, 1, 4, 2, quote(200), 4, quote(300)]]
    assert publish(world, 4, 400) == [0, 1]
    assert client.read() == [[b"eq.fmessage", b"1", epoch, 5, 3, 7, quote(400)]]
    assert world.core.filtering.matches == 3


def test_unmatched_messages_are_covered_when_the_client_asks() -> None:
    world = World()
    client, epoch = subscribed(world)
    assert client.do_all("EQ.COVER", "1") == [b"OK"]
    publish(world, 1, 2)
    assert client.do_all("EQ.COVER", "1") == [[b"eq.fmessage", b"1", epoch, 1, 2], b"OK"]
    publish(world, 3, 200)
    # One span for all subscribers of the filter: this one has passed its first two positions.
    assert client.read() == [[b"eq.fmessage", b"1", epoch, 1, 4, 4, quote(200)]]


def test_subscribers_of_one_filter_share_spans_whenever_they_subscribed() -> None:
    world = World()
    first, epoch = subscribed(world)
    publish(world, 1)
    second, _ = subscribed(world, "77", "volume>150")
    assert world.core.filtering.filters == 1
    assert publish(world, 2, 200) == [0, 2]
    span = [epoch, 1, 3, 3, quote(200)]
    assert [first.read(), second.read()] == [
        [[b"eq.fmessage", b"1", *span]],
        [[b"eq.fmessage", b"77", *span]],
    ]
    first.wire.abort()
    world.advance()
    assert publish(world, 300) == [1]
    assert second.read() == [[b"eq.fmessage", b"77", epoch, 4, 1, 4, quote(300)]]


def test_plain_and_smart_subscribers_of_one_filter_each_get_their_form() -> None:
    world = World()
    plain, text = world.client(), f"$filter t {BIG}"
    plain.do("PSUBSCRIBE", text)
    publish(world, 1)
    client, epoch = subscribed(world)
    assert publish(world, 200) == [2]
    assert plain.read() == [[b"pmessage", text.encode(), b"t", quote(200)]]
    assert client.read() == [[b"eq.fmessage", b"1", epoch, 2, 1, 2, quote(200)]]
    plain.do("PUNSUBSCRIBE", text)
    assert publish(world, 300) == [1]
    assert client.do_all("EQ.FUNSUBSCRIBE", "1")[-1] == [b"eq.funsubscribe", b"1", 0]
    assert world.core.filtering.filters == world.core.filtering.subscriptions == 0
    assert world.core.index.topics[b"t"].content is None


def test_a_connection_has_many_filters_each_with_its_number() -> None:
    world = World()
    client, epoch = subscribed(world)
    client.do("EQ.FSUBSCRIBE", "2", "t", "volume exists")
    assert client.do("EQ.FSUBSCRIBE", "3", "t", BIG)[2] == 3
    assert publish(world, 1, 200) == [1, 3]
    assert sorted(client.read()) == [
        [b"eq.fmessage", b"1", epoch, 1, 2, 2, quote(200)],
        [b"eq.fmessage", b"2", epoch, 1, 2, 1, quote(1), 2, quote(200)],
        [b"eq.fmessage", b"3", epoch, 1, 2, 2, quote(200)],
    ]
    # Asked for again it is the same subscription.
    assert client.do("EQ.FSUBSCRIBE", "2", "t", "volume  EXISTS")[2] == 3
    assert [answer[1] for answer in client.do_all("EQ.FUNSUBSCRIBE")] == [b"1", b"2", b"3"]
    assert world.core.filtering.subscriptions == 0


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("x", "t", BIG), "1 to 10 digits"),
        (("12345678901", "t", BIG), "1 to 10 digits"),
        (("2", "t", "volume >"), "filter, byte 8: expected"),
        (("2", "t" * 5000, BIG), "topic_bytes_max"),
        (("1", "t", "volume > 151"), "has another topic or filter"),
        (("1", "u", BIG), "has another topic or filter"),
    ],
)
def test_invalid_subscriptions_are_rejected(words: tuple[str, ...], text: str) -> None:
    world = World()
    client, _ = subscribed(world)
    answer = client.do("EQ.FSUBSCRIBE", *words)
    assert isinstance(answer, Error) and text in str(answer)
    assert world.core.filtering.subscriptions == 1


def test_asking_needs_resp3_and_a_subscription() -> None:
    world = World()
    assert "HELLO 3" in str(world.client(2).do("EQ.FSUBSCRIBE", "1", "t", BIG))
    assert "HELLO 3" in str(world.client(2).do("EQ.FUNSUBSCRIBE", "1"))
    assert "no such subscription" in str(world.client(3).do("EQ.COVER", "1"))


def test_limits_count_filters_with_positions_like_others() -> None:
    world = World(limits=Limits(filters_max=1))
    client, _ = subscribed(world)
    assert "filters_max" in str(client.do("EQ.FSUBSCRIBE", "2", "t", "volume > 151"))
    assert client.do("EQ.FSUBSCRIBE", "2", "t", BIG)[2] == 2


def test_a_right_that_is_revoked_ends_the_subscription() -> None:
    all_rights = 'subscribe = ["*"]\nfilter = ["*"]\ncreate = ["*"]'
    world = World(users=users(ann=all_rights))
    client = world.client(3, user="ann")
    client.do("EQ.FSUBSCRIBE", "5", "t", BIG)
    world.core.reload_users(users(ann='subscribe = ["*"]'))
    assert client.read() == [[b"eq.funsubscribe", b"5", 0]]
    assert world.core.filtering.subscriptions == 0
    assert "NOPERM" in str(client.do("EQ.FSUBSCRIBE", "5", "t", BIG))


def test_a_subscriber_that_is_cut_during_a_write_does_not_affect_others() -> None:
    world = World(limits=Limits(output_bytes_max=64 * 1024, output_soft_bytes=64 * 1024))
    slow, _ = subscribed(world)
    other, _ = subscribed(world)
    slow.wire.is_stuck = True
    payload = json.dumps({"volume": 200, "text": "x" * 40_000}).encode()
    publisher = world.client()
    for _ in range(5):
        publisher.do("PUBLISH", "t", payload)
    assert world.core.backlogs.cuts == 1
    assert [push[3:5] for push in other.read()] == [[n, 1] for n in range(1, 6)]
    assert world.core.filtering.subscriptions == 1
