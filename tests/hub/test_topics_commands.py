"""EQ.TOPICS and EQ.TOPIC: the listed topics and fields, by user."""

from __future__ import annotations

import pytest

from equipoise.hub.settings import Limits
from hub.world import Error, FakeClient, World, users

GAME = 'create = ["game.*"]\npublish = ["game.*"]\nsubscribe = ["game.*"]'


def pages(client: FakeClient, count: int, *words: str) -> list[list[bytes]]:
    """The names in each page."""
    found, cursor = [], b"0"
    while True:
        cursor, rows = client.do("EQ.TOPICS", cursor, str(count), *words)
        found.append([row[0] for row in rows])
        if cursor == b"0":
            return found


def test_a_row_has_the_home_of_a_topic_and_its_use() -> None:
    world = World()
    client, subscriber = world.client(), world.client()
    subscriber.do("SUBSCRIBE", "news")
    client.do("PUBLISH", "news", "a")
    client.do("PUBLISH", "news", "b")
    assert client.do("EQ.TOPIC", "news", "unknown") == [[b"news", b"open", b"hub", 1, 2, 2, b"", 0], None]


def test_pages_hold_every_topic_once() -> None:
    world = World()
    client = world.client()
    names = [f"t{i}".encode() for i in range(25)] + [b"", b"=", b"0"]
    for name in names:
        client.do("PUBLISH", name, "x")
    assert pages(client, 10) == [names[:10], names[10:20], names[20:]]
    assert pages(client, 14) == [names[:14], names[14:]]
    assert pages(client, 1000, "MATCH", "t1*") == [[name for name in names if name.startswith(b"t1")]]
    assert pages(client, 1000, "HOME") == [names]


def test_a_page_that_takes_long_is_sent_in_a_later_turn() -> None:
    world = World()
    client = world.client()
    for i in range(500):
        client.do("PUBLISH", f"t{i}", "x")
    world.shell.tick_s = 0.01
    client.send("EQ.TOPICS", "0", "1000")
    assert client.read() == []
    world.advance(10.0)
    ((cursor, rows),) = client.read()
    assert (cursor, len(rows)) == (b"0", 500)


def test_a_cursor_whose_topic_was_removed_still_works() -> None:
    world = World(limits=Limits(topic_idle_s=10.0))
    client, subscriber = world.client(), world.client()
    for name in ("a", "b", "c"):
        subscriber.do("SUBSCRIBE", name)
    cursor, rows = client.do("EQ.TOPICS", "0", "2")
    assert [row[0] for row in rows] == [b"a", b"b"]
    subscriber.do("UNSUBSCRIBE", "b")
    world.advance(25.0)
    assert b"b" not in world.core.index.topics
    client.do("PUBLISH", "d", "x")
    assert [row[0] for row in client.do("EQ.TOPICS", cursor, "10")[1]] == [b"c", b"d"]


@pytest.mark.parametrize(
    "words",
    [
        ("-1", "10"),
        ("=t", "10"),
        ("0", "0"),
        ("0", "1001"),
        ("0", "ten"),
        ("0", "10", "MATCH"),
        ("0", "10", "NEAR", "x"),
        ("0", "10", "MATCH", "*a*a*a*a*a*a*a*a*a*a*a"),
    ],
)
def test_invalid_arguments_are_rejected(words: tuple[str, ...]) -> None:
    assert isinstance(World().client().do("EQ.TOPICS", *words), Error)


def test_topics_that_a_user_may_neither_use_nor_operate_are_hidden() -> None:
    world = World(users(root='create = ["*"]\npublish = ["*"]', alice=GAME, watch='operate = ["*"]'))
    root, alice, watch = (world.client(user=name) for name in ("root", "alice", "watch"))
    for name in ("game.1", "secret"):
        root.do("PUBLISH", name, "x")
    assert pages(alice, 10) == [[b"game.1"]]
    assert alice.do("EQ.TOPIC", "secret") == [None]
    assert pages(watch, 10) == [[b"game.1", b"secret"]]
    assert isinstance(world.client().do("EQ.TOPICS", "0", "10"), Error)


def test_a_cursor_does_not_tell_whether_a_topic_exists() -> None:
    world = World(users(root='create = ["*"]\npublish = ["*"]', alice=GAME))
    root, alice = world.client(user="root"), world.client(user="alice")
    for name in ("game.1", "secret", "game.2"):
        root.do("PUBLISH", name, "x")
    assert pages(alice, 1) == [[b"game.1"], [b"game.2"]]
    # A page from every possible cursor is the same as without the other topic.
    names = [[row[0] for row in alice.do("EQ.TOPICS", str(cursor), "10")[1]] for cursor in range(5)]
    assert names == [[b"game.1", b"game.2"], [b"game.2"], [b"game.2"], [], []]
    for name in ("secret", "missing"):
        assert isinstance(alice.do("EQ.TOPICS", f"={name}", "10"), Error)
