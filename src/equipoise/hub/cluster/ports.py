"""The interface of a cluster to its parts: the hub's core, the routing, the links.

`Cluster` creates the parts and implements these Protocols. Parts use it through them only, so none imports `Cluster`,
and each part declares at its top what it uses of other parts.
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
    """The connections of a cluster's links, made by the shell."""

    def dial(self, link: OutLink, facts: LiveHub) -> None:
        """Keep a connection for the link until the link ends."""

    def redial(self, link: OutLink) -> None:
        """The link has restarted: close its connection, if there is one, and open another."""

    def hang_up(self, link: OutLink) -> None:
        """The link has ended: close its connection."""

    def declared_dead(self) -> None:
        """The other hubs have declared this hub dead: end this incarnation, and begin a new one."""


class ClusterPort(Protocol):
    @property
    def core(self) -> HubCore: ...
    @property
    def name(self) -> str:
        """Name of this hub."""

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
        """Send a frame to a hub, if it is alive and has the frame's capability."""

    def new_ticket(self) -> int:
        """A new number for a request to another hub."""


class ControlPort(Protocol):
    """Links for control messages alone."""

    def send(self, hub: str, frame: ControlFrame) -> bool: ...
    def end(self) -> None: ...


class LimitsPort(Protocol):
    """The interface of the rate limits to other parts."""

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
