"""Subscribers by filter that connect to a hub that is no edge: they are redirected to the edge with most room."""

from __future__ import annotations

import msgspec

from equipoise.content.balancing.load import EdgeLoad
from equipoise.content.balancing.messages import HubStatus, LoadWanted, Pie, encode
from equipoise.hub.content.edge_rooms import EdgeRooms
from equipoise.model import Mode
from hub.cluster.hubs import PORT, Hubs
from hub.world import FakeClient

HALF_FULL = EdgeLoad(input_rate=10.0, delay_s=0.05, subscriptions=10, match_s=0.01)
FULL = EdgeLoad(input_rate=10.0, delay_s=0.095, subscriptions=10, match_s=0.01)


def begun(*homes: str, parents: tuple[int, ...] = ()) -> Hubs:
    """h1 numbers the topic, h5 is no home."""
    hubs = Hubs("h1", "h2", "h3", "h4", "h5")
    hubs.replicate("t", Mode.CONTENT, *(homes or ("h1", "h2", "h3")), parents=parents)
    return hubs


def rooms(hubs: Hubs, hub: str) -> EdgeRooms:
    return hubs[hub].cluster.edge.rooms


def comer(hubs: Hubs, hub: str) -> FakeClient:
    client = hubs[hub].client(3)
    client.send("EQ.LINK", f"link-{len(hubs[hub].core.sessions):016}", "ROUTES")
    client.send("EQ.FSUBSCRIBE", "1", "t", "even = true")
    hubs.settle()
    return client


def pushes(client: FakeClient) -> list[tuple[bytes, bytes]]:
    """The redirects it got: the kind of each, and the last word, which for eq.edge is the edge."""
    found = [words for words in client.read() if words[0] in (b"eq.home", b"eq.edge")]
    return [(words[0], words[3]) for words in found]


def to_edge(hub: str) -> list[tuple[bytes, bytes]]:
    return [(b"eq.home", b"content"), (b"eq.edge", f"{hub}:{PORT}".encode())]


def load(hubs: Hubs, hub: str, load: EdgeLoad) -> None:
    """The hub's measurements while the clock does not advance."""
    hubs[hub].cluster.edge._load = hubs[hub].core.now(), load


def test_a_head_and_a_hub_without_the_topic_redirect_newcomers_to_the_least_full_edge() -> None:
    for hub in ("h1", "h5"):
        hubs = begun()
        load(hubs, "h2", HALF_FULL)
        assert pushes(comer(hubs, hub)) == to_edge("h3")
        assert hubs[hub].cluster.edge.facts.content_placed == 1


def test_newcomers_between_two_pies_count_for_the_edge_they_were_redirected_to() -> None:
    hubs = begun()
    # Full after 8 more, and after 2 more.
    load(hubs, "h2", HALF_FULL)
    load(hubs, "h3", msgspec.structs.replace(HALF_FULL, delay_s=0.08))
    sent = [pushes(comer(hubs, "h5"))[1][1][:2] for _ in range(10)]
    assert sent.count(b"h2") == 8, sent


def test_an_edge_keeps_its_own_newcomers() -> None:
    hubs = begun()
    load(hubs, "h2", HALF_FULL)
    assert pushes(comer(hubs, "h2")) == [(b"eq.home", b"content")]


def test_a_newcomer_waits_for_edges_that_do_not_reply_no_longer_than_the_reply_timeout() -> None:
    hubs = begun()
    hubs.held.add(("h3", "h5"))
    client = comer(hubs, "h5")
    assert pushes(client) == []
    hubs["h5"].shell.advance(2.9)
    assert pushes(client) == []
    hubs["h5"].shell.advance(0.2)
    assert pushes(client) == to_edge("h2")


def test_a_newcomer_is_redirected_though_no_edge_replies() -> None:
    hubs = begun()
    hubs.held |= {("h2", "h5"), ("h3", "h5")}
    client = comer(hubs, "h5")
    hubs["h5"].shell.advance(3.1)
    assert pushes(client) == [(b"eq.home", b"content")]


def test_a_newcomer_that_has_disconnected_meanwhile_is_left_out() -> None:
    hubs = begun()
    hubs.held.add(("h3", "h5"))
    client = comer(hubs, "h5")
    client.send("EQ.FUNSUBSCRIBE", "1")
    hubs.settle()
    hubs["h5"].shell.advance(3.1)
    assert pushes(client) == [] and rooms(hubs, "h5").sent == 0


def test_a_head_prefers_its_own_edges_as_long_as_one_has_room() -> None:
    # h1 numbers, h2 is an edge below it; h3 is a head with the edge h4.
    hubs = begun("h1", "h2", "h3", "h4", parents=(0, 0, 0, 2))
    load(hubs, "h4", HALF_FULL)
    assert pushes(comer(hubs, "h3")) == to_edge("h4")
    assert pushes(comer(hubs, "h5")) == to_edge("h2")
    hubs = begun("h1", "h2", "h3", "h4", parents=(0, 0, 0, 2))
    load(hubs, "h4", FULL)
    assert pushes(comer(hubs, "h3")) == to_edge("h2")


def test_edges_send_pies_to_a_hub_that_has_asked_for_a_while_and_then_stop() -> None:
    hubs = begun()
    comer(hubs, "h5")
    group = hubs["h2"].cluster.edge.group
    assert set(group.listeners) == {"h5"}
    settings = hubs["h2"].core.settings.content
    assert "h5" in group.load_receivers(hubs["h2"].core.now())
    assert group.load_receivers(hubs["h2"].core.now() + 3 * settings.pie_s_max) == frozenset()


def test_the_pies_of_a_dead_edge_are_void() -> None:
    hubs = begun("h1", "h2", "h3", "h4")
    load(hubs, "h2", HALF_FULL)
    assert pushes(comer(hubs, "h5")) == to_edge("h3")
    hubs.kill("h3")
    assert set(rooms(hubs, "h5").asked) == {"h2", "h4"}
    assert pushes(comer(hubs, "h5")) == to_edge("h4")


def test_only_hubs_may_ask_and_pies_of_other_users_are_ignored() -> None:
    hubs = begun()
    control = hubs["h2"].cluster.edge.control
    client = hubs["h1"].client()
    client.send("PUBLISH", "$at/h2/content", encode(LoadWanted(hub="h9")))
    hubs.settle()
    assert (control.invalid, hubs["h2"].cluster.edge.group.listeners) == (1, {})
    comer(hubs, "h5")
    pie = Pie(hub="h4", cluster="content", status=HubStatus.OK, load=EdgeLoad())
    client.send("PUBLISH", "$at/h5/content", encode(pie))
    hubs.settle()
    assert hubs["h5"].cluster.edge.control.invalid == 1
