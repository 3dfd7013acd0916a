"""Which messages of this hub's own clients have their positions, and who waits to hear that they do.

A publisher that goes from one hub to another must not be overtaken by itself: what it gave to the first has to have its
position before the second sees anything. So it asks to be told (EQ.SETTLE, EQ.PUBLISH), or, if the first hub is out of
its reach, has that one asked by the second (SEVER): that ends the publisher's old connection there, so that nothing
more can come over it, and answers when all that came has its position.

Messages of one hub's clients to one topic are settled in the order in which they were taken, whichever of its streams
they go to, so two counts say all.

Always true: a topic has an account exactly while messages of clients wait in it, or somebody waits for them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from equipoise.hub.cluster.latch import Wait
from equipoise.hub.cluster.link.frames import SeveredFrame, SeverFrame, Tag

if TYPE_CHECKING:
    from equipoise.hub.cluster.cluster import Cluster
    from equipoise.hub.data.session import Session
    from equipoise.hub.data.topics import Topic

__all__ = ["Account", "Receipts", "Settled", "Tell"]


# Links whose end is remembered: those of the last minutes, even if all clients of a hub lose it at once.
SEVERED_MAX = 20_000


class Settled:
    """Messages that somebody waits for: those from `since` up to `until`, as the account counts."""

    __slots__ = ("is_lost", "since", "tell", "until")

    def __init__(self, since: int, until: int, tell: Tell) -> None:
        self.since = since
        self.until = until
        self.tell = tell
        # Whether some of them never got a position.
        self.is_lost = False


# Told the position of the last message that has one, and whether any of those waited for has none.
Tell = Callable[[Tag, bool], object]


class Account:
    """One topic's part of it."""

    __slots__ = ("at", "settled", "taken", "waiting")

    def __init__(self, at: Tag) -> None:
        self.taken = 0
        self.settled = 0
        # The position of the last message that has one.
        self.at = at
        self.waiting: deque[Settled] = deque()


class Receipts:
    """Part of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._accounts: dict[Topic, Account] = {}
        # Links of clients that other hubs were asked to end: by the hub and the link, who waits for the answer.
        self._severing: dict[tuple[str, bytes], list[Callable[[], object]]] = {}
        # By session, its questions that wait for an answer; none is there without any.
        self.asking: dict[Session, int] = {}
        # Links of clients that were ended here, the latest last.
        self._severed: dict[bytes, None] = {}

    # What the way in tells.

    def take(self, topic: Topic, count: int) -> None:
        """So many messages of clients are about to be given to the topic; or, if negative, were not after all."""
        account = self._accounts.get(topic)
        if account is None:
            account = self._accounts[topic] = Account(self._cluster.ways.position(topic))
        account.taken += count
        self._close_if_empty(topic, account)

    def settle(self, topic: Topic, count: int, at: tuple[int, int]) -> None:
        """So many more in one of a topic's streams have been dealt with, the last at `at`; epoch 0 if they never get
        a position."""
        if at[0] and topic.stream is not None:
            topic.stream.numbered_at = at
        account = self._accounts.get(topic.trunk)
        if account is None:
            return
        before = account.settled
        account.settled += count
        if at[0]:
            account.at = Tag(topic.lane, *at)
        else:
            for one in account.waiting:
                one.is_lost = one.is_lost or (one.since < account.settled and one.until > before)
        while account.waiting and account.waiting[0].until <= account.settled:
            one = account.waiting.popleft()
            one.tell(account.at, one.is_lost)
        self._close_if_empty(topic.trunk, account)

    # Who waits.

    def when_settled(self, topic: Topic, count: int | None, tell: Tell) -> None:
        """Tell when the last `count` messages of clients to the topic are settled, or all of them: at once, if so."""
        account = self._accounts.get(topic)
        if account is None:
            tell(self._cluster.ways.position(topic), False)
            return
        since = 0 if count is None else account.taken - count
        account.waiting.append(Settled(since, account.taken, tell))

    def when_all_settled(self, tell: Callable[[], object]) -> None:
        """Tell when all messages that clients have given to any topic so far are settled."""
        waiters: list[Callable[[], None]] = []
        wait = Wait(tell)
        for account in self._accounts.values():
            wait.join(waiters)
            account.waiting.append(Settled(0, account.taken, _whatever(waiters[-1])))
        if wait.is_over_at_once():
            tell()

    # Links of clients.

    def sever(self, link: bytes, address: bytes, tell: Callable[[], object]) -> None:
        """End a client's link to the hub at `address`, and tell when all that came over it is settled.

        A hub that is not there any more has nothing to settle.
        """
        cluster = self._cluster
        hub = cluster.router.hub_at(address)
        if hub == cluster.name:
            self._sever_here(link, tell)
        elif hub is None or hub not in cluster.out:
            tell()
        else:
            self._severing.setdefault((hub, link), []).append(tell)
            cluster.tell(hub, SeverFrame(link))

    def asked_to_sever(self, peer: str, link: bytes) -> None:
        self._sever_here(link, lambda: self._cluster.tell(peer, SeveredFrame(link)))

    def severed(self, peer: str, link: bytes) -> None:
        for tell in self._severing.pop((peer, link), ()):
            tell()

    def peer_gone(self, peer: str) -> None:
        """The hub is dead, or what it was to tell us is void: then it is asked again."""
        for hub, link in [key for key in self._severing if key[0] == peer]:
            if peer in self._cluster.out:
                self._cluster.tell(hub, SeverFrame(link))
            else:
                self.severed(hub, link)

    def introduce(self, peer: str) -> None:
        """The link to the peer begins anew: what it was asked is void."""
        for hub, link in self._severing:
            if hub == peer:
                self._cluster.tell(hub, SeverFrame(link))

    def is_severed(self, link: bytes) -> bool:
        """Whether nothing may come over a client's link any more."""
        return link in self._severed

    def _sever_here(self, link: bytes, tell: Callable[[], object]) -> None:
        core = self._cluster.core
        # A connection that has not named its link yet may still be on its way.
        self._severed[link] = None
        if len(self._severed) > SEVERED_MAX:
            del self._severed[next(iter(self._severed))]
        session = core.links.get(link)
        if session is not None:
            core.cut(session, "its client goes on at another hub")
        self.when_all_settled(tell)

    def _close_if_empty(self, topic: Topic, account: Account) -> None:
        if account.settled >= account.taken and not account.waiting:
            self._accounts.pop(topic, None)


def _whatever(done: Callable[[], None]) -> Tell:
    """For who only wants to know that it is over."""
    return lambda at, is_lost: done()
