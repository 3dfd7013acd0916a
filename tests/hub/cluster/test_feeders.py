"""A plain PUBLISH is acknowledged once its loss would be reported: its home knows the hub that forwards it."""

from __future__ import annotations

import pytest

from equipoise.hub.cluster.lane_state import lane_key
from equipoise.hub.cluster.settings import ClusterSettings
from equipoise.model import Mode
from hub.cluster.hubs import Hubs
from hub.world import FakeClient


def listening(hubs: Hubs, hub: str) -> FakeClient:
    client = hubs[hub].client(3)
    client.send("EQ.SUBSCRIBE", "t")
    hubs.settle()
    client.read()
    return client


def messages(client: FakeClient) -> list[tuple[int, int, bytes]]:
    """Epoch, n and payload of what came."""
    return [(push[2], push[3], push[4]) for push in client.read() if push[0] == b"eq.message"]


def at(home: str) -> Hubs:
    hubs = Hubs("h1", "h2", "h3")
    hubs.replicate("t", Mode.SINGLE, home)
    return hubs


def test_the_first_message_through_a_hub_is_acknowledged_with_its_position_and_later_ones_at_once() -> None:
    hubs = at("h1")
    listening(hubs, "h1")
    client = hubs["h2"].client()
    client.send("PUBLISH", "t", "a")
    assert client.read() == []
    hubs.settle()
    assert client.read() == [0], "as many as h2 knew of when it came"
    hubs.held.add(("h2", "h1"))
    assert isinstance(client.do("PUBLISH", "t", "b"), int)


def test_a_new_home_has_to_register_the_hub_again() -> None:
    hubs = at("h1")
    hubs.publish_first("h2", "t")
    hubs.held.add(("h2", "h3"))
    hubs.replicate("t", Mode.SINGLE, "h3")
    client = hubs["h2"].client()
    client.send("PUBLISH", "t", "a")
    hubs.settle()
    assert client.read() == [], "h3 has not seen it, and might die before it opens the topic"
    hubs.release("h2", "h3")
    assert client.read() == [0]


def test_a_message_to_a_next_home_that_dies_is_acknowledged_once_another_home_has_numbered_it() -> None:
    """
    1. t is to move from h1 to h3, and h2 knows that first: it sends a message to h3;
    2. h3 dies before it has opened t, which stays at h1 without a gap;
    3. the message goes to h1, and its publisher is answered then. (It used to be answered, and the message was lost.)
    """
    hubs = at("h1")
    hubs.publish_first("h2", "t")
    hubs.held.add(("h1", "h3"))
    hubs.replicate("t", Mode.SINGLE, "h3")
    client = hubs["h2"].client()
    client.send("PUBLISH", "t", "a")
    hubs.settle()
    assert client.read() == []
    hubs.kill("h3")
    assert client.read() == [0]


def test_subscribers_get_a_gap_when_a_hub_that_forwards_messages_dies() -> None:
    hubs = at("h1")
    subscriber = listening(hubs, "h3")
    hubs.publish_first("h2", "t")
    hubs.held.add(("h2", "h1"))
    assert isinstance(hubs["h2"].client().do("PUBLISH", "t", "lost"), int)
    hubs.kill("h2")
    hubs.publish_first("h3", "t")
    (before, _, _), (after, n, _) = messages(subscriber)
    assert after > before, "an epoch that follows no end: a gap of unknown size"
    assert n == 1


def test_subscribers_of_lanes_get_a_gap_when_a_feeder_dies() -> None:
    hubs = Hubs("h1", "h2", "h3")
    hubs.replicate("t", Mode.ALL_SUBSCRIBERS, "h1", "h2")
    hubs.publish_first("h3", "t")
    lane = hubs["h2"].core.index.lanes[lane_key("h2", b"t")]
    assert lane.n == 1, "h3 publishes to the lane"
    before = lane.epoch
    hubs.kill("h3")
    assert lane.epoch > before


def test_a_death_between_close_and_opening_is_reported_by_the_new_home() -> None:
    """
    1. h2 has acknowledged a message to t that has not come to h1, where t lives;
    2. t moves to h3: h1 has sent CLOSE, and h3 has not received it;
    3. h2 dies. h1 numbers t no more, and h3 has never had a message through h2;
    4. h3 opens t. It knows that h1 did not know of the death when it closed, and sends a gap.
    """
    hubs = at("h1")
    subscriber = listening(hubs, "h3")
    hubs.publish_first("h2", "t")
    hubs.held |= {("h2", "h1"), ("h3", "h1")}
    assert isinstance(hubs["h2"].client().do("PUBLISH", "t", "lost"), int)
    hubs.replicate("t", Mode.SINGLE, "h3")
    hubs.held.add(("h1", "h3"))
    hubs.release("h3", "h1")
    hubs.alive.discard("h2")
    hubs.tell("h3")
    hubs.release("h1", "h3")
    opened = [push for push in subscriber.read() if push[0] == b"eq.opened"]
    hubs.publish_first("h1", "t")
    ((epoch, n, _),) = messages(subscriber)
    assert n == 1
    assert opened, "the move itself is no gap"
    assert epoch > opened[0][2], "and then one that follows no end"


def test_the_death_of_a_former_home_is_reported_by_the_new_one() -> None:
    """What other hubs had sent to it may have died with it."""
    hubs = at("h1")
    subscriber = listening(hubs, "h3")
    hubs.publish_first("h2", "t")
    hubs.held.add(("h1", "h2"))
    hubs.replicate("t", Mode.SINGLE, "h3")
    epoch = hubs["h3"].core.index.topics[b"t"].epoch
    hubs.kill("h1")
    hubs.publish_first("h3", "t")
    assert messages(subscriber)[-1][0] > epoch


def test_the_death_of_an_incarnation_that_the_new_home_never_knew_is_a_gap() -> None:
    """
    1. t moves to h3, after messages came through a hub whose life h3 never knew.
    2. h3 learns that this incarnation has ended. Messages that it acknowledged may be lost: subscribers of t get a gap.
    3. A topic that has always lived at h3 was never fed by that life.
    """
    hubs = at("h1")
    subscriber = listening(hubs, "h3")
    hubs.publish_first("h2", "t")
    hubs.replicate("t", Mode.SINGLE, "h3")
    hubs.replicate("own", Mode.SINGLE, "h3")
    hubs.publish_first("h3", "t")
    hubs.publish_first("h3", "own")
    topics = hubs["h3"].core.index.topics
    before, own = topics[b"t"].epoch, topics[b"own"].epoch
    hubs["h3"].cluster.declare_dead(("h9", 17))
    hubs.publish_first("h3", "t")
    assert messages(subscriber)[-1][0] == topics[b"t"].epoch > before
    assert topics[b"own"].epoch == own


@pytest.mark.parametrize("is_on", [True, False])
def test_plain_subscribers_are_disconnected_on_a_loss_if_the_setting_is_on(is_on: bool) -> None:
    hubs = Hubs("h1", "h2", "h3", cluster=ClusterSettings(disconnect_on_loss=is_on))
    hubs.replicate("t", Mode.SINGLE, "h1")
    by_name, by_pattern, by_filter, other, smart, spans = (
        hubs["h1"].client(3 if i > 3 else 2) for i in range(6)
    )
    by_name.send("SUBSCRIBE", "t")
    by_filter.send("PSUBSCRIBE", "$filter t a = 1")
    spans.send("EQ.FSUBSCRIBE", "1", "t", "a = 1")
    by_pattern.send("PSUBSCRIBE", "t*")
    other.send("SUBSCRIBE", "u")
    smart.send("EQ.SUBSCRIBE", "t")
    hubs.publish_first("h2", "t")
    hubs.kill("h2")
    hubs.settle()
    assert [client.is_connected() for client in (by_name, by_pattern, by_filter)] == [not is_on] * 3
    assert other.is_connected(), "it has lost nothing"
    assert smart.is_connected() and spans.is_connected(), "they are told"
