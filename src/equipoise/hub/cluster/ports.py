"""The interface of a cluster to its parts: the hub's core, the routing, the links.

Parts are made by `Cluster`, which has all of this. They see it through these Protocols, so none of them imports it, and
what a part uses of others stands at its top.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from equipoise.hub.cluster.link.frames import ControlFrame, Frame
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.cluster.peer_events import PeerEvents
    from equipoise.hub.cluster.router import LiveHub, Router
    from equipoise.hub.cluster.streams import Stream
    from equipoise.hub.cluster.topic_limit import TopicLimit
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.topic import Topic
    from equipoise.model import TopicSpec
    from equipoise.stream.submission import Path

__all__ = ["ClusterPort", "ControlPort", "Dials", "LimitsPort"]


class Dials(Protocol):
    """What a cluster needs of the world."""

    def dial(self, link: OutLink, facts: LiveHub) -> None:
        """Keep a connection for the link until it is over."""

    def redial(self, link: OutLink) -> None:
        """The link began anew: drop its connection, if there is one, and make another."""

    def hang_up(self, link: OutLink) -> None:
        """The link is over."""

    def declared_dead(self) -> None:
        """The others take this hub for dead: end this life of it, and begin another."""


class ClusterPort(Protocol):
    @property
    def core(self) -> HubCore: ...
    @property
    def name(self) -> str:
        """Of this hub."""

    @property
    def limits(self) -> LimitsPort: ...
    @property
    def router(self) -> Router: ...
    @property
    def news(self) -> PeerEvents: ...
    @property
    def out(self) -> dict[str, OutLink]:
        """The links to exactly the other hubs that are alive, by name."""

    @property
    def control(self) -> ControlPort: ...
    def tell(self, peer: str, frame: Frame) -> None:
        """Send a frame to a hub, if it is alive and understands it."""

    def new_ticket(self) -> int:
        """The number of a question to another hub."""


class ControlPort(Protocol):
    """Links for control messages alone."""

    def send(self, hub: str, frame: ControlFrame) -> bool: ...
    def end(self) -> None: ...


class LimitsPort(Protocol):
    """What the parts tell, and ask, the rate limits."""

    def adopt(self, topic: Topic, spec: TopicSpec | None) -> None: ...
    def evaluate(self, topic: Topic) -> None: ...
    def routing_progressed(self) -> None: ...
    def guard(self, stream: Stream) -> None: ...
    def offered(self, topic: Topic) -> None: ...
    def closing(self, topic: Topic, hub: str) -> None: ...
    def opened(self, topic: Topic, hub: str) -> None: ...
    def lane_ended(self, lane: Topic) -> None: ...
    def room(self, topic: Topic) -> int: ...
    def spend(self, limit: TopicLimit, count: int) -> None: ...
    def line_up(self, topic: Topic, path: Path) -> None: ...
    def progressed(self, trunk: Topic) -> None: ...
