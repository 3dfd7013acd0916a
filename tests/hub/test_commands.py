"""Commands: their cost, and which information they give to which user."""

from __future__ import annotations

import pytest

from equipoise.hub.access.quotas import topic_bytes
from equipoise.hub.commands import COMMANDS
from equipoise.hub.commands.usage import USAGE
from equipoise.hub.settings import Limits
from hub.world import Error, World, pipeline, request, users


@pytest.mark.parametrize("setter", ["CLIENT SETNAME", "CLIENT SETINFO lib-name", "CLIENT SETINFO lib-ver"])
def test_names_that_a_client_gives_itself_are_short(setter: str) -> None:
    client = World().client()
    assert client.do(*setter.split(), "x" * 256) == b"OK"
    assert isinstance(client.do(*setter.split(), "x" * 257), Error)
    assert isinstance(client.do(*setter.split(), "a b"), Error)


def test_hello_takes_no_longer_name() -> None:
    assert isinstance(World().client().do("HELLO", "3", "SETNAME", "x" * 257), Error)


def test_an_unknown_command_is_quoted_in_part() -> None:
    client = World().client()
    reply = client.do("x" * 100_000, *["y" * 1_000] * 100)
    assert isinstance(reply, Error)
    assert len(reply) < 500


def test_commands_for_keys_reply_that_there_are_none() -> None:
    reply = World().client().do("GET", "key")
    assert reply == Error(
        "ERR 'GET' works on keys, and a hub has none; use SUBSCRIBE and PUBLISH here, and a Redis server for keys"
    )


def test_client_kill_with_a_filter_ends_other_clients_at_once() -> None:
    world = World()
    operator, normal, subscriber = world.client(), world.client(), world.client()
    subscriber.do("SUBSCRIBE", "t")
    assert operator.do("CLIENT", "KILL", "TYPE", "pubsub") == 1
    assert subscriber.wire.is_gone()
    assert operator.do("CLIENT", "KILL", "ID", str(normal.session.id), "SKIPME", "yes") == 1
    assert operator.do("CLIENT", "KILL", "TYPE", "normal") == 0
    assert operator.is_connected()


def test_a_client_that_kills_its_own_address_gets_a_reply_first() -> None:
    world = World()
    client = world.client()
    client.send_raw(request("CLIENT", "KILL", client.session.address) + request("PING"))
    assert client.read() == [b"OK"]
    assert client.wire.is_gone()


def test_a_link_is_one_connection_the_latest() -> None:
    world = World()
    first, second = world.client(3), world.client(3)
    link = "0123456789abcdef"
    assert first.do("EQ.LINK", link) == b"OK"
    assert second.do("EQ.LINK", link) == b"OK"
    assert first.wire.is_gone()
    world.advance()
    assert second.do("EQ.LINK", link) == b"OK"
    assert second.is_connected()
    second.wire.abort()
    world.advance()
    assert world.core.links == {}


@pytest.mark.parametrize("name", ["x" * 15, "x" * 65])
def test_a_link_has_a_name_that_cannot_be_guessed_nor_fill_memory(name: str) -> None:
    assert isinstance(World().client(3).do("EQ.LINK", name), Error)


def test_a_run_of_refused_publishes_counts_its_errors() -> None:
    world = World(limits=Limits(topic_bytes_max=16))
    client = world.client()
    client.send_raw(pipeline(["PUBLISH", "n" * 17, "x"] for _ in range(5)))
    assert len(client.read()) == 5
    assert world.info("total_error_replies") == "5"


def test_info_shows_the_port_that_was_taken() -> None:
    world = World()
    world.core.port = 12_345
    assert world.info("tcp_port") == "12345"
    assert world.client().do("CONFIG", "GET", "port") == [b"port", b"12345"]


def test_info_counts_events() -> None:
    world = World()
    subscriber, publisher = world.client(), world.client()
    subscriber.do("SUBSCRIBE", "t")
    publisher.send_raw(pipeline(["PUBLISH", "t", "x"] for _ in range(3)))
    assert world.info("published") == "3"
    assert world.info("delivered") == "3"
    assert world.info("pubsub_channels") == "1"
    assert world.info("pubsub_clients") == "1"
    subscriber.send("UNSUBSCRIBE")
    assert world.info("pubsub_channels") == "0"


def test_the_memory_of_a_topic_is_shown_to_users_who_may_use_it() -> None:
    grants = 'create = ["game.*"]\npublish = ["game.*"]'
    world = World(users(alice=grants, bob='publish = ["x"]'))
    alice, bob = world.client(user="alice"), world.client(user="bob")
    alice.do("PUBLISH", "game.1", "x")
    assert alice.do("MEMORY", "USAGE", "game.1") == topic_bytes(b"game.1")
    assert bob.do("MEMORY", "USAGE", "game.1") is None


def test_users_are_listed_to_operators_without_their_secrets() -> None:
    world = World(users(alice='publish = ["game.*"]', root='operate = ["*", "$*"]'))
    alice, root = world.client(user="alice"), world.client(user="root")
    assert isinstance(alice.do("ACL", "LIST"), Error)
    assert root.do("ACL", "LIST") == [
        b"user alice on #hidden &game.* +@all -@admin",
        b"user root on #hidden resetchannels +@all",
    ]
    assert root.do("ACL", "USERS") == [b"alice", b"root"]
    assert b"publish" in alice.do("ACL", "CAT", "pubsub")
    assert b"pubsub" in alice.do("ACL", "CAT")


def test_latency_shows_when_the_loop_was_late() -> None:
    world = World()
    client = world.client()
    assert client.do("LATENCY", "LATEST") == []
    for lag_s, at_s in ((0.005, 100.0), (0.05, 101.2), (0.02, 101.9), (0.03, 103.0)):
        world.core.lag_spikes.note(lag_s, at_s)
    assert client.do("LATENCY", "LATEST") == [[b"event-loop", 103, 30, 50]]
    assert client.do("LATENCY", "HISTORY", "event-loop") == [[101, 50], [103, 30]]
    assert client.do("LATENCY", "RESET") == 1
    assert client.do("LATENCY", "LATEST") == []


def test_the_documentation_of_a_command_has_its_arguments() -> None:
    client = World().client()

    def arguments(name: str) -> list[dict[bytes, object]]:
        _, facts = client.do("COMMAND", "DOCS", name)
        about = dict(zip(facts[::2], facts[1::2], strict=True))
        return [dict(zip(one[::2], one[1::2], strict=True)) for one in about[b"arguments"]]

    channel = {b"name": b"channel", b"type": b"string"}
    assert arguments("publish") == [channel, {b"name": b"message", b"type": b"string"}]
    assert arguments("subscribe") == [channel | {b"flags": [b"multiple"]}]
    assert arguments("unsubscribe") == [channel | {b"flags": [b"optional", b"multiple"]}]
    listed = arguments("client|list")
    assert [one.get(b"token") for one in listed] == [b"TYPE", b"ID"]
    assert [one[b"type"] for one in listed] == [b"oneof", b"string"]
    assert arguments("eq.topics")[-1] == {
        b"name": b"home",
        b"type": b"pure-token",
        b"token": b"HOME",
        b"flags": [b"optional"],
    }


def test_every_usage_belongs_to_a_command() -> None:
    every = {one.name for spec in COMMANDS.values() for one in (spec, *spec.subcommands.values())}
    assert USAGE.keys() <= every
