"""Transactions inside one hub: behaviour that the transcripts of tests/conformance do not cover."""

from __future__ import annotations

from equipoise.hub.settings import Limits
from hub.world import Error, World, pipeline, users

GAME = 'create = ["game.*"]\npublish = ["game.*"]\nsubscribe = ["game.*"]'


def test_messages_of_a_transaction_to_its_own_client_do_not_break_the_reply() -> None:
    world = World()
    client = world.client(3)
    client.do("SUBSCRIBE", "t")
    client.send_raw(pipeline([["PING"], ["MULTI"], ["PUBLISH", "t", "x"], ["PUBLISH", "t", "y"], ["EXEC"]]))
    replies = client.read()
    assert replies[:4] == [b"PONG", b"OK", b"QUEUED", b"QUEUED"]
    assert replies[4:] == [[b"message", b"t", b"x"], [b"message", b"t", b"y"], [1, 1]]


def test_publishes_in_a_chunk_of_their_own_are_queued() -> None:
    world = World()
    client = world.client()
    client.do("MULTI")
    client.send_raw(pipeline(["PUBLISH", "t", "x"] for _ in range(3)))
    assert client.read() == [b"QUEUED"] * 3
    assert world.core.index.topics == {}
    assert client.do("EXEC") == [0, 0, 0]


def test_a_long_transaction_yields_to_other_clients_and_is_answered_once() -> None:
    world = World()
    client, other = world.client(), world.client()
    client.do("MULTI")
    client.send_raw(pipeline(["PUBLISH", f"t{i}", "x"] for i in range(200)))
    client.read()
    world.shell.tick_s = 0.001
    client.send("EXEC")
    client.send("PING")
    assert client.read() == []
    assert other.do("PING") == b"PONG"
    world.advance(5.0)
    assert client.read() == [[0] * 200, b"PONG"]


def test_a_login_that_is_checked_inside_a_transaction_is_waited_for() -> None:
    world = World(users(alice=GAME, bob=GAME))
    client = world.client(user="alice")
    client.send_raw(
        pipeline([["MULTI"], ["AUTH", "bob", "right"], ["PUBLISH", "game.1", "x"], ["EXEC"], ["PING"]])
    )
    assert client.read() == [b"OK", b"QUEUED", b"QUEUED"]
    world.check_secrets()
    world.advance()
    assert client.read() == [[b"OK", 0], b"PONG"]
    assert client.session.user is not None and client.session.user.name == "bob"


def test_commands_of_hubs_and_smart_clients_are_not_queued() -> None:
    client = World().client(3)
    client.do("MULTI")
    assert client.do("EQ.LINK", "0123456789abcdef") == Error("ERR Command not allowed inside a transaction")
    assert client.do("EXEC") == Error("EXECABORT Transaction discarded because of previous errors.")


def test_a_transaction_is_bounded_and_counts_as_input_until_it_ends() -> None:
    world = World(limits=Limits(transaction_bytes_max=2_000))
    client = world.client()
    client.do("MULTI")
    client.do("PUBLISH", "t", "x" * 1_000)
    assert world.core.unfinished.bytes > 1_000
    assert isinstance(client.do("PUBLISH", "t", "x" * 1_000), Error)
    assert isinstance(client.do("EXEC"), Error)
    assert world.core.unfinished.bytes == 0
    for end in ("DISCARD", "EXEC", "RESET"):
        client.do("MULTI")
        client.do("PUBLISH", "t", "x")
        assert world.core.unfinished.bytes > 0
        client.do(end)
        assert world.core.unfinished.bytes == 0
    client.do("MULTI")
    client.do("PUBLISH", "t", "x")
    client.wire.abort()
    world.advance()
    assert world.core.unfinished.bytes == 0
