"""Quotas of a hub for all clients together and for each user; every use is returned."""

from __future__ import annotations

from equipoise.hub.access.quotas import Resource, topic_bytes
from equipoise.hub.settings import Limits
from hub.world import Error, World, users

GRANTS = 'create = ["*"]\npublish = ["*"]\nsubscribe = ["*"]'


def world_of(**limits: object) -> World:
    return World(limits=Limits(**limits), users=users(alice=GRANTS, bob=GRANTS))  # type: ignore[arg-type]  # as spelled


def test_a_user_has_a_share_of_the_connections_however_it_opens_them() -> None:
    world = world_of(connections_max=4, user_share=0.5)
    first, _ = world.client(user="alice"), world.client(user="alice")
    third = world.client()
    third.send("AUTH", "alice", "right")
    world.check_secrets()
    assert third.read() == [
        Error("ERR user 'alice' may hold 2 connections on this hub (user_share of connections_max)")
    ]
    assert world.client(user="bob").is_connected()
    first.wire.abort()
    world.advance()
    third.send("AUTH", "alice", "right")
    world.check_secrets()
    assert third.read() == [b"OK"]


def test_a_user_has_a_share_of_the_subscriptions() -> None:
    world = world_of(subscriptions_hub_max=4, user_share=0.5)
    alice, bob = world.client(user="alice"), world.client(user="bob")
    alice.send("SUBSCRIBE", "a", "b")
    alice.read()
    refused = Error(
        "ERR user 'alice' may hold 2 subscriptions on this hub (user_share of subscriptions_hub_max)"
    )
    assert world.client(user="alice").do("SUBSCRIBE", "c") == refused
    assert bob.do("SUBSCRIBE", "a")[2] == 1
    alice.do("UNSUBSCRIBE", "a")
    assert alice.do("SUBSCRIBE", "c")[2] == 2


def test_subscriptions_go_with_their_connection_to_another_user() -> None:
    world = world_of()
    client = world.client(3, user="alice")
    client.do("SUBSCRIBE", "a")
    quotas = world.core.quotas
    client.send("AUTH", "bob", "right")
    world.check_secrets()
    client.read()
    for resource in (Resource.SUBSCRIPTIONS, Resource.CONNECTIONS):
        assert (quotas.held_by(resource, "alice"), quotas.held_by(resource, "bob")) == (0, 1)
    client.do("RESET")
    client.wire.abort()
    world.advance()
    assert quotas.total(Resource.SUBSCRIPTIONS) == quotas.total(Resource.CONNECTIONS) == 0


def test_topics_count_with_the_memory_that_they_use() -> None:
    name = "n" * 4_000
    most = 64 * 1024
    world = World(limits=Limits(topics_bytes_max=most, topics_max=1_000))
    fit = most // topic_bytes(name.encode())
    subscriber = world.client()
    for i in range(fit):
        assert subscriber.do("SUBSCRIBE", f"{i:04}" + name[4:])[2] == i + 1
    refused = subscriber.do("SUBSCRIBE", "last" + name[4:])
    assert refused == Error(f"ERR the topics in use here take {most} bytes already (topics_bytes_max)")
    subscriber.do("UNSUBSCRIBE", "0000" + name[4:])
    # A topic without a subscriber makes room.
    assert world.client().do("PUBLISH", "last" + name[4:], "x") == 0


def test_a_user_has_a_share_of_the_memory_of_topics() -> None:
    world = world_of(topics_bytes_max=64 * 1024, user_share=0.5)
    alice, bob = world.client(user="alice"), world.client(user="bob")
    names = [f"{i:04}" + "n" * 3_000 for i in range(10)]
    replies = [alice.do("SUBSCRIBE", name) for name in names]
    refused = [reply for reply in replies if isinstance(reply, Error)]
    assert len(refused) == 10 - 32 * 1024 // topic_bytes(names[0].encode())
    assert "user_share of topics_bytes_max" in refused[0]
    assert bob.do("SUBSCRIBE", names[9])[2] == 1


def test_looking_for_room_among_topics_in_use_takes_a_bounded_time() -> None:
    """
    1. A hub is full of topics that other hubs follow; no client here has subscribed.
    2. A new topic is refused, after a look at a few hundredths of them, and so is the next.
    """
    world = World(limits=Limits(topics_max=1_000))
    index = world.core.index
    for i in range(1_000):
        topic = index.create(b"t%d" % i)
        assert topic is not None
        topic.relays = {None: None}  # type: ignore[dict-item]  # a link that nothing is written to
    looked_at = 0
    visit = index._visit

    def counted(*, is_spared: bool = True) -> None:
        nonlocal looked_at
        looked_at += 1
        visit(is_spared=is_spared)

    index._visit = counted  # type: ignore[method-assign]  # to count
    assert index.create(b"new") is None
    assert 0 < looked_at <= 30
