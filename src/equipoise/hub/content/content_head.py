"""This hub as the head of a cluster: it compares loads with neighbours and starts sessions.

The shell of `HeadBalancer`. Edges send their load to their head; heads send each other the mean. While two clusters are
joined, the edges of both balance with each other like those of one cluster. If the heads' own loads differ, they move
publishers (`content_publishers`).

Always true: a hub without edges that follow it, or without a neighbouring cluster, has no such balancer and no timer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from equipoise.content.balancing.edge_events import Announce, SendControl
from equipoise.content.balancing.head_balancer import HeadBalancer
from equipoise.content.balancing.head_table import HeadEffect, JoinClusters
from equipoise.content.balancing.messages import ClusterJoined, ClusterParted, ControlMessage, Pie
from equipoise.hub.content.content_publishers import ContentPublishers

if TYPE_CHECKING:
    from equipoise.hub.cluster.ports import ClusterPort
    from equipoise.hub.content.content_clusters import TopicClusters
    from equipoise.hub.content.control_topic import ControlTopic
    from equipoise.hub.data.ports import Timer

__all__ = ["ContentHead"]


class ContentHead:
    """Part of one ContentEdge, whose control topic it shares."""

    def __init__(self, cluster: ClusterPort, control: ControlTopic, turn_s: float) -> None:
        self._cluster = cluster
        self._control = control
        self._settings = cluster.core.settings.content
        self._turn_s = turn_s
        self.balancer: HeadBalancer | None = None
        # The edges that follow this hub; and by neighbouring head, its edges.
        self.edges: frozenset[str] = frozenset()
        self.neighbours: dict[str, frozenset[str]] = {}
        self.publishers = ContentPublishers(cluster)
        self._detected_at = 0.0
        self._timer: Timer | None = None
        # Number of times that this cluster was joined with another.
        self.joins = 0

    def routed(self, topics: Mapping[bytes, TopicClusters]) -> None:
        """The plan or the set of live hubs has changed."""
        name, before = self._cluster.name, self.edges.union(self.neighbours)
        self.publishers.routed(topics)
        own = [clusters for clusters in topics.values() if name in clusters.edges]
        self.edges = frozenset().union(*(clusters.edges[name] for clusters in own))
        self.neighbours = {}
        for clusters in own:
            for head in clusters.neighbours[name]:
                self.neighbours[head] = self.neighbours.get(head, frozenset()) | clusters.edges[head]
        if self.balancer is not None:
            for hub in sorted(before - self.edges.union(self.neighbours)):
                self._execute(self.balancer.lost(self._now, hub))
        if self.neighbours and self.balancer is None:
            self.balancer = HeadBalancer(name, self._settings)
            self._detected_at = self._now
            self._timer = self._cluster.core.shell.call_later(self._turn_s, self._turn)
        elif not self.neighbours and self.balancer is not None:
            self.balancer = None
            self.close()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def state(self) -> str:
        """State of the cluster; empty: this hub is no head with a neighbour."""
        return "" if self.balancer is None else self.balancer.phase.value

    def handle(self, message: ControlMessage) -> None:
        """Handle a message of a hub that shares a topic with this one; messages not for a head are ignored."""
        if self.balancer is None:
            return
        if isinstance(message, Pie) and not message.is_global:
            cluster = self._cluster_of(message.hub)
            if cluster:
                self.balancer.receive(self._now, msgspec.structs.replace(message, cluster=cluster))
        elif message.hub in self.neighbours:
            self._execute(self.balancer.receive(self._now, message))

    def _cluster_of(self, edge: str) -> str:
        """The cluster that this head counts an edge in: its own, or the joined one; empty: another."""
        assert self.balancer is not None, "the caller has checked it"
        if edge in self.edges:
            return self._cluster.name
        joined = self.balancer.joined
        return joined if edge in self.neighbours.get(joined, ()) else ""

    def _turn(self) -> None:
        balancer, now = self.balancer, self._now
        if balancer is None:
            return
        self._timer = self._cluster.core.shell.call_later(self._turn_s, self._turn)
        self._execute(balancer.poll(now))
        self.publishers.tick(now)
        if now - self._detected_at >= self._settings.detection_s:
            self._detected_at = now
            self._execute(balancer.detect(now))
            self.publishers.look(now, balancer.head_uses)
            self._send_load(is_urgent=False)

    def _execute(self, effects: Iterable[HeadEffect]) -> None:
        for effect in effects:
            if isinstance(effect, SendControl):
                self._control.send(effect.hub, effect.message)
            elif isinstance(effect, Announce):
                self._send_load(is_urgent=True)
            else:
                is_joined = isinstance(effect, JoinClusters)
                self.joins += is_joined
                kind = ClusterJoined if is_joined else ClusterParted
                for edge in sorted(self.edges):
                    self._control.send(edge, kind(hub=self._cluster.name, cluster=effect.cluster))

    def _send_load(self, *, is_urgent: bool) -> None:
        """Send a global PIE to each neighbour, if one is due."""
        assert self.balancer is not None, "only a head with neighbours balances"
        pie = self.balancer.pie(self._now, self.publishers.use, is_urgent=is_urgent)
        for head in sorted(self.neighbours) if pie is not None else ():
            assert pie is not None
            self._control.send(head, pie)

    @property
    def _now(self) -> float:
        return self._cluster.core.now()
