"""Filters at hubs where the topic does not live: what matches comes, once, in order, wherever the topic goes."""

from __future__ import annotations

import pytest

from equipoise.model import Mode
from hub.cluster.hubs import Hubs
from hub.world import FakeClient

EVEN = "$filter t even = true"


def subscribed(hubs: Hubs, hub: str, text: str = EVEN) -> FakeClient:
    client = hubs[hub].client()
    client.send("PSUBSCRIBE", text)
    hubs.settle()
    assert client.read() == [[b"psubscribe", text.encode(), 1]]
    return client


def publish(hubs: Hubs, hub: str, *numbers: int) -> None:
    publisher = hubs[hub].client()
    for number in numbers:
        payload = f'{{"even": {"false" if number % 2 else "true"}, "number": {number}}}'
        publisher.send("PUBLISH", "t", payload)
    hubs.settle()


def heard(client: FakeClient) -> list[int]:
    return [int(message[3].rpartition(b" ")[2].rstrip(b"}")) for message in client.read()]


@pytest.mark.parametrize("legacy", [(), ("h1",), ("h2",)], ids=["new", "old home", "old relay"])
def test_a_filter_is_served_at_every_hub(legacy: tuple[str, ...]) -> None:
    hubs = Hubs("h1", "h2", "h3", legacy=legacy)
    hubs.replicate("t", Mode.SINGLE, "h1")
    clients = [subscribed(hubs, hub) for hub in ("h1", "h2", "h3")]
    for hub in ("h1", "h2", "h3"):
        publish(hubs, hub, 1, 2, 3, 4)
    assert [heard(client) for client in clients] == [[2, 4] * 3] * 3


def test_a_filter_stays_while_the_topic_moves() -> None:
    hubs = Hubs("h1", "h2", "h3")
    hubs.replicate("t", Mode.SINGLE, "h1")
    client = subscribed(hubs, "h3")
    publish(hubs, "h1", 1, 2)
    hubs.replicate("t", Mode.SINGLE, "h2")
    publish(hubs, "h1", 3, 4)
    hubs.replicate("t", Mode.SINGLE, "h3")
    publish(hubs, "h2", 5, 6)
    hubs.replicate("t", Mode.SINGLE, "h1")
    publish(hubs, "h3", 7, 8)
    assert heard(client) == [2, 4, 6, 8]


def test_the_stream_is_followed_as_long_as_there_is_a_filter() -> None:
    hubs = Hubs("h1", "h2")
    hubs.replicate("t", Mode.SINGLE, "h1")
    client = subscribed(hubs, "h2")
    assert hubs["h1"].core.index.topics[b"t"].relays
    client.send("PUNSUBSCRIBE", EVEN)
    hubs.settle()
    for node in hubs.nodes.values():
        node.shell.advance(1_000)
    hubs.settle()
    for node in hubs.nodes.values():
        node.shell.advance(1_000)
    hubs.settle()
    # Without relays and messages it is soon forgotten.
    assert b"t" not in hubs["h1"].core.index.topics


def test_a_filter_hears_all_lanes_of_a_topic() -> None:
    hubs = Hubs("h1", "h2", "h3")
    hubs.replicate("t", Mode.ALL_SUBSCRIBERS, "h1", "h2")
    clients = [subscribed(hubs, hub) for hub in ("h1", "h2", "h3")]
    publish(hubs, "h1", 1, 2)
    publish(hubs, "h2", 3, 4)
    publish(hubs, "h3", 5, 6)
    assert [sorted(heard(client)) for client in clients] == [[2, 4, 6]] * 3


def test_a_pattern_and_a_filter_in_one_command_wait_for_both() -> None:
    hubs = Hubs("h1", "h2")
    hubs.replicate("t", Mode.SINGLE, "h1")
    client = hubs["h2"].client()
    client.send("PSUBSCRIBE", "u*", EVEN)
    hubs.settle()
    assert [answer[1] for answer in client.read()] == [b"u*", EVEN.encode()]
    publish(hubs, "h1", 1, 2)
    hubs["h1"].client().send("PUBLISH", "u1", "hello")
    hubs.settle()
    assert [message[1] for message in client.read()] == [EVEN.encode(), b"u*"]
