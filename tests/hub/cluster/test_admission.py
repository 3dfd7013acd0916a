"""Messages in flight to their home: bounds, reasons for waiting, numbered losses, links that end."""

from __future__ import annotations

import tracemalloc
from typing import Any

from equipoise.hub.cluster.counters import cluster_counters
from equipoise.hub.commands.positioned import SEVERING_MAX
from equipoise.hub.data.reply import REPLY_S
from equipoise.model import Mode
from equipoise.stream.submission import NextHop, Submission, WaitReason
from hub.cluster.hubs import Hubs
from hub.world import Error, FakeClient, pipeline

LINK = "0123456789abcdef"


def moving() -> Hubs:
    """The next home of topic t is h2, which receives nothing from h3, so it does not open the topic."""
    hubs = Hubs("h1", "h2", "h3")
    hubs.replicate("t", Mode.SINGLE, "h1")
    hubs.held.add(("h3", "h2"))
    hubs.kill("h1")
    hubs.replicate("t", Mode.SINGLE, "h2")
    return hubs


def row(hubs: Hubs, hub: str) -> list[Any]:
    (answer,) = hubs[hub].client().do("EQ.TOPIC", "t")
    assert isinstance(answer, list)
    return answer


def test_empty_messages_count_against_the_bound() -> None:
    """Before, 20,002 of them counted as 2 bytes, and grew without end."""
    hubs = moving()
    node = hubs["h2"]
    node.cluster.ingress.budget.bytes_max = 100_000
    clients = [node.client() for _ in range(10)]
    for client in clients:
        client.send_raw(pipeline(["PUBLISH", "t", ""] for _ in range(3)))
        for _ in range(50):
            client.send("PUBLISH", "t", "")
    waiting = cluster_counters(node.cluster)["ingress_pending_messages"]
    assert cluster_counters(node.cluster)["ingress_pending_bytes"] <= 100_000
    assert 100 < waiting < 300
    # A hub that is to be the home acknowledges nothing before it is.
    assert not any(client.read() for client in clients[:3])
    hubs.release("h3", "h2")
    answers = [answer for client in clients for answer in client.read()]
    refused = [answer for answer in answers if isinstance(answer, Error)]
    assert len(answers) == 530
    assert str(refused[0]).startswith("TRYAGAIN")
    assert len(answers) - len(refused) == waiting


def test_the_reason_why_messages_wait_is_shown_per_topic_and_they_arrive_in_the_end() -> None:
    hubs = moving()
    client = hubs["h2"].client()
    client.send("PUBLISH", "t", "a")
    assert row(hubs, "h2")[6] == b"home"
    assert cluster_counters(hubs["h2"].cluster)["ingress_pending_messages"] == 1
    assert client.read() == []
    hubs.release("h3", "h2")
    assert client.read() == [0]
    assert row(hubs, "h2")[6] == b""
    assert row(hubs, "h2")[4] == 1
    assert cluster_counters(hubs["h2"].cluster)["ingress_pending_bytes"] == 0


def listening(hubs: Hubs, hub: str) -> FakeClient:
    client = hubs[hub].client(3)
    client.send("EQ.SUBSCRIBE", "t")
    hubs.settle()
    client.read()
    return client


def positions(client: FakeClient) -> list[int]:
    return [push[3] for push in client.read() if push[0] == b"eq.message"]


def test_messages_of_other_hubs_without_room_are_a_gap_for_subscribers() -> None:
    """
    1. messages of h3's clients wait at h2, where t lives; their publishers have had their answers, since h2 knows h3;
    2. there is room for some of them;
    3. the others are numbered as a loss, in their place. Without a number their loss would be unnoticed.
    """
    hubs = Hubs("h1", "h2", "h3")
    hubs.replicate("t", Mode.SINGLE, "h2")
    subscriber, publisher = listening(hubs, "h1"), hubs["h3"].client(3)
    hubs.publish_first("h3", "t")
    stream = hubs["h2"].cluster.handover.new_stream(hubs["h2"].core.index.topics[b"t"])
    stream.admission.gates = (lambda item, route: WaitReason.APPEND,)
    hubs["h2"].cluster.ingress.budget.bytes_max = 2 * stream.admission.cost(Submission((), 0, (b"1",)))
    assert [publisher.do("PUBLISH", "t", str(i)) for i in range(1, 7)] == [0] * 6
    publisher.send("EQ.PUBLISH", "t", "7")
    hubs.settle()
    assert cluster_counters(hubs["h2"].cluster)["messages_dropped"] == 5
    stream.admission.gates = ()
    hubs["h2"].cluster.ingress.drain(stream)
    hubs.settle()
    (answer,) = publisher.read()
    assert str(answer).startswith("UNCERTAIN"), "its message was among them"
    publisher.send("PUBLISH", "t", "8")
    hubs.settle()
    assert positions(subscriber) == [1, 2, 3, 9], "4 to 8 are missing, by number"


def test_messages_that_a_link_lost_are_a_gap_for_subscribers() -> None:
    """
    1. messages go from h3 to h2; some of them are executed there, then the link restarts;
    2. how many are missing is found out by counting, and they are numbered as a loss before what follows.
    """
    hubs = Hubs("h1", "h2", "h3")
    hubs.replicate("t", Mode.SINGLE, "h2")
    subscriber, publisher = listening(hubs, "h1"), hubs["h3"].client()
    for i in range(3):
        publisher.send("PUBLISH", "t", str(i))
    hubs.settle()
    hubs.held.add(("h3", "h2"))
    for i in range(3, 7):
        publisher.send("PUBLISH", "t", str(i))
    hubs.links["h3", "h2"].fall()
    publisher.send("PUBLISH", "t", "7")
    hubs["h3"].advance()
    publisher.send("PUBLISH", "t", "8")
    hubs.release("h3", "h2")
    assert publisher.read() == [0] * 9
    got = positions(subscriber)
    assert got[:3] == [1, 2, 3]
    assert got[-1] == 9, "what is missing has its numbers"
    assert cluster_counters(hubs["h3"].cluster)["messages_lost"] == 9 - len(got)


def test_a_message_that_waits_at_a_gate_is_acknowledged_once_it_has_passed() -> None:
    """What a rate envelope, or a quorum, will do to a plain PUBLISH."""
    hubs = Hubs("h1", "h2")
    hubs.replicate("t", Mode.SINGLE, "h1")
    node = hubs["h1"]
    client, other = node.client(), node.client()
    hubs.publish_first("h1", "t", "free")
    topic = node.core.index.topics[b"t"]
    stream = node.cluster.handover.new_stream(topic)
    tokens = 0

    def gate(item: Submission, route: NextHop) -> WaitReason | None:
        return None if tokens >= item.messages else WaitReason.TOKENS

    stream.admission.gates = (gate,)
    client.send_raw(pipeline([*(["PUBLISH", "t", str(i)] for i in range(3)), ["PUBLISH", "free", "x"]]))
    assert client.read() == []
    assert row(hubs, "h1")[6] == b"tokens"
    assert other.do("PUBLISH", "free", "y") == 0, "others are served"
    tokens = 10
    node.cluster.ingress.drain(stream)
    node.advance()
    assert client.read() == [0] * 4
    assert topic.n == 4
    tokens = 0
    client.send("PUBLISH", "t", "too late")
    node.advance(REPLY_S + 1)
    (late,) = client.read()
    assert str(late).startswith("UNCERTAIN")


# --- links that end


def under_way(hubs: Hubs, topics: int) -> FakeClient:
    """A client of h2 with messages under way to many topics of h1, which does not answer."""
    for i in range(topics):
        hubs.replicate(f"t{i}", Mode.SINGLE, "h1")
    hubs.publish_first("h2", *(f"t{i}" for i in range(topics)))
    hubs.held.add(("h1", "h2"))
    client = hubs["h2"].client(3)
    for i in range(topics):
        client.send("PUBLISH", f"t{i}", "x")
    hubs.settle()
    client.read()
    return client


def test_severing_a_link_costs_nothing_per_message_of_other_publishers() -> None:
    """One wait per message and command would be 600,000 objects for 1,500 messages and 400 EQ.SEVER."""
    hubs = Hubs("h1", "h2")
    under_way(hubs, 50)
    asker = hubs["h2"].client(3)
    for number in range(10):
        asker.send("EQ.SEVER", f"{LINK}{number}", "h2:6399")
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(10, 210):
        asker.send("EQ.SEVER", f"{LINK}{number}", "h2:6399")
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len([answer for answer in asker.read() if answer == b"OK"]) == 210
    assert not any(account.waiting for account in hubs["h2"].cluster.receipts.accounts.values())
    assert after - before < 200 * 1_000


def test_many_requests_to_sever_one_link_are_one_wait_for_its_messages_in_flight() -> None:
    hubs = Hubs("h1", "h2")
    hubs.replicate("t", Mode.SINGLE, "h1")
    hubs.publish_first("h2", "t")
    hubs.held.add(("h1", "h2"))
    old = hubs["h2"].client(3)
    old.send("EQ.LINK", LINK)
    old.send("PUBLISH", "t", "x")
    askers = [hubs["h2"].client(3) for _ in range(5)]
    for asker in askers:
        assert asker.do("EQ.SEVER", LINK, "h2:6399") == b"OK"
    (account,) = hubs["h2"].cluster.receipts.accounts.values()
    assert len(account.waiting) == 1
    hubs.settle()
    assert all(asker.read() == [] for asker in askers)
    hubs.release("h1", "h2")
    assert all(asker.read() == [[b"eq.severed", LINK.encode()]] for asker in askers)
    assert not hubs["h2"].cluster.receipts.accounts


def test_a_session_waits_for_few_links_at_once_and_the_next_waits_its_turn() -> None:
    hubs = Hubs("h1", "h2")
    hubs.replicate("t", Mode.SINGLE, "h1")
    hubs.held.add(("h1", "h2"))
    for number in range(SEVERING_MAX + 1):
        publisher = hubs["h2"].client(3)
        publisher.send("EQ.LINK", f"{LINK}{number}")
        publisher.send("PUBLISH", "t", "x")
    asker = hubs["h2"].client(3)
    for number in range(SEVERING_MAX + 1):
        asker.send("EQ.SEVER", f"{LINK}{number}", "h2:6399")
    asker.send("PING")
    assert asker.read() == [b"OK"] * SEVERING_MAX
    hubs.release("h1", "h2")
    answers = asker.read()
    assert [answer for answer in answers if not isinstance(answer, list)] == [b"OK", b"PONG"]
    assert len([answer for answer in answers if isinstance(answer, list)]) == SEVERING_MAX + 1
    assert not hubs["h2"].cluster.severing.waiting
