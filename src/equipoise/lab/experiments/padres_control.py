"""Control messages between simulated hubs: executes the effects of balancers and runs detections.

Control messages have their own links: each hop takes `HOP_S` without queueing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Protocol

from equipoise.content.balancing.edge_events import (
    Announce,
    BalancingEffect,
    BeginSampling,
    MigrateSubscribers,
    SendControl,
    SessionEnded,
)
from equipoise.content.balancing.head_table import HeadEffect, JoinClusters, PartClusters
from equipoise.content.balancing.messages import ClusterJoined, ClusterParted, ControlMessage, Pie
from equipoise.content.balancing.settings import BalancingSettings
from equipoise.lab.experiments.padres_hubs import LabEdge, LabHead

__all__ = ["HOP_S", "ControlledWorld", "LabControl"]

HOP_S = 0.001


class ControlledWorld(Protocol):
    """The part of the federation that balancing uses."""

    now_s: float
    heads: dict[str, LabHead]
    edges: dict[str, LabEdge]

    def at(self, at_s: float, call: Callable[..., None], *arguments: Any) -> None: ...
    def count_control(self, messages: int) -> None: ...
    def migrate(self, edge: LabEdge, effect: MigrateSubscribers) -> None: ...
    def ended(self, edge: LabEdge) -> None: ...


class LabControl:
    """Owned by a Federation."""

    def __init__(self, world: ControlledWorld, settings: BalancingSettings) -> None:
        self._world = world
        self._settings = settings
        # Number of sessions between clusters, counted at both heads.
        self.joined = 0

    def start(self, random: Random) -> None:
        period_s = self._settings.detection_s
        for edge in self._world.edges.values():
            self._world.at(random.uniform(0, period_s), self._detect, edge)
            self._world.at(random.random(), self._poll, edge)
        if len(self._world.heads) > 1:
            for head in self._world.heads.values():
                self._world.at(random.uniform(0, period_s), self._detect_head, head)
                self._world.at(random.random(), self._poll_head, head)

    def _detect(self, edge: LabEdge) -> None:
        load = edge.load(self._world.now_s)
        self.carry(edge, edge.balancer.detect(self._world.now_s, load, edge.covers))
        self._publish_pie(edge, is_urgent=False)
        self._world.at(self._world.now_s + self._settings.detection_s, self._detect, edge)

    def _poll(self, edge: LabEdge) -> None:
        self.carry(edge, edge.balancer.poll(self._world.now_s))
        sampler = edge.balancer.sampler
        if sampler is not None and sampler.is_over(self._world.now_s):
            self.sampled(edge)
        self._world.at(self._world.now_s + 1.0, self._poll, edge)

    def sampled(self, edge: LabEdge) -> None:
        load = edge.load(self._world.now_s)
        self.carry(edge, edge.balancer.choose(self._world.now_s, load, edge.subscriptions()))

    def carry(self, edge: LabEdge, effects: Iterable[BalancingEffect]) -> None:
        for effect in effects:
            if isinstance(effect, SendControl):
                self._send(edge, self._world.edges[effect.hub], effect.message)
            elif isinstance(effect, MigrateSubscribers):
                self._world.migrate(edge, effect)
            elif isinstance(effect, Announce):
                self._publish_pie(edge, is_urgent=True)
            elif isinstance(effect, SessionEnded):
                self._world.ended(edge)
            else:
                assert isinstance(effect, BeginSampling), "the balancer has made the sampler"

    def _send(self, sender: LabEdge | LabHead, to: LabEdge | LabHead, message: ControlMessage) -> None:
        hops = self._hops(sender, to)
        self._world.count_control(hops)
        self._world.at(self._world.now_s + hops * HOP_S, self._receive, to, message)

    def _receive(self, hub: LabEdge | LabHead, message: ControlMessage) -> None:
        if isinstance(hub, LabEdge):
            load = hub.load(self._world.now_s)
            self.carry(hub, hub.balancer.receive(self._world.now_s, message, load, hub.covers))
        else:
            self._carry_head(hub, hub.balancer.receive(self._world.now_s, message))

    def _publish_pie(self, edge: LabEdge, *, is_urgent: bool) -> None:
        pie = edge.balancer.pie(self._world.now_s, edge.load(self._world.now_s), is_urgent=is_urgent)
        if pie is None or edge.parent is None:
            return
        head = edge.parent
        self._send(edge, head, pie)
        self._spread(head, pie, edge)
        if head.balancer.joined:
            # One message to the other head, which forwards it to its edges.
            other = self._world.heads[head.balancer.joined]
            self._send(head, other, pie)
            self._spread(other, pie, edge)

    def _spread(self, head: LabHead, pie: Pie, edge: LabEdge) -> None:
        for each in head.edges:
            if each is not edge:
                self._send(head, each, pie)

    def _detect_head(self, head: LabHead) -> None:
        self._carry_head(head, head.balancer.detect(self._world.now_s))
        self._publish_global(head, is_urgent=False)
        self._world.at(self._world.now_s + self._settings.detection_s, self._detect_head, head)

    def _poll_head(self, head: LabHead) -> None:
        self._carry_head(head, head.balancer.poll(self._world.now_s))
        self._world.at(self._world.now_s + 1.0, self._poll_head, head)

    def _publish_global(self, head: LabHead, *, is_urgent: bool) -> None:
        pie = head.balancer.pie(self._world.now_s, is_urgent=is_urgent)
        for other in self._neighbours(head) if pie is not None else ():
            assert pie is not None
            self._send(head, other, pie)

    def _neighbours(self, head: LabHead) -> list[LabHead]:
        around: list[LabHead] = [child for child in head.children if isinstance(child, LabHead)]
        return [*around, head.parent] if head.parent is not None else around

    def _carry_head(self, head: LabHead, effects: Iterable[HeadEffect]) -> None:
        for effect in effects:
            if isinstance(effect, SendControl):
                self._send(head, self._world.heads[effect.hub], effect.message)
            elif isinstance(effect, Announce):
                self._publish_global(head, is_urgent=True)
            else:
                self._tell_edges(head, effect)

    def _tell_edges(self, head: LabHead, effect: JoinClusters | PartClusters) -> None:
        is_joined = isinstance(effect, JoinClusters)
        self.joined += is_joined
        kind = ClusterJoined if is_joined else ClusterParted
        for edge in head.edges:
            self._send(head, edge, kind(hub=head.name, cluster=effect.cluster))

    def _hops(self, one: LabEdge | LabHead, other: LabEdge | LabHead) -> int:
        ups = self._ups(one)
        for far, hub in enumerate(self._ups(other)):
            if hub in ups:
                return far + ups.index(hub)
        raise AssertionError("both are in one tree")

    def _ups(self, hub: LabEdge | LabHead) -> list[LabEdge | LabHead]:
        found: list[LabEdge | LabHead] = [hub]
        while (parent := found[-1].parent) is not None:
            found.append(parent)
        return found
