"""Migrate subscribers by filter from this hub to another edge of their topic.

A smart client that has requested redirects receives the push, ahead of all held output,
    eq.edge number :version address session :total
and subscribes at that edge. It unsubscribes here once this hub has accounted for the position at which its subscription
began there (stream/merge.py), so no message is lost or received twice. `session` is the session of two edges, and
`total` the number of subscriptions that it migrates: the client passes both to the new edge, which counts. Other
clients stay. Clients receive the push one after another, like redirects after a move (`redirects_per_s`).

Always true: `leaving` of a filter, and of all filters of a topic, counts the subscriptions that were sent away and are
still here, until their time is up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from equipoise.hub.content.topic_filters import TopicFilter, TopicFilters
from equipoise.hub.data.session import Session
from equipoise.resp.replies import bulk, integer, push

if TYPE_CHECKING:
    from equipoise.hub.cluster.ports import ClusterPort
    from equipoise.hub.content.spans import SmartMembers
    from equipoise.hub.data.ports import Timer
    from equipoise.hub.data.subscriber import Subscriber

__all__ = ["EdgeMigrations", "MovingSubscription", "movable"]

# Interval between pushes to waiting subscriptions, in seconds.
TURN_S = 0.05


class MovingSubscription(NamedTuple):
    """One subscription of a client, by filter, that migrates to another edge."""

    client: Session
    number: bytes
    filter: TopicFilter


class _Order(NamedTuple):
    """A waiting push to one subscription."""

    moving: MovingSubscription
    hub: str
    session: str
    total: int
    # Time from which it counts as staying again, if it is still here.
    until_s: float


def movable(node: TopicFilter) -> list[MovingSubscription]:
    """The subscriptions to a filter that can migrate: those of smart clients that follow redirects."""
    found: list[MovingSubscription] = []
    for client, numbers in {} if node.smart is None else node.smart.numbers.items():
        if isinstance(client, Session) and client.redirected is not None and client.proto == 3:
            found += (MovingSubscription(client, _number(known), node) for known in numbers)
    return found


def _number(spelled: bytes) -> bytes:
    """The number of a subscription, from its encoded form in pushes."""
    return spelled[spelled.index(b"\n") + 1 : -2]


class EdgeMigrations:
    """Part of one cluster."""

    def __init__(self, cluster: ClusterPort) -> None:
        self._cluster = cluster
        self._turn_max = max(1, round(cluster.core.settings.cluster.redirects_per_s * TURN_S))
        self._waiting: deque[_Order] = deque()
        # By client and number, subscriptions that were pushed and are still here: the time until they count as leaving.
        self._leaving: dict[tuple[Subscriber, bytes], tuple[TopicFilters, SmartMembers, float]] = {}
        self._timer: Timer | None = None
        # Number of pushes.
        self.count = 0

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def is_leaving(self, client: Subscriber, number: bytes) -> bool:
        return (client, number) in self._leaving

    def send(
        self,
        subscriptions: Iterable[MovingSubscription],
        hub: str,
        *,
        session: str,
        total: int,
        until_s: float,
    ) -> None:
        """Migrate these subscriptions to the hub, one push after another; until `until_s` they count as leaving."""
        self._waiting += (_Order(moving, hub, session, total, until_s) for moving in subscriptions)
        if self._timer is None:
            self._turn()

    def end(self) -> None:
        """Drop the waiting pushes: these subscriptions stay."""
        self._waiting.clear()

    def left(self, client: Subscriber, number: bytes) -> None:
        """The subscription has ended here, or counts as staying again."""
        known = self._leaving.pop((client, number), None)
        if known is not None:
            known[0].leaving -= 1
            known[1].leaving -= 1

    def expire(self, now_s: float) -> None:
        """Count subscriptions that are still here after their time as staying."""
        for client, number in [key for key, (*_, until_s) in self._leaving.items() if until_s <= now_s]:
            self.left(client, number)

    def push(self, moving: MovingSubscription, hub: str, session: str = "", total: int = 0) -> bool:
        """Push `eq.edge` to the client; return whether it was sent."""
        client, number, node = moving
        router, members = self._cluster.router, node.smart
        address = router.address(hub, is_tls=client.is_tls)
        if address is None or members is None or bulk(number) not in members.numbers.get(client, ()):
            return False
        words = (bulk(b"eq.edge"), bulk(number), integer(router.version), bulk(address))
        frame = push((*words, bulk(session.encode()), integer(total)), 3)
        self._cluster.core.backlogs.put_ahead(client, frame)
        self.count += 1
        return not client.is_closing

    def _turn(self) -> None:
        """Send the next pushes."""
        self._timer = None
        topics = self._cluster.core.index.topics
        for _ in range(min(self._turn_max, len(self._waiting))):
            moving, hub, session, total, until_s = self._waiting.popleft()
            key = moving.client, moving.number
            if key not in self._leaving and self.push(moving, hub, session, total):
                members, content = moving.filter.smart, topics[moving.filter.topic].content
                assert members is not None and content is not None, "the subscription exists"
                self._leaving[key] = content, members, until_s
                members.leaving += 1
                content.leaving += 1
        if self._waiting:
            self._timer = self._cluster.core.shell.call_later(TURN_S, self._turn)
