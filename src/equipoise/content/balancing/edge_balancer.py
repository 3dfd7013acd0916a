"""One edge: its neighbours, sessions and PIE. Pure; the shell executes the effects.

The shell calls `detect` every `detection_s`, `poll` every second, `receive` for each received message, passes matched
messages to the sampler while there is one, and calls `choose` when it is complete.

Always true: a hub that is silent for three times the longest interval of PIEs is no neighbour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from equipoise.content.balancing.detection import (
    Detection,
    detect,
    exceeds,
    is_steady,
    triggers_of,
)
from equipoise.content.balancing.edge_events import (
    STATUSES,
    Announce,
    BalancingEffect,
    BeginSampling,
    Detected,
    DoneReceived,
    EdgePhase,
    EndReceived,
    PeerLost,
    PhaseOverdue,
    ReplyReceived,
    RequestReceived,
    SamplingOver,
    SubscriberCame,
)
from equipoise.content.balancing.edge_rules import EdgeSession, is_paused
from equipoise.content.balancing.edge_table import apply_edge
from equipoise.content.balancing.first_edge import FirstEdge, fullness
from equipoise.content.balancing.load import EdgeLoad
from equipoise.content.balancing.messages import (
    ClusterJoined,
    ClusterParted,
    ControlMessage,
    HubStatus,
    Pie,
    SessionDone,
    SessionEnd,
    SessionEstimate,
    SessionReply,
    SessionRequest,
)
from equipoise.content.balancing.offload import OffloadedSubscription, select
from equipoise.content.balancing.press import PressSampler
from equipoise.content.balancing.settings import BalancingSettings
from equipoise.content.filter import Filter
from equipoise.content.parsing import CANONICAL_BYTES_MAX, parse_filter
from equipoise.errors import FilterError

__all__ = ["EdgeBalancer"]

_RESTING = frozenset({EdgePhase.OK, EdgePhase.UNAVAILABLE, EdgePhase.STABILIZING})


class EdgeBalancer:
    """Owned by the shell of one hub. `cluster`: the name of its head."""

    def __init__(self, hub: str, cluster: str, settings: BalancingSettings) -> None:
        self.hub = hub
        self.cluster = cluster
        self.settings = settings
        # Clusters whose edges it balances with: its own, and another one while two heads have joined.
        self.clusters: set[str] = {cluster}
        # The sampler of the session, while it is sampling.
        self.sampler: PressSampler[Filter] | None = None
        self._edge = EdgeSession(hub, settings)
        self._pies: dict[str, tuple[float, Pie]] = {}
        self._reply: SessionReply | None = None
        self._triggers = triggers_of(settings)
        self._detection = Detection(False, False, (), frozenset())
        self._load_before: EdgeLoad | None = None
        self._published: tuple[float, EdgeLoad] | None = None
        self._number = 0
        # The last detection in another phase.
        self._unavailable_since_s = 0.0
        self._first_edge = FirstEdge(settings)

    @property
    def phase(self) -> EdgePhase:
        return self._edge.phase

    @property
    def status(self) -> HubStatus:
        return STATUSES[self._edge.phase]

    @property
    def session(self) -> tuple[str, str]:
        """The name of the session and the other hub; empty if there is none."""
        return self._edge.session, self._edge.peer

    @property
    def balanced(self) -> frozenset[str]:
        return self._detection.balanced

    def neighbours(self, now_s: float) -> dict[str, Pie]:
        """The edges that it may balance with, by their latest PIE."""
        oldest_s = now_s - 3 * self.settings.pie_s_max
        for hub in [hub for hub, (at_s, _) in self._pies.items() if at_s < oldest_s]:
            del self._pies[hub]
        return {hub: pie for hub, (_, pie) in self._pies.items() if pie.cluster in self.clusters}

    def detect(
        self, now_s: float, load: EdgeLoad, covers: Callable[[], tuple[str, ...]]
    ) -> list[BalancingEffect]:
        """Check the load, and act on it. `covers`: returns the covering set, on request."""
        self._tell(now_s, load, covers)
        neighbours = self.neighbours(now_s)
        found = detect(
            load,
            {hub: pie.load for hub, pie in neighbours.items()},
            [hub for hub, pie in neighbours.items() if pie.status is HubStatus.OK],
            self.settings,
            self._triggers,
        )
        self._detection = found
        before, self._load_before = self._load_before, load
        if self._edge.phase not in _RESTING:
            return []
        steady = (
            now_s >= self._edge.stable_at_s and before is not None and is_steady(before, load, self.settings)
        )
        requests = tuple(request for request in found.requests if not is_paused(self._edge, request))
        return apply_edge(self._edge, Detected(found, requests, steady, self._is_stuck(now_s)))

    def _is_stuck(self, now_s: float) -> bool:
        """Whether this hub has been unavailable for a while.

        In [1] it neither accepts nor requests then. As long as its load does not change, the others stay less loaded.
        """
        if self._edge.phase is not EdgePhase.UNAVAILABLE:
            self._unavailable_since_s = now_s
        return now_s - self._unavailable_since_s >= self.settings.global_quiet_s

    def poll(self, now_s: float) -> list[BalancingEffect]:
        """Process expired timers."""
        edge = self._edge
        edge.now_s = now_s
        if edge.deadline_s is None or now_s < edge.deadline_s:
            return []
        edge.deadline_s = None
        return apply_edge(edge, PhaseOverdue())

    def receive(
        self, now_s: float, message: ControlMessage, load: EdgeLoad, covers: Callable[[], tuple[str, ...]]
    ) -> list[BalancingEffect]:
        """Process a message; messages for other roles have no effect."""
        self._tell(now_s, load, covers)
        if isinstance(message, Pie):
            self._learn(now_s, message)
            return []
        if isinstance(message, ClusterJoined):
            self.clusters.add(message.cluster)
            # So that the edges of that cluster know it, too.
            return [Announce()]
        if isinstance(message, ClusterParted):
            self.clusters.discard(message.cluster)
            self.clusters.add(self.cluster)
            return []
        if message_is_global(message) or isinstance(message, SessionEstimate):
            return []
        return self._apply(message)

    def subscriber_came(self, now_s: float, session: str, total: int) -> list[BalancingEffect]:
        self._edge.now_s = now_s
        return apply_edge(self._edge, SubscriberCame(session, total))

    def lost(self, now_s: float, hub: str) -> list[BalancingEffect]:
        """The hub has died, or is not a neighbour any more."""
        self._edge.now_s = now_s
        self._pies.pop(hub, None)
        effects = apply_edge(self._edge, PeerLost(hub))
        if self._edge.phase is not EdgePhase.SAMPLING:
            self.sampler = self._reply = None
        return effects

    def choose(
        self, now_s: float, load: EdgeLoad, subscriptions: Iterable[OffloadedSubscription]
    ) -> list[BalancingEffect]:
        """The sampler is complete: choose the subscribers that move."""
        sampler, reply, request = self.sampler, self._reply, self._edge.request
        assert sampler is not None and reply is not None and request is not None, "it samples"
        self.sampler = self._reply = None
        self._edge.now_s = now_s
        offload = select(
            request.metric,
            subscriptions,
            offloader=load,
            acceptor=reply.load,
            covers=_filters(reply.covers),
            profile=sampler.profile(load.input_rate),
            settings=self.settings,
            is_overloaded=request.is_overloaded,
        )
        return apply_edge(self._edge, SamplingOver(offload))

    def pie(self, now_s: float, load: EdgeLoad, *, is_urgent: bool = False) -> Pie | None:
        """The PIE to publish now, if one is due: often while load changes, rarely otherwise."""
        if self._published is not None and not is_urgent:
            at_s, told = self._published
            interval_s = (
                self.settings.pie_s_max if is_steady(told, load, self.settings) else self.settings.pie_s
            )
            if now_s - at_s < interval_s:
                return None
        self._published = now_s, load
        self._number += 1
        return Pie(
            hub=self.hub,
            cluster=self.cluster,
            status=self.status,
            load=load,
            balanced=tuple(sorted(self._detection.balanced)),
            number=self._number,
        )

    def first_edge(self, now_s: float, load: EdgeLoad) -> str | None:
        """The hub to which a new subscriber is sent; None: it stays here."""
        if not self.settings.first_edge or not self._detection.is_unavailable:
            return None
        pies = self.neighbours(now_s)
        chosen = self._first_edge.choose(pies.values())
        if chosen is None or chosen[1] >= fullness(load, 0, self.settings):
            return None
        self._first_edge.sent(pies[chosen[0]])
        return chosen[0]

    def _tell(self, now_s: float, load: EdgeLoad, covers: Callable[[], tuple[str, ...]]) -> None:
        self._edge.now_s, self._edge.load, self._edge.covers = now_s, load, covers

    def _learn(self, now_s: float, pie: Pie) -> None:
        known = self._pies.get(pie.hub)
        if pie.hub != self.hub and not pie.is_global and (known is None or known[1].number < pie.number):
            self._pies[pie.hub] = now_s, pie

    def _apply(self, message: ControlMessage) -> list[BalancingEffect]:
        edge = self._edge
        if isinstance(message, SessionRequest):
            return apply_edge(edge, RequestReceived(message))
        if isinstance(message, SessionEnd):
            return apply_edge(edge, EndReceived(message))
        if isinstance(message, SessionDone):
            return apply_edge(edge, DoneReceived(message))
        assert isinstance(message, SessionReply), "PIEs and clusters were handled above"
        effects = apply_edge(edge, ReplyReceived(message, self._is_needed(message)))
        for effect in effects:
            if isinstance(effect, BeginSampling):
                self._reply = effect.reply
                self.sampler = PressSampler(
                    _filters(effect.reply.covers),
                    samples=self.settings.samples,
                    ends_s=edge.now_s + self.settings.sampling_s,
                )
        return effects

    def _is_needed(self, reply: SessionReply) -> bool:
        """Whether the load in the reply still makes the requested session necessary.

        PIEs are up to `pie_s_max` old, so a change of the total load can look like a difference between two hubs.
        """
        edge, known = self._edge, self._pies.get(reply.hub)
        request = edge.request
        if request is None or reply.hub != edge.peer or reply.status is not HubStatus.OK:
            return True
        if known is not None:
            pie = msgspec.structs.replace(known[1], load=reply.load)
            self._pies[reply.hub] = edge.now_s, pie
        return request.is_overloaded or exceeds(
            edge.load, reply.load, request.metric, self.settings, self._triggers
        )


def message_is_global(message: ControlMessage) -> bool:
    """Whether it is between heads."""
    return bool(getattr(message, "is_global", False))


def _filters(texts: Iterable[str]) -> list[Filter]:
    """The readable ones: without an unreadable cover the estimate of the acceptor's input is only too high."""
    found = []
    for text in texts:
        try:
            found.append(parse_filter(text.encode(), bytes_max=CANONICAL_BYTES_MAX))
        except FilterError:
            continue
    return found
