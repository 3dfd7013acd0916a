"""Messages that a home that died may have delivered, and that are therefore not resent."""

from __future__ import annotations

import pytest

from equipoise.hub.cluster.failover import Failover
from equipoise.hub.cluster.ingress import Ingress
from equipoise.hub.cluster.position_query import STALE_S
from equipoise.hub.cluster.settings import ClusterSettings
from equipoise.hub.cluster.streams import Stream
from equipoise.hub.settings import Limits
from equipoise.model import Mode
from equipoise.stream.submission import NOWHERE, Path
from hub.cluster.hubs import Hubs
from hub.cluster.test_failover import payloads, subscribed
from hub.world import Error


def four_hubs() -> Hubs:
    """The home of t is h2, which knows that clients publish through h1."""
    forgetful = {"h3": Limits(topic_idle_s=0.05)}
    settings = ClusterSettings(unsubscribe_delay_s=0.01)
    hubs = Hubs("h1", "h2", "h3", "h4", limits=forgetful, cluster=settings)
    hubs.replicate("t", Mode.SINGLE, "h2")
    hubs.publish_first("h1", "t")
    return hubs


def after_a_follower_died() -> list[bytes]:
    """A client gets a message at h3, which dies, and connects to h4, which does not have it; h2 dies: what it gets
    there.

    h1, which sent the message into h2, has no acknowledgement.
    """
    hubs = four_hubs()
    subscribed(hubs, "h4")
    client, publisher = subscribed(hubs, "h3"), hubs["h1"].client()
    hubs.held |= {("h2", "h1"), ("h2", "h4")}
    publisher.send("PUBLISH", "t", "a")
    hubs.settle()
    assert payloads(client) == [b"a"]
    hubs.kill("h3")
    client = subscribed(hubs, "h4")
    hubs.kill("h2")
    publisher.send("PUBLISH", "t", "b")
    hubs.settle()
    return payloads(client)


def test_messages_that_a_dead_hub_may_have_seen_are_not_resent() -> None:
    assert after_a_follower_died() == [b"b"]


def test_without_doubt_a_client_of_that_hub_gets_one_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Failover, "doubt", lambda self, hub: None)
    assert after_a_follower_died() == [b"a", b"b"]


def after_a_handover() -> list[bytes]:
    """A client gets a message at h2, and t is handed over to h3 in order; then h2 dies: what it gets at h4."""
    hubs = four_hubs()
    client, publisher = subscribed(hubs, "h2"), hubs["h1"].client()
    hubs.held.add(("h2", "h1"))
    publisher.send("PUBLISH", "t", "a")
    hubs.settle()
    assert payloads(client) == [b"a"]
    hubs.replicate("t", Mode.SINGLE, "h3")
    client = subscribed(hubs, "h4")
    hubs.kill("h2")
    publisher.send("PUBLISH", "t", "b")
    hubs.settle()
    return payloads(client)


def test_messages_that_a_home_may_have_numbered_before_its_handover_are_not_resent() -> None:
    assert after_a_handover() == [b"b"]


def test_without_a_look_at_the_plan_they_would_be_delivered_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Failover, "_was_home", lambda self, stream, hub: True)
    assert after_a_handover() == [b"a", b"b"]


def after_leaving() -> list[bytes]:
    """A client gets a message at h3 and reconnects to h4; h3 no longer follows t when h2 dies: what it gets at h4."""
    hubs = four_hubs()
    subscribed(hubs, "h4")
    client, publisher = subscribed(hubs, "h3"), hubs["h1"].client()
    hubs.held |= {("h2", "h1"), ("h2", "h4")}
    publisher.send("PUBLISH", "t", "a")
    hubs.settle()
    assert payloads(client) == [b"a"]
    client.send("EQ.UNSUBSCRIBE", "t")
    while b"t" in hubs["h3"].core.index.topics:
        hubs.settle(0.02)
    client = subscribed(hubs, "h4")
    hubs.kill("h2")
    publisher.send("PUBLISH", "t", "b")
    hubs.settle()
    return payloads(client)


def test_a_hub_that_stops_following_reports_what_it_has_seen() -> None:
    assert after_leaving() == [b"b"]


def test_without_that_report_its_former_client_gets_a_message_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    report = Failover.report

    def keep(failover: Failover, stream: Stream, home: str | None = None) -> None:
        if home is not None:
            report(failover, stream, home)

    monkeypatch.setattr(Failover, "report", keep)
    assert after_leaving() == [b"a", b"b"]


def test_messages_seen_of_one_home_do_not_replace_those_seen_of_another() -> None:
    """t moves from h2 to h3, and frames of the new home reach h4 first: what a subscriber there gets when h3 dies."""
    hubs = four_hubs()
    client, publisher = subscribed(hubs, "h4"), hubs["h1"].client()
    hubs.held.add(("h2", "h4"))
    publisher.send("PUBLISH", "t", "a")
    hubs.settle()
    hubs.replicate("t", Mode.SINGLE, "h3")
    hubs.held.add(("h3", "h1"))
    publisher.send("PUBLISH", "t", "b")
    hubs.settle()
    hubs.release("h2", "h4")
    hubs.kill("h3")
    publisher.send("PUBLISH", "t", "c")
    hubs.settle()
    assert payloads(client) == [b"a", b"b", b"c"]


def test_a_home_that_does_not_know_it_was_replaced_rejects_messages_that_depend_on_the_next_home() -> None:
    """
    1. h2 is declared dead and is not informed; t is opened elsewhere;
    2. a publisher whose last message was numbered there connects to h2 and names its position;
    3. h2 would deliver its next message to subscribers that lack the ones before it: it refuses.
    """
    hubs = four_hubs()
    later = hubs["h2"].core.index.topics[b"t"].epoch + 1
    client, subscriber = hubs["h2"].client(3), subscribed(hubs, "h2")
    client.send("EQ.AFTER", "t", "", str(later), "1")
    client.send("EQ.PUBLISH", "t", "a")
    hubs["h2"].advance(1.0)
    assert payloads(subscriber) == []
    # Unless it is the publisher that is wrong.
    hubs["h2"].advance(STALE_S)
    client.send("EQ.PUBLISH", "t", "b")
    assert payloads(subscriber) == [b"b"]
    refusal = client.read()[1]
    assert isinstance(refusal, Error)
    assert str(refusal).startswith("TRYAGAIN")


def behind_a_hub_that_passed_on() -> tuple[int, int, int]:
    """
    1. a message that h1 has acknowledged reaches h2 when the home of t is h3; h2 forwards it;
    2. h3 dies with it: h2 sends h1 the epoch in which it is lost;
    3. h1 publishes to a lane of its own from then on.
    Returns that epoch, and the position in the trunk that the next message of h1 comes after.
    """
    hubs = four_hubs()
    subscriber, publisher = subscribed(hubs, "h4"), hubs["h1"].client()
    hubs.held.add(("h1", "h2"))
    publisher.send("PUBLISH", "t", "a")
    hubs.settle()
    assert publisher.read() == [0]
    hubs.replicate("t", Mode.SINGLE, "h3")
    hubs.publish_first("h2", "t")
    lost_in = hubs["h2"].core.index.topics[b"t"].epoch
    hubs.held.add(("h2", "h3"))
    hubs.release("h1", "h2")
    hubs.kill("h3")
    hubs.replicate("t", Mode.ALL_SUBSCRIBERS, "h2", "h1")
    subscriber.read()
    publisher.send("PUBLISH", "t", "b")
    hubs.settle()
    after, message = subscriber.read()
    assert after[:4] == [b"eq.after", b"t", b"h1", b""]
    assert message[-1] == b"b"
    return lost_in, after[4], after[5]


def test_messages_after_a_loss_at_a_forwarding_hub_are_delivered_after_the_gap() -> None:
    lost_in, *after = behind_a_hub_that_passed_on()
    assert after == [lost_in + 1, 0]


def test_without_the_epoch_of_the_loss_they_would_be_delivered_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    acked = Ingress.acked

    def lost_anywhere(
        ingress: Ingress, stream: Stream, peer: str, path: Path, count: int, at: tuple[int, int]
    ) -> None:
        acked(ingress, stream, peer, path, count, at if at[0] else NOWHERE)

    monkeypatch.setattr(Ingress, "acked", lost_anywhere)
    lost_in, epoch, _ = behind_a_hub_that_passed_on()
    assert epoch < lost_in


def after_a_late_greeting() -> list[bytes]:
    """The next home has not been greeted by the hub whose message was in the dead home: what a newcomer gets there.

    1. A client of h2 gets a message of h1, which no other hub sees.
    2. The next home, h4, knows h1 from the store alone when h2 dies. The client subscribes there.
    3. h1 greets h4, and receives frames from h3 last, so that it resends the message late.
    """
    hubs = four_hubs()
    publisher = hubs["h1"].client()
    hubs.held |= {("h2", hub) for hub in ("h1", "h3", "h4")}
    publisher.send("PUBLISH", "t", "a")
    hubs.settle()
    link = hubs["h4"].cluster.out["h1"]
    known, link.capabilities = link.capabilities, frozenset()
    hubs.held |= {("h1", "h4"), ("h3", "h1")}
    hubs.kill("h2")
    assert hubs["h4"].cluster.router.home(b"t") == "h4"
    link.capabilities = known
    hubs["h4"].cluster.failover.greeted(link)
    hubs.release("h1", "h4")
    client = subscribed(hubs, "h4")
    hubs.release("h3", "h1")
    publisher.send("PUBLISH", "t", "b")
    hubs.settle()
    return payloads(client)


def test_a_hub_that_is_greeted_late_is_waited_for() -> None:
    assert after_a_late_greeting() == [b"b"]


def test_without_waiting_for_it_a_client_of_the_dead_home_gets_a_message_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Failover, "greeted", lambda self, link: None)
    assert after_a_late_greeting() == [b"a", b"b"]
