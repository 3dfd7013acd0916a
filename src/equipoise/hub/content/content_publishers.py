"""Publishers of content topics at this head: their rates, and the transfer of publishers to other heads.

A smart client that is redirected (`eq.seat`) waits until all its messages published here have positions, then changes
heads, so its messages stay in order. Plain clients stay.

Always true: only sessions that have published here since the last `look` are counted.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

from equipoise.content.balancing.publishers import HeadUse, choose_move, choose_publishers
from equipoise.resp.replies import bulk, integer, push

if TYPE_CHECKING:
    from equipoise.hub.cluster.ports import ClusterPort
    from equipoise.hub.cluster.redirects import TopicRedirects
    from equipoise.hub.content.content_clusters import TopicClusters
    from equipoise.hub.data.session import Session

__all__ = ["ContentPublishers"]


class ContentPublishers:
    """Owned by a ContentHead, which calls `look` while this hub is a head with a neighbour."""

    def __init__(self, cluster: ClusterPort) -> None:
        self._cluster = cluster
        self._settings = cluster.core.settings.content
        # By content topic of which this hub is a head, the neighbouring heads.
        self._heads: dict[bytes, frozenset[str]] = {}
        # Publishes since the last `look`, by session and topic; messages published together count once.
        self._sent: Counter[tuple[Session, bytes]] = Counter()
        self._looked_at = self._still_until = 0.0
        # Samples of the latest seconds: time, CPU time used, and publishes so far.
        self._used: deque[tuple[float, float, int]] = deque()
        self._count = 0
        # Number of publishers redirected to other heads.
        self.moved = 0

    def count_for(self, redirects: TopicRedirects) -> None:
        redirects.counted, redirects.published_at_head = self._heads, self.published

    def routed(self, topics: Mapping[bytes, TopicClusters]) -> None:
        name = self._cluster.name
        self._heads.clear()
        self._heads |= {
            topic: clusters.neighbours[name]
            for topic, clusters in topics.items()
            if clusters.neighbours.get(name)
        }
        if not self._heads:
            self._sent.clear()
            self._used.clear()

    def published(self, session: Session, topic: bytes) -> None:
        """A smart client publishes here to a topic of which this hub is a head."""
        self._count += 1
        self._sent[session, topic] += 1

    @property
    def use(self) -> HeadUse:
        """CPU ratio and publishes per second of this head, within the window."""
        if len(self._used) < 2:
            return HeadUse(ratio=0.0, rate=0.0)
        (began_at, began, before), (now, used, count) = self._used[0], self._used[-1]
        passed_s = max(now - began_at, 1e-3)
        return HeadUse(ratio=(used - began) / passed_s, rate=(count - before) / passed_s)

    def tick(self, now: float) -> None:
        self._used.append((now, self._cluster.core.shell.cpu_s(), self._count))
        while len(self._used) > 2 and self._used[1][0] <= now - self._settings.window_s:
            self._used.popleft()

    def look(self, now: float, others: Mapping[str, HeadUse]) -> None:
        """Redirect publishers to a less loaded head, if one differs enough; at most once per window."""
        passed_s = now - self._looked_at
        if passed_s < self._settings.window_s:
            return
        rates = {one: count / passed_s for one, count in self._sent.items() if not one[0].is_closing}
        self._sent.clear()
        self._looked_at = now
        if now < self._still_until or passed_s > 2 * self._settings.window_s:
            return
        move = choose_move(self.use, others, self._settings.global_ratio_trigger)
        if move is None:
            return
        movable = {one: rate for one, rate in rates.items() if move.hub in self._heads.get(one[1], ())}
        for session, topic in choose_publishers(movable, move.rate):
            self._send(session, topic, move.hub)
            self._still_until = now + self._settings.stabilize_s

    def _send(self, session: Session, topic: bytes, hub: str) -> None:
        router = self._cluster.router
        address = router.address(hub, is_tls=session.is_tls)
        if address is not None and session.proto == 3:
            self.moved += 1
            session.write(push((bulk(b"eq.seat"), bulk(topic), integer(router.version), bulk(address)), 3))
