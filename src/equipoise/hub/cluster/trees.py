"""Follow content topics along their trees, under a version of the plan.

A hub follows a topic at its home, except for the homes of a content topic, which follow their parents. Their requests
name the version of the plan, and are repeated under each later one, even if the parent is the same: the confirmations
that this hub sends to its own followers depend on it (`followers`).

Always true: `Stream.under` is a version of the plan under which the source has confirmed this follower; 0: none.
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

# In place of the version of a request that could not be sent yet; less than any version.
NOT_ASKED = -1


class FollowTarget(NamedTuple):
    """The hub at which to follow a stream."""

    hub: str
    # Version of the plan; 0: not along a tree.
    version: int = 0
    # Whether that hub numbers the stream.
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
        """The hub at which to follow a stream whose home is `home`."""
        router, topic = self._cluster.router, stream.topic
        if topic.lane or not router.is_below_head(topic.name):
            return FollowTarget(home)
        placement = router.placement(topic.name)
        parent = placement.parent_of(router.name)
        if parent == placement.homes[0] or stream.source is None:
            # Until a handover is done, another hub numbers the stream. A hub without a source follows the home first:
            # its parent might wait for hubs that wait for it, and messages that the home sends for patterns precede its
            # reply.
            parent = home
        return FollowTarget(parent, router.version, parent == home)

    def ask(self, stream: Stream, target: FollowTarget) -> None:
        """Request the stream from the hub, completely until filters are sent."""
        cluster, name = self._cluster, stream.topic.name
        stream.ticket, stream.asked_under = cluster.new_ticket(), target.version
        stream.joins_parent = not target.is_home
        if target.version:
            link = cluster.out.get(target.hub)
            is_sent = link is not None and link.send(
                JoinFrame(name, stream.ticket, target.version, target.is_home)
            )
            if not is_sent:
                # The request is sent once the hub has announced the capability, or a later plan has no tree for the
                # topic.
                stream.asked_under = NOT_ASKED
        else:
            cluster.tell(target.hub, AttachFrame(name, stream.ticket))
        cluster.interests.attached(stream, target.hub)

    def ask_again(self, stream: Stream, target: FollowTarget) -> None:
        """The stream is followed at the hub, or was requested from it: request it again under a later plan."""
        if stream.joining == target.hub:
            if stream.join_at is None and target.version > stream.asked_under:
                self.ask(stream, target)
        elif stream.source == target.hub and target.version > max(stream.under, stream.renewing):
            link = self._cluster.out.get(target.hub)
            frame = RenewFrame(stream.topic.name, target.version, target.is_home)
            if link is not None and link.send(frame):
                stream.renewing = target.version

    def renewed(self, stream: Stream | None, peer: str, frame: RenewedFrame) -> None:
        """RENEWED: the source confirms this follower under that version."""
        if stream is not None and stream.source == peer and frame.version > stream.under:
            stream.under = frame.version
            self._cluster.handover.review(stream)

    def greeted(self, hub: str) -> None:
        """A hub has announced its capabilities: send the requests that had to wait for that."""
        link = self._cluster.out.get(hub)
        if link is None or not link.can(TREES):
            return
        for entry in self._cluster.router.replicated:
            topic = self._cluster.core.index.topics.get(entry.topic) if entry.mode is Mode.CONTENT else None
            if topic is not None and topic.stream is not None:
                self._cluster.merging.follow(topic.stream)
