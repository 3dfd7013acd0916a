"""End the link of a client that continues at another hub, and report when its messages have positions.

A publisher that goes from one hub to another must not be overtaken by itself: what it gave to the first has to have its
position before the second sees anything. If the first hub is out of its reach, it has that one asked by the second
(EQ.SEVER): that ends the publisher's old connection there, so that nothing more can come over it, and answers when all
that came over it has its position.

Always true: ending a link takes memory for the topics that it has messages under way to, once, however often it is
asked for.
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

# Links whose end is remembered, some 100 B each: those of the last minutes, even if all clients of a hub lose it at
# once, and whatever one user or address has ended (SEVERS_PER_MINUTE_MAX).
SEVERED_MAX = 50_000


class _Cluster(ClusterPort, Protocol):
    @property
    def receipts(self) -> ClientAcks: ...


class LinkSevering:
    """The links of clients that end. Owned by the cluster."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        # Links of clients that other hubs were asked to end: by the hub and the link, what waits for the answer.
        self._asked: dict[tuple[str, bytes], list[Callable[[], object]]] = {}
        # Links that were ended here and still have messages under way: what waits for them.
        self._ending: dict[bytes, list[Callable[[], object]]] = {}
        # By session, the links that it waits to be ended; and what to do when there is one less, if it asks for more.
        self.waiting: dict[Session, int] = {}
        self.next: dict[Session, Callable[[], None]] = {}
        # Links of clients that were ended here, the latest last.
        self._severed: dict[bytes, None] = {}

    def sever(self, link: bytes, address: bytes, call: Callable[[], object]) -> None:
        """End a client's link to the hub at `address`, and call when all that came over it is acknowledged.

        A hub that is dead has nothing to acknowledge.
        """
        cluster = self._cluster
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

    def asked_to_sever(self, peer: str, link: bytes) -> None:
        self._sever_here(link, lambda: self._cluster.tell(peer, SeveredFrame(link)))

    def severed(self, peer: str, link: bytes) -> None:
        for call in self._asked.pop((peer, link), ()):
            call()

    def peer_gone(self, peer: str) -> None:
        """The hub is dead, or what it was to tell us is void: then it is asked again."""
        for hub, link in [key for key in self._asked if key[0] == peer]:
            if peer in self._cluster.out:
                self._cluster.tell(hub, SeverFrame(link))
            else:
                self.severed(hub, link)

    def introduce(self, peer: str) -> None:
        """The link to the peer begins anew: it has not received what it was asked."""
        for hub, link in self._asked:
            if hub == peer:
                self._cluster.tell(hub, SeverFrame(link))

    def is_severed(self, link: bytes) -> bool:
        """Whether nothing may come over a client's link any more."""
        return link in self._severed

    def _sever_here(self, link: bytes, call: Callable[[], object]) -> None:
        core = self._cluster.core
        # A connection that has not named its link yet may still be on its way.
        self._severed[link] = None
        if len(self._severed) > SEVERED_MAX:
            del self._severed[next(iter(self._severed))]
        session = core.links.get(link)
        if session is not None:
            core.cut(session, "its client continues at another hub")
        waiting = self._ending.get(link)
        if waiting is not None:
            # Nothing has come over it since: what is waited for is the same.
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
