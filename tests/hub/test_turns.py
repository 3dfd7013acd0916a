"""Fairness: no client's commands block the loop for long, and replies stay in order."""

from __future__ import annotations

import pytest

from equipoise.hub.data import publish
from equipoise.hub.settings import Limits
from hub.world import Error, FakeClient, World, pipeline, request

# With the clock advancing by this much at each look, work takes time as it would for a real hub.
TICK_S = 0.002


def slow_world(topics: int = 0) -> World:
    world = World()
    listener = world.client()
    for start in range(0, topics, 500):
        listener.send("SUBSCRIBE", *(f"topic{i}" for i in range(start, min(start + 500, topics))))
    world.shell.tick_s = TICK_S
    return world


def settle(world: World, client: FakeClient) -> int:
    """Let the client's commands run to their end; how many turns it took."""
    turns = 0
    while client.session.is_busy and not client.wire.is_gone():
        turns += 1
        assert turns < 10_000
        world.advance(0.0)
    return turns


def test_a_long_pipeline_yields_to_other_clients_and_loses_nothing() -> None:
    world = slow_world()
    client = world.client()
    client.send_raw(pipeline(["ECHO", str(i)] for i in range(1_000)))
    first = client.read()
    assert 0 < len(first) < 1_000
    assert not client.wire.is_reading
    assert settle(world, client) > 3
    assert first + client.read() == [b"%d" % i for i in range(1_000)]


def test_other_clients_are_served_between_the_turns_of_a_long_pipeline() -> None:
    world = slow_world()
    greedy, modest = world.client(), world.client()
    greedy.send_raw(pipeline(["ECHO", "x"] for _ in range(1_000)))
    assert not greedy.wire.is_reading
    assert modest.do("PING") == b"PONG"
    settle(world, greedy)
    assert len(greedy.read()) == 1_000


def test_input_that_arrives_while_a_pipeline_waits_is_executed_after_it() -> None:
    world = slow_world()
    client = world.client()
    client.send_raw(pipeline(["ECHO", str(i)] for i in range(200)))
    client.session.receive(request("ECHO", "200"))
    client.session.receive(pipeline(["PUBLISH", "t", "x"] for _ in range(5)))
    settle(world, client)
    assert client.read() == [*(b"%d" % i for i in range(201)), 0, 0, 0, 0, 0]


def test_a_client_that_keeps_sending_while_it_is_not_read_is_disconnected() -> None:
    world = World(limits=Limits(payload_bytes_max=1_024, input_slack_bytes=1_024))
    world.shell.tick_s = TICK_S
    client = world.client()
    client.send_raw(pipeline(["ECHO", "x"] for _ in range(200)))
    for _ in range(10):
        client.send_raw(b"x" * 500)
    assert client.wire.is_gone()


def test_a_client_that_disconnects_while_it_waits_for_its_turn_is_not_executed_further() -> None:
    world = slow_world()
    client = world.client()
    client.send_raw(pipeline(["ECHO", "x"] for _ in range(1_000)))
    client.wire.abort()
    world.advance(1)
    assert not client.is_connected()


@pytest.mark.parametrize(
    "unit",
    [b"PING\r\n", b"\r\n", b"\n", b"*0\r\n", b'"' + b"a" * 1_000 + b'"\r\n', b"*1\r\n$6\r\n*12345\r\n"],
)
def test_slow_encodings_yield_too(unit: bytes) -> None:
    world = slow_world()
    client = world.client()
    client.send_raw(unit * (70_000 // len(unit)) + request("ECHO", "last"))
    assert not client.wire.is_reading
    settle(world, client)
    assert client.read()[-1] == b"last"


def test_an_error_at_the_end_of_a_long_chunk_is_reported() -> None:
    world = slow_world()
    client = world.client()
    client.send_raw(b"\r\n" * 30_000 + b"*1\r\n:5\r\n")
    settle(world, client)
    assert client.read() == [Error("ERR Protocol error: expected '$', got ':'")]


def test_publishes_to_many_topics_yield_and_keep_their_order() -> None:
    world = slow_world()
    subscriber, publisher = world.client(), world.client()
    subscriber.send("PSUBSCRIBE", "t*")
    subscriber.read()
    publisher.send_raw(pipeline(["PUBLISH", f"t{i}", str(i)] for i in range(600)))
    published = len(publisher.read())
    assert 0 < published < 600
    assert len(world.core.index.topics) == published
    publisher.session.receive(request("PUBLISH", "t0", "last"))
    settle(world, publisher)
    assert publisher.read() == [1] * (601 - published)
    received = [int(delivery[3]) for delivery in subscriber.read()[:-1]]
    assert received == list(range(600))
    assert world.core.stats.commands > 600


def test_a_run_for_very_many_subscribers_yields(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "AT_ONCE_BYTES", 10_000)
    monkeypatch.setattr(publish, "FEW_RECEIVERS", 5)
    world = slow_world()
    subscribers = [world.client() for _ in range(10)]
    for subscriber in subscribers:
        subscriber.send("SUBSCRIBE", "t")
        subscriber.read()
    publisher = world.client()
    publisher.send_raw(pipeline(["PUBLISH", "t", b"%03d" % i + b"x" * 97] for i in range(100)))
    assert not publisher.wire.is_reading
    settle(world, publisher)
    assert publisher.read() == [10] * 100
    for subscriber in subscribers:
        assert [int(delivery[2][:3]) for delivery in subscriber.read()] == list(range(100))


def test_many_patterns_are_subscribed_to_by_turns() -> None:
    world = slow_world()
    client = world.client(3)
    client.send_raw(request("PSUBSCRIBE", *(f"*?{i}" for i in range(500))) + request("ECHO", "after"))
    assert client.read() == []
    settle(world, client)
    *answers, after = client.read()
    assert [answer[2] for answer in answers] == list(range(1, 501))
    assert after == b"after"


def test_an_invalid_pattern_at_the_end_is_rejected_before_any_subscription() -> None:
    world = slow_world()
    client = world.client()
    client.send("PSUBSCRIBE", *(f"*?{i}" for i in range(500)), "x" * 300)
    settle(world, client)
    assert client.read() == [Error("ERR pattern longer than 256 bytes (pattern_bytes_max)")]
    assert len(world.core.index.patterns) == 0
    assert world.core.stats.errors == 1


@pytest.mark.parametrize("command", ["PUBSUB CHANNELS", "PUBSUB CHANNELS topic*", "INFO", "CLIENT LIST"])
def test_long_listings_yield_and_stay_in_order(command: str) -> None:
    world = slow_world(topics=5_000)
    others = [world.client() for _ in range(100)]
    client = world.client()
    client.send_raw(request(*command.split()) + request("ECHO", "after"))
    assert client.session.is_busy
    settle(world, client)
    listing, after = client.read()
    assert after == b"after"
    if command.startswith("PUBSUB"):
        assert sorted(listing) == sorted(b"topic%d" % i for i in range(5_000))
    elif command == "INFO":
        assert b"pubsub_channels:5000\r\n" in listing
    else:
        assert listing.count(b"\n") == len(others) + 2


def test_a_listing_is_abandoned_when_its_client_disconnects() -> None:
    world = slow_world(topics=2_000)
    client = world.client()
    client.send("PUBSUB", "CHANNELS")
    waiting = world.shell.timers_pending
    client.wire.abort()
    world.advance(0.1)
    # The timer of its next step, and the timer of its pending replies.
    assert world.shell.timers_pending == waiting - 2


def test_a_topic_may_be_removed_during_a_listing() -> None:
    world = slow_world(topics=2_000)
    client = world.client()
    client.send("PUBSUB", "CHANNELS")
    for session in list(world.core.sessions.values()):
        if session is not client.session:
            world.core.cut(session, "the test says so")
    settle(world, client)
    (listing,) = client.read()
    assert 0 < len(listing) < 2_000


def test_many_floods_block_the_loop_no_longer_than_two() -> None:
    """
    1. Sixty connections of one address send more than a turn's worth of commands each: two are looked at.
    2. Each pass of the loop executes what fits into two turns at most: one that begins just before the first is over.
    3. A client of another address that floods as well has every second pass, not every sixtieth.
    4. One that asks for little is answered at once.
    """
    world = slow_world()
    crowd = [world.client() for _ in range(60)]
    other, modest = world.client(), world.client()
    for client in crowd:
        client.session.address = "192.0.2.7:1"
    other.session.address, modest.session.address = "192.0.2.8:1", "192.0.2.9:1"
    # The clock is read every 16 commands: a turn is over after six looks at the most.
    turn = 6 * 16
    before = world.core.stats.commands
    for client in crowd:
        client.send_raw(pipeline(["ECHO", "x"] for _ in range(400)))
    assert 0 < world.core.stats.commands - before <= 2 * turn
    other.send_raw(pipeline(["ECHO", "x"] for _ in range(400)))
    passes = most = 0
    while other.session.is_busy:
        before = world.core.stats.commands
        world.advance(0.0)
        most = max(most, world.core.stats.commands - before)
        passes += 1
        assert passes < 1_000
        assert modest.do("PING") == b"PONG"
    assert 0 < most <= 2 * turn
    assert passes <= 2 * (400 // 16 + 1)
    for client in crowd:
        settle(world, client)
    assert [len(client.read()) for client in (*crowd, other)] == [400] * 61
