"""Migrating subscribers to another edge: which are redirected, in which order, and which count as leaving."""

from __future__ import annotations

from equipoise.hub.cluster.settings import ClusterSettings
from equipoise.hub.content.migrations import TURN_S, movable
from equipoise.hub.content.topic_filters import TopicFilter
from equipoise.model import Mode
from hub.cluster.hubs import PORT, Hubs
from hub.world import FakeClient


def smart(hubs: Hubs, where: str = "even = true", *, has_routes: bool = True) -> FakeClient:
    """A client of h1 that subscribes by a filter."""
    client = hubs["h1"].client(3)
    if has_routes:
        client.send("EQ.LINK", f"link-{len(hubs['h1'].core.sessions):016}", "ROUTES")
    client.send("EQ.FSUBSCRIBE", "1", "t", where)
    hubs.settle()
    client.read()
    return client


def filters(hubs: Hubs) -> list[TopicFilter]:
    content = hubs["h1"].core.index.topics[b"t"].content
    return [] if content is None else list(content.index)


def begun() -> Hubs:
    hubs = Hubs("h1", "h2", cluster=ClusterSettings(redirects_per_s=40))
    hubs.replicate("t", Mode.CONTENT, "h1", "h2")
    return hubs


def told(client: FakeClient) -> list[list[object]]:
    return [words for words in client.read() if words[0] == b"eq.edge"]


def send(hubs: Hubs, *, session: str = "h1:1", until_s: float = 100.0) -> int:
    moving = [each for node in filters(hubs) for each in movable(node)]
    hubs["h1"].cluster.edge.migrations.send(moving, "h2", session=session, total=len(moving), until_s=until_s)
    return len(moving)


def test_smart_clients_with_routes_are_redirected_a_few_at_a_time_and_others_never() -> None:
    hubs = begun()
    clients = [smart(hubs) for _ in range(5)]
    others = [smart(hubs, has_routes=False), hubs["h1"].client(3)]
    others[1].send("PSUBSCRIBE", "$filter t even = true")
    version = hubs["h1"].cluster.router.version
    assert send(hubs) == 5
    # 40 in a second are 2 in a turn.
    for expected in (2, 2, 1, 0):
        pushes = [push for client in clients for push in told(client)]
        assert pushes == [[b"eq.edge", b"1", version, f"h2:{PORT}".encode(), b"h1:1", 5]] * expected
        hubs["h1"].shell.advance(TURN_S)
    assert [told(client) for client in others] == [[], []]


def test_redirected_clients_count_as_leaving_until_they_have_left_or_are_given_up() -> None:
    hubs = begun()
    clients = [smart(hubs), smart(hubs)]
    migrations = hubs["h1"].cluster.edge.migrations
    send(hubs, until_s=50.0)
    members = filters(hubs)[0].smart
    assert members is not None and (members.count, members.leaving) == (2, 2)
    # A client that is already migrating is not redirected again.
    send(hubs, session="h1:2")
    assert [len(told(client)) for client in clients] == [1, 1]
    clients[0].send("EQ.FUNSUBSCRIBE", "1")
    assert (members.count, members.leaving) == (1, 1)
    migrations.expire(49.0)
    assert members.leaving == 1
    migrations.expire(50.0)
    assert members.leaving == 0


def test_the_push_precedes_messages_that_wait_for_the_client() -> None:
    hubs = begun()
    client = smart(hubs)
    client.wire.is_stuck = True
    publisher = hubs["h1"].client()
    for number in range(300):
        publisher.send("PUBLISH", "t", f'{{"even": true, "text": "{"x" * 1024}{number}"}}')
    hubs.settle()
    assert hubs["h1"].core.backlogs.lagging
    send(hubs)
    client.wire.drain()
    verbs = [words[0] for words in client.read()]
    assert verbs.count(b"eq.edge") == 1
    # What the transport had taken goes first.
    assert 0 < verbs.index(b"eq.edge") < len(verbs) - 10
    assert hubs["h1"].core.backlogs.bytes == 0


def test_a_session_is_named_by_the_command_or_the_command_is_rejected() -> None:
    hubs = begun()
    client = hubs["h2"].client(3)
    client.send("EQ.LINK", f"link-{1:016}", "ROUTES")
    for words in (
        ["SESSION", "h1:1"],
        ["SESSION", "h1:1", "0"],
        ["WORD", "h1:1", "3"],
        ["SESSION", "h1:1", "x"],
    ):
        client.read()
        client.send("EQ.FSUBSCRIBE", "1", "t", "even = true", *words)
        hubs.settle()
        assert str(client.read()[-1]).startswith("ERR syntax error: EQ.FSUBSCRIBE")
    client.send("EQ.FSUBSCRIBE", "1", "t", "even = true", "SESSION", "h1:1", "3")
    hubs.settle()
    assert b"eq.fsubscribe" in [words[0] for words in client.read()]
    assert hubs["h2"].cluster.edge.came == 1


def test_a_client_that_is_sent_back_before_it_has_left_counts_as_staying_again() -> None:
    hubs = begun()
    client = smart(hubs)
    send(hubs)
    members = filters(hubs)[0].smart
    assert members is not None and members.leaving == 1
    client.send("EQ.FSUBSCRIBE", "1", "t", "even = true", "SESSION", "h2:1", "1")
    hubs.settle()
    assert (members.count, members.leaving) == (1, 0)
    assert hubs["h1"].cluster.edge.came == 1
