"""Redirects of smart clients to the homes of topics: which clients get them, when, how often, and how fast."""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.hub.cluster import Routing, redirect_pace, redirects
from equipoise.hub.cluster.redirects import TopicRedirects
from equipoise.hub.cluster.settings import ClusterSettings
from equipoise.model import Mode, Plan
from hub.cluster.hubs import Hubs
from hub.world import FakeClient

LINK = "a link of sixteen bytes at least "


def smart(hubs: Hubs, hub: str, number: int = 0) -> FakeClient:
    """A client that has requested redirects."""
    client = hubs[hub].client(3)
    assert client.do_all("EQ.LINK", f"{LINK}{hub}{number}", "ROUTES") == [
        [b"eq.here", f"{hub}:6399".encode()],
        b"OK",
    ]
    return client


def homes(client: FakeClient) -> list[Any]:
    """The redirects that the client received, in order: topic, mode and homes."""
    return [
        (push[1].decode(), push[3].decode(), *(address.decode() for address in push[4:]))
        for push in client.read()
        if isinstance(push, list) and push[0] == b"eq.home"
    ]


def moved(*hubs: str, topic: str = "t", to: str = "h1") -> Hubs:
    made = Hubs(*(hubs or ("h1", "h2", "h3")))
    made.replicate(topic, Mode.SINGLE, to)
    return made


def test_a_publisher_at_another_hub_is_redirected_once() -> None:
    hubs = moved()
    client = smart(hubs, "h2")
    for _ in range(3):
        client.send("PUBLISH", "t", "x")
    hubs.settle()
    assert homes(client) == [("t", "single", "h1:6399")]


def test_a_publisher_at_the_home_gets_no_redirect() -> None:
    hubs = moved()
    client = smart(hubs, "h1")
    client.send("PUBLISH", "t", "x")
    client.send("EQ.SUBSCRIBE", "t")
    hubs.settle()
    assert homes(client) == []


def test_a_client_without_eq_routes_gets_no_redirect() -> None:
    hubs = moved()
    client = hubs["h2"].client(3)
    client.send("EQ.LINK", LINK)
    client.send("EQ.SUBSCRIBE", "t")
    client.send("PUBLISH", "t", "x")
    hubs.settle()
    hubs.replicate("t", Mode.SINGLE, "h3")
    assert homes(client) == []


def test_a_pipeline_of_publishes_to_many_topics_gets_a_redirect_for_each() -> None:
    hubs = moved()
    hubs.replicate("u", Mode.SINGLE, "h3")
    client = smart(hubs, "h2")
    client.send_raw(
        b"".join(b"*3\r\n$7\r\nPUBLISH\r\n$1\r\n%b\r\n$1\r\nx\r\n" % name for name in (b"t", b"u") * 9)
    )
    hubs.settle()
    assert sorted(homes(client)) == [("t", "single", "h1:6399"), ("u", "single", "h3:6399")]


def test_a_publisher_that_returns_to_a_topic_after_a_while_is_redirected_again() -> None:
    hubs = moved()
    client = smart(hubs, "h2")
    client.send("PUBLISH", "t", "x")
    hubs["h2"].advance(redirects.AGAIN_S + 1)
    client.send("PUBLISH", "t", "x")
    hubs.settle()
    assert len(homes(client)) == 2


def test_a_subscriber_is_redirected_when_it_subscribes_and_again_when_the_topic_moves() -> None:
    hubs = moved()
    client = smart(hubs, "h2")
    client.send("EQ.SUBSCRIBE", "t")
    hubs.settle()
    assert homes(client) == [("t", "single", "h1:6399")]
    hubs.replicate("t", Mode.SINGLE, "h3")
    hubs["h2"].advance(0.1)
    assert homes(client) == [("t", "single", "h3:6399")]


def test_a_subscriber_at_the_old_home_is_redirected_once_the_handover_is_done() -> None:
    hubs = moved()
    client = smart(hubs, "h1")
    client.send("EQ.SUBSCRIBE", "t")
    hubs.settle()
    hubs.held.add(("h2", "h1"))
    hubs.replicate("t", Mode.SINGLE, "h2")
    hubs["h1"].advance(1.0)
    assert homes(client) == [], "the new home has not answered yet"
    hubs.release("h2", "h1")
    hubs["h1"].advance(0.1)
    assert homes(client) == [("t", "single", "h2:6399")]


def test_all_homes_of_a_replicated_topic_are_named_also_at_a_home() -> None:
    hubs = moved()
    client = smart(hubs, "h1")
    client.send("EQ.SUBSCRIBE", "t")
    publisher = smart(hubs, "h1", 1)
    publisher.send("PUBLISH", "t", "x")
    hubs.settle()
    for mode in (Mode.ALL_PUBLISHERS, Mode.ALL_SUBSCRIBERS):
        hubs.replicate("t", mode, "h1", "h3")
        hubs["h1"].advance(0.1)
        publisher.send("PUBLISH", "t", "x")
        hubs.settle()
        told = ("t", mode.value, "h1:6399", "h3:6399")
        assert (homes(client), homes(publisher)) == ([told], [told])
    hubs.replicate("t", Mode.SINGLE, "h1")
    hubs["h1"].advance(0.1)
    assert homes(client) == [("t", "single", "h1:6399")]


def test_a_subscriber_of_some_streams_is_redirected_like_one_of_all() -> None:
    hubs = moved()
    hubs.replicate("t", Mode.ALL_SUBSCRIBERS, "h1", "h2")
    client = smart(hubs, "h2")
    client.send("EQ.OWN", "t")
    hubs.settle()
    assert homes(client) == [("t", "all-subscribers", "h1:6399", "h2:6399")]
    hubs.replicate("t", Mode.SINGLE, "h3")
    hubs["h2"].advance(0.1)
    assert homes(client) == [("t", "single", "h3:6399")]


def test_with_lazy_redirects_a_subscriber_is_redirected_with_the_next_message() -> None:
    hubs = moved()
    for name in ("h1", "h2", "h3"):
        hubs[name].cluster.redirects = TopicRedirects(
            hubs[name].cluster, ClusterSettings(redirect_mode="lazy")
        )
    client = smart(hubs, "h1")
    client.send("EQ.SUBSCRIBE", "t")
    hubs.settle()
    hubs.replicate("t", Mode.SINGLE, "h2")
    hubs["h1"].advance(60.0)
    assert homes(client) == []
    hubs["h2"].client().send("PUBLISH", "t", "x")
    hubs.settle()
    hubs["h1"].advance(0.1)
    assert homes(client) == [("t", "single", "h2:6399")]


def test_many_subscribers_are_redirected_no_faster_than_the_new_home_accepts_them() -> None:
    hubs = moved()
    hubs["h1"].cluster.redirects = TopicRedirects(hubs["h1"].cluster, ClusterSettings(redirects_per_s=100))
    clients = [smart(hubs, "h1", number) for number in range(50)]
    for client in clients:
        client.send("EQ.SUBSCRIBE", "t")
    hubs.settle()
    hubs.replicate("t", Mode.SINGLE, "h2")
    count, counts = 0, []
    for _ in range(12):
        hubs["h1"].advance(0.05)
        count += sum(len(homes(client)) for client in clients)
        counts.append(count)
    assert counts[1] < 20
    assert counts[-1] == 50


def test_redirects_begin_slowly_and_speed_up() -> None:
    """Those of the first half second compete with the handovers; the others must not take long."""
    hubs = moved()
    clients = [smart(hubs, "h1", number) for number in range(300)]
    for client in clients:
        client.send("EQ.SUBSCRIBE", "t")
    hubs.settle()
    before = hubs["h1"].cluster.redirects.count
    sent: list[int] = []
    hubs.replicate("t", Mode.SINGLE, "h2")
    for _ in range(5):
        hubs["h1"].advance(0.25)
        sent.append(hubs["h1"].cluster.redirects.count - before - sum(sent))
    assert 10 <= sent[0] <= 25
    assert sent[0] < sent[1] < sent[2] < sent[3]
    assert sum(sent) == 300


def test_the_first_redirect_is_sent_at_once() -> None:
    hubs = moved()
    client = smart(hubs, "h1")
    client.send("EQ.SUBSCRIBE", "t")
    hubs.settle()
    hubs.replicate("t", Mode.SINGLE, "h2")
    hubs["h1"].advance()
    assert len(homes(client)) == 1


def test_a_hub_whose_loop_is_late_redirects_more_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that begins late finds a machine without a free core: then a quarter of the redirects is sent."""
    monkeypatch.setattr(redirect_pace, "FIRST_PER_S", 1_000.0)
    sent = {}
    for late_s in (0.0, 0.02):
        hubs = moved()
        hubs["h1"].cluster.redirects = TopicRedirects(
            hubs["h1"].cluster, ClusterSettings(redirects_per_s=1_000)
        )
        clients = [smart(hubs, "h1", number) for number in range(100)]
        for client in clients:
            client.send("EQ.SUBSCRIBE", "t")
        hubs.settle()
        hubs.replicate("t", Mode.SINGLE, "h2")
        before = hubs["h1"].cluster.redirects.count
        for _ in range(4):
            hubs["h1"].shell.stall(late_s or redirects.TURN_S)
            hubs["h1"].advance()
        sent[late_s] = hubs["h1"].cluster.redirects.count - before
        hubs["h1"].advance(1.0)
        assert sum(len(homes(client)) for client in clients) == 100
    assert 40 <= sent[0.0] <= 41
    assert 8 <= sent[0.02] <= 12


def test_the_redirects_remembered_per_session_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redirects, "REMEMBERED_MAX", 5)
    hubs = Hubs("h1", "h2")
    client = smart(hubs, "h1")
    for number in range(100):
        client.send("PUBLISH", f"topic {number}", "x")
    hubs.settle()
    assert client.session.redirected is not None
    assert 0 < len(client.session.redirected) <= 5


def test_topics_without_subscribers_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redirects, "STEP", 10)
    hubs = Hubs("h1", "h2")
    client = smart(hubs, "h1")
    for number in range(200):
        client.send("EQ.SUBSCRIBE", f"topic {number}")
        hubs.settle()
        client.send("EQ.UNSUBSCRIBE")
    assert len(hubs["h1"].cluster.redirects._heard) <= 30


def test_a_hub_without_a_plan_reports_that_it_is_in_a_cluster() -> None:
    hubs = Hubs("h1")
    hubs["h1"].cluster.router.routing = Routing(Plan(), {})
    assert hubs["h1"].client(3).do_all("EQ.LINK", LINK, "ROUTES") == [[b"eq.here", None], b"OK"]


def test_a_client_without_redirects_learns_that_the_hub_is_in_a_cluster() -> None:
    hubs = Hubs("h1")
    assert hubs["h1"].client(3).do_all("EQ.LINK", LINK) == [[b"eq.here", b"h1:6399"], b"OK"]
    assert hubs["h1"].client(2).do_all("EQ.LINK", LINK) == [b"OK"]


def test_routes_need_resp3_and_the_right_words() -> None:
    hubs = Hubs("h1")
    assert "RESP3" in str(hubs["h1"].client(2).do("EQ.LINK", LINK, "ROUTES"))
    assert "syntax" in str(hubs["h1"].client(3).do("EQ.LINK", LINK, "ROUTE"))
