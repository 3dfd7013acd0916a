"""Receipts of publishers across hubs: EQ.PUBLISH, EQ.SETTLE and EQ.SEVER."""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.access import Users
from equipoise.hub.access import quotas
from equipoise.hub.client_limits import Limits
from equipoise.hub.cluster import severing
from equipoise.hub.cluster.settings import ClusterSettings
from equipoise.hub.commands import positioned
from equipoise.model import Mode
from hub.cluster.hubs import HUB_USER, Hubs, Node
from hub.world import Error, FakeClient, World, users

LINK = "0123456789abcdef"


def remote(*, given: Users | None = None) -> Hubs:
    """The home of topic t is h1."""
    hubs = Hubs("h1", "h2", "h3", users=given)
    hubs.replicate("t", Mode.SINGLE, "h1")
    return hubs


def position(hubs: Hubs, hub: str = "h1") -> tuple[int, int]:
    topic = hubs[hub].core.index.topics[b"t"]
    return topic.epoch, topic.n


def pushes(client: FakeClient) -> list[Any]:
    return [item for item in client.read() if isinstance(item, list)]


def test_a_hub_alone_replies_with_the_position_at_once() -> None:
    world = World()
    world.client().send("SUBSCRIBE", "t")
    client = world.client(3)
    stream, epoch, n, receivers = client.do("EQ.PUBLISH", "t", "a", "b", "c")
    assert (stream, n, receivers) == (b"", 3, 1)
    assert epoch == world.core.index.topics[b"t"].epoch
    assert client.do_all("EQ.SETTLE", "t") == [[b"eq.settled", b"t", b"", epoch, 3], b"OK"]
    assert client.do_all("EQ.SETTLE", "never used") == [[b"eq.settled", b"never used", b"", 0, 0], b"OK"]
    assert client.do_all("EQ.SEVER", LINK, "h9:1") == [[b"eq.severed", LINK.encode()], b"OK"]


def test_the_home_replies_at_once() -> None:
    hubs = remote()
    client = hubs["h1"].client(3)
    assert client.do("EQ.PUBLISH", "t", "a", "b") == [b"", *position(hubs), 0]


def test_another_hub_replies_once_the_home_has_acknowledged_and_later_replies_wait() -> None:
    hubs = remote()
    client = hubs["h2"].client(3)
    hubs.held.add(("h1", "h2"))
    client.send("EQ.PUBLISH", "t", "a", "b")
    client.send("PING")
    hubs.settle()
    assert client.read() == []
    assert hubs["h1"].core.index.topics[b"t"].n == 2, "the message is there, its receipt is not"
    hubs.release("h1", "h2")
    assert client.read() == [[b"", *position(hubs), 0], b"PONG"]


def test_a_message_with_an_unconfirmed_position_gets_an_uncertain_receipt() -> None:
    """Its home has died. One that no hub has seen is sent to the next home, and answered from there."""
    hubs = remote()
    client, far = hubs["h2"].client(3), hubs["h3"].client()
    far.send("SUBSCRIBE", "t")
    hubs.settle()
    hubs.held.add(("h1", "h2"))
    client.send("EQ.PUBLISH", "t", "a")
    hubs.settle()
    hubs.kill("h1")
    (answer,) = client.read()
    assert isinstance(answer, Error)
    assert str(answer).startswith("UNCERTAIN")


def test_settle_returns_the_position_that_the_messages_of_this_hubs_clients_have_reached() -> None:
    hubs = remote()
    client = hubs["h2"].client(3)
    hubs.publish_first("h2", "t")
    hubs.held.add(("h1", "h2"))
    for payload in "abc":
        client.send("PUBLISH", "t", payload)
    client.send("EQ.SETTLE", "t")
    client.send("PUBLISH", "t", "behind the question")
    hubs.settle()
    assert pushes(client) == [], "not acknowledged yet"
    assert client.do("PING") == b"PONG", "and nothing else waits for it"
    hubs.release("h1", "h2")
    epoch, n = position(hubs)
    assert pushes(client) == [[b"eq.settled", b"t", b"", epoch, 4]]
    assert n == 5
    assert client.do_all("EQ.SETTLE", "t")[0] == [b"eq.settled", b"t", b"", epoch, 5], "and now at once"


def test_several_requests_about_one_topic_are_answered_in_order() -> None:
    hubs = remote()
    client = hubs["h2"].client(3)
    hubs.publish_first("h2", "t")
    hubs.held.add(("h1", "h2"))
    for payload in "abc":
        client.send("PUBLISH", "t", payload)
        client.send("EQ.SETTLE", "t")
    client.send("EQ.SETTLE", "t")
    hubs.settle()
    assert pushes(client) == []
    hubs.release("h1", "h2")
    assert [told[4] for told in pushes(client)] == [2, 3, 4, 4]


def test_settle_waits_during_a_move() -> None:
    hubs = remote()
    client = hubs["h1"].client(3)
    hubs.held.add(("h1", "h2"))
    hubs.held.add(("h2", "h1"))
    hubs.replicate("t", Mode.SINGLE, "h2")
    client.send("PUBLISH", "t", "while it closes")
    hubs.settle()
    hubs.held.discard(("h1", "h2"))
    hubs.release("h2", "h1")
    hubs.held.add(("h2", "h1"))
    client.send("PUBLISH", "t", "when it has moved")
    client.send("EQ.SETTLE", "t")
    hubs.settle()
    assert pushes(client) == []
    hubs.release("h2", "h1")
    ((word, _, stream, epoch, n),) = pushes(client)
    assert (word, stream) == (b"eq.settled", b"")
    assert (epoch, n) == position(hubs, "h2")


def test_settle_needs_the_permission_to_publish() -> None:
    grants = {"ann": 'publish = ["mine"]\ncreate = ["mine"]', HUB_USER: 'link = ["*"]'}
    hubs = remote(given=users(**grants))
    client = hubs["h1"].client(user="ann")
    client.send("HELLO", "3")
    client.read()
    assert "NOPERM" in str(client.do("EQ.SETTLE", "t"))
    assert "NOPERM" in str(client.do("EQ.PUBLISH", "t", "x"))


def test_severing_ends_the_connection_at_the_other_hub_and_waits_for_its_messages() -> None:
    hubs = remote()
    old = hubs["h2"].client(3)
    old.send("EQ.LINK", LINK)
    hubs.held.add(("h1", "h2"))
    old.send("PUBLISH", "t", "under way")
    hubs.settle()
    new = hubs["h3"].client(3)
    new.send("EQ.SEVER", LINK, "h2:6399")
    hubs.settle()
    assert not old.is_connected()
    assert new.read() == [b"OK"], "the message has no position yet, as far as its hub knows"
    hubs.release("h1", "h2")
    assert new.read() == [[b"eq.severed", LINK.encode()]]


def test_late_messages_of_a_severed_link_are_rejected() -> None:
    hubs = remote()
    new = hubs["h3"].client(3)
    new.send("EQ.SEVER", LINK, "h2:6399")
    hubs.settle()
    assert new.read() == [b"OK", [b"eq.severed", LINK.encode()]]
    late = hubs["h2"].client(3)
    late.send_raw(
        b"*2\r\n$7\r\nEQ.LINK\r\n$16\r\n%b\r\n*3\r\n$7\r\nPUBLISH\r\n$1\r\nt\r\n$1\r\nx\r\n" % LINK.encode()
    )
    hubs.settle()
    assert not late.is_connected()
    assert b"t" not in hubs["h1"].core.index.topics or position(hubs)[1] == 0


def test_a_link_to_a_dead_or_unknown_hub_counts_as_severed() -> None:
    hubs = remote()
    new = hubs["h3"].client(3)
    assert new.do_all("EQ.SEVER", LINK, "nowhere:1") == [[b"eq.severed", LINK.encode()], b"OK"]
    hubs.held.add(("h3", "h2"))
    new.send("EQ.SEVER", LINK, "h2:6399")
    hubs.settle()
    assert new.read() == [b"OK"]
    hubs.kill("h2")
    assert new.read() == [[b"eq.severed", LINK.encode()]]


def test_a_hub_that_has_just_started_severs_a_link_once_it_knows_the_other_hubs() -> None:
    hubs = Hubs("h1", "h2")
    old = hubs["h2"].client(3)
    old.send("EQ.LINK", LINK)
    hubs.nodes["h3"] = Node(hubs, "h3", None, Limits(), ClusterSettings())
    new = hubs["h3"].client(3)
    assert new.do_all("EQ.SEVER", LINK, "h2:6399") == [b"OK"]
    assert old.is_connected()
    hubs.alive.add("h3")
    hubs.commit()
    assert new.read() == [[b"eq.severed", LINK.encode()]]
    assert not old.is_connected()


def test_a_link_to_the_hub_itself_can_be_severed() -> None:
    hubs = remote()
    old, new = hubs["h1"].client(3), hubs["h1"].client(3)
    old.send("EQ.LINK", LINK)
    assert new.do_all("EQ.SEVER", LINK, "h1:6399") == [[b"eq.severed", LINK.encode()], b"OK"]
    assert not old.is_connected()


def test_requests_and_severed_links_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positioned, "ASKED_MAX", 3)
    monkeypatch.setattr(severing, "SEVERED_MAX", 3)
    hubs = remote()
    hubs.publish_first("h2", "t")
    hubs.held.add(("h1", "h2"))
    client = hubs["h2"].client(3)
    client.send("PUBLISH", "t", "x")
    hubs.settle()
    client.read()
    answers = [client.do("EQ.SETTLE", "t") for _ in range(5)]
    assert [isinstance(answer, Error) for answer in answers] == [False] * 3 + [True] * 2
    hubs.release("h1", "h2")
    assert len(pushes(client)) == 3
    assert not hubs["h2"].cluster.receipts.pending
    for number in range(9):
        client.send("EQ.SEVER", f"{LINK}{number}", "h2:6399")
    assert len(hubs["h2"].cluster.severing._severed) == 3


def test_a_flood_of_severs_does_not_remove_severed_links_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    1. A client has its link to h2 ended, which h2 remembers. 2. Another address has more links ended than h2 remembers
    in all: most are refused. 3. A connection that names the first link comes late: it is not served. 4. A minute later
    the other address may continue.
    """
    monkeypatch.setattr(severing, "SEVERED_MAX", 30)
    monkeypatch.setattr(quotas, "SEVERS_PER_MINUTE_MAX", 10)
    hubs = remote()
    client, flood = hubs["h1"].client(3), hubs["h1"].client(3)
    client.session.address, flood.session.address = "192.0.2.7:1", "192.0.2.8:1"
    client.send("EQ.SEVER", LINK, "h2:6399")
    hubs.settle()
    for number in range(40):
        flood.send("EQ.SEVER", f"{LINK}{number}", "h2:6399")
        hubs.settle()
    assert sum(isinstance(answer, Error) for answer in flood.read()) == 30
    late = hubs["h2"].client(3)
    late.send("EQ.LINK", LINK)
    assert not late.is_connected()
    hubs.settle(60.0)
    flood.send("EQ.SEVER", f"{LINK}.", "h2:6399")
    hubs.settle()
    assert not any(isinstance(answer, Error) for answer in flood.read())


def test_accounts_are_closed_when_all_messages_are_acknowledged() -> None:
    hubs = remote()
    client = hubs["h2"].client(3)
    for _ in range(20):
        client.send("PUBLISH", "t", "x")
    client.send("EQ.SETTLE", "t")
    hubs.settle()
    assert not hubs["h2"].cluster.receipts.accounts
