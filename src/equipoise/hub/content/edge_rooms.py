"""At a hub that is no edge of a content topic: redirect new subscribers by filter to the edge with most room.

When a client subscribes, the hub requests the load of the topic's edges (`LoadWanted`). They reply with a PIE, and send
the next ones, too, for a while. The subscriber is redirected once all edges have replied, or after `reply_s`; until
then this hub relays. A head prefers its own edges while one of them has room.

Always true: a subscriber is redirected within `reply_s`, whether or not an edge has replied.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from equipoise.content.balancing.first_edge import FirstEdge
from equipoise.content.balancing.messages import ControlMessage, LoadWanted, Pie
from equipoise.hub.content.content_clusters import LISTENING_PIES, clusters_of
from equipoise.hub.content.migrations import EdgeMigrations, MovingSubscription
from equipoise.hub.content.topic_filters import TopicFilter
from equipoise.hub.data.held_subscriptions import NO_SUBSCRIPTIONS
from equipoise.hub.data.kinds import Kind
from equipoise.model import Mode

if TYPE_CHECKING:
    from equipoise.hub.cluster.ports import ClusterPort
    from equipoise.hub.content.control_topic import ControlTopic
    from equipoise.hub.data.ports import Timer
    from equipoise.hub.data.session import Session

__all__ = ["EdgeRooms"]


class _Newcomer(NamedTuple):
    """A subscription that waits to be redirected."""

    client: Session
    number: bytes
    topic: bytes
    until_s: float


class EdgeRooms:
    """Part of one ContentEdge, whose control topic it shares."""

    def __init__(self, cluster: ClusterPort, control: ControlTopic, migrations: EdgeMigrations) -> None:
        self._cluster = cluster
        self._control = control
        self._migrations = migrations
        self._settings = cluster.core.settings.content
        self._first_edge = FirstEdge(self._settings)
        # By edge, the time of the last request, and its latest PIE.
        self.asked: dict[str, float] = {}
        self._pies: dict[str, Pie] = {}
        self._waiting: list[_Newcomer] = []
        self._timer: Timer | None = None
        # Number of subscriptions redirected to an edge chosen here.
        self.sent = 0

    def receive(self, client: Session, number: bytes, topic: bytes) -> bool:
        """Redirect a new subscription, soon; False: not needed here, as this hub is an edge or there is no choice."""
        edges = self._edges(topic) if self._settings.first_edge else ()
        if len(edges) < 2:
            return False
        self._ask(edges)
        self._waiting.append(_Newcomer(client, number, topic, self._now + self._settings.reply_s))
        if self._timer is None:
            # After the reply to the subscription.
            self._timer = self._cluster.core.shell.call_later(0, self._place)
        return True

    def handle(self, message: ControlMessage) -> None:
        if isinstance(message, Pie) and not message.is_global and message.hub in self.asked:
            self._pies[message.hub] = message
            if self._waiting:
                self._schedule(0)

    def routed(self) -> None:
        """The plan or the set of live hubs has changed: discard the loads of dead hubs."""
        serving = self._cluster.router.serving
        self.asked = {hub: at_s for hub, at_s in self.asked.items() if hub in serving and self._is_new(at_s)}
        self._pies = {hub: pie for hub, pie in self._pies.items() if hub in self.asked}

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _edges(self, topic: bytes) -> tuple[str, ...]:
        """The edges of a content topic; empty: it is no content topic, or this hub is one of its edges."""
        placement = self._cluster.router.placement(topic)
        is_edge = self._cluster.name in placement.edges
        return () if placement.mode is not Mode.CONTENT or is_edge else placement.edges

    def _ask(self, edges: Iterable[str]) -> None:
        now_s = self._now
        for edge in edges:
            asked_s = self.asked.get(edge)
            if asked_s is None or now_s - asked_s >= self._settings.pie_s_max:
                self.asked[edge] = now_s
                self._control.send(edge, LoadWanted(hub=self._cluster.name))
        self._control.peers |= self.asked.keys()
        self._control.open()

    def _is_new(self, asked_s: float) -> bool:
        return self._now - asked_s < LISTENING_PIES * self._settings.pie_s_max

    def _place(self) -> None:
        """Redirect the subscriptions whose edges have all replied, or whose time is up."""
        self._timer = None
        now_s, waiting, self._waiting = self._now, self._waiting, []
        for newcomer in waiting:
            if now_s >= newcomer.until_s or all(edge in self._pies for edge in self._edges(newcomer.topic)):
                self._redirect(newcomer)
            else:
                self._waiting.append(newcomer)
        if self._waiting:
            self._schedule(self._waiting[0].until_s - now_s)

    def _redirect(self, newcomer: _Newcomer) -> None:
        """Push the homes of the topic to the client, and the edge to subscribe at."""
        client, number, topic, _ = newcomer
        if client.is_closing:
            return
        self._cluster.core.cluster.redirects.subscribed(client, [topic])
        node = (client.subscriptions or NO_SUBSCRIPTIONS).get(Kind.FILTERED, number)
        hub = self._choose(topic) if isinstance(node, TopicFilter) and node.topic == topic else None
        if hub is not None and isinstance(node, TopicFilter):
            self.sent += self._migrations.push(MovingSubscription(client, number, node), hub)

    def _choose(self, topic: bytes) -> str | None:
        """The edge with most room; None: no edge has sent its load, or this hub has become an edge."""
        edges = self._edges(topic)
        pies = {edge: self._pies[edge] for edge in edges if edge in self._pies}
        own = clusters_of(self._cluster.router.placement(topic)).edges.get(self._cluster.name, ())
        chosen = self._first_edge.choose(pies[edge] for edge in pies if edge in own)
        if chosen is None or chosen[1] >= 1:
            chosen = self._first_edge.choose(pies.values())
        if chosen is None:
            return None
        self._first_edge.sent(pies[chosen[0]])
        return chosen[0]

    def _schedule(self, delay_s: float) -> None:
        self.close()
        self._timer = self._cluster.core.shell.call_later(max(0.0, delay_s), self._place)

    @property
    def _now(self) -> float:
        return self._cluster.core.now()
