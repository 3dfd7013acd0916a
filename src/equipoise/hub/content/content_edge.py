"""This hub as an edge: it serves subscribers of content topics and balances them with other edges.

The shell of `EdgeBalancer`: it passes measurements (`edge_probe`) and messages of other hubs (`control_topic`) to it,
and executes its effects: messages to other hubs, samples, and migrations of subscribers (`migrations`).

Edges of one content topic balance with each other if they follow the same head, or two heads that have joined their
clusters (`content_head`). A session is between two of them and covers all content topics of which both are edges.

Always true:
    a hub that is no edge of a content topic has no balancer, no timer, and measures nothing;
    a session ends when the other hub dies, or when the set of shared topics changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from equipoise.content.balancing.detection import is_full
from equipoise.content.balancing.edge_balancer import EdgeBalancer
from equipoise.content.balancing.edge_events import (
    Announce,
    BalancingEffect,
    MigrateSubscribers,
    SendControl,
    SessionEnded,
)
from equipoise.content.balancing.load import EdgeLoad
from equipoise.content.balancing.messages import (
    ClusterJoined,
    ClusterParted,
    ControlMessage,
    HubStatus,
    LoadWanted,
    Pie,
    SessionEstimate,
    SessionReply,
    SessionRequest,
)
from equipoise.content.balancing.session_loads import SessionOutcomes
from equipoise.hub.content.content_clusters import (
    CLUSTER,
    LISTENING_PIES,
    EdgeGroup,
    JoinedCluster,
    carried_clusters,
)
from equipoise.hub.content.content_head import ContentHead
from equipoise.hub.content.control_topic import ControlTopic
from equipoise.hub.content.edge_probe import EdgeProbe
from equipoise.hub.content.edge_rooms import EdgeRooms
from equipoise.hub.content.edge_subscriptions import EdgeSubscriptions
from equipoise.hub.content.migrations import EdgeMigrations, MovingSubscription
from equipoise.hub.content.topic_filters import TopicFilter
from equipoise.hub.data.held_subscriptions import NO_SUBSCRIPTIONS
from equipoise.hub.data.kinds import Kind
from equipoise.hub.data.other_hubs import EdgeFacts

if TYPE_CHECKING:
    from equipoise.hub.cluster.ports import ClusterPort
    from equipoise.hub.content.topic_filters import RunProbe
    from equipoise.hub.data.ports import Timer
    from equipoise.hub.data.session import Session
    from equipoise.hub.data.subscriber import Subscriber

__all__ = ["ContentEdge"]

# Longest interval between two turns, in seconds.
TURN_S = 1.0
# Seconds after the head's deadline at which an edge leaves a joined cluster by itself.
PART_SLACK_S = 60.0


class ContentEdge:
    """Part of one cluster."""

    def __init__(self, cluster: ClusterPort) -> None:
        self._cluster = cluster
        self._settings = cluster.core.settings.content
        self._turn_s = min(TURN_S, self._settings.detection_s / 2)
        self.migrations = EdgeMigrations(cluster)
        self.control = ControlTopic(cluster, self._handle)
        self.head = ContentHead(cluster, self.control, self._turn_s)
        self.rooms = EdgeRooms(cluster, self.control, self.migrations)
        self.receive = self.rooms.receive
        # While this hub is an edge: the balancer, the probe, the last load, and the time of the last detection.
        self.balancer: EdgeBalancer | None = None
        self.probe: EdgeProbe | None = None
        self._load: tuple[float, EdgeLoad] = (0.0, EdgeLoad())
        self._detected_at = 0.0
        self._timer: Timer | None = None
        self.group = EdgeGroup(cluster.name)
        # By content topic of which this hub is an edge, the other edges of its cluster and of the joined cluster.
        self.topics: dict[bytes, frozenset[str]] = {}
        self.subscriptions = EdgeSubscriptions(cluster, self.migrations)
        # Subscriptions migrated here by other edges; completed sessions, and subscriptions migrated away in them.
        self.came = self.sessions = self.moved = 0
        self.outcomes = SessionOutcomes(self._settings.window_s)

    # The plan.

    def routed(self) -> None:
        """The plan or the set of live hubs has changed."""
        self.group.clusters = dict(carried_clusters(self._cluster.router))
        self.rooms.routed()
        self.control.peers = self.group.hubs.union(self.rooms.asked)
        joined = self.group.joined
        if joined is not None and not self.group.is_beside(joined.head, joined.cluster):
            self._part(joined)
        self._regroup()
        self.head.routed(self.group.clusters)
        if self.balancer is not None or self.head.balancer is not None or self.rooms.asked:
            self.control.open()
        else:
            self.control.close()

    def _regroup(self) -> None:
        """Update the edges to balance with, and end sessions with others."""
        before, self.topics = self.topics, self.group.edges
        self.subscriptions.topics = self.topics
        peers = frozenset().union(*self.topics.values())
        is_needed = bool(peers or self.group.heads)
        if before == self.topics and (self.balancer is not None) == is_needed:
            return
        if self.balancer is not None:
            partner = self.balancer.session[1]
            is_other = partner and _shared(before, partner) != _shared(self.topics, partner)
            gone = frozenset().union(*before.values()) - peers
            for hub in sorted(gone | ({partner} if is_other else frozenset())):
                self._execute(self.balancer.lost(self._now, hub))
        if is_needed and self.balancer is None:
            self._begin()
        elif not is_needed and self.balancer is not None:
            self._stop()
        for name in before.keys() | self.topics.keys():
            topic = self._cluster.core.index.topics.get(name)
            if topic is not None and topic.content is not None:
                topic.content.probe = self.probe_of(name)

    def _join(self, message: ClusterJoined | ClusterParted) -> None:
        """The head has joined this cluster with another one, or has parted them."""
        assert self.balancer is not None, "the caller has checked it"
        joined = self.group.joined
        if isinstance(message, ClusterJoined) and self.group.is_beside(message.hub, message.cluster):
            if joined is not None:
                self._part(joined)
            until_s = self._now + self._settings.global_s + PART_SLACK_S
            self.group.joined = JoinedCluster(message.hub, message.cluster, until_s)
            self._regroup()
            self._execute(
                self.balancer.receive(self._now, message, self._measured(), self.subscriptions.covers)
            )
        elif joined is not None and joined[:2] == (message.hub, message.cluster):
            self._part(joined)
            self._regroup()

    def _part(self, joined: JoinedCluster) -> None:
        self.group.joined = None
        if self.balancer is not None:
            parted = ClusterParted(hub=joined.head, cluster=joined.cluster)
            self.balancer.receive(self._now, parted, self._measured(), self.subscriptions.covers)

    def _begin(self) -> None:
        core = self._cluster.core
        bandwidth = core.settings.telemetry.out_bytes_per_s_max
        self.probe = EdgeProbe(core.shell, self._settings, bandwidth)
        self.balancer = EdgeBalancer(self._cluster.name, CLUSTER, self._settings)
        self._detected_at = self._now
        self._timer = core.shell.call_later(self._turn_s, self._turn)

    def _stop(self) -> None:
        self.balancer = self.probe = None
        self.migrations.end()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        self.migrations.close()
        self.head.close()
        self.rooms.close()
        if self._timer is not None:
            self._timer.cancel()

    # Events.

    def probe_of(self, topic: bytes) -> RunProbe | None:
        """The probe of the topic; None unless this hub is an edge of it."""
        return self.probe if topic in self.topics else None

    def subscribed(self, session: Session, number: bytes, came_in: tuple[str, int] | None) -> None:
        """A smart client has subscribed by a filter. `came_in`: the session that migrated it here, and its total."""
        if came_in is not None:
            # A subscription that this hub has migrated away may return before it has left.
            self.migrations.left(session, number)
            self.came += 1
            if self.balancer is not None:
                self._execute(self.balancer.subscriber_came(self._now, *came_in))
        elif self.balancer is not None and self._settings.first_edge and session.redirected is not None:
            # After the reply.
            self._cluster.core.shell.call_later(0, self._redirect_if_full, session, number)

    def unsubscribed(self, session: Subscriber, number: bytes) -> None:
        self.migrations.left(session, number)

    def _redirect_if_full(self, session: Session, number: bytes) -> None:
        """If this hub is full, redirect a new subscriber to the edge with most room."""
        node = (session.subscriptions or NO_SUBSCRIPTIONS).get(Kind.FILTERED, number)
        if self.balancer is None or not isinstance(node, TopicFilter) or node.topic not in self.topics:
            return
        hub = self.balancer.first_edge(self._now, self._measured())
        if hub is not None and hub in self.topics[node.topic]:
            self.migrations.push(MovingSubscription(session, number, node), hub)

    def _turn(self) -> None:
        balancer, probe, now = self.balancer, self.probe, self._now
        if balancer is None or probe is None:
            return
        self._timer = self._cluster.core.shell.call_later(self._turn_s, self._turn)
        probe.tick()
        self.migrations.expire(now)
        self.outcomes.poll(now, self._measured())
        self._execute(balancer.poll(now))
        joined = self.group.joined
        if joined is not None and now >= joined.until_s:
            self._part(joined)
            self._regroup()
        if balancer.sampler is not None and balancer.sampler.is_over(now):
            self._choose(balancer)
        if now - self._detected_at >= self._settings.detection_s:
            self._detected_at = now
            self._execute(balancer.detect(now, self._measured(), self.subscriptions.covers))
            self._send_load(is_urgent=False)
        probe.sampler = balancer.sampler

    def _handle(self, message: ControlMessage) -> None:
        self.head.handle(message)
        self.rooms.handle(message)
        balancer, probe = self.balancer, self.probe
        if balancer is None or probe is None:
            return
        if isinstance(message, ClusterJoined | ClusterParted):
            self._join(message)
            return
        if isinstance(message, LoadWanted):
            self.group.listeners[message.hub] = self._now + LISTENING_PIES * self._settings.pie_s_max
            self._send_load(is_urgent=True)
            return
        if not any(message.hub in hubs for hubs in self.topics.values()):
            # From a head, or from an edge that this edge no longer balances with.
            return
        if isinstance(message, Pie):
            message = msgspec.structs.replace(message, cluster=self.group.cluster_of(message.hub))
        if isinstance(message, SessionRequest) and self._is_full():
            # This hub may have become full since its last detection, or its own requests may have failed.
            refusal = SessionReply(
                hub=self._cluster.name, session=message.session, status=HubStatus.UNAVAILABLE
            )
            self.control.send(message.hub, refusal)
            return
        if isinstance(message, SessionEstimate):
            if (message.session, message.hub) == balancer.session:
                self.outcomes.estimated(message.session, message.hub, message.load)
            return
        if isinstance(message, SessionReply) and message.status is HubStatus.OK:
            message = msgspec.structs.replace(message, load=message.load.with_costs_of(self._measured()))
        self._execute(balancer.receive(self._now, message, self._measured(), self.subscriptions.covers))
        probe.sampler = balancer.sampler

    def _is_full(self) -> bool:
        return is_full(self._measured(), self._settings)

    def _choose(self, balancer: EdgeBalancer) -> None:
        candidates = self.subscriptions.candidates(balancer.session[1])
        self._execute(balancer.choose(self._now, self._measured(), candidates))

    @property
    def state(self) -> str:
        """State of this edge, as shown in INFO and sent to other hubs; empty: this hub is no edge."""
        return "" if self.balancer is None else self.balancer.phase.value

    @property
    def cluster_state(self) -> str:
        return self.head.state

    @property
    def session_compared(self) -> str:
        return "" if self.outcomes.latest is None else self.outcomes.latest.session

    @property
    def facts(self) -> EdgeFacts:
        load = self._measured() if self.balancer is not None else EdgeLoad()
        latest = self.outcomes.latest
        estimated, realised = (EdgeLoad(), EdgeLoad()) if latest is None else latest[2:]
        return EdgeFacts(
            content_input_ratio=load.input_ratio,
            content_output_ratio=load.output_ratio,
            content_delay_s=load.delay_s,
            content_subscriptions=int(load.subscriptions),
            content_sessions=self.sessions,
            content_moved=self.moved,
            content_came=self.came,
            content_publishers_moved=self.head.publishers.moved,
            content_nonsense=self.control.invalid,
            content_placed=self.rooms.sent,
            content_estimated_input_ratio=estimated.input_ratio,
            content_estimated_output_ratio=estimated.output_ratio,
            content_estimated_delay_s=estimated.delay_s,
            content_realised_input_ratio=realised.input_ratio,
            content_realised_output_ratio=realised.output_ratio,
            content_realised_delay_s=realised.delay_s,
        )

    # Effects.

    def _execute(self, effects: Iterable[BalancingEffect]) -> None:
        for effect in effects:
            if isinstance(effect, SendControl):
                self.control.send(effect.hub, effect.message)
            elif isinstance(effect, Announce):
                self._send_load(is_urgent=True)
            elif isinstance(effect, MigrateSubscribers):
                self._migrate(effect)
            elif isinstance(effect, SessionEnded):
                self.sessions += 1
                self.outcomes.ended(self._now, effect.session)
                if effect.is_offloader:
                    self.moved += effect.subscribers
                    self.migrations.end()

    def _send_load(self, *, is_urgent: bool) -> None:
        """Send a PIE to each edge of the group, its heads and listeners, if one is due."""
        assert self.balancer is not None, "only an edge balances"
        pie = self.balancer.pie(self._now, self._measured(), is_urgent=is_urgent)
        for hub in (
            sorted(self.group.load_receivers(self._now).union(*self.topics.values()))
            if pie is not None
            else ()
        ):
            assert pie is not None
            self.control.send(hub, pie)

    def _migrate(self, effect: MigrateSubscribers) -> None:
        moving = self.subscriptions.chosen(effect.hub, effect.offload.chosen)
        total, settings = len(moving), self._settings
        until_s = self._now + total * settings.migration_s + settings.stabilize_s
        self.outcomes.estimated(effect.session, effect.hub, effect.offload.offloader)
        estimate = SessionEstimate(
            hub=self._cluster.name, session=effect.session, load=effect.offload.acceptor
        )
        self.control.send(effect.hub, estimate)
        self.migrations.send(moving, effect.hub, session=effect.session, total=max(1, total), until_s=until_s)

    @property
    def _now(self) -> float:
        return self._cluster.core.now()

    def _measured(self) -> EdgeLoad:
        """The measured load, updated at most every 0.1 s."""
        at, load = self._load
        if self.probe is not None and not at <= self._now < at + 0.1:
            load = self.probe.load(self.subscriptions.count)
            self._load = self._now, load
        return load


def _shared(topics: dict[bytes, frozenset[str]], hub: str) -> frozenset[bytes]:
    return frozenset(name for name, hubs in topics.items() if hub in hubs)
