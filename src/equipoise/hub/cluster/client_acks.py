"""Track the acknowledgements of the messages that this hub's clients publish.

Acknowledgements arrive in the order in which messages of one hub's clients to one topic were accepted, whichever of its
streams they are sent to, so two counters per topic suffice. Clients can wait for them (EQ.PUBLISH, EQ.SETTLE).

Always true: a topic has an account exactly while messages of clients are not acknowledged, or a call waits for them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.link.frames import Tag
from equipoise.hub.cluster.ports import ClusterPort

if TYPE_CHECKING:
    from equipoise.hub.data.session import Session
    from equipoise.hub.data.topics import Topic

__all__ = ["AckWaiter", "Acked", "ClientAcks", "TopicAcks"]

# Links in an account above which those without messages in flight are removed.
_LINKS_MAX = 64
# Called with the position of the last numbered message, and whether any of the awaited messages was lost.
Acked = Callable[[Tag, bool], object]


class _Routes(Protocol):
    def position(self, trunk: Topic) -> Tag: ...


class _Cluster(ClusterPort, Protocol):
    @property
    def ways(self) -> _Routes: ...


class AckWaiter:
    """Waits for the messages of one topic from `since` to `until`, by the account's count."""

    __slots__ = ("call", "is_lost", "since", "until")

    def __init__(self, since: int, until: int, call: Acked) -> None:
        self.since = since
        self.until = until
        self.call = call
        # Whether some of them were lost.
        self.is_lost = False


class TopicAcks:
    """The account of one topic: its messages of clients that are not acknowledged."""

    __slots__ = ("acked", "at", "links", "taken", "waiting")

    def __init__(self, at: Tag) -> None:
        self.taken = 0
        self.acked = 0
        # The position of the last numbered message.
        self.at = at
        # Ordered by `until`.
        self.waiting: deque[AckWaiter] = deque()
        # By link of a client, `taken` after its last message.
        self.links: dict[bytes, int] = {}

    def note_link(self, link: bytes) -> None:
        if len(self.links) > _LINKS_MAX:
            self.links = {one: until for one, until in self.links.items() if until > self.acked}
        self.links[link] = self.taken

    def wait(self, waiter: AckWaiter) -> None:
        """Insert a waiter, ordered by `until`."""
        later: list[AckWaiter] = []
        while self.waiting and self.waiting[-1].until > waiter.until:
            later.append(self.waiting.pop())
        self.waiting.append(waiter)
        self.waiting.extend(reversed(later))


class ClientAcks:
    """The accounts of all topics. Owned by the cluster."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        self.accounts: dict[Topic, TopicAcks] = {}
        # By session, the number of its pending `when_acked` calls; no entry of 0.
        self.pending: dict[Session, int] = {}

    def take(self, topic: Topic, count: int) -> None:
        """`count` messages of clients are about to be submitted to the topic; negative: they were rejected."""
        account = self.accounts.get(topic)
        if account is None:
            account = self.accounts[topic] = TopicAcks(self._cluster.ways.position(topic))
        account.taken += count
        # The core has set the publisher.
        publisher = self._cluster.core.sessions.get(topic.publisher or 0)
        if publisher is not None and publisher.link is not None and count > 0:
            account.note_link(publisher.link)
        self._close_if_empty(topic, account)

    def acked(self, topic: Topic, count: int, at: tuple[int, int]) -> None:
        """`count` more messages of a topic's stream are acknowledged, the last at `at`; epoch 0: without a position."""
        if at[0] and topic.stream is not None:
            topic.stream.admission.numbered_at = at
        account = self.accounts.get(topic.trunk)
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
        """Call once the last `count` messages of clients to the topic, or all, are acknowledged."""
        account = self.accounts.get(topic)
        if account is None:
            call(self._cluster.ways.position(topic), False)
            return
        since = 0 if count is None else account.taken - count
        account.wait(AckWaiter(since, account.taken, call))

    @property
    def is_settled(self) -> bool:
        """Whether no message of a client is unacknowledged."""
        return not self.accounts

    def _close_if_empty(self, topic: Topic, account: TopicAcks) -> None:
        if account.acked >= account.taken and not account.waiting:
            self.accounts.pop(topic, None)
