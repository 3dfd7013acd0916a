"""One plan moves many topics: no step blocks the loop of a hub for longer than a turn."""

from __future__ import annotations

from equipoise.hub.cluster.barrier import EVALUATE_SLICE, STREAM_EFFORT
from hub.cluster.hubs import Hubs

TOPICS = [f"topic {number}" for number in range(200)]


def subscribed(hubs: Hubs, hub: str) -> None:
    client = hubs[hub].client()
    for topic in TOPICS:
        client.send("SUBSCRIBE", topic)
    hubs.settle()


def turns_of_a_move(hubs: Hubs, home: str) -> int:
    """Turns of long work at h1 while all topics move to this hub, and are open there."""
    before = hubs["h1"].core.turns.count
    hubs.move(TOPICS, home)
    hubs.settle()
    topics = hubs[home].core.index.topics
    assert all(topics[topic.encode()].is_home for topic in TOPICS)
    return hubs["h1"].core.turns.count - before


def test_topics_leave_a_few_per_turn() -> None:
    hubs = Hubs("h1", "h2")
    hubs.move(TOPICS, "h1")
    subscribed(hubs, "h1")
    assert turns_of_a_move(hubs, "h2") >= len(TOPICS) * STREAM_EFFORT / EVALUATE_SLICE


def test_topics_that_stay_are_checked_in_few_turns() -> None:
    hubs = Hubs("h1", "h2")
    hubs.move(TOPICS, "h1")
    subscribed(hubs, "h1")
    assert turns_of_a_move(hubs, "h1") <= 4
