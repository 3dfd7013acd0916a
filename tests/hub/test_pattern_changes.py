"""Changes of patterns: messages go to current subscribers, and a change costs other topics almost nothing."""

from __future__ import annotations

import random

import pytest

from equipoise.hub.data.patterns import CHANGES_MAX
from equipoise.hub.settings import Limits
from equipoise.model import Glob
from hub.world import Error, World, pipeline, users

GRANTS = 'create = ["*"]\npublish = ["*"]\nsubscribe = ["*"]'


class Matchings:
    """How often a name has been compared with a pattern."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        matches = Glob.matches

        def counted(glob: Glob, name: bytes) -> bool:
            self.count += 1
            return matches(glob, name)

        monkeypatch.setattr(Glob, "matches", counted)


def world_with_patterns(count: int) -> World:
    """Clients with patterns that match nothing that is published here."""
    world = World()
    for start in range(0, count, 1_000):
        client = world.client()
        client.send_raw(pipeline([["PSUBSCRIBE", *(f"*idle{start + i}" for i in range(1_000))]]))
        world.advance(1)
        client.read()
    return world


@pytest.mark.parametrize("churned", ["*nothing", "to?", "*"])
def test_a_change_costs_the_same_however_many_patterns_and_topics_there_are(
    churned: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    1. Twenty clients have a thousand patterns each, and ten topics are in use.
    2. One client changes one pattern time and again, whether it matches the topics or not.
    3. Each publish looks at that one pattern, not at twenty thousand.
    """
    world = world_with_patterns(20_000)
    churning, publisher = world.client(), world.client()
    for topic in range(10):
        publisher.do("PUBLISH", f"to{topic}", "x")
    matchings = Matchings(monkeypatch)
    for _ in range(20):
        for change in ("PSUBSCRIBE", "PUNSUBSCRIBE"):
            churning.do(change, churned)
            for topic in range(10):
                publisher.do("PUBLISH", f"to{topic}", "x")
    assert matchings.count <= 400 * 3


def test_a_subscriber_that_subscribes_and_leaves_does_not_cause_another_match(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = world_with_patterns(5_000)
    subscriber, publisher = world.client(), world.client()
    publisher.do("PUBLISH", "t", "x")
    matchings = Matchings(monkeypatch)
    for _ in range(10):
        subscriber.do("SUBSCRIBE", "t")
        assert publisher.do("PUBLISH", "t", "x") == 1
        subscriber.read()
        subscriber.do("UNSUBSCRIBE", "t")
    assert matchings.count == 0


@pytest.mark.parametrize("seed", range(5))
def test_every_message_goes_to_exactly_the_current_subscribers(seed: int) -> None:
    """Against brute force, with more changes between two messages of a topic than are remembered, now and then."""
    rng = random.Random(seed)
    world = World(limits=Limits(patterns_max=5_000))
    publisher = world.client()
    clients = [world.client(rng.choice((2, 3))) for _ in range(4)]
    held: dict[int, set[str]] = {i: set() for i in range(4)}
    patterns = ["*", "a*", "?", "[ab]?", "ab*", "b", "*b", "a?c*", "zz*"]
    names = ["a", "b", "ab", "abc", "ba", "c", "zz"]
    for step in range(400):
        i, pattern = rng.randrange(4), rng.choice(patterns)
        if rng.random() < 0.5:
            clients[i].send("PSUBSCRIBE", pattern)
            held[i].add(pattern)
        else:
            clients[i].send("PUNSUBSCRIBE", pattern)
            held[i].discard(pattern)
        if step % 97 == 0:
            many = [f"filler{n}*" for n in range(CHANGES_MAX + 10)]
            for change in ("PSUBSCRIBE", "PUNSUBSCRIBE"):
                for start in range(0, len(many), 500):
                    clients[i].send(change, *many[start : start + 500])
                    world.advance(1)
        if rng.random() < 0.05:
            clients[i].send("HELLO", rng.choice("23"))
        world.advance(0.001)
        for client in clients:
            client.read()
        name = rng.choice(names)
        expected = [
            sum(Glob(pattern.encode()).matches(name.encode()) for pattern in held[i]) for i in range(4)
        ]
        assert publisher.do("PUBLISH", name, "x") == sum(expected)
        assert [len(client.read()) for client in clients] == expected


def test_a_hub_has_so_many_different_patterns_and_a_user_a_share_of_them() -> None:
    world = World(
        limits=Limits(patterns_hub_max=10, user_share=0.5),
        users=users(alice=GRANTS, bob=GRANTS),
    )
    alice, again, bob = (world.client(user=name) for name in ("alice", "alice", "bob"))
    alice.send("PSUBSCRIBE", *(f"a{i}*" for i in range(4)))
    assert len(alice.read()) == 4
    assert again.do("PSUBSCRIBE", "a0*")[1:] == [b"a0*", 1]
    refused = Error("ERR user 'alice' may hold 5 patterns on this hub (user_share of patterns_hub_max)")
    assert again.do("PSUBSCRIBE", "a4*", "a5*") == refused
    again.do("PSUBSCRIBE", "a4*")
    assert again.do("PSUBSCRIBE", "a5*") == refused
    assert bob.do("PSUBSCRIBE", "b*")[2] == 1
    alice.wire.abort()
    world.advance()
    # The first pattern has another subscriber and still counts for the user.
    again.send("PSUBSCRIBE", "x0*", "x1*", "x2*")
    assert again.read()[-1][2] == 5
    assert again.do("PSUBSCRIBE", "x3*") == refused


def test_a_hub_without_users_has_its_total_only() -> None:
    world = World(limits=Limits(patterns_hub_max=3))
    first, second = world.client(), world.client()
    first.send("PSUBSCRIBE", "a*", "b*", "c*")
    first.read()
    assert second.do("PSUBSCRIBE", "a*")[2] == 1
    assert second.do("PSUBSCRIBE", "d*") == Error(
        "ERR this hub has 3 patterns in use already (patterns_hub_max)"
    )
    first.do("PUNSUBSCRIBE", "b*")
    assert second.do("PSUBSCRIBE", "d*")[2] == 2
