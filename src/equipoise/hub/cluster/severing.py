"""End the link of a client that continues at another hub, and report when its messages have positions.

When a publisher changes hubs, its messages must not overtake each other: those published at the first hub have to be
numbered before the second hub accepts any. If the publisher cannot reach the first hub, it sends EQ.SEVER to the
second, which forwards the request: the first hub closes the publisher's old connection, so that no more messages arrive
over it, and replies when all messages received over it are numbered.

Always true: ending a link takes memory for each topic with its messages in flight, once, however often it is requested.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.latch import Wait
from equipoise.hub.cluster.link.frames import SeveredFrame, SeverFrame
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.hub.cluster.publish_route import Acked, AckWaiter, ClientAcks

if TYPE_CHECKING:
    from equipoise.hub.data.session import Session

__all__ = ["LinkSevering"]

# Ended links that are remembered, at about 100 B each: those of the last minutes, even if all clients of a hub
# reconnect at once, and whatever one user or address has ended (SEVERS_PER_MINUTE_MAX).
SEVERED_MAX = 50_000


class _Cluster(ClusterPort, Protocol):
    @property
    def is_seen(self) -> bool: ...
    @property
    def receipts(self) -> ClientAcks: ...


class LinkSevering:
    """The ends of clients' links. Owned by the cluster."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        # Requests to other hubs: by hub and link, the calls to make at the reply.
        self._asked: dict[tuple[str, bytes], list[Callable[[], object]]] = {}
        # Links that were ended here and have messages in flight: the calls to make when all are numbered.
        self._ending: dict[bytes, list[Callable[[], object]]] = {}
        # By session, the number of links whose end it awaits; and the call to make when one has ended, if more wait.
        self.waiting: dict[Session, int] = {}
        self.next: dict[Session, Callable[[], None]] = {}
        # Requests that arrived before the first routing: link, address of the other hub, and the call to make.
        self._unrouted: list[tuple[bytes, bytes, Callable[[], object]]] = []
        # Links of clients that were ended here, the latest last.
        self._severed: dict[bytes, None] = {}

    def sever(self, link: bytes, address: bytes, call: Callable[[], object]) -> None:
        """End a client's link to the hub at `address`; call when all messages received over it are acknowledged.

        A dead hub has no messages to acknowledge. A hub that has just started knows no other hub, dead or alive: the
        request waits for the first routing.
        """
        cluster = self._cluster
        if not cluster.is_seen:
            self._unrouted.append((link, address, call))
            return
        hub = cluster.router.hub_at(address)
        if hub == cluster.name:
            self._sever_here(link, call)
        elif hub is None or hub not in cluster.out:
            call()
        else:
            asked = self._asked.setdefault((hub, link), [])
            asked.append(call)
            if len(asked) == 1:
                cluster.tell(hub, SeverFrame(link))

    def routed(self) -> None:
        """The routing has changed: make the requests that waited for the first one."""
        if self._cluster.is_seen and self._unrouted:
            waiting, self._unrouted = self._unrouted, []
            for link, address, call in waiting:
                self.sever(link, address, call)

    def receive_sever(self, peer: str, link: bytes) -> None:
        self._sever_here(link, lambda: self._cluster.tell(peer, SeveredFrame(link)))

    def severed(self, peer: str, link: bytes) -> None:
        for call in self._asked.pop((peer, link), ()):
            call()

    def peer_gone(self, peer: str) -> None:
        """The hub is dead: its requests are done. Or its frames are void: send its requests again."""
        for hub, link in [key for key in self._asked if key[0] == peer]:
            if peer in self._cluster.out:
                self._cluster.tell(hub, SeverFrame(link))
            else:
                self.severed(hub, link)

    def introduce(self, peer: str) -> None:
        """The link to the peer has restarted: send its requests again."""
        for hub, link in self._asked:
            if hub == peer:
                self._cluster.tell(hub, SeverFrame(link))

    def is_severed(self, link: bytes) -> bool:
        """Whether a client's link was ended, so that no message may arrive over it."""
        return link in self._severed

    def _sever_here(self, link: bytes, call: Callable[[], object]) -> None:
        core = self._cluster.core
        # A connection of the link that has not sent its link's id yet may still be in flight.
        self._severed[link] = None
        if len(self._severed) > SEVERED_MAX:
            del self._severed[next(iter(self._severed))]
        session = core.links.get(link)
        if session is not None:
            core.cut(session, "its client continues at another hub")
        waiting = self._ending.get(link)
        if waiting is not None:
            # No message has arrived over the link since, so the awaited messages are the same.
            waiting.append(call)
            return
        waiters: list[Callable[[], None]] = []
        wait = Wait(lambda: self._ended(link))
        for account in self._cluster.receipts.accounts.values():
            until = account.links.get(link, 0)
            if until > account.acked:
                wait.join(waiters)
                account.wait(AckWaiter(0, until, _adapt(waiters[-1])))
        if wait.is_over_at_once():
            call()
        else:
            self._ending[link] = [call]

    def _ended(self, link: bytes) -> None:
        for call in self._ending.pop(link, ()):
            call()


def _adapt(done: Callable[[], None]) -> Acked:
    """Adapt a callback without arguments."""
    return lambda at, is_lost: done()
