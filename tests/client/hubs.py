"""Scripted peers that act as hubs of a cluster: they name themselves, answer publishers, and send redirects."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from .peer import Peer, Session, always, push, serving


class HubPeer:
    """A peer that knows its address. `settles`, `severs`: whether EQ.SETTLE and EQ.SEVER are answered at once."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.address = b"127.0.0.1:%d" % peer.port
        self.settles = self.severs = True
        peer.answers[b"EQ.LINK"] = lambda session, request: push(b"eq.here", self.address) + b"+OK\r\n"
        peer.answers[b"EQ.SETTLE"] = self._settle
        peer.answers[b"EQ.SEVER"] = self._sever
        peer.answers[b"EQ.AFTER"] = always(b"+OK\r\n")
        peer.answers[b"EQ.PUBLISH"] = always(b"*4\r\n$0\r\n\r\n:1\r\n:1\r\n:7\r\n")
        peer.answers[b"EQ.OWN"] = lambda session, request: push(b"eq.own", request[1], 1, b"", 1, 0)
        peer.answers[b"EQ.NOTOWN"] = lambda session, request: push(b"eq.notown", request[1], 0)

    @property
    def url(self) -> str:
        return self.peer.url

    @property
    def last(self) -> Session:
        return self.peer.last

    def asked(self, *words: bytes) -> int:
        """How often a request that begins with these words came, over all connections."""
        return sum(
            request[: len(words)] == list(words)
            for session in self.peer.sessions
            for request in session.requests
        )

    def payloads(self) -> list[bytes]:
        """What was published here, in order."""
        return [
            request[2]
            for session in self.peer.sessions
            for request in session.requests
            if request[0] in (b"PUBLISH", b"EQ.PUBLISH")
        ]

    def tell(self, topic: bytes, version: int, *homes: HubPeer, mode: bytes = b"single") -> None:
        """Say on the latest connection where a topic lives."""
        self.last.send(push(b"eq.home", topic, version, mode, *(home.address for home in homes)))

    def settle(self, topic: bytes) -> None:
        self.last.send(push(b"eq.settled", topic, b"", 1, 1))

    def _settle(self, session: Session, request: list[bytes]) -> bytes:
        return b"+OK\r\n" + (push(b"eq.settled", request[1], b"", 1, 1) if self.settles else b"")

    def _sever(self, session: Session, request: list[bytes]) -> bytes:
        return b"+OK\r\n" + (push(b"eq.severed", request[1]) if self.severs else b"")


@asynccontextmanager
async def hubs() -> AsyncIterator[tuple[HubPeer, HubPeer, HubPeer]]:
    async with serving() as one, serving() as two, serving() as three:
        yield HubPeer(one), HubPeer(two), HubPeer(three)
