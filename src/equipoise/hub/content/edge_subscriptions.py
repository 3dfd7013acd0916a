"""The subscriptions by filter at an edge: their covers, and the ones that can migrate.

The balancer represents a subscription by its filter with the topic as one more constraint (`edge_probe`), so a session
covers all topics that two edges share.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from equipoise.content.balancing.offload import OffloadedSubscription
from equipoise.hub.content.edge_probe import covers_of, tagged
from equipoise.hub.content.migrations import EdgeMigrations, MovingSubscription, movable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from equipoise.content.balancing.offload import ChosenSubscribers
    from equipoise.content.filter import Filter
    from equipoise.hub.cluster.ports import ClusterPort
    from equipoise.hub.content.topic_filters import TopicFilter, TopicFilters

__all__ = ["EdgeSubscriptions"]


class EdgeSubscriptions:
    """Owned by a ContentEdge, which sets `topics`."""

    def __init__(self, cluster: ClusterPort, migrations: EdgeMigrations) -> None:
        self._index = cluster.core.index
        self._migrations = migrations
        # By content topic of which this hub is an edge, the other edges that it balances with.
        self.topics: Mapping[bytes, frozenset[str]] = {}

    @property
    def count(self) -> int:
        """Number of subscriptions that are not migrating away."""
        return sum(content.subscriptions - content.leaving for _, content in self._contents())

    def covers(self) -> tuple[str, ...]:
        return covers_of(
            key
            for name, content in self._contents()
            for node in content.index
            if (key := tagged(name, node.filter)) is not None
        )

    def candidates(self, hub: str) -> list[OffloadedSubscription]:
        """Of topics shared with the other edge: by filter, the number of subscriptions that can migrate, and cannot."""
        found: list[OffloadedSubscription] = []
        for key, node in self._shared(hub):
            moving = len(self._staying(node))
            fixed = node.subscriptions - moving - node.leaving
            if moving or fixed:
                # Those that cannot migrate count too: their messages are still needed here.
                found.append(OffloadedSubscription(key, moving, fixed))
        return found

    def chosen(self, hub: str, chosen: Iterable[ChosenSubscribers]) -> list[MovingSubscription]:
        """The chosen number of subscriptions of each filter, as far as they are still here."""
        wanted = {each.filter: each.subscribers for each in chosen}
        moving: list[MovingSubscription] = []
        for key, node in self._shared(hub):
            if key in wanted:
                moving += self._staying(node)[: wanted[key]]
        return moving

    def _contents(self) -> Iterator[tuple[bytes, TopicFilters]]:
        for name in self.topics:
            topic = self._index.topics.get(name)
            if topic is not None and topic.content is not None:
                yield name, topic.content

    def _shared(self, hub: str) -> Iterator[tuple[Filter, TopicFilter]]:
        for name, content in self._contents():
            for node in content.index if hub in self.topics[name] else ():
                key = tagged(name, node.filter)
                if key is not None:
                    yield key, node

    def _staying(self, node: TopicFilter) -> list[MovingSubscription]:
        return [each for each in movable(node) if not self._migrations.is_leaving(each.client, each.number)]
