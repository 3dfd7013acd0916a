"""EQ.DEFER: replies to publishes that wait for tokens are sent separately from other replies."""

from __future__ import annotations

from hub.cluster.hubs import Node
from hub.cluster.test_rate_limits import home, pass_time, placed, published
from hub.world import Error, FakeClient, pipeline


def deferring(node: Node) -> FakeClient:
    client = node.client(3)
    assert client.do("EQ.DEFER") == b"OK"
    return client


def test_a_topic_that_waits_for_tokens_does_not_delay_replies_for_other_topics() -> None:
    hubs, node = home(rate=10.0, burst=2)
    client = deferring(node)
    client.send_raw(
        pipeline([*(["PUBLISH", "x", str(n)] for n in range(4)), ["PUBLISH", "free", "1"], ["PING"]])
    )
    hubs.settle()
    deferred = [[b"eq.deferred", b"x", 1, 64], [b"eq.deferred", b"x", 2, 64]]
    assert client.read() == [0, 0, *deferred, 0, b"PONG"]
    pass_time(hubs, 0.12)
    assert client.read() == [[b"eq.reply", 1, 0]]
    pass_time(hubs, 0.12)
    assert client.read() == [[b"eq.reply", 2, 0]]
    assert published(hubs, "h1") == 4


def test_a_command_with_a_position_is_deferred_too_and_rejections_are_immediate() -> None:
    hubs, node = home(rate=10.0, burst=2, wait_ms=300.0)
    client = deferring(node)
    assert client.do("EQ.PUBLISH", "x", "1", "2")[2] == 2
    client.send("EQ.PUBLISH", "x", "3", "4")
    assert client.read() == [[b"eq.deferred", b"x", 1, 64]]
    assert str(deferring(node).do("EQ.PUBLISH", "x", *"56789")).startswith("LIMITED")
    pass_time(hubs, 0.25)
    ((kind, number, receipt),) = client.read()
    assert (kind, number, receipt[2]) == (b"eq.reply", 1, 4)


def test_the_rejection_of_a_deferred_publish_is_its_reply() -> None:
    hubs, node = home(rate=1.0, burst=1, wait_ms=1_500.0)
    client = deferring(node)
    client.send_raw(pipeline(["PUBLISH", "x", str(n)] for n in range(2)))
    node.client().send("PUBLISH", "x", "another's")
    client.send("PUBLISH", "x", "2")
    hubs.settle()
    assert [reply for reply in client.read() if isinstance(reply, int)] == [0]
    pass_time(hubs, 4.0)
    replies = client.read()
    assert [reply[:2] for reply in replies] == [[b"eq.reply", 1], [b"eq.reply", 2]]
    assert all(reply[2] == 0 or isinstance(reply[2], Error) for reply in replies)


def test_eq_settle_waits_for_deferred_publishes() -> None:
    hubs, node = home(rate=10.0, burst=1)
    client = deferring(node)
    client.send_raw(pipeline([["PUBLISH", "x", "1"], ["PUBLISH", "x", "2"], ["EQ.SETTLE", "x"]]))
    hubs.settle()
    assert client.read() == [0, [b"eq.deferred", b"x", 1, 64], b"OK"]
    pass_time(hubs, 0.12)
    told = client.read()
    assert [b"eq.reply", 1, 0] in told
    assert [one[4] for one in told if one[0] == b"eq.settled"] == [2]


def test_replies_to_transactions_and_muted_clients_are_not_deferred() -> None:
    hubs, node = home()
    client = deferring(node)
    for words in (["MULTI"], *(["PUBLISH", "x", str(n)] for n in range(3))):
        client.do(*words)
    client.send("EXEC")
    assert client.read() == []
    pass_time(hubs, 0.15)
    assert client.read() == [[0, 0, 0]]
    client.send("CLIENT", "REPLY", "OFF")
    client.send("PUBLISH", "x", "4")
    pass_time(hubs, 0.15)
    assert client.read() == []
    assert published(hubs, "h1") == 4


def test_deferred_publishes_of_a_client_that_disconnects_or_resets_are_not_published() -> None:
    hubs, node = home()
    for end in (lambda client: node.core.lost(client.session), lambda client: client.send("RESET")):
        client = deferring(node)
        client.send_raw(pipeline(["PUBLISH", "x", str(n)] for n in range(6)))
        hubs.settle()
        before = published(hubs, "h1")
        end(client)
        assert node.cluster.limits.clients.budget.used == 0
        pass_time(hubs, 0.5)
        assert published(hubs, "h1") == before


def test_deferring_needs_resp3() -> None:
    _, node = home()
    assert "RESP3" in str(node.client().do("EQ.DEFER"))
    client = deferring(node)
    assert "EQ.DEFER" in str(client.do("HELLO", "2"))


def test_beyond_a_thousand_deferred_replies_further_replies_come_in_order() -> None:
    hubs, node = home(rate=1_000.0, burst=1, wait_ms=60_000.0)
    client = deferring(node)
    client.send_raw(pipeline([*(["PUBLISH", "x", str(n)] for n in range(1_100)), ["PING"]]))
    hubs.settle()
    first = client.read()
    assert sum(isinstance(one, list) and one[0] == b"eq.deferred" for one in first) == 1_000
    assert b"PONG" not in first
    pass_time(hubs, 1.5)
    later = client.read()
    assert sum(isinstance(one, list) and one[0] == b"eq.reply" for one in (*first, *later)) == 1_000
    assert later.count(b"PONG") == 1
    assert published(hubs, "h1") == 1_100


def test_a_relay_defers_the_replies_of_its_own_clients() -> None:
    hubs = placed("h1", "h2", rate=10.0, burst=2)
    client = deferring(hubs["h2"])
    client.send_raw(pipeline([*(["PUBLISH", "x", str(n)] for n in range(5)), ["PING"]]))
    hubs.settle()
    assert b"PONG" in client.read()
    pass_time(hubs, 1.0)
    assert all(one[0] == b"eq.reply" and one[2] == 0 for one in client.read())
    assert published(hubs, "h1") == 5
