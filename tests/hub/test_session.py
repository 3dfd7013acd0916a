"""One connection: the order of replies, reply modes, RESET, QUIT, and commands behind a login."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.hub.settings import Limits
from hub.world import Error, World, pipeline, request, users

NOAUTH = Error("NOAUTH Authentication required.")
WRONGPASS = Error("WRONGPASS invalid username-password pair or user is disabled.")
ALL = 'create = ["*"]\npublish = ["*"]\nsubscribe = ["*"]'


def secured(limits: Limits | None = None) -> World:
    return World(users(alice=ALL, bob='subscribe = ["b*"]'), limits=limits)


# --- replies


def test_replies_are_sent_in_order_and_together() -> None:
    client = World().client()
    before = len(client.wire.sent)
    client.send_raw(pipeline([["PING"], ["ECHO", "a"], ["PUBLISH", "t", "x"], ["NOPE"], ["PING", "b"]]))
    replies = client.read()
    assert replies[:3] == [b"PONG", b"a", 0]
    assert replies[3].startswith("ERR unknown command 'NOPE'")
    assert replies[4] == b"b"
    assert len(client.wire.sent) > before


def test_reply_off_silences_replies_but_not_messages() -> None:
    world = World()
    client = world.client(3)
    client.send_raw(
        pipeline([["CLIENT", "REPLY", "OFF"], ["PING"], ["SUBSCRIBE", "t"], ["PUBLISH", "t", "x"]])
    )
    assert client.read() == [[b"subscribe", b"t", 1], [b"message", b"t", b"x"]]
    assert client.do("CLIENT", "REPLY", "ON") == b"OK"
    assert client.do("PING") == b"PONG"


def test_reply_skip_silences_exactly_one_command() -> None:
    client = World().client()
    client.send_raw(pipeline([["CLIENT", "REPLY", "SKIP"], ["ECHO", "skipped"], ["ECHO", "heard"]]))
    assert client.read() == [b"heard"]


def test_reply_skip_covers_publishes_of_a_run_one_by_one() -> None:
    client = World().client()
    client.send("CLIENT", "REPLY", "SKIP")
    client.send_raw(pipeline(["PUBLISH", "t", "x"] for _ in range(4)))
    assert client.read() == [0, 0, 0]


def test_reply_skip_before_a_login_is_used_up_by_it() -> None:
    world = secured()
    client = world.client(user="alice")
    client.send_raw(
        pipeline([["CLIENT", "REPLY", "SKIP"], ["AUTH", "alice", "right"], ["PING"], ["ECHO", "a"]])
    )
    world.check_secrets()
    assert client.read() == [b"PONG", b"a"]


def test_quit_answers_and_nothing_behind_it_is_executed() -> None:
    world = World()
    client, other = world.client(), world.client()
    other.send("SUBSCRIBE", "t")
    other.read()
    client.send_raw(pipeline([["PING"], ["QUIT"], ["PUBLISH", "t", "late"]]))
    assert client.read() == [b"PONG", b"OK"]
    assert client.wire.is_gone()
    assert other.read() == []


def test_a_protocol_error_is_sent_after_the_replies_it_follows() -> None:
    client = World().client()
    client.send_raw(request("PING") + b"*1\r\n:5\r\n" + request("PING"))
    assert client.read() == [b"PONG", Error("ERR Protocol error: expected '$', got ':'")]
    assert client.wire.is_gone()


# --- RESET


def test_reset_ends_subscriptions_and_goes_back_to_resp2() -> None:
    world = World()
    client = world.client(3)
    client.send("CLIENT", "SETNAME", "me")
    client.send("SUBSCRIBE", "t")
    client.send("CLIENT", "REPLY", "OFF")
    client.read()
    assert client.do("RESET") == b"RESET"
    assert client.do("CLIENT", "GETNAME") is None
    assert world.client().do("PUBLISH", "t", "x") == 0
    assert client.session.proto == 2


def test_reset_logs_the_client_out() -> None:
    world = secured()
    client = world.client(user="alice")
    client.do("RESET")
    assert client.do("PING") == NOAUTH


def test_a_client_that_reset_has_the_whole_time_to_log_in_again() -> None:
    """
    1. A client logs in just after connecting.
    2. It resets shortly before the time for its first login would have run out.
    3. It is given the same time again, and then cut.
    """
    world = secured(Limits(unauthenticated_timeout_s=2))
    client = world.client()
    client.send("AUTH", "alice", "right")
    world.check_secrets()
    assert client.read() == [b"OK"]
    world.advance(1.9)
    client.do("RESET")
    world.advance(1.9)
    assert client.is_connected()
    world.advance(0.2)
    assert not client.is_connected()


def test_input_before_earlier_logins_does_not_count_again() -> None:
    world = secured(Limits(unauthenticated_input_bytes_max=1_024, unauthenticated_output_bytes_max=1_024))
    client = world.client()
    for _ in range(100):
        client.send("AUTH", "alice", "right")
        world.check_secrets()
        client.send("RESET")
    assert client.is_connected()


# --- logins


def test_commands_behind_a_login_wait_for_it() -> None:
    world = secured()
    client = world.client()
    client.send_raw(pipeline([["AUTH", "alice", "right"], ["PING"], ["PUBLISH", "t", "x"]]))
    assert client.read() == []
    assert client.session.is_busy
    assert client.wire.is_reading, "else the hub would not notice that the client leaves"
    world.check_secrets()
    assert client.read() == [b"OK", b"PONG", 0]
    assert not client.session.is_busy


def test_after_a_wrong_password_the_client_is_still_unauthenticated() -> None:
    world = secured()
    client = world.client()
    client.send_raw(pipeline([["AUTH", "alice", "wrong"], ["PING"]]))
    world.check_secrets()
    assert client.read() == [WRONGPASS, NOAUTH]


def test_the_time_to_check_a_login_does_not_count_against_the_client() -> None:
    """
    1. Many log in at once, and this client's turn comes after the time that a stranger has.
    2. It is still there, finds its password wrong, and has the whole time for another attempt.
    """
    world = secured(Limits(unauthenticated_timeout_s=2, login_check_timeout_s=20))
    client = world.client()
    client.send("AUTH", "alice", "wrong")
    world.advance(19.9)
    assert client.is_connected()
    world.check_secrets()
    assert client.read() == [WRONGPASS]
    world.advance(1.9)
    assert client.is_connected()
    world.advance(0.2)
    assert not client.is_connected()


def test_bytes_that_arrive_while_a_login_is_checked_wait() -> None:
    world = secured()
    client = world.client()
    client.send("AUTH", "alice", "right")
    client.session.receive(pipeline(["PUBLISH", "t", str(i)] for i in range(3)))
    client.session.receive(request("ECHO", "last"))
    world.check_secrets()
    assert client.read() == [b"OK", 0, 0, 0, b"last"]


def test_a_login_widens_the_limits_for_the_very_next_command() -> None:
    """Redis executes one command at a time, so a pipeline after AUTH is not that of an unauthenticated client."""
    world = secured(Limits(unauthenticated_args_max=4, unauthenticated_payload_bytes_max=64))
    client = world.client()
    names = [f"t{i}" for i in range(10)]
    client.send_raw(pipeline([["AUTH", "alice", "right"], ["SUBSCRIBE", *names], ["PING", "x" * 100]]))
    world.check_secrets()
    replies = client.read()
    assert replies[0] == b"OK"
    assert [reply[1] for reply in replies[1:11]] == [name.encode() for name in names]
    assert replies[11] == [b"pong", b"x" * 100]


def test_a_protocol_error_behind_a_login_is_sent_after_its_reply() -> None:
    for client_user in (None, "alice"):
        world = secured()
        client = world.client(user=client_user)
        client.send_raw(pipeline([["AUTH", "alice", "right"], ["PING"]]) + b"*1\r\n:5\r\n")
        world.check_secrets()
        assert client.read() == [b"OK", b"PONG", Error("ERR Protocol error: expected '$', got ':'")]
        assert client.wire.is_gone()


def test_a_second_login_behind_the_first_waits_too() -> None:
    world = secured()
    client = world.client()
    client.send_raw(pipeline([["AUTH", "alice", "wrong"], ["AUTH", "alice", "right"], ["PING"]]))
    world.check_secrets()
    assert client.read() == [WRONGPASS]
    world.check_secrets()
    assert client.read() == [b"OK", b"PONG"]


def test_a_client_that_disconnected_while_its_login_was_checked_gets_no_reply() -> None:
    world = secured()
    client = world.client()
    client.send("AUTH", "alice", "right")
    client.wire.abort()
    world.advance()
    world.check_secrets()
    assert not client.is_connected()
    assert client.read() == []


def test_an_unauthenticated_client_is_cut_when_its_login_waits_too_long() -> None:
    world = secured(Limits(unauthenticated_timeout_s=2, login_check_timeout_s=5))
    client = world.client()
    client.send("AUTH", "alice", "right")
    world.advance(5.1)
    assert client.wire.is_gone()
    world.check_secrets()
    assert not client.is_connected()


def test_hello_with_auth_and_setname_does_all_three() -> None:
    world = secured()
    client = world.client()
    client.send("HELLO", "3", "AUTH", "alice", "right", "SETNAME", "me")
    world.check_secrets()
    (greeting,) = client.read()
    assert greeting[b"proto"] == 3
    assert client.do("CLIENT", "GETNAME") == b"me"


def test_hello_with_an_invalid_name_does_not_log_in() -> None:
    world = secured()
    client = world.client()
    client.send("HELLO", "3", "AUTH", "alice", "right", "SETNAME", "not a name")
    world.check_secrets()
    assert client.read() == [Error("ERR Client names cannot contain spaces, newlines or special characters.")]
    assert client.do("PING") == NOAUTH


def test_a_login_as_another_user_ends_subscriptions_that_user_may_not_have() -> None:
    world = secured()
    client = world.client(3, user="alice")
    client.send("SUBSCRIBE", "a1")
    client.read()
    client.send("AUTH", "bob", "right")
    world.check_secrets()
    assert [b"unsubscribe", b"a1", 0] in client.read()
    assert world.client(user="alice").do("PUBLISH", "a1", "x") == 0


# --- any split


_COMMANDS = st.lists(
    st.sampled_from(
        [
            ["PING"],
            ["HELLO", "3"],
            ["SUBSCRIBE", "a", "b"],
            ["PSUBSCRIBE", "a*"],
            ["UNSUBSCRIBE"],
            ["PUNSUBSCRIBE"],
            ["PUBLISH", "a", "1"],
            ["PUBLISH", "a", "2"],
            ["PUBLISH", "b", "3"],
            ["EQ.SUBSCRIBE", "a"],
            ["EQ.UNSUBSCRIBE"],
            ["CLIENT", "REPLY", "SKIP"],
            ["CLIENT", "REPLY", "OFF"],
            ["CLIENT", "REPLY", "ON"],
            ["RESET"],
            ["AUTH", "alice", "right"],
            ["AUTH", "alice", "wrong"],
            ["GET", "key"],
            ["ECHO", "x" * 100],
            ["DEL", *"abcdefghijkl"],
            ["QUIT"],
        ]
    ),
    max_size=12,
)
_TAIL = st.sampled_from([b"", b"PING\r\n", b"*1\r\n:5\r\n", b"GET / HTTP/1.1\r\n", b"*1\r\n$4\r\nPI"])


@settings(derandomize=True, max_examples=120, deadline=None)
@given(_COMMANDS, _TAIL, st.lists(st.integers(0, 1_000), max_size=5), st.sampled_from([None, "alice"]))
def test_any_split_of_the_same_bytes_gives_the_same_replies(
    commands: list[list[str]], tail: bytes, points: list[int], user: str | None
) -> None:
    stream = pipeline(commands) + tail
    answers = []
    for cuts in ([], points, range(len(stream))):
        world = secured()
        client = world.client(user=user)
        edges = sorted({0, len(stream), *(point % (len(stream) + 1) for point in cuts)})
        for start, end in pairwise(edges):
            client.send_raw(stream[start:end])
            world.check_secrets()
        while world.shell.checks:
            world.check_secrets()
        world.advance()
        sent = bytes(client.wire.sent)
        answers.append((sent, client.wire.is_closing))
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize("closing", ["QUIT", "CLIENT KILL ID 1 SKIPME NO"])
def test_a_client_that_ended_itself_leaves_no_state(closing: str) -> None:
    world = World()
    client = world.client()
    client.send("SUBSCRIBE", "t")
    client.send("UNSUBSCRIBE", "t")
    client.read()
    client.send_raw(request(*closing.split()) + request("PUBLISH", "t", "late"))
    world.advance()
    assert client.read() == [b"OK" if closing == "QUIT" else 1]
    assert world.core.sessions == {}
    assert world.shell.timers_pending <= 1  # the sweep for idle topics


# --- bursts of publishes with something behind them


def test_a_burst_of_publishes_and_a_ping_is_answered_in_order_and_delivered_as_one() -> None:
    world = World()
    publisher, subscriber = world.client(), world.client()
    subscriber.do("SUBSCRIBE", "t")
    publisher.send_raw(
        pipeline([*(["PUBLISH", "t", str(i)] for i in range(5)), ["PING"], ["PUBLISH", "t", "x"]])
    )
    assert publisher.read() == [1, 1, 1, 1, 1, b"PONG", 1]
    heard = [frame[2] for frame in subscriber.read()]
    assert heard == [b"0", b"1", b"2", b"3", b"4", b"x"]
    assert world.core.index.topics[b"t"].n == 6


def test_a_burst_that_begins_with_a_malformed_publish_is_answered_one_by_one() -> None:
    world = World()
    client = world.client()
    client.send_raw(pipeline([["PUBLISH"], ["PUBLISH", "t", "x"], ["PING"]]))
    assert client.read() == [Error("ERR wrong number of arguments for 'publish' command"), 0, b"PONG"]
