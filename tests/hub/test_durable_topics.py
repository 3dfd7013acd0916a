"""Topics whose channel is on their log: answered after the commit, delivered after the commit, one order for both."""

from __future__ import annotations

import asyncio

import pytest

from equipoise.log.append import payload_body, payload_of, spell_fields
from equipoise.model import Specs, TopicSpec
from equipoise.model.spec import Durability
from hub.log_world import LogWorld
from hub.world import FakeClient, pipeline

DURABLE = Specs([TopicSpec(pattern=b"d.*", durability=Durability(1, 1, 1))])


def durable_world() -> LogWorld:
    world = LogWorld()
    world.core.specs.follow(DURABLE, 1)
    return world


def subscribed(world: LogWorld, name: str, proto: int = 2) -> FakeClient:
    client = world.client(proto)
    client.do("SUBSCRIBE", name)
    return client


def test_a_message_is_answered_and_delivered_when_it_is_committed() -> None:
    world = durable_world()
    subscriber, publisher = subscribed(world, "d.t"), world.client()
    publisher.send("PUBLISH", "d.t", "hello")
    world.advance()
    assert publisher.read() == subscriber.read() == []
    world.confirm()
    assert publisher.read() == [1]
    assert subscriber.read() == [[b"message", b"d.t", b"hello"]]
    assert publisher.do("XLEN", "d.t") == 1
    assert publisher.do("XRANGE", "d.t", "-", "+")[0][1] == [b"payload", b"hello"]


def test_topics_without_a_durable_spec_are_answered_at_once() -> None:
    world = durable_world()
    publisher = world.client()
    assert publisher.do("PUBLISH", "other", "hello") == 0
    assert world.do(publisher, "XLEN", "other") == 0


def test_a_pipeline_of_messages_is_one_append_and_keeps_its_order() -> None:
    world = durable_world()
    subscriber, publisher = subscribed(world, "d.t"), world.client()
    publisher.send_raw(pipeline(["PUBLISH", "d.t", f"{n}"] for n in range(50)))
    assert [len(run) for run in world.runs(b"d.t")] == [50]
    assert publisher.read() == [1] * 50
    assert [message[2] for message in subscriber.read()] == [b"%d" % n for n in range(50)]


def test_a_pipeline_to_several_topics_is_answered_in_order() -> None:
    world = durable_world()
    subscribed(world, "plain")
    publisher = world.client()
    publisher.send_raw(pipeline(["PUBLISH", ("d.t", "plain")[n % 2], f"{n}"] for n in range(40)))
    world.confirm()
    assert publisher.read() == [0, 1] * 20


def test_published_messages_and_added_entries_are_one_log() -> None:
    world = durable_world()
    subscriber = subscribed(world, "d.t")
    pattern = world.client()
    pattern.do("PSUBSCRIBE", "d.*")
    client = world.client()
    world.do(client, "PUBLISH", "d.t", "first")
    world.do(client, "XADD", "d.t", "*", "payload", "second")
    world.do(client, "XADD", "d.t", "*", "a", "1", "b", "2")
    bodies = [b"first", b"second", spell_fields([b"a", b"1", b"b", b"2"])]
    assert [message[2] for message in subscriber.read()] == bodies
    assert [message[3] for message in pattern.read()] == bodies
    assert client.do("XLEN", "d.t") == 3


def test_a_receipt_has_the_position_of_the_last_message() -> None:
    world = durable_world()
    first, second = world.client(3), world.client(3)
    first.send("EQ.PUBLISH", "d.t", "a", "b")
    second.send("EQ.PUBLISH", "d.t", "c")
    world.advance()
    assert first.read() == []
    world.confirm()
    topic = world.core.index.topics[b"d.t"]
    assert first.read() == [[b"", topic.epoch, 2, 0]]
    assert second.read() == [[b"", topic.epoch, 3, 0]]


def test_a_transaction_with_messages_is_one_append() -> None:
    world = durable_world()
    client = world.client()
    client.send_raw(pipeline([["MULTI"], ["PUBLISH", "d.t", "a"], ["XADD", "d.t", "*", "f", "v"], ["EXEC"]]))
    assert [len(run) for run in world.runs(b"d.t")] == [2]


def test_what_is_uncertain_is_not_delivered_by_this_owner() -> None:
    world = durable_world()
    subscriber, publisher = subscribed(world, "d.t"), world.client()
    world.do(publisher, "PUBLISH", "d.t", "first")
    publisher.send("PUBLISH", "d.t", "second")
    world.advance()
    asyncio.run(world.ledgers.recover(world.opened[b"d.t"][-1].ledger))
    world.confirm()
    (reply,) = publisher.read()
    assert reply.startswith("UNCERTAIN")
    assert [message[2] for message in subscriber.read()] == [b"first"]


def test_a_topic_becomes_durable_and_plain_again_with_its_spec() -> None:
    world = LogWorld()
    client = world.client()
    assert client.do("PUBLISH", "d.t", "lost") == 0
    world.core.specs.follow(DURABLE, 1)
    world.durable.follow(world.core.index.topics.values())
    client.send("PUBLISH", "d.t", "kept")
    world.confirm()
    assert client.read() == [0]
    world.core.specs.follow(Specs(), 2)
    world.durable.follow(world.core.index.topics.values())
    assert client.do("PUBLISH", "d.t", "lost") == 0
    assert world.do(client, "XLEN", "d.t") == 1


@pytest.mark.parametrize("payload", [b"", b"x", b"\r\n", b"x" * 1_000, b"$7\r\npayload\r\n"])
def test_a_payload_is_found_in_what_is_stored(payload: bytes) -> None:
    assert payload_body(payload) == spell_fields([b"payload", payload])
    assert payload_of(payload_body(payload)) == payload
