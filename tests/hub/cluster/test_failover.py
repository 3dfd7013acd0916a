"""Messages that were sent to a home that died are resent to the next one, unless another hub has seen them."""

from __future__ import annotations

import pytest

from equipoise.hub.cluster.failover import Failover
from equipoise.model import Mode
from hub.cluster.hubs import Hubs
from hub.world import FakeClient


def at_h2() -> Hubs:
    """The home of t is h2, which knows that clients publish through h1."""
    hubs = Hubs("h1", "h2", "h3")
    hubs.replicate("t", Mode.SINGLE, "h2")
    hubs.publish_first("h1", "t")
    return hubs


def subscribed(hubs: Hubs, hub: str) -> FakeClient:
    client = hubs[hub].client(3)
    client.send("EQ.SUBSCRIBE", "t")
    hubs.settle()
    client.read()
    return client


def payloads(client: FakeClient) -> list[bytes]:
    return [payload for push in client.read() if push[0] == b"eq.message" for payload in push[4:]]


def test_messages_that_the_dead_home_had_not_executed_go_to_the_next_one_in_order() -> None:
    hubs = at_h2()
    near, far = subscribed(hubs, "h1"), subscribed(hubs, "h3")
    publisher = hubs["h1"].client()
    hubs.held.add(("h1", "h2"))
    for text in "abc":
        publisher.send("PUBLISH", "t", text)
    hubs.settle()
    hubs.kill("h2")
    hubs.settle()
    assert payloads(near) == payloads(far) == [b"a", b"b", b"c"]
    assert sum(hubs[hub].cluster.failover.resent for hub in ("h1", "h3")) == 3


def seen_by_h3() -> tuple[Hubs, list[bytes]]:
    """h2 numbers a message of h1, sends it to h3, and dies before its acknowledgement; what a subscriber at h3 gets."""
    hubs = at_h2()
    far, publisher = subscribed(hubs, "h3"), hubs["h1"].client()
    hubs.held.add(("h2", "h1"))
    publisher.send("PUBLISH", "t", "a")
    hubs.settle()
    hubs.kill("h2")
    publisher.send("PUBLISH", "t", "b")
    hubs.settle()
    return hubs, payloads(far)


def test_messages_that_another_hub_has_seen_are_not_resent() -> None:
    _, got = seen_by_h3()
    assert got == [b"a", b"b"]


def test_without_reports_of_seen_messages_they_would_be_delivered_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Failover, "report", lambda self, stream, home=None: None)
    _, got = seen_by_h3()
    assert got == [b"a", b"a", b"b"]


def trickle(hubs: Hubs, *links: tuple[str, str]) -> None:
    """Release the frames that are held back on these links one by one, and run everything in between."""
    is_moving = True
    while is_moving:
        hubs.settle()
        is_moving = False
        for end, under_way in [hubs.connections[link] for link in links]:
            if under_way:
                end.send_raw(under_way.pop(0))
                is_moving = True


def newcomers(hub: str) -> tuple[list[bytes], list[bytes]]:
    """A client of h2 gets a message that no other hub sees, and reconnects to another hub when h2 dies: what it gets.

    And what a client gets that was at that hub all the time.
    """
    hubs = at_h2()
    settled = subscribed(hubs, hub)
    direct, publisher = subscribed(hubs, "h2"), hubs["h1"].client()
    hubs.held |= {("h2", "h1"), ("h2", "h3")}
    publisher.send("PUBLISH", "t", "a")
    hubs.settle()
    assert payloads(direct) == [b"a"]
    hubs.held |= {("h1", "h3"), ("h3", "h1")}
    hubs.kill("h2")
    newcomer = hubs[hub].client(3)
    newcomer.send("EQ.SUBSCRIBE", "t")
    trickle(hubs, ("h1", "h3"), ("h3", "h1"))
    publisher.send("PUBLISH", "t", "b")
    trickle(hubs, ("h1", "h3"), ("h3", "h1"))
    return payloads(settled), payloads(newcomer)


@pytest.mark.parametrize("hub", ["h1", "h3"])
def test_a_client_of_the_dead_home_does_not_get_a_message_again(hub: str) -> None:
    assert newcomers(hub) == ([b"a", b"b"], [b"b"])


def test_without_the_announcement_of_repetitions_it_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Failover, "name_repeats", lambda self, topic, links: None)
    assert [b"a", b"b"] in (newcomers("h1")[1], newcomers("h3")[1])


def test_without_waiting_for_resent_messages_it_would_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Failover, "is_over", property(lambda self: True))
    assert [b"a", b"b"] in (newcomers("h1")[1], newcomers("h3")[1])


def test_streams_that_other_streams_depend_on_are_not_resent() -> None:
    hubs = Hubs("h1", "h2", "h3")
    for topic, mode, homes in (("one", Mode.SINGLE, ("h2",)), ("t", Mode.ALL_SUBSCRIBERS, ("h2", "h3"))):
        hubs.replicate(topic, mode, *homes)
        hubs.publish_first("h1", topic)
    topics = hubs["h1"].core.index.topics
    may_resend = hubs["h1"].cluster.failover.may_resend
    streams = topics[b"one"].stream, topics[b"t"].stream
    assert [may_resend(stream) for stream in streams if stream is not None] == [True, False]


def through_h2() -> list[bytes]:
    """A message of h1 reaches h2 when h3 is the home and numbers it; t moves back; h2 dies without acknowledging it."""
    hubs = at_h2()
    hubs.publish_first("h3", "t")
    far, publisher = subscribed(hubs, "h3"), hubs["h1"].client()
    hubs.held |= {("h1", "h2"), ("h2", "h1")}
    publisher.send("PUBLISH", "t", "a")
    hubs.settle()
    hubs.replicate("t", Mode.SINGLE, "h3")
    end, under_way = hubs.connections["h1", "h2"]
    end.send_raw(under_way.pop(0))
    hubs.settle()
    hubs.replicate("t", Mode.SINGLE, "h2")
    hubs.kill("h2")
    hubs.settle()
    publisher.send("PUBLISH", "t", "b")
    hubs.settle()
    return payloads(far)


def test_messages_that_a_dead_hub_had_forwarded_are_not_resent() -> None:
    assert through_h2() == [b"a", b"b"]


def test_without_reports_of_forwarded_messages_they_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Failover, "report_passed", lambda self, hub: None)
    assert through_h2() == [b"a", b"a", b"b"]
