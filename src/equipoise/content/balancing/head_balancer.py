"""One head: its edges, the neighbouring clusters and the session of its cluster. Pure.

The shell passes PIEs of the edges to the edges of the cluster, and to those of a joined one, and calls `detect` every
`detection_s`. A head without edges forwards global PIEs, one hop further.

Always true: the reported load of a cluster is the mean of its own edges, also while it is joined with another.
"""

from __future__ import annotations

from equipoise.content.balancing.detection import detect, is_steady, triggers_of
from equipoise.content.balancing.edge_events import (
    EndReceived,
    PeerLost,
    PhaseOverdue,
    ReplyReceived,
    RequestReceived,
)
from equipoise.content.balancing.first_edge import FirstEdge
from equipoise.content.balancing.head_table import (
    HEAD_STATUSES,
    ClusterDetected,
    ClustersBalanced,
    HeadEffect,
    HeadPhase,
    HeadSession,
    apply_head,
)
from equipoise.content.balancing.load import EdgeLoad, mean_load
from equipoise.content.balancing.messages import (
    ControlMessage,
    HubStatus,
    Pie,
    SessionEnd,
    SessionReply,
    SessionRequest,
)
from equipoise.content.balancing.publishers import HeadUse
from equipoise.content.balancing.settings import BalancingSettings

__all__ = ["HeadBalancer"]

_RESTING = frozenset({HeadPhase.OK, HeadPhase.UNAVAILABLE, HeadPhase.STABILIZING})


class HeadBalancer:
    """Owned by the shell of one hub that has edges below it."""

    def __init__(self, hub: str, settings: BalancingSettings) -> None:
        self.hub = hub
        self.settings = settings
        self._head = HeadSession(hub, settings)
        self._edges: dict[str, tuple[float, Pie]] = {}
        self._clusters: dict[str, tuple[float, Pie]] = {}
        self._triggers = triggers_of(settings, is_global=True)
        self._load_before: EdgeLoad | None = None
        self._published: tuple[float, EdgeLoad, HeadUse | None] | None = None
        self._number = 0
        self._first_edge = FirstEdge(settings)
        # Since when an edge has been unavailable without a session of the cluster's own edges that moved subscribers.
        self._stuck_since_s: float | None = None

    @property
    def phase(self) -> HeadPhase:
        return self._head.phase

    @property
    def status(self) -> HubStatus:
        return HEAD_STATUSES[self._head.phase]

    @property
    def joined(self) -> str:
        """The cluster that this one is joined with; empty: none."""
        return self._head.peer if self._head.phase is HeadPhase.JOINED else ""

    @property
    def load(self) -> EdgeLoad:
        return mean_load(pie.load for pie in self._own())

    def detect(self, now_s: float) -> list[HeadEffect]:
        head = self._head
        self._tell(now_s)
        load = head.load
        before, self._load_before = self._load_before, load
        if head.phase is HeadPhase.JOINED:
            return apply_head(head, ClustersBalanced()) if self._is_settled(now_s) else []
        if head.phase not in _RESTING:
            return []
        clusters = {hub: pie for hub, (_, pie) in self._clusters.items()}
        found = detect(
            load,
            {hub: pie.load for hub, pie in clusters.items()},
            [hub for hub, pie in clusters.items() if pie.status is HubStatus.OK],
            self.settings,
            self._triggers,
        )
        steady = now_s >= head.stable_at_s and before is not None and is_steady(before, load, self.settings)
        unavailable = any(pie.status is HubStatus.UNAVAILABLE for pie in self._own())
        must_ask = found.is_overloaded or self._is_stuck(now_s, is_unavailable=unavailable)
        requests = tuple(
            request for request in found.requests if head.fruitless.get(request.hub, now_s) <= now_s
        )
        return apply_head(head, ClusterDetected(unavailable, must_ask, requests, steady))

    def poll(self, now_s: float) -> list[HeadEffect]:
        head = self._head
        self._tell(now_s)
        if head.deadline_s is None or now_s < head.deadline_s:
            return []
        head.deadline_s = None
        return apply_head(head, PhaseOverdue())

    def receive(self, now_s: float, message: ControlMessage) -> list[HeadEffect]:
        """Process a message; messages for other roles have no effect."""
        self._tell(now_s)
        head = self._head
        if isinstance(message, Pie):
            known = self._clusters if message.is_global else self._edges
            latest = known.get(message.hub)
            if message.hub != self.hub and (latest is None or latest[1].number < message.number):
                known[message.hub] = now_s, message
                if not message.is_global and message.status is HubStatus.STABILIZING:
                    head.moved_at_s = now_s
            return []
        if not getattr(message, "is_global", False):
            return []
        if isinstance(message, SessionRequest):
            return apply_head(head, RequestReceived(message))
        if isinstance(message, SessionReply):
            return apply_head(head, ReplyReceived(message))
        assert isinstance(message, SessionEnd), "there is no other message between heads"
        return apply_head(head, EndReceived(message))

    def lost(self, now_s: float, hub: str) -> list[HeadEffect]:
        """The hub has died: an edge, or a head."""
        self._edges.pop(hub, None)
        self._clusters.pop(hub, None)
        self._tell(now_s)
        return apply_head(self._head, PeerLost(hub))

    @property
    def head_uses(self) -> dict[str, HeadUse]:
        """By head of a neighbouring cluster that measures itself, its use."""
        return {hub: pie.head for hub, (_, pie) in self._clusters.items() if pie.head is not None}

    def pie(self, now_s: float, head: HeadUse | None = None, *, is_urgent: bool = False) -> Pie | None:
        """The global PIE to publish now, if one is due."""
        if not self._own():
            return None
        load = self.load
        if self._published is not None and not is_urgent:
            at_s, told, use = self._published
            change = 0.0 if head is None or use is None else abs(head.ratio - use.ratio)
            is_same = change <= self.settings.stabilize_ratio and is_steady(told, load, self.settings)
            if now_s - at_s < (self.settings.pie_s_max if is_same else self.settings.pie_s):
                return None
        self._published = now_s, load, head
        self._number += 1
        return Pie(
            hub=self.hub,
            cluster=self.hub,
            status=self.status,
            load=load,
            number=self._number,
            is_global=True,
            head=head,
        )

    def first_edge(self, now_s: float) -> str | None:
        """The edge to which a new subscriber at the head is sent; None: no edge is known."""
        self._tell(now_s)
        pies = {pie.hub: pie for pie in self._own()}
        chosen = self._first_edge.choose(pies.values())
        if chosen is None:
            return None
        self._first_edge.sent(pies[chosen[0]])
        return chosen[0]

    def _tell(self, now_s: float) -> None:
        oldest_s = now_s - 3 * self.settings.pie_s_max
        for known in (self._edges, self._clusters):
            for hub in [hub for hub, (at_s, _) in known.items() if at_s < oldest_s]:
                del known[hub]
        head = self._head
        head.now_s, head.load = now_s, self.load
        head.edges = tuple(sorted(pie.hub for pie in self._own()))

    def _own(self) -> list[Pie]:
        return [pie for _, pie in self._edges.values() if pie.cluster == self.hub]

    def _is_stuck(self, now_s: float, *, is_unavailable: bool) -> bool:
        """Whether an edge is unavailable and its own cluster has not relieved it in time.

        In [1] such a cluster waits. With a mean below the higher threshold it would wait for ever.
        """
        if not is_unavailable or any(pie.status is HubStatus.STABILIZING for pie in self._own()):
            self._stuck_since_s = None
        elif self._stuck_since_s is None:
            self._stuck_since_s = now_s
        since_s = self._stuck_since_s
        return since_s is not None and now_s - since_s >= self.settings.global_quiet_s

    def _is_settled(self, now_s: float) -> bool:
        """Whether all edges of both clusters are balanced, or no session has moved a subscriber for long.

        Sessions without a move do not count: edges whose outputs Phase II cannot balance retry for ever, and would keep
        their clusters from joining others.
        """
        head = self._head
        if now_s - head.joined_at_s < self.settings.detection_s * 2:
            return False
        pies = [pie for _, pie in self._edges.values() if pie.cluster in (self.hub, head.peer)]
        if any(pie.status is HubStatus.STABILIZING for pie in pies):
            head.moved_at_s = now_s
            return False
        hubs = {pie.hub for pie in pies}
        is_calm = all(pie.status is not HubStatus.BUSY for pie in pies) and len(hubs) > len(head.edges)
        if is_calm and all(hubs - {pie.hub} <= set(pie.balanced) for pie in pies):
            return True
        return now_s - max(head.moved_at_s, head.joined_at_s) >= self.settings.global_quiet_s
