"""Pending replies: many at once, in order, with a timeout, and noticing that their client disconnects."""

from __future__ import annotations

import pytest

from equipoise.hub.data import reply as replies
from equipoise.hub.data.reply import REPLY_S, OwedReplies, Reply
from equipoise.model import Mode
from equipoise.stream.submission import NOWHERE
from hub.cluster.hubs import Hubs
from hub.world import Error, FakeClient, FakeTimer, pipeline, request


def remote(*topics: str) -> Hubs:
    """The home of the topics is h1, from which h2 receives nothing."""
    hubs = Hubs("h1", "h2", "h3")
    for topic in topics:
        hubs.replicate(topic, Mode.SINGLE, "h1")
    hubs.held.add(("h1", "h2"))
    return hubs


def cut_off(hubs: Hubs) -> FakeClient:
    """A client whose hub gets no confirmation of its subscriptions."""
    return hubs["h2"].client(3)


# --- the queue by itself


def test_replies_are_sent_in_the_order_of_their_commands() -> None:
    owed = OwedReplies(FakeTimer())
    first, third, fourth = Reply(), Reply(), Reply()
    for entry in (first, b"2", third, fourth):
        owed.add(entry, 10)
    third.complete(b"3a", b"3b")
    assert owed.take() == []
    first.complete(b"1")
    assert owed.take() == [b"1", b"2", b"3a", b"3b"]
    assert not owed.is_empty
    fourth.complete(b"4")
    assert owed.take() == [b"4"]
    assert owed.is_empty


def test_a_reply_is_completed_once_and_not_at_all_when_it_has_expired() -> None:
    twice = Reply()
    twice.complete(b"a")
    with pytest.raises(AssertionError, match="once"):
        twice.complete(b"b")
    given_up: list[str] = []
    late = Reply(expired=lambda: b"late", abandoned=lambda: given_up.append("late"))
    late.expire()
    late.complete(b"too late")
    assert late.pieces == (b"late",)
    assert given_up == ["late"]


# --- many at once


def test_a_session_may_have_many_pending_receipts_and_its_messages_do_not_wait_for_them() -> None:
    """Before, each EQ.PUBLISH waited for the receipt of the one before it."""
    hubs = remote("t")
    client = hubs["h2"].client(3)
    client.send_raw(pipeline(["EQ.PUBLISH", "t", str(i)] for i in range(100)))
    hubs.settle()
    assert hubs["h1"].core.index.topics[b"t"].n == 100, "all are there, though no receipt has come back"
    assert client.read() == []
    hubs.release("h1", "h2")
    assert [receipt[2] for receipt in client.read()] == list(range(1, 101))


def test_publishes_behind_a_pending_receipt_are_published_at_once_and_answered_after_it() -> None:
    hubs = remote("t")
    client = hubs["h2"].client(3)
    listener = hubs["h2"].client()
    hubs.release("h1", "h2")
    hubs.replicate("here", Mode.SINGLE, "h2")
    listener.do("SUBSCRIBE", "here")
    hubs.held.add(("h1", "h2"))
    client.send("EQ.PUBLISH", "t", "a")
    client.send_raw(pipeline([*(["PUBLISH", "here", str(i)] for i in range(3)), ["SPUBLISH", "s", "x"]]))
    assert len(listener.read()) == 3
    assert client.read() == []
    hubs.release("h1", "h2")
    receipt, *others = client.read()
    assert receipt[2] == 1
    assert others == [1, 1, 1, 0]


def test_receipts_that_complete_together_are_written_together() -> None:
    hubs = remote("t")
    client = hubs["h2"].client(3)
    client.send_raw(pipeline(["EQ.PUBLISH", "t", str(i)] for i in range(50)))
    hubs.settle()
    writes: list[bytes] = []
    client.session.write = writes.append
    hubs.release("h1", "h2")
    assert len(writes) == 1


def test_reply_off_and_skip_apply_to_their_own_command() -> None:
    hubs = remote("t")
    client = hubs["h2"].client(3)
    client.send_raw(
        pipeline(
            [
                ["EQ.PUBLISH", "t", "1"],
                ["CLIENT", "REPLY", "SKIP"],
                ["EQ.PUBLISH", "t", "2"],
                ["EQ.PUBLISH", "t", "3"],
                ["PING"],
            ]
        )
    )
    hubs.settle()
    assert client.read() == []
    hubs.release("h1", "h2")
    first, third, pong = client.read()
    assert (first[2], third[2], pong) == (1, 3, b"PONG")


# --- fences


def test_a_subscription_behind_a_receipt_waits_for_it_so_that_its_confirmation_precedes_its_messages() -> (
    None
):
    hubs = remote("t")
    client, other = hubs["h2"].client(3), hubs["h2"].client()
    other.do("PUBLISH", "own", "makes the topic")
    hubs.release("h1", "h2")
    hubs.held.add(("h1", "h2"))
    client.send_raw(
        pipeline([["EQ.PUBLISH", "t", "a"], ["SSUBSCRIBE", "own"], ["SPUBLISH", "own", "by itself"]])
    )
    other.send("SPUBLISH", "own", "too early")
    assert client.read() == []
    hubs.release("h1", "h2")
    receipt, confirmed, message, count = client.read()
    assert receipt[2] == 1
    assert confirmed == [b"ssubscribe", b"own", 1]
    assert message == [b"smessage", b"own", b"by itself"]
    assert count == 1


def test_the_replies_to_quit_and_to_a_protocol_error_follow_pending_replies() -> None:
    for last, answer in (
        (request("QUIT"), b"OK"),
        (b"*1\r\n:5\r\n", Error("ERR Protocol error: expected '$', got ':'")),
    ):
        hubs = remote("t")
        client = hubs["h2"].client(3)
        client.send_raw(request("EQ.PUBLISH", "t", "a") + last)
        hubs.settle()
        assert client.read() == []
        assert not client.wire.is_closing
        hubs.release("h1", "h2")
        receipt, reply = client.read()
        assert receipt[2] == 1
        assert reply == answer
        assert client.wire.is_closing


# --- bounds, and who has gone


def test_pending_replies_are_bounded_and_further_commands_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replies, "OWED_MAX", 10)
    hubs = remote("t")
    client = hubs["h2"].client(3)
    client.send_raw(pipeline(["EQ.PUBLISH", "t", str(i)] for i in range(25)))
    hubs.settle()
    assert hubs["h1"].core.index.topics[b"t"].n == 10
    hubs.release("h1", "h2")
    assert [receipt[2] for receipt in client.read()] == list(range(1, 26))


def test_bytes_of_unanswered_commands_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replies, "OWED_BYTES_MAX", 5_000)
    hubs = remote("t")
    client = hubs["h2"].client(3)
    client.send_raw(pipeline(["EQ.PUBLISH", "t", "x" * 1_000] for _ in range(20)))
    hubs.settle()
    assert hubs["h1"].core.index.topics[b"t"].n == 5


def test_a_waiting_client_is_read_until_it_sends_too_much_and_then_polled_for_its_end() -> None:
    """1. A subscription waits. 2. Its client sends more. 3. Reading pauses. 4. Its end is noticed."""
    hubs = remote("t")
    client = cut_off(hubs)
    client.send("SUBSCRIBE", "t")
    assert client.read() == []
    was_read = client.wire.is_reading
    client.send_raw(request("ECHO", "x" * 100_000))
    is_read = client.wire.is_reading
    assert (was_read, is_read) == (True, False)
    hubs["h2"].advance(1.1)
    assert client.is_connected()
    client.wire.has_hung_up = True
    hubs["h2"].advance(1.1)
    assert not client.is_connected()
    topic = hubs["h2"].core.index.topics[b"t"]
    assert topic.stream is not None
    assert topic.stream.waiters == []


def test_commands_behind_a_waiting_subscription_are_kept_and_answered() -> None:
    hubs = remote("t")
    client = cut_off(hubs)
    client.send("SUBSCRIBE", "t")
    client.send_raw(request("ECHO", "x" * 100_000))
    hubs.release("h1", "h2")
    confirmed, echo = client.read()
    assert confirmed == [b"subscribe", b"t", 1]
    assert len(echo) == 100_000
    assert client.wire.is_reading


# --- no wait without an end


def test_a_subscription_that_is_not_confirmed_is_rejected_in_time_and_leaves_no_state() -> None:
    """Before, it was never answered, and each retry left a session behind."""
    hubs = remote("t")
    client = cut_off(hubs)
    client.send("SUBSCRIBE", "t")
    client.send("PING")
    hubs["h2"].advance(REPLY_S - 1)
    assert client.read() == []
    hubs["h2"].advance(2)
    refused, pong = client.read()
    assert isinstance(refused, Error)
    assert str(refused).startswith("TRYAGAIN")
    assert pong == b"PONG"
    topic = hubs["h2"].core.index.topics[b"t"]
    assert topic.stream is not None
    assert topic.stream.waiters == []
    assert hubs["h2"].cluster.subscriptions.claimed() == (set(), set())
    hubs.release("h1", "h2")
    assert client.read() == [], "what comes too late counts no more"
    assert not topic.members
    assert client.do("SUBSCRIBE", "t") == [b"subscribe", b"t", 1]


def test_a_subscription_by_pattern_that_a_hub_does_not_confirm_is_rejected_in_time() -> None:
    hubs = remote("t")
    client = cut_off(hubs)
    client.send("PSUBSCRIBE", "p*")
    hubs["h2"].advance(REPLY_S + 1)
    (refused,) = client.read()
    assert str(refused).startswith("TRYAGAIN")
    hubs.release("h1", "h2")
    assert client.read() == []


def test_a_missing_receipt_is_answered_as_uncertain_in_time() -> None:
    hubs = remote("t")
    client = hubs["h2"].client(3)
    client.send("EQ.PUBLISH", "t", "a")
    hubs.settle()
    hubs["h2"].advance(REPLY_S + 1)
    (late,) = client.read()
    assert isinstance(late, Error)
    assert str(late).startswith("UNCERTAIN")
    hubs.release("h1", "h2")
    assert client.read() == []


def test_a_position_that_is_not_confirmed_in_time_holds_back_a_message_that_depends_on_it() -> None:
    hubs = Hubs("h1", "h2", "h3")
    node = hubs["h2"]
    for i in range(20):
        name = f"t{i}"
        hubs.replicate(name, Mode.ALL_SUBSCRIBERS, "h1", "h3")
        topic = node.core.make_topic(name.encode())
        assert topic is not None
        hubs.settle()
        if not node.cluster.named_positions.keep_to(topic, b"h3", NOWHERE):
            break
    hubs["h3"].client().do("PUBLISH", name, "in the lane")
    hubs.held.add(("h3", "h2"))
    client = node.client(3)
    client.send("EQ.AFTER", name, "h3", str(1 << 60), "1")
    client.send("EQ.PUBLISH", name, "later")
    hubs.settle()
    node.advance(REPLY_S + 1)
    assert [str(answer).split()[0] for answer in client.read()] == ["TRYAGAIN", "TRYAGAIN"]
    hubs.release("h3", "h2")
    client.send("EQ.PUBLISH", name, "now")
    hubs.settle()
    (receipt,) = client.read()
    assert receipt[2] == 1, "the one before was not published"


def test_the_hub_stops_asking_for_a_client_that_has_disconnected() -> None:
    hubs = remote("t")
    hubs.replicate("t", Mode.ALL_SUBSCRIBERS, "h1", "h3")
    node = hubs["h2"]
    client = node.client(3)
    topic = node.core.index.topics.get(b"t") or node.core.make_topic(b"t")
    assert topic is not None
    hubs.settle()
    lane = topic.beside.lanes["h3"] if topic.beside is not None else None
    assert lane is not None
    assert lane.stream is not None
    lane.stream.peer = None
    client.send("EQ.AFTER", "t", "h3", "1", "1")
    node.advance(0.2)
    client.wire.abort()
    node.advance(0.2)
    pending = node.shell.timers_pending
    node.advance(0.001)
    node.advance(0.06)
    assert node.shell.timers_pending == pending
    callbacks = [timer[3] for timer in node.shell._timers if not timer[2].is_cancelled]
    assert not any(callback.__name__ == "_ask" for callback in callbacks)


def test_a_client_with_a_link_gets_a_heartbeat_once_a_second() -> None:
    """Its pings are answered behind the replies that it is owed."""
    hubs = remote("t")
    client, other = hubs["h2"].client(3), hubs["h2"].client(3)
    assert client.do_all("EQ.LINK", "mine-" + "0" * 16)[-1] == b"OK"
    for one in (client, other):
        one.send_raw(pipeline([["EQ.PUBLISH", "t", "a"], ["PING"]]))
    hubs["h2"].advance(1.1)
    assert client.read() == [[b"eq.wait", 1]]
    assert other.read() == [], "only clients that know the word are told"
