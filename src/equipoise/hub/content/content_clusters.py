"""Clusters of content topics, their neighbours, and the edges that balance with each other. Pure.

A head with its edges is a cluster. Clusters are neighbours if the head of one follows that of the other; a head without
edges of its own stands between two clusters as if it were not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from equipoise.model import Mode, Placement

if TYPE_CHECKING:
    from equipoise.hub.cluster.router import Router

__all__ = [
    "CLUSTER",
    "LISTENING_PIES",
    "EdgeGroup",
    "JoinedCluster",
    "TopicClusters",
    "carried_clusters",
    "clusters_of",
]

# What an edge calls its own cluster.
CLUSTER = "content"
# A hub that has asked an edge for its load gets PIEs for so many of their longest intervals.
LISTENING_PIES = 3


class TopicClusters(NamedTuple):
    """Of one topic, as the plan and the hubs that are alive have it."""

    # By head, the edges that follow it.
    edges: dict[str, frozenset[str]]
    # By head with edges, the heads of clusters one hop away.
    neighbours: dict[str, frozenset[str]]

    def head_of(self, edge: str) -> str:
        """The head that the edge follows; empty: it is no edge."""
        return next((head for head, edges in self.edges.items() if edge in edges), "")

    @property
    def hubs(self) -> frozenset[str]:
        return frozenset(self.edges).union(*self.edges.values())


def clusters_of(placement: Placement) -> TopicClusters:
    """Of a content topic with two homes at least."""
    edges: dict[str, set[str]] = {}
    for hub in placement.edges:
        if hub != placement.homes[0]:
            edges.setdefault(placement.parent_of(hub), set()).add(hub)
    heads = [hub for hub in placement.homes if hub not in placement.edges]
    beside: dict[str, set[str]] = {head: set() for head in heads}
    for head, above in placement.followed.items():
        if head in beside and above in beside:
            beside[head].add(above)
            beside[above].add(head)
    return TopicClusters(
        {head: frozenset(found) for head, found in edges.items()},
        {head: frozenset(_near(head, beside, edges)) - {head} for head in edges},
    )


def carried_clusters(router: Router) -> Iterator[tuple[bytes, TopicClusters]]:
    """By content topic that this hub is a home of, its clusters."""
    for entry in router.replicated:
        placement = router.placement(entry.topic) if entry.mode is Mode.CONTENT else None
        if placement is not None and len(placement.homes) > 1 and router.name in placement.homes:
            yield entry.topic, clusters_of(placement)


def _near(head: str, beside: dict[str, set[str]], clusters: Iterable[str]) -> Iterable[str]:
    known = set(clusters)
    for other in beside.get(head, ()):
        yield from {other} & known if other in known else beside[other] & known


class JoinedCluster(NamedTuple):
    """The cluster that an edge balances with beside its own."""

    # The edge's head, which said so, and the other one.
    head: str
    cluster: str
    # When the edge leaves it, should its head not say so.
    until_s: float


class EdgeGroup:
    """Which hubs an edge balances with, and which heads it tells its load. Owned by a ContentEdge."""

    def __init__(self, name: str) -> None:
        self._name = name
        # By content topic that this hub is a home of.
        self.clusters: dict[bytes, TopicClusters] = {}
        self.joined: JoinedCluster | None = None
        # Hubs that are no edges and have asked for the load of this one, each until when it gets it.
        self.listeners: dict[str, float] = {}

    @property
    def hubs(self) -> frozenset[str]:
        """All homes of these topics: other hubs have nothing to say here."""
        return frozenset().union(*(clusters.hubs for clusters in self.clusters.values()))

    @property
    def edges(self) -> dict[bytes, frozenset[str]]:
        """By topic that this hub is an edge of, the others below its head, and those of the joined cluster."""
        found, joined = {}, self.joined
        for topic, clusters in self.clusters.items():
            head = clusters.head_of(self._name)
            if head:
                others = clusters.edges[head]
                if joined is not None and joined.head == head:
                    others |= clusters.edges.get(joined.cluster, frozenset())
                found[topic] = others - {self._name}
        return found

    @property
    def heads(self) -> frozenset[str]:
        """The heads above this edge that have a neighbour."""
        heads = ((clusters, clusters.head_of(self._name)) for clusters in self.clusters.values())
        return frozenset(head for clusters, head in heads if head and clusters.neighbours[head])

    def told(self, now_s: float) -> frozenset[str]:
        """Hubs beside other edges that this edge tells its load: its heads, the joined one, and listeners."""
        self.listeners = {hub: until_s for hub, until_s in self.listeners.items() if now_s < until_s}
        joined = () if self.joined is None else (self.joined.cluster,)
        return self.heads.union(joined, self.listeners)

    def is_beside(self, head: str, cluster: str) -> bool:
        """Whether the head is above this edge, and the other one's cluster beside it."""
        return any(
            head == clusters.head_of(self._name) and cluster in clusters.neighbours[head]
            for clusters in self.clusters.values()
        )

    def cluster_of(self, edge: str) -> str:
        """The cluster of an edge that this one balances with, as this one calls it."""
        is_own = any(
            edge in clusters.edges.get(clusters.head_of(self._name), ())
            for clusters in self.clusters.values()
        )
        return CLUSTER if is_own or self.joined is None else self.joined.cluster
