"""Which messages of this hub's own clients have their positions, and what waits for that.

A publisher that goes from one hub to another must not be overtaken by itself: what it gave to the first has to have its
position before the second sees anything. So it asks to be told (EQ.SETTLE, EQ.PUBLISH), or, if the first hub is out of
its reach, has that one asked by the second (EQ.SEVER): that ends the publisher's old connection there, so that nothing
more can come over it, and answers when all that came over it has its position.

Messages of one hub's clients to one topic are acknowledged in the order in which they were taken, whichever of its
streams they go to, so two counts say all.

Always true:
    a topic has an account exactly while messages of clients wait in it, or something waits for them;
    ending a link takes memory for the topics that it has messages under way to, once, however often it is asked for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.latch import Wait
from equipoise.hub.cluster.link.frames import SeveredFrame, SeverFrame, Tag
from equipoise.hub.cluster.ports import ClusterPort

if TYPE_CHECKING:
    from equipoise.hub.data.session import Session
    from equipoise.hub.data.topics import Topic

__all__ = ["AckWaiter", "Acked", "ClientAcks", "TopicAcks"]


# Links whose end is remembered, some 100 B each: those of the last minutes, even if all clients of a hub lose it at
# once, and whatever one user or address has ended (SEVERS_PER_MINUTE_MAX).
SEVERED_MAX = 50_000
# Links that an account remembers before it forgets those that have nothing under way.
_LINKS_MAX = 64

# Called with the position of the last message that has one, and whether any of those waited for has none.
Acked = Callable[[Tag, bool], object]


class AckWaiter:
    """Waits for messages of one topic: those from `since` up to `until`, as its account counts."""

    __slots__ = ("call", "is_lost", "since", "until")

    def __init__(self, since: int, until: int, call: Acked) -> None:
        self.since = since
        self.until = until
        self.call = call
        # Whether some of them never got a position.
        self.is_lost = False


class TopicAcks:
    """The account of one topic: messages of clients that are not acknowledged."""

    __slots__ = ("acked", "at", "links", "taken", "waiting")

    def __init__(self, at: Tag) -> None:
        self.taken = 0
        self.acked = 0
        # The position of the last message that has one.
        self.at = at
        # In the order of `until`.
        self.waiting: deque[AckWaiter] = deque()
        # By a client's link, the count up to its last message.
        self.links: dict[bytes, int] = {}

    def note_link(self, link: bytes) -> None:
        if len(self.links) > _LINKS_MAX:
            self.links = {one: until for one, until in self.links.items() if until > self.acked}
        self.links[link] = self.taken

    def wait(self, waiter: AckWaiter) -> None:
        """Put it where its turn is."""
        later: list[AckWaiter] = []
        while self.waiting and self.waiting[-1].until > waiter.until:
            later.append(self.waiting.pop())
        self.waiting.append(waiter)
        self.waiting.extend(reversed(later))


class _Routes(Protocol):
    def position(self, trunk: Topic) -> Tag: ...


class _Cluster(ClusterPort, Protocol):
    @property
    def ways(self) -> _Routes: ...


class ClientAcks:
    """The accounts of all topics, and the links that end. Owned by the cluster."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        self._accounts: dict[Topic, TopicAcks] = {}
        # Links of clients that other hubs were asked to end: by the hub and the link, what waits for the answer.
        self._asked: dict[tuple[str, bytes], list[Callable[[], object]]] = {}
        # Links that were ended here and still have messages under way: what waits for them.
        self._ending: dict[bytes, list[Callable[[], object]]] = {}
        # By session, its questions that wait for an answer; no session without any.
        self.asking: dict[Session, int] = {}
        # By session, the links that it waits to be ended; and what to do when there is one less, if it asks for more.
        self.severing: dict[Session, int] = {}
        self.sever_next: dict[Session, Callable[[], None]] = {}
        # Links of clients that were ended here, the latest last.
        self._severed: dict[bytes, None] = {}

    # What ingress tells.

    def take(self, topic: Topic, count: int) -> None:
        """So many messages of clients are about to be given to the topic; or, if negative, were not after all."""
        account = self._accounts.get(topic)
        if account is None:
            account = self._accounts[topic] = TopicAcks(self._cluster.ways.position(topic))
        account.taken += count
        # The core has noted who publishes.
        publisher = self._cluster.core.sessions.get(topic.publisher or 0)
        if publisher is not None and publisher.link is not None and count > 0:
            account.note_link(publisher.link)
        self._close_if_empty(topic, account)

    def acked(self, topic: Topic, count: int, at: tuple[int, int]) -> None:
        """So many more in one of a topic's streams are acknowledged, the last at `at`; epoch 0: without a position."""
        if at[0] and topic.stream is not None:
            topic.stream.admission.numbered_at = at
        account = self._accounts.get(topic.trunk)
        if account is None:
            return
        before = account.acked
        account.acked += count
        if at[0]:
            account.at = Tag(topic.lane, *at)
        else:
            for one in account.waiting:
                one.is_lost = one.is_lost or (one.since < account.acked and one.until > before)
        while account.waiting and account.waiting[0].until <= account.acked:
            one = account.waiting.popleft()
            one.call(account.at, one.is_lost)
        self._close_if_empty(topic.trunk, account)

    def when_acked(self, topic: Topic, count: int | None, call: Acked) -> None:
        """Call when the last `count` messages of clients to the topic, or all, are acknowledged: at once, if so."""
        account = self._accounts.get(topic)
        if account is None:
            call(self._cluster.ways.position(topic), False)
            return
        since = 0 if count is None else account.taken - count
        account.wait(AckWaiter(since, account.taken, call))

    @property
    def is_settled(self) -> bool:
        """Whether no message of a client waits for its position."""
        return not self._accounts

    # Links of clients.

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
            core.cut(session, "its client goes on at another hub")
        waiting = self._ending.get(link)
        if waiting is not None:
            # Nothing has come over it since: what is waited for is the same.
            waiting.append(call)
            return
        waiters: list[Callable[[], None]] = []
        wait = Wait(lambda: self._ended(link))
        for account in self._accounts.values():
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

    def _close_if_empty(self, topic: Topic, account: TopicAcks) -> None:
        if account.acked >= account.taken and not account.waiting:
            self._accounts.pop(topic, None)


def _adapt(done: Callable[[], None]) -> Acked:
    """Adapt a callback without arguments."""
    return lambda at, is_lost: done()
