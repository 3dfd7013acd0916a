"""Heads of clusters: which are neighbours, what they exchange, and how two clusters share subscribers."""

from __future__ import annotations

import json

import pytest

from equipoise.content.balancing.head_table import HeadPhase
from equipoise.content.balancing.load import EdgeLoad
from equipoise.content.balancing.messages import ClusterJoined, ClusterParted, HubStatus, Pie, encode
from equipoise.hub.content.content_clusters import CLUSTER, clusters_of
from equipoise.hub.content.content_head import ContentHead
from equipoise.model import Mode, Placement
from hub.cluster.hubs import Hubs
from hub.cluster.test_content_edge import edge, listener, pass_time, publish

# h1 numbers and has the edges h3 and h4; h2 follows it and has the edges h5 and h6.
HUBS = ("h1", "h2", "h3", "h4", "h5", "h6")
PARENTS = (0, 0, 0, 0, 1, 1)


def begun() -> Hubs:
    hubs = Hubs(*HUBS)
    hubs.replicate("t", Mode.CONTENT, *HUBS, parents=PARENTS)
    return hubs


def head(hubs: Hubs, hub: str) -> ContentHead:
    return edge(hubs, hub).head


def pie(hub: str, input_ratio: float, number: int, status: HubStatus = HubStatus.OK) -> bytes:
    load = EdgeLoad(input_rate=10.0, delay_s=input_ratio / 10.0)
    return encode(Pie(hub=hub, cluster=CLUSTER, status=status, load=load, number=number))


def joined() -> Hubs:
    """The edges of the first cluster are full, those of the second idle."""
    hubs = begun()
    pass_time(hubs, 2)
    for hub in ("h3", "h4"):
        publish(hubs, hub, "$at/h1/content", pie(hub, 0.8, 1_000))
    pass_time(hubs, 14)
    return hubs


def test_a_cluster_is_a_head_with_its_edges() -> None:
    clusters = clusters_of(Placement(HUBS, Mode.CONTENT, PARENTS))
    assert clusters.edges == {"h1": {"h3", "h4"}, "h2": {"h5", "h6"}}
    assert clusters.neighbours == {"h1": {"h2"}, "h2": {"h1"}}
    assert (clusters.head_of("h5"), clusters.head_of("h2")) == ("h2", "")
    assert clusters_of(Placement(("a", "b", "c"), Mode.CONTENT)).neighbours == {"a": frozenset()}


def test_clusters_with_a_head_without_edges_between_them_are_neighbours() -> None:
    # a numbers; b and c follow it and have one edge each; d follows c and has one, too.
    placement = Placement(("a", "b", "c", "d", "eb", "ec", "ed"), Mode.CONTENT, (0, 0, 0, 2, 1, 2, 3))
    assert clusters_of(placement).neighbours == {"b": {"c"}, "c": {"b", "d"}, "d": {"c"}}


def test_heads_exchange_the_mean_load_of_their_edges() -> None:
    hubs = begun()
    heard = listener(hubs, "h3", "$at/h2/content")
    pass_time(hubs, 12)
    told = [json.loads(message[2]) for message in heard.read()]
    assert {one["hub"] for one in told} == {"h1", "h5", "h6"}
    assert all(one.get("is_global", False) is (one["hub"] == "h1") for one in told)
    assert head(hubs, "h3").balancer is None and head(hubs, "h3").state == ""


def test_clusters_of_different_load_join_and_their_edges_balance_with_each_other() -> None:
    hubs = joined()
    assert (head(hubs, "h1").state, head(hubs, "h2").state) == (HeadPhase.JOINED, HeadPhase.JOINED)
    assert edge(hubs, "h3").topics == {b"t": {"h4", "h5", "h6"}}
    assert edge(hubs, "h6").topics == {b"t": {"h3", "h4", "h5"}}
    pass_time(hubs, 8)
    balancer = edge(hubs, "h6").balancer
    assert balancer is not None and set(balancer.neighbours(hubs["h6"].core.now())) == {"h3", "h4", "h5"}


def test_clusters_part_and_a_session_between_them_ends() -> None:
    hubs = joined()
    publish(hubs, "h1", "$at/h6/content", encode(ClusterParted(hub="h2", cluster="h1")))
    assert edge(hubs, "h6").topics == {b"t": {"h5"}}
    # The head has become silent: the edge leaves by itself.
    known = edge(hubs, "h3").group.joined
    assert known is not None
    edge(hubs, "h3").group.joined = known._replace(until_s=0.0)
    pass_time(hubs, 2)
    assert edge(hubs, "h3").topics == {b"t": {"h4"}}


def test_two_heads_end_their_session_in_time() -> None:
    hubs = joined()
    for _ in range(20):
        pass_time(hubs, 50)
        if head(hubs, "h1").state != HeadPhase.JOINED:
            break
    assert head(hubs, "h1").state != HeadPhase.JOINED
    pass_time(hubs, 2)
    assert edge(hubs, "h4").topics == {b"t": {"h3"}}


@pytest.mark.parametrize("dead", ["h1", "h2", "h5"])
def test_the_death_of_a_hub_removes_it_from_the_joined_clusters(dead: str) -> None:
    hubs = joined()
    hubs.kill(dead)
    if dead == "h5":
        assert edge(hubs, "h3").topics == {b"t": {"h4", "h6"}}
    else:
        # One cluster is left, of all edges.
        assert edge(hubs, "h3").topics == {b"t": {"h4", "h5", "h6"}}
        assert edge(hubs, "h3").group.joined is None and edge(hubs, "h5").group.joined is None


def test_only_its_own_head_joins_an_edge_and_only_with_a_neighbour() -> None:
    hubs = begun()
    for sender, cluster in (("h2", "h1"), ("h1", "h5"), ("h4", "h2"), ("h1", "h9")):
        publish(hubs, "h1", "$at/h3/content", encode(ClusterJoined(hub=sender, cluster=cluster)))
    assert edge(hubs, "h3").group.joined is None and edge(hubs, "h3").topics == {b"t": {"h4"}}


def seated(hubs: Hubs, is_busy: bool) -> list[list[object]]:
    """Three smart publishers at h1, whose processor is busy or not, for a minute: the redirects they receive."""
    node = hubs["h1"]
    node.shell.cpu_s = lambda: (0.8 if is_busy else 0.1) * node.shell.now()  # type: ignore[method-assign]
    clients = [node.client(3) for _ in range(3)]
    for number, client in enumerate(clients):
        client.send("EQ.LINK", f"client-{number:016}", "ROUTES")
    for _ in range(60):
        for number, client in enumerate(clients):
            for _ in range(1 + 2 * number):
                client.send("PUBLISH", "t", "x")
        pass_time(hubs, 1)
    return [
        [piece for piece in client.read() if isinstance(piece, list) and piece[0] == b"eq.seat"]
        for client in clients
    ]


def test_a_head_that_uses_more_of_its_processor_sends_publishers_to_its_neighbour() -> None:
    hubs = begun()
    told = seated(hubs, is_busy=True)
    version = hubs["h1"].cluster.router.version
    seat = [b"eq.seat", b"t", version, hubs["h1"].cluster.router.address("h2", is_tls=False)]
    # A quarter of nine publishes a second: the one with the highest rate that fits.
    assert [pieces[:1] for pieces in told] == [[seat], [], []]
    assert head(hubs, "h1").publishers.moved == 1
    assert hubs["h1"].cluster.edge.facts.content_publishers_moved == 1


def test_heads_that_are_balanced_keep_their_publishers() -> None:
    hubs = begun()
    assert seated(hubs, is_busy=False) == [[], [], []]
    assert head(hubs, "h1").publishers.use.rate == pytest.approx(9.0, rel=0.1)


def test_only_a_head_with_a_neighbour_counts_publishers() -> None:
    hubs = begun()
    hubs.replicate("t", Mode.CONTENT, *HUBS)
    seated(hubs, is_busy=True)
    publishers = head(hubs, "h1").publishers
    assert (publishers.moved, publishers.use.rate, dict(publishers._sent)) == (0, 0.0, {})
