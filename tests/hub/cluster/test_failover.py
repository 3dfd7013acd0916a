"""What was sent into a home that died goes to the next one: once, unless another hub has seen it."""

from __future__ import annotations

import pytest

from equipoise.hub.cluster.failover import Failover
from equipoise.model import Mode
from hub.cluster.hubs import Hubs
from hub.world import FakeClient


def at_h2() -> Hubs:
    """t lives at h2, which knows h1 as a hub that clients publish through."""
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


def test_what_the_dead_home_had_not_executed_goes_to_the_next_one_in_order() -> None:
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
    """h2 numbers a message of h1, tells h3, and dies before h1 hears of it; and what a subscriber at h3 gets."""
    hubs = at_h2()
    far, publisher = subscribed(hubs, "h3"), hubs["h1"].client()
    hubs.held.add(("h2", "h1"))
    publisher.send("PUBLISH", "t", "a")
    hubs.settle()
    hubs.kill("h2")
    publisher.send("PUBLISH", "t", "b")
    hubs.settle()
    return hubs, payloads(far)


def test_what_another_hub_has_seen_is_not_sent_again() -> None:
    _, got = seen_by_h3()
    assert got == [b"a", b"b"]


def test_without_what_others_have_seen_it_would_come_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Failover, "report", lambda self, stream, home=None: None)
    _, got = seen_by_h3()
    assert got == [b"a", b"a", b"b"]


def trickle(hubs: Hubs, *links: tuple[str, str]) -> None:
    """Let what is held back on these come frame by frame, with time for everything in between."""
    is_moving = True
    while is_moving:
        hubs.settle()
        is_moving = False
        for end, under_way in [hubs.connections[link] for link in links]:
            if under_way:
                end.send_raw(under_way.pop(0))
                is_moving = True


def newcomers(hub: str) -> tuple[list[bytes], list[bytes]]:
    """A client of h2 gets a message that no other hub sees, and comes to another hub when h2 dies: what it gets there.

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
def test_a_client_of_the_dead_home_does_not_get_again_what_it_had_from_it(hub: str) -> None:
    assert newcomers(hub) == ([b"a", b"b"], [b"b"])


def test_without_the_word_of_repetitions_it_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Failover, "name_repeats", lambda self, topic, links: None)
    assert [b"a", b"b"] in (newcomers("h1")[1], newcomers("h3")[1])


def test_without_waiting_for_what_is_sent_again_it_would_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Failover, "is_over", property(lambda self: True))
    assert [b"a", b"b"] in (newcomers("h1")[1], newcomers("h3")[1])


def test_streams_that_others_depend_on_are_not_sent_again() -> None:
    hubs = Hubs("h1", "h2", "h3")
    for topic, mode, homes in (("one", Mode.SINGLE, ("h2",)), ("t", Mode.ALL_SUBSCRIBERS, ("h2", "h3"))):
        hubs.replicate(topic, mode, *homes)
        hubs.publish_first("h1", topic)
    topics = hubs["h1"].core.index.topics
    may_resend = hubs["h1"].cluster.failover.may_resend
    streams = topics[b"one"].stream, topics[b"t"].stream
    assert [may_resend(stream) for stream in streams if stream is not None] == [True, False]


def through_h2() -> list[bytes]:
    """A message of h1 comes to h2 when t lives at h3, which numbers it; t moves back; h2 dies before h1 hears of it."""
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


def test_what_a_dead_hub_had_passed_on_is_not_sent_again() -> None:
    assert through_h2() == [b"a", b"b"]


def test_without_the_word_of_what_was_passed_on_it_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Failover, "report_passed", lambda self, hub: None)
    assert through_h2() == [b"a", b"a", b"b"]
