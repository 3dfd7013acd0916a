"""Positions: every message of a topic has one, without holes, the same for every subscriber."""

from __future__ import annotations

from typing import Any

from equipoise.hub.commands.dispatch import Dispatch
from equipoise.hub.settings import Limits
from hub.world import FakeClient, World, pipeline


def positions(client: FakeClient) -> list[tuple[int, int, bytes]]:
    """(epoch, n, payload) of each positioned message read since the last call."""
    found = []
    for word, *rest in client.read():
        assert word in (b"eq.message", b"eq.pmessage")
        topic_at = 1 if word == b"eq.pmessage" else 0
        epoch, first, *payloads = rest[topic_at + 1 :]
        found += [(epoch, n, payload) for n, payload in enumerate(payloads, first)]
    return found


def subscribed(world: World, command: str, name: str) -> tuple[FakeClient, Any]:
    client = world.client(3)
    return client, client.do(command, name)


def test_positions_start_at_one_and_have_no_holes_however_messages_are_published() -> None:
    world = World()
    client, answer = subscribed(world, "EQ.SUBSCRIBE", "t")
    assert answer[4] == 0
    one, run, mixed = world.client(), world.client(), world.client(3)
    one.do("PUBLISH", "t", "0")
    run.send_raw(pipeline(["PUBLISH", "t", str(i)] for i in range(1, 50)))
    mixed.send("SUBSCRIBE", "t")
    mixed.send_raw(pipeline([["PUBLISH", "t", "50"], ["PUBLISH", "u", "x"], ["PUBLISH", "t", "51"]]))
    assert positions(client) == [(answer[3], i + 1, b"%d" % i) for i in range(52)]


def test_the_reply_to_a_subscription_has_the_position_of_the_stream() -> None:
    world = World()
    publisher = world.client()
    publisher.send_raw(pipeline(["PUBLISH", "t", "x"] for _ in range(7)))
    assert publisher.read() == [0] * 7
    client, answer = subscribed(world, "EQ.SUBSCRIBE", "t")
    assert answer[4] == 7
    publisher.do("PUBLISH", "t", "next")
    assert positions(client) == [(answer[3], 8, b"next")]


def test_subscribers_by_name_and_by_pattern_see_the_same_positions() -> None:
    world = World()
    by_name, _ = subscribed(world, "EQ.SUBSCRIBE", "t")
    by_pattern, _ = subscribed(world, "EQ.PSUBSCRIBE", "?")
    both, _ = subscribed(world, "EQ.SUBSCRIBE", "t")
    both.do("EQ.PSUBSCRIBE", "*")
    world.client().send_raw(pipeline(["PUBLISH", "t", str(i)] for i in range(4)))
    seen = positions(by_name)
    assert [n for _, n, _ in seen] == [1, 2, 3, 4]
    assert positions(by_pattern) == seen
    assert positions(both) == [position for position in seen for _ in range(2)]


def test_messages_published_without_subscribers_are_numbered_too() -> None:
    world = World()
    client, (_, _, _, epoch, _) = subscribed(world, "EQ.SUBSCRIBE", "t")
    client.do("EQ.UNSUBSCRIBE", "t")
    world.client().do("PUBLISH", "t", "unheard")
    assert client.do("EQ.SUBSCRIBE", "t")[3:] == [epoch, 1]


def test_an_epoch_is_greater_after_the_topic_was_removed() -> None:
    world = World(limits=Limits(topic_idle_s=10))
    client, (_, _, _, epoch, _) = subscribed(world, "EQ.SUBSCRIBE", "t")
    world.client().do("PUBLISH", "t", "x")
    client.read()
    client.do("EQ.UNSUBSCRIBE", "t")
    world.advance(30)
    assert b"t" not in world.core.index.topics
    _, _, _, later, n = client.do("EQ.SUBSCRIBE", "t")
    assert later > epoch
    assert n == 0


def test_epochs_grow_though_the_wall_clock_stands_still_or_goes_back() -> None:
    world = World()
    client = world.client(3)
    world.shell.wall_ahead_s -= 3_600
    epochs = [client.do("EQ.SUBSCRIBE", f"t{i}")[3] for i in range(5)]
    assert epochs == sorted(set(epochs))
    assert epochs[0] > world.core.incarnation


def test_a_restarted_hub_has_greater_epochs() -> None:
    first, second = World(), World()
    second.shell.wall_ahead_s += 1
    second.core = type(second.core)(second.core.settings, second.core.users, second.shell, Dispatch)
    assert (
        subscribed(second, "EQ.SUBSCRIBE", "t")[1][3]
        > [subscribed(first, "EQ.SUBSCRIBE", f"t{i}")[1][3] for i in range(100)][-1]
    )


def test_epochs_fit_63_bits() -> None:
    world = World()
    _, answer = subscribed(world, "EQ.SUBSCRIBE", "t")
    assert 0 < answer[3] < 2**63


def test_a_plain_subscriber_of_the_same_topic_gets_plain_frames() -> None:
    world = World()
    plain, smart = world.client(3), world.client(3)
    plain.send("SUBSCRIBE", "t")
    smart.send("EQ.SUBSCRIBE", "t")
    plain.read(), smart.read()
    assert world.client().do("PUBLISH", "t", "x") == 2
    assert plain.read() == [[b"message", b"t", b"x"]]
    assert [n for _, n, _ in positions(smart)] == [1]
