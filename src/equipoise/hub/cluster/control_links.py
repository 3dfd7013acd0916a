"""Control links: messages between edges about load, apart from the messages of a busy link.

A hub opens one to each hub that it has control messages for, beside the ordinary link. Like that, it resends frames
that a reset has lost; it carries ControlFrames only. Until it is connected, and to a hub without the capability,
control messages are sent over the ordinary link like those of any publisher.

Always true: there are control links to live hubs only.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.link.capability import CONTROL
from equipoise.hub.cluster.link.frames import ControlFrame
from equipoise.hub.cluster.link.link import OutLink
from equipoise.hub.cluster.ports import ClusterPort

if TYPE_CHECKING:
    from equipoise.hub.cluster.link.incoming import FrameExecutor, InLink
    from equipoise.hub.cluster.ports import Dials

__all__ = ["ControlLinks"]

log = logging.getLogger("equipoise.hub")

# Buffer for a hub that does not receive; above it all messages are dropped, because later ones supersede them.
CONTROL_BYTES_MAX = 256 * 1024


class FramePort(ClusterPort, Protocol):
    """The interface of the cluster to its control links."""

    @property
    def frames(self) -> FrameExecutor: ...


class ControlLinks:
    """Owned by Cluster. Links open with the first message, and end with the hub or with `end`."""

    def __init__(self, cluster: FramePort, dials: Dials) -> None:
        self._cluster, self._dials = cluster, dials
        self.out: dict[str, OutLink] = {}
        self.incoming: dict[str, InLink] = {}

    @property
    def frames(self) -> FrameExecutor:
        return self._cluster.frames

    @property
    def relays(self) -> None:
        """Nothing is relayed on control links."""

    def send(self, hub: str, frame: ControlFrame) -> bool:
        """Send a message to a live hub; False: its control link is not connected yet."""
        link = self.out.get(hub) or self._open(hub)
        return link is not None and link.connections > 0 and link.send(frame)

    def _open(self, hub: str) -> OutLink | None:
        beside, facts = self._cluster.out.get(hub), self._cluster.router.peers.get(hub)
        if beside is None or facts is None or not beside.can(CONTROL):
            return None
        link = OutLink(hub, beside.incarnation, CONTROL_BYTES_MAX, self._overflowed, is_control=True)
        link.capabilities = beside.capabilities
        self.out[hub] = link
        self._dials.dial(link, facts)
        return link

    def _overflowed(self, link: OutLink) -> None:
        log.warning("control link to %s restarts: control messages are lost", link.hub)
        self._dials.redial(link)
        self._cluster.core.shell.call_later(0, setattr, link, "is_fallen", False)

    def peer_gone(self, hub: str) -> None:
        self.incoming.pop(hub, None)
        link = self.out.pop(hub, None)
        if link is not None:
            link.end_for_good()
            self._dials.hang_up(link)

    def end(self) -> None:
        """Close the outgoing control links: this hub has no more control messages. Incoming ones stay open."""
        for hub in list(self.out):
            link = self.out.pop(hub)
            link.end_for_good()
            self._dials.hang_up(link)

    def close(self) -> None:
        self.end()
        self.incoming.clear()
