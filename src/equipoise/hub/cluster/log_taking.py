"""Take over logs that other hubs offer: request their release when this hub is ready to open them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.link.capability import OFFERS
from equipoise.hub.cluster.link.log_frames import OfferFrame, ReleasedFrame, ReleaseFrame
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.hub.logs.live_log import LogStage

if TYPE_CHECKING:
    from equipoise.hub.logs.live_log import LiveLog

__all__ = ["LogTaking"]


class _Calls(Protocol):
    def open_here(self, key: bytes) -> LiveLog | None: ...


class LogTaking:
    """Owned by LogCalls."""

    def __init__(self, cluster: ClusterPort, calls: _Calls) -> None:
        self._cluster = cluster
        self._calls = calls
        # By log, the hub of an offer that arrived before the plan that makes this hub the home.
        self._offers: dict[bytes, str] = {}

    def offered(self, peer: str, frame: OfferFrame) -> None:
        """OFFER: a hub has the log open, and this hub is its home by that hub's plan."""
        live = self._calls.open_here(frame.topic)
        if live is None:
            self._offers[frame.topic] = peer
            return
        self._offers.pop(frame.topic, None)
        if live.stage is LogStage.OPENING:
            # Its commands can be forwarded at once.
            live.owner.found(peer)

    def routed(self) -> None:
        """The plan, or the hubs that are alive, have changed."""
        for topic, peer in list(self._offers.items()):
            self.offered(peer, OfferFrame(topic))

    def peer_gone(self, peer: str) -> None:
        self._offers = {topic: hub for topic, hub in self._offers.items() if hub != peer}

    def request(self, key: bytes, hub: str) -> bool:
        """Request the log's release from its owner; False: the owner cannot be reached or lacks the capability."""
        link = self._cluster.out.get(hub)
        if link is None or not link.is_connected or link.is_full or not link.can(OFFERS):
            return False
        link.send(ReleaseFrame(key))
        return True

    def released(self, peer: str, frame: ReleasedFrame) -> None:
        """RELEASED: the owner has released the log, or does not have it."""
        if self._cluster.core.logs is not None:
            self._cluster.core.logs.note_released(frame.topic, frame.version, frame.node)

    def close(self) -> None:
        self._offers.clear()
