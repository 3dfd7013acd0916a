"""Clusters of content topics, their neighbours, and the edges that balance with each other. Pure.

A head with its edges is a cluster. Two clusters are neighbours if the head of one follows the head of the other,
directly or through a head without edges.
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

# An edge's name for its own cluster.
CLUSTER = "content"
# A hub that has requested an edge's load receives PIEs for so many of their longest intervals.
LISTENING_PIES = 3


class TopicClusters(NamedTuple):
    """The clusters of one topic, by the plan and the live hubs."""

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
    """The clusters of a content topic with at least two homes."""
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
    """The content topics of which this hub is a home, with their clusters."""
    for entry in router.replicated:
        placement = router.placement(entry.topic) if entry.mode is Mode.CONTENT else None
        if placement is not None and len(placement.homes) > 1 and router.name in placement.homes:
            yield entry.topic, clusters_of(placement)


def _near(head: str, beside: dict[str, set[str]], clusters: Iterable[str]) -> Iterable[str]:
    known = set(clusters)
    for other in beside.get(head, ()):
        yield from {other} & known if other in known else beside[other] & known


class JoinedCluster(NamedTuple):
    """The cluster that an edge balances with, beside its own."""

    # The edge's head, which joined the clusters, and the other cluster's head.
    head: str
    cluster: str
    # Time at which the edge leaves it without a message of its head.
    until_s: float


class EdgeGroup:
    """The hubs that an edge balances with, and those that it sends its load. Owned by a ContentEdge."""

    def __init__(self, name: str) -> None:
        self._name = name
        # Clusters by content topic, of the topics of which this hub is a home.
        self.clusters: dict[bytes, TopicClusters] = {}
        self.joined: JoinedCluster | None = None
        # Hubs that are no edges and have requested this hub's load: the time until which they receive it.
        self.listeners: dict[str, float] = {}

    @property
    def hubs(self) -> frozenset[str]:
        """All homes of these topics, the only hubs whose messages are accepted."""
        return frozenset().union(*(clusters.hubs for clusters in self.clusters.values()))

    @property
    def edges(self) -> dict[bytes, frozenset[str]]:
        """By topic of which this hub is an edge, the other edges of its cluster and of the joined cluster."""
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

    def load_receivers(self, now_s: float) -> frozenset[str]:
        """Hubs, beside other edges, that this edge sends its load: its heads, the joined head, and listeners."""
        self.listeners = {hub: until_s for hub, until_s in self.listeners.items() if now_s < until_s}
        joined = () if self.joined is None else (self.joined.cluster,)
        return self.heads.union(joined, self.listeners)

    def is_beside(self, head: str, cluster: str) -> bool:
        """Whether `head` is this edge's head, and `cluster` a neighbour of its cluster."""
        return any(
            head == clusters.head_of(self._name) and cluster in clusters.neighbours[head]
            for clusters in self.clusters.values()
        )

    def cluster_of(self, edge: str) -> str:
        """This edge's name for the cluster of another edge."""
        is_own = any(
            edge in clusters.edges.get(clusters.head_of(self._name), ())
            for clusters in self.clusters.values()
        )
        return CLUSTER if is_own or self.joined is None else self.joined.cluster
