"""Messages of topics that a hub has no room for are reported to publishers and to subscribers by pattern."""

from __future__ import annotations

from equipoise.hub.cluster.counters import cluster_counters
from equipoise.hub.cluster.link.frames import DetachFrame
from equipoise.model import Mode
from hub.cluster.hubs import Hubs
from hub.world import FakeClient


def listening(hubs: Hubs, hub: str, *command: str) -> FakeClient:
    client = hubs[hub].client(3)
    client.send(*(command or ("EQ.PSUBSCRIBE", "t*")))
    hubs.settle()
    client.read()
    return client


def fill(hubs: Hubs, hub: str) -> None:
    """The hub forgets t, which no client subscribes to by name, and is full of topics with subscribers."""
    index = hubs[hub].core.index
    client = hubs[hub].client()
    for i in range(3):
        client.send("SUBSCRIBE", f"own {i}")
        hubs.settle()
    if b"t" in index.topics:
        index.topics_max = len(index.topics)
        client.send("SUBSCRIBE", "own 3")
        hubs.settle()
    index.topics_max = len(index.topics)
    assert b"t" not in index.topics


def at_home(home: str) -> Hubs:
    hubs = Hubs("h1", "h2", "h3")
    hubs.replicate("t", Mode.SINGLE, home)
    return hubs


GAP = [b"eq.gap", b"t*", b"t"]


def test_a_home_without_room_sends_a_gap_to_subscribers_by_pattern_and_an_error_to_the_next_publisher() -> (
    None
):
    """
    1. h2 has published to t, whose home h1 knows it: PUBLISH at h2 is answered at once;
    2. h1 forgets t and is full of topics in use; the next message is answered, and h1 has no room for it;
    3. subscribers by pattern at h1 and h3 get a gap;
    4. the message after that is answered with an error, not with a number;
    5. with room again, both get new messages.
    """
    hubs = at_home("h1")
    near, far = listening(hubs, "h1"), listening(hubs, "h3")
    hubs.publish_first("h2", "t")
    publisher = hubs["h2"].client()
    for client in (near, far):
        assert [push[-1] for push in client.read()] == [b"first"]
    fill(hubs, "h1")
    assert publisher.do("PUBLISH", "t", "lost") == 0, "answered before the home has it"
    hubs.settle()
    assert near.read() == [GAP]
    assert far.read() == [GAP]
    assert cluster_counters(hubs["h1"].cluster)["messages_dropped"] == 1
    publisher.send("PUBLISH", "t", "refused")
    hubs.settle()
    (answer,) = publisher.read()
    assert str(answer).startswith("UNCERTAIN")
    assert near.read() == far.read() == [GAP]
    hubs["h1"].core.index.topics_max += 1
    publisher.send("PUBLISH", "t", "back")
    hubs.settle()
    assert publisher.read() == [0]
    for client in (near, far):
        assert [push[-1] for push in client.read()] == [b"back"]


def test_the_loss_of_plain_subscribers_by_pattern_is_counted() -> None:
    hubs = at_home("h1")
    listening(hubs, "h3", "PSUBSCRIBE", "t*")
    hubs.publish_first("h2", "t")
    fill(hubs, "h1")
    hubs["h2"].client().send("PUBLISH", "t", "lost")
    hubs.settle()
    assert hubs["h3"].core.losses.facts(b"t") == {"messages_missed": 0, "gaps_unknown": 1}
    assert hubs["h2"].core.losses.facts(b"t") == {"messages_missed": 0, "gaps_unknown": 0}


def test_a_follower_without_room_sends_a_gap_to_its_subscribers_by_pattern() -> None:
    """Messages of a topic that it cannot create are counted as lost."""
    hubs = at_home("h1")
    far = listening(hubs, "h3")
    fill(hubs, "h3")
    publisher = hubs["h1"].client()
    publisher.do("PUBLISH", "t", "lost")
    hubs.settle()
    assert far.read() == [GAP]
    assert hubs["h3"].core.losses.facts(b"t") == {"messages_missed": 0, "gaps_unknown": 1}
    hubs["h3"].core.index.topics_max += 1
    publisher.do("PUBLISH", "t", "back")
    hubs.settle()
    assert [push[-1] for push in far.read()] == [b"back"]


def test_a_forwarding_hub_without_room_has_the_home_number_the_loss() -> None:
    """
    1. t moves from h1 to h3. h2 has not received the plan and sends its message to h1;
    2. h1 has removed the topic and has no room: h3 numbers the loss before the next message.
    """
    hubs = at_home("h1")
    hubs.publish_first("h2", "t")
    fill(hubs, "h1")
    hubs.replicate("t", Mode.SINGLE, "h3", only=("h1", "h3"))
    publisher = hubs["h2"].client()
    publisher.send("PUBLISH", "t", "lost")
    hubs.settle()
    subscriber = listening(hubs, "h3", "EQ.SUBSCRIBE", "t")
    hubs.tell("h2")
    publisher.send("PUBLISH", "t", "next")
    hubs.settle()
    pushes = [push for push in subscriber.read() if push[0] == b"eq.message"]
    assert [(push[3], push[-1]) for push in pushes] == [(2, b"next")]


def test_a_hub_without_room_for_an_offered_topic_has_the_hub_that_keeps_it_number_the_loss() -> None:
    """
    1. t is to move from h1 to h3, which is full of topics: h1 keeps it, and its subscribers;
    2. h2 goes by the plan and sends its message to h3: h1 numbers the loss.
    """
    hubs = at_home("h1")
    subscriber = listening(hubs, "h1", "EQ.SUBSCRIBE", "t")
    hubs.publish_first("h2", "t")
    fill(hubs, "h3")
    hubs.replicate("t", Mode.SINGLE, "h3")
    publisher = hubs["h2"].client()
    publisher.send("PUBLISH", "t", "lost")
    hubs.settle()
    assert cluster_counters(hubs["h3"].cluster)["messages_dropped"] == 1
    subscriber.read()
    hubs["h1"].client().send("PUBLISH", "t", "next")
    hubs.settle()
    pushes = [push for push in subscriber.read() if push[0] == b"eq.message"]
    assert [(push[3], push[-1]) for push in pushes] == [(3, b"next")]


def test_a_hub_that_follows_a_topic_of_a_home_without_room_is_accepted_once_there_is_room() -> None:
    """If the request were ignored, subscribers at the other hub would wait for ever."""
    hubs = at_home("h1")
    fill(hubs, "h1")
    subscriber = hubs["h2"].client()
    subscriber.send("SUBSCRIBE", "t")
    hubs.settle()
    assert subscriber.read() == []
    hubs["h1"].core.index.topics_max += 1
    hubs["h1"].shell.advance(1.0)
    hubs.settle()
    assert subscriber.read() == [[b"subscribe", b"t", 1]]
    hubs.publish_first("h3", "t")
    assert subscriber.read() == [[b"message", b"t", b"first"]]


def test_a_hub_that_no_longer_follows_or_is_dead_is_not_accepted_later() -> None:
    hubs = at_home("h1")
    fill(hubs, "h1")
    for hub in ("h2", "h3"):
        hubs[hub].client().send("SUBSCRIBE", "t")
    hubs.settle()
    followers = hubs["h1"].cluster.followers
    assert {link.hub for link, _ in followers._roomless} == {"h2", "h3"}
    hubs.kill("h3")
    assert {link.hub for link, _ in followers._roomless} == {"h2"}
    hubs["h1"].cluster.frames.execute("h2", DetachFrame(b"t"))
    hubs["h1"].core.index.topics_max += 1
    hubs["h1"].shell.advance(1.0)
    hubs.settle()
    assert followers._roomless == {} and b"t" not in hubs["h1"].core.index.topics
