"""Topics whose channel is on their log: answered after the commit, delivered after the commit, one order for both."""

from __future__ import annotations

import asyncio

import pytest

from equipoise.hub.data.reply import REPLY_S
from equipoise.hub.data.topic import Topic
from equipoise.hub.logs.durable_topic import PATIENCE_S, DurableTopic
from equipoise.log.entries import payload_body, payload_of, spell_fields
from equipoise.model import Specs, TopicSpec
from equipoise.model.spec import Durability
from equipoise.stream.position import DURABLE_EPOCH
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


def log_of(world: LogWorld) -> DurableTopic:
    topic = world.core.make_topic(b"d.t")
    assert topic is not None
    assert isinstance(topic.log, DurableTopic)
    return topic.log


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


def test_a_pipeline_of_messages_that_was_refused_is_not_published_later() -> None:
    world = durable_world()
    world.opens = False
    publisher = world.client()
    publisher.send_raw(pipeline(["PUBLISH", "d.t", f"{n}"] for n in range(3)))
    world.to_open[0].not_opened("no bookies")
    world.advance(REPLY_S + 1)
    replies = publisher.read()
    assert [reply.startswith("TRYAGAIN topic d.t") for reply in replies] == [True] * 3
    world.open_logs()
    assert world.do(publisher, "XLEN", "d.t") == 0


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
    assert first.read() == [[b"", 1, 2, 0]]
    assert second.read() == [[b"", 1, 3, 0]]


def test_numbered_messages_are_one_append_and_a_repetition_is_answered_alike() -> None:
    world = durable_world()
    subscriber, publisher, other = subscribed(world, "d.t"), world.client(3), world.client(3)
    batch = ("EQ.APPEND", "d.t", "p", "0")
    world.do(publisher, "PUBLISH", "d.t", "before")
    first = world.do(publisher, *batch, "0", "a", "b")
    assert isinstance(first, list)
    assert first[:4] == [b"", 1, 3, 1]
    world.do(other, "PUBLISH", "d.t", "between")
    assert world.do(other, *batch, "0", "a", "b") == first
    assert world.do(publisher, *batch, "2", "c")[2] == 5  # type: ignore[index]  # a list
    assert world.do(publisher, *batch, "0", "a", "b") == [b"", 1, 0, 1, None]
    assert str(world.do(publisher, *batch, "4", "e")).startswith("OUTOFORDER")
    assert str(world.do(publisher, *batch, "2", "c", "d")).startswith("OUTOFORDER")
    assert [message[2] for message in subscriber.read()] == [b"before", b"a", b"b", b"between", b"c"]
    assert [len(run) for run in world.runs(b"d.t")] == [1, 3, 1, 2]


def test_numbered_messages_are_refused_where_they_cannot_be_taken() -> None:
    world = durable_world()
    client = world.client(3)
    assert str(client.do("EQ.APPEND", "plain", "p", "0", "0", "a")).startswith("NOTDURABLE")
    assert str(client.do("EQ.APPEND", "d.t", "p", "-1", "0", "a")).startswith("ERR syntax error")
    assert str(client.do("EQ.APPEND", "d.t", "", "0", "0", "a")).startswith("ERR syntax error")
    world.core.specs.version = 0
    assert str(client.do("EQ.APPEND", "plain", "p", "0", "0", "a")).startswith("TRYAGAIN")


def test_a_smart_client_is_told_that_there_are_durable_topics() -> None:
    world = durable_world()
    client, plain = world.client(3), world.client()
    client.send("EQ.LINK", "a-link-of-sixteen-bytes")
    assert client.read() == [[b"eq.durable", 1], b"OK"]
    world.core.specs.follow(DURABLE, 2)
    world.durable.follow(())
    assert client.read() == [[b"eq.durable", 2]]
    assert plain.read() == []


def test_a_transaction_with_messages_is_one_append() -> None:
    world = durable_world()
    client = world.client()
    client.send_raw(pipeline([["MULTI"], ["PUBLISH", "d.t", "a"], ["XADD", "d.t", "*", "f", "v"], ["EXEC"]]))
    assert [len(run) for run in world.runs(b"d.t")] == [2]


def test_what_was_uncertain_is_delivered_once_the_log_is_found_to_have_it() -> None:
    world = durable_world()
    subscriber, publisher = subscribed(world, "d.t"), world.client()
    world.do(publisher, "PUBLISH", "d.t", "first")
    publisher.send("PUBLISH", "d.t", "second")
    world.advance()
    asyncio.run(world.ledgers.recover(world.opened[b"d.t"][-1].ledger))
    world.confirm()
    (reply,) = publisher.read()
    assert reply.startswith("UNCERTAIN")
    assert [message[2] for message in subscriber.read()] == [b"first", b"second"]
    assert world.do(publisher, "XLEN", "d.t") == 2


def test_positions_are_numbers_in_the_log_for_ever() -> None:
    world = durable_world()
    publisher, subscriber = world.client(), world.client(3)
    subscriber.send("EQ.SUBSCRIBE", "d.t")
    assert subscriber.read() == [[b"eq.subscribe", b"d.t", 1, 1, 0]]
    world.do(publisher, "PUBLISH", "d.t", "a")
    world.do(publisher, "DEL", "d.t")
    world.do(publisher, "XADD", "d.t", "*", "payload", "b")
    assert subscriber.read() == [[b"eq.message", b"d.t", 1, n, value] for n, value in ((1, b"a"), (2, b"b"))]


def test_a_subscriber_that_comes_back_gets_what_it_missed_first() -> None:
    world = durable_world()
    publisher, subscriber = world.client(), world.client(3)
    for value in "abc":
        world.do(publisher, "PUBLISH", "d.t", value)
    subscriber.send("EQ.RESUME", "d.t", "1")
    world.confirm()
    world.do(publisher, "PUBLISH", "d.t", "d")
    confirmed, *messages = subscriber.read()
    assert confirmed == [b"eq.subscribe", b"d.t", 1, 1, 1]
    assert messages == [
        [b"eq.message", b"d.t", 1, n, value] for n, value in ((2, b"b"), (3, b"c"), (4, b"d"))
    ]


def test_a_subscriber_comes_back_behind_what_is_not_committed_yet() -> None:
    world = durable_world()
    publisher, subscriber = world.client(), world.client(3)
    world.do(publisher, "PUBLISH", "d.t", "a")
    publisher.send("PUBLISH", "d.t", "b")
    subscriber.send("EQ.RESUME", "d.t", "1")
    assert subscriber.read() == []
    world.confirm()
    assert [push[:5] for push in subscriber.read()] == [
        [b"eq.subscribe", b"d.t", 1, 1, 1],
        [b"eq.message", b"d.t", 1, 2, b"b"],
    ]


def test_who_comes_to_a_new_home_waits_from_then_on_for_its_log() -> None:
    """
    1. A subscriber waits for the log, and the topic moves away before the log is open.
    2. The topic comes back shortly before that wait would end: the next subscriber waits as long as any.
    """
    world = durable_world()
    world.opens = False
    log = log_of(world)
    answers = [log.may_begin]
    world.advance(PATIENCE_S - 0.1)
    log.take_over(0)
    log.waiters.append(lambda: None)
    answers.append(log.may_begin)
    world.advance(0.2)
    answers.append(log.may_begin)
    world.advance(PATIENCE_S)
    answers.append(log.may_begin)
    log.take_over(0)
    assert [*answers, log.may_begin] == [False, False, False, True, False]


def test_a_client_comes_to_a_new_home_once_that_has_sent_what_its_log_has() -> None:
    world = durable_world()
    subscribed(world, "d.t")
    world.do(world.client(), "PUBLISH", "d.t", "a")
    log = log_of(world)
    answers = [log.may_subscribe]
    log.take_over(0)
    answers.append(log.may_subscribe)
    world.advance()
    assert [*answers, log.may_subscribe] == [True, False, True]


def test_a_hub_that_gets_its_topic_back_sends_no_message_that_it_has_relayed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    1. The topic's home moves away. The log stays here, gets an entry, and the next home sends it to this hub.
    2. The home moves back; the number of the last message of the former home is unknown.
    """
    world = durable_world()
    pattern = world.client()
    pattern.do("PSUBSCRIBE", "d.*")
    world.do(world.client(), "PUBLISH", "d.t", "a")
    log = log_of(world)
    with monkeypatch.context() as moved:
        moved.setattr(Topic, "is_home", property(lambda topic: False))
        world.do(world.client(), "XADD", "d.t", "*", "payload", "b")
        log.relay(DURABLE_EPOCH, 2, [b"b"])
    log.take_over(0)
    world.advance()
    world.do(world.client(), "PUBLISH", "d.t", "c")
    assert [message[3] for message in pattern.read()] == [b"a", b"b", b"c"]


def test_a_hub_that_was_the_home_for_a_moment_sends_nothing_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    1. A hub with subscribers by pattern relays messages of the home, which dies.
    2. It becomes the home, and hands the topic over before it has opened the log.
    3. The next home had received less, and sends the rest.

    Found by `equipoise simulate --case cluster-store-durable --replay 248`.
    """
    world = durable_world()
    world.opens = False
    pattern = world.client()
    pattern.do("PSUBSCRIBE", "d.*")
    log = log_of(world)
    monkeypatch.setattr(Topic, "is_home", property(lambda topic: False))
    log.relay(DURABLE_EPOCH, 1, [b"a", b"b", b"c"])
    log.take_over(0)
    log.relay(DURABLE_EPOCH, 2, [b"b", b"c", b"d"])
    assert [message[3] for message in pattern.read()] == [b"a", b"b", b"c", b"d"]


def test_a_home_first_sends_what_former_owners_of_the_log_have_not_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    1. The channel has no home, or another hub is: the owner of the log acknowledges messages and sends none.
    2. Another hub becomes the owner, and the channel's home.

    Found by `equipoise simulate --case cluster-store-durable --replay 131`.
    """
    world = durable_world()
    world.do(world.client(), "PUBLISH", "d.t", "a")
    with monkeypatch.context() as moved:
        moved.setattr(Topic, "is_home", property(lambda topic: False))
        for value in "bc":
            world.do(world.client(), "PUBLISH", "d.t", value)
    live = world.core.logs.of(b"d.t")  # type: ignore[union-attr]  # it has logs
    assert (live.sent_number, live.committed_number) == (1, 3)
    pattern = world.client()
    pattern.do("PSUBSCRIBE", "d.*")
    world.reopen(b"d.t", sent=1)
    world.do(world.client(), "PUBLISH", "d.t", "d")
    assert [message[3] for message in pattern.read()] == [b"b", b"c", b"d"]


def test_entries_of_a_time_without_a_durable_spec_are_not_sent_later() -> None:
    world = durable_world()
    world.do(world.client(), "XADD", "d.t", "*", "payload", "a")
    world.core.specs.follow(Specs(), 2)
    world.durable.follow(world.core.index.topics.values())
    world.do(world.client(), "XADD", "d.t", "*", "payload", "b")
    pattern = world.client()
    pattern.do("PSUBSCRIBE", "d.*")
    world.core.specs.follow(DURABLE, 3)
    world.durable.follow(world.core.index.topics.values())
    world.reopen(b"d.t", sent=world.core.logs.of(b"d.t").sent_number)  # type: ignore[union-attr]  # it has logs
    world.do(world.client(), "XADD", "d.t", "*", "payload", "c")
    assert [message[3] for message in pattern.read()] == [b"c"]


def test_resuming_an_ordinary_topic_is_subscribing_to_it() -> None:
    world = durable_world()
    subscriber = world.client(3)
    subscriber.send("EQ.RESUME", "other", "7")
    ((verb, name, *_, n),) = subscriber.read()
    assert (verb, name, n) == (b"eq.subscribe", b"other", 0)
    subscriber.send("EQ.RESUME", "other", "x")
    assert subscriber.read()[0].startswith("ERR n is")


def test_smart_subscribers_come_again_when_their_topic_becomes_durable() -> None:
    world = LogWorld()
    plain, smart = subscribed(world, "d.t"), world.client(3)
    smart.send("EQ.SUBSCRIBE", "d.t")
    world.core.specs.follow(DURABLE, 1)
    world.durable.follow(world.core.index.topics.values())
    assert len(world.core.sessions) == 1
    world.do(world.client(), "PUBLISH", "d.t", "kept")
    assert plain.read() == [[b"message", b"d.t", b"kept"]]


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
