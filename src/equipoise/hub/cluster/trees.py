"""Follow content topics along their trees, under a version of the plan.

A hub follows a topic at its home, but for the homes of a content topic, which follow their parents. They say under
which version of the plan they do, and ask anew under each later one, though the parent be the same: what this hub
answers those below it goes by that (`followers`).

Always true: `Stream.under` is a version under which the hub that is followed has let this one follow; 0: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from equipoise.hub.cluster.link.capability import TREES
from equipoise.hub.cluster.link.frames import AttachFrame, JoinFrame, RenewedFrame, RenewFrame
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.model import Mode

if TYPE_CHECKING:
    from equipoise.hub.cluster.streams import Stream

__all__ = ["FollowTarget", "Trees"]

# In place of the version that a hub was asked under: the question could not be sent yet. Below any version.
NOT_ASKED = -1


class FollowTarget(NamedTuple):
    """Where a stream is to be followed."""

    hub: str
    # Of the plan; 0: not along a tree.
    version: int = 0
    # Whether that is where the stream is numbered.
    is_home: bool = True


class _Handover(Protocol):
    def review(self, stream: Stream) -> None: ...


class _Interests(Protocol):
    def attached(self, stream: Stream, hub: str) -> None: ...


class _Relays(Protocol):
    def follow(self, stream: Stream) -> None: ...


class _Cluster(ClusterPort, Protocol):
    @property
    def handover(self) -> _Handover: ...
    @property
    def interests(self) -> _Interests: ...
    @property
    def merging(self) -> _Relays: ...


class Trees:
    """Part of one cluster."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster

    def target(self, stream: Stream, home: str) -> FollowTarget:
        """The hub to follow a stream at that is numbered at `home`."""
        router, topic = self._cluster.router, stream.topic
        if topic.lane or not router.is_below_head(topic.name):
            return FollowTarget(home)
        placement = router.placement(topic.name)
        parent = placement.parent_of(router.name)
        if parent == placement.homes[0] or stream.source is None:
            # It is numbered elsewhere until a handover is done. A hub that follows none goes by the home first: its
            # parent might wait for hubs that wait for it, and what the home sends for patterns comes before its answer.
            parent = home
        return FollowTarget(parent, router.version, parent == home)

    def ask(self, stream: Stream, target: FollowTarget) -> None:
        """Ask the hub for the stream; all of it, until it hears more."""
        cluster, name = self._cluster, stream.topic.name
        stream.ticket, stream.asked_under = cluster.new_ticket(), target.version
        stream.joins_parent = not target.is_home
        if target.version:
            link = cluster.out.get(target.hub)
            is_sent = link is not None and link.send(
                JoinFrame(name, stream.ticket, target.version, target.is_home)
            )
            if not is_sent:
                # It is asked when it has said that it understands, or when a later plan has the topic in no tree.
                stream.asked_under = NOT_ASKED
        else:
            cluster.tell(target.hub, AttachFrame(name, stream.ticket))
        cluster.interests.attached(stream, target.hub)

    def ask_again(self, stream: Stream, target: FollowTarget) -> None:
        """The hub is followed, or was asked: under a later plan it is asked again."""
        if stream.joining == target.hub:
            if stream.join_at is None and target.version > stream.asked_under:
                self.ask(stream, target)
        elif stream.source == target.hub and target.version > max(stream.under, stream.renewing):
            link = self._cluster.out.get(target.hub)
            frame = RenewFrame(stream.topic.name, target.version, target.is_home)
            if link is not None and link.send(frame):
                stream.renewing = target.version

    def renewed(self, stream: Stream | None, peer: str, frame: RenewedFrame) -> None:
        """The hub lets this one follow under that version."""
        if stream is not None and stream.source == peer and frame.version > stream.under:
            stream.under = frame.version
            self._cluster.handover.review(stream)

    def greeted(self, hub: str) -> None:
        """A hub has said what it understands: it may have been too early to ask it."""
        link = self._cluster.out.get(hub)
        if link is None or not link.can(TREES):
            return
        for entry in self._cluster.router.replicated:
            topic = self._cluster.core.index.topics.get(entry.topic) if entry.mode is Mode.CONTENT else None
            if topic is not None and topic.stream is not None:
                self._cluster.merging.follow(topic.stream)
