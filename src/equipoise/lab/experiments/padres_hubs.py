"""Simulated hubs on the pure balancing core: heads that forward messages, edges that serve subscribers.

A hub is a processor that takes messages in order, and an output with a bandwidth. Matching has a cost per subscription
and per match, which depends on the machine. The index, the covering sets, the meter and the balancer are the product's
code.

Always true:
    a subscriber receives the messages up to a position from its former edge, and later ones from the new edge: edges
    add and remove the subscriber with the first message after that position;
    a request of an edge is in effect at every head on the path before the position is chosen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple

from equipoise.content.balancing.edge_balancer import EdgeBalancer
from equipoise.content.balancing.head_balancer import HeadBalancer
from equipoise.content.balancing.load import EdgeLoad, LoadMeter
from equipoise.content.balancing.offload import OffloadedSubscription
from equipoise.content.balancing.settings import BalancingSettings
from equipoise.content.cover_set import CoverSet
from equipoise.content.filter import Filter
from equipoise.content.groups import FilterNode, N
from equipoise.content.index import FilterIndex, listed
from equipoise.lab.workload.quotes import QUOTE_BYTES

__all__ = ["EdgeFilter", "LabEdge", "LabHead", "LabMachine", "LabSubscriber", "QuoteMessage"]

# Memory of one subscription, of one queued message, and of an idle hub.
SUBSCRIPTION_BYTES = 2_000
WAITING_BYTES = 1_000
IDLE_BYTES = 16e6
# Steps of a covering set with each change.
SETTLE_STEPS = 200


class LabMachine(NamedTuple):
    """The machine of a hub, and the cost of matching at 1 GHz."""

    name: str
    ghz: float
    bandwidth_bits_per_s: float
    memory_bytes: float
    subscription_s: float
    match_s: float = 0.0
    fixed_s: float = 0.0

    def delay_s(self, subscriptions: int, matches: int) -> float:
        return (self.fixed_s + self.subscription_s * subscriptions + self.match_s * matches) / self.ghz


class QuoteMessage(NamedTuple):
    """A quote in flight."""

    position: int
    published_s: float
    attributes: dict[str, Any]


class EdgeFilter(FilterNode):
    """A filter at an edge: its active subscribers, and the number of all its subscribers."""

    __slots__ = ("delivered", "leaving", "subscribers", "wanted")

    def __init__(self, filter: Filter) -> None:
        super().__init__(filter)
        # Each with the value of `delivered` when it was added.
        self.subscribers: dict[LabSubscriber, int] = {}
        # Number of subscribers that wait for a position to leave.
        self.leaving = 0
        # Number of subscribers, including those that wait for a position to be added.
        self.wanted = 0
        # Messages sent to all subscribers of the filter.
        self.delivered = 0


class LabSubscriber:
    """One client with one filter. The filter counts its messages; the count is stored when it leaves."""

    __slots__ = ("edge", "expected_from", "filter", "is_moving", "moves", "received")

    def __init__(self, filter: Filter) -> None:
        self.filter = filter
        self.edge: LabEdge | None = None
        self.is_moving = False
        self.moves = 0
        self.received = 0
        # Number of messages that had matched its filter when it connected.
        self.expected_from = 0


class _AskedCovers(Generic[N]):
    """A covering set, and its filters requested from the parent. A filter that left and returned may be in it twice."""

    def __init__(self) -> None:
        self._covers: CoverSet[N] = CoverSet()
        self._nodes: set[N] = set()
        self._counts: dict[Filter, int] = {}

    @property
    def filters(self) -> Iterable[Filter]:
        return self._counts

    def add(self, node: N) -> None:
        self._covers.add(node)
        self._covers.settle(SETTLE_STEPS)

    def remove(self, node: N) -> None:
        self._covers.remove(node)
        self._covers.settle(SETTLE_STEPS)

    def changed(self) -> list[tuple[Filter, bool]]:
        """Filters to request (True) or to cancel (False) since the last call."""
        announced: dict[Filter, bool] = {}
        for node, is_in in self._covers.changes.items():
            if is_in == (node in self._nodes):
                continue
            (self._nodes.add if is_in else self._nodes.discard)(node)
            filter = node.filter
            before = self._counts.get(filter, 0)
            after = before + (1 if is_in else -1)
            if after:
                self._counts[filter] = after
            else:
                del self._counts[filter]
            if not before or not after:
                announced[filter] = bool(after)
        self._covers.changes.clear()
        return list(announced.items())


class _Processor:
    """Processes messages one after the other."""

    def __init__(self, take: Callable[[float, QuoteMessage], float], wake: Callable[[float], None]) -> None:
        self._take, self._wake = take, wake
        self.waiting: deque[tuple[float, QuoteMessage]] = deque()
        self.free_s = 0.0

    def offer(self, now_s: float, message: QuoteMessage) -> None:
        if self.waiting or self.free_s > now_s:
            if not self.waiting:
                self._wake(self.free_s)
            self.waiting.append((now_s, message))
        else:
            self.free_s = self._take(now_s, message)

    def resume(self, now_s: float) -> None:
        _, message = self.waiting.popleft()
        self.free_s = self._take(now_s, message)
        if self.waiting:
            self._wake(self.free_s)


class LabHead:
    """Forwards messages to the children that request them; requests the union of their filters from its parent."""

    def __init__(
        self, machine: LabMachine, settings: BalancingSettings, wake: Callable[[float, LabHead], None]
    ) -> None:
        self.machine = machine
        self.name = machine.name
        self.parent: LabHead | None = None
        self.children: dict[LabHead | LabEdge, FilterIndex[FilterNode]] = {}
        self.balancer = HeadBalancer(self.name, settings)
        # Sends a message to a child at a time; set by the world.
        self.forward: Callable[[float, LabHead | LabEdge, QuoteMessage], None] = lambda at, to, message: None
        self.processor = _Processor(self._take, lambda at: wake(at, self))
        self._link_free_s = 0.0
        self._covers: _AskedCovers[FilterNode] = _AskedCovers()
        # By filter, the number of children that request it.
        self._asked: dict[Filter, tuple[FilterNode, int]] = {}
        self.received = 0

    @property
    def edges(self) -> list[LabEdge]:
        return [child for child in self.children if isinstance(child, LabEdge)]

    def add(self, child: LabHead | LabEdge) -> None:
        child.parent = self
        self.children[child] = FilterIndex()

    def change(self, child: LabHead | LabEdge, changes: Iterable[tuple[Filter, bool]]) -> int:
        """A child requests or cancels filters. Returns the number of control messages, those to the parent included."""
        index = self.children[child]
        sent = 0
        for filter, is_asked in changes:
            known = index.get(filter)
            if is_asked and known is None:
                index.add(FilterNode(filter))
                self._count(filter, 1)
            elif not is_asked and known is not None:
                index.remove(known)
                self._count(filter, -1)
            sent += 1
        if self.parent is not None:
            sent += self.parent.change(self, self._covers.changed())
        return sent

    def _count(self, filter: Filter, step: int) -> None:
        if self.parent is None:
            return
        node, count = self._asked.get(filter, (FilterNode(filter), 0))
        if not count:
            self._covers.add(node)
        if count + step:
            self._asked[filter] = node, count + step
        else:
            del self._asked[filter]
            self._covers.remove(node)

    def _take(self, now_s: float, message: QuoteMessage) -> float:
        self.received += 1
        covers = sum(len(index) for index in self.children.values())
        free_s = now_s + self.machine.delay_s(covers, 0)
        one_s = 8 * QUOTE_BYTES / self.machine.bandwidth_bits_per_s
        for child, index in self.children.items():
            if len(index) and index.match(message.attributes):
                self._link_free_s = max(self._link_free_s, free_s) + one_s
                self.forward(self._link_free_s, child, message)
        return free_s


class LabEdge:
    """An edge with subscribers. `deliver` gets the times of a message's first and later copies, and their number."""

    def __init__(
        self,
        machine: LabMachine,
        cluster: str,
        settings: BalancingSettings,
        wake: Callable[[float, LabEdge], None],
    ) -> None:
        self.machine = machine
        self.name = machine.name
        self.parent: LabHead | None = None
        self.balancer = EdgeBalancer(self.name, cluster, settings)
        self.processor = _Processor(self._take, lambda at: wake(at, self))
        self.deliver: Callable[[float, float, int, float], None] = lambda first, each, count, published: None
        self.sampled: Callable[[LabEdge], None] = lambda edge: None
        self.ask: Callable[[LabEdge, list[tuple[Filter, bool]]], None] = lambda edge, changes: None
        self.filters: dict[Filter, EdgeFilter] = {}
        self.subscribers = 0
        self.leaving_count = 0
        self.received = 0
        self._matched = 0
        self._index: FilterIndex[EdgeFilter] = FilterIndex()
        # Cache of matching filters until the index changes, because publishers repeat their quotes.
        self._found: dict[tuple[Any, Any], list[EdgeFilter]] = {}
        self._covers: _AskedCovers[EdgeFilter] = _AskedCovers()
        self._coming: deque[tuple[int, LabSubscriber]] = deque()
        self._leaving: deque[tuple[int, LabSubscriber]] = deque()
        self._link_free_s = 0.0
        self._meter = LoadMeter(
            window_s=settings.window_s,
            bandwidth_bytes_per_s=machine.bandwidth_bits_per_s / 8,
            subscription_s=machine.subscription_s / machine.ghz,
        )

    def load(self, now_s: float) -> EdgeLoad:
        memory = self.machine.memory_bytes
        waiting = len(self.processor.waiting) + max(0.0, self._link_free_s - now_s) / self._one_s
        used = IDLE_BYTES + self.subscribers * SUBSCRIPTION_BYTES + waiting * WAITING_BYTES
        return self._meter.load(
            now_s,
            subscriptions=self.subscribers,
            memory_ratio=used / memory,
            subscription_memory_ratio=SUBSCRIPTION_BYTES / memory,
        )

    def covers(self) -> tuple[str, ...]:
        """The filters that this edge requests from its head."""
        return tuple(map(str, self._covers.filters))

    @property
    def _one_s(self) -> float:
        return 8 * QUOTE_BYTES / self.machine.bandwidth_bits_per_s

    def subscriptions(self) -> list[OffloadedSubscription]:
        """The subscriptions that the balancer may move."""
        return [
            OffloadedSubscription(
                node.filter, len(node.subscribers) - node.leaving, node.wanted - len(node.subscribers)
            )
            for node in self.filters.values()
            if len(node.subscribers) > node.leaving
        ]

    def want(self, subscriber: LabSubscriber) -> list[tuple[Filter, bool]]:
        """Add a subscriber. Returns the changes of requested filters."""
        self.subscribers += 1
        node = self.filters.get(subscriber.filter)
        if node is None:
            node = self.filters[subscriber.filter] = EdgeFilter(subscriber.filter)
            self._covers.add(node)
        node.wanted += 1
        return self._covers.changed()

    def attach(self, subscriber: LabSubscriber, position: int) -> None:
        """The subscriber receives messages after the position from this edge."""
        self._coming.append((position, subscriber))

    def detach(self, subscriber: LabSubscriber, position: int) -> None:
        """The subscriber receives messages after the position from another edge."""
        self.subscribers -= 1
        self.filters[subscriber.filter].leaving += 1
        self.leaving_count += 1
        self._leaving.append((position, subscriber))

    def arrived(self, now_s: float, message: QuoteMessage) -> None:
        self.received += 1
        self._meter.arrived(now_s)
        self.processor.offer(now_s, message)

    def account(self, position: int) -> list[tuple[Filter, bool]]:
        """All messages up to this position are matched: add and remove subscribers. Returns changed requests."""
        coming, leaving = self._coming, self._leaving
        while coming and coming[0][0] <= position:
            subscriber = coming.popleft()[1]
            node = self.filters[subscriber.filter]
            if not node.subscribers:
                self._index.add(node)
                self._found.clear()
            node.subscribers[subscriber] = node.delivered
            self._matched += 1
        if not leaving or leaving[0][0] > position:
            return []
        while leaving and leaving[0][0] <= position:
            self._leave(leaving.popleft()[1])
        return self._covers.changed()

    def _leave(self, subscriber: LabSubscriber) -> None:
        node = self.filters[subscriber.filter]
        subscriber.received += node.delivered - node.subscribers.pop(subscriber)
        node.leaving -= 1
        node.wanted -= 1
        self.leaving_count -= 1
        self._matched -= 1
        if not node.subscribers:
            self._index.remove(node)
            self._found.clear()
        if not node.wanted:
            del self.filters[subscriber.filter]
            self._covers.remove(node)

    def close(self) -> None:
        """Store the message counts of all subscribers."""
        for node in self.filters.values():
            for subscriber, since in node.subscribers.items():
                subscriber.received += node.delivered - since

    def _nodes(self, attributes: dict[str, Any]) -> list[EdgeFilter]:
        key = attributes["symbol"], attributes["date"]
        nodes = self._found.get(key)
        if nodes is None:
            nodes = self._found[key] = listed(self._index.match(attributes))
        return nodes

    def _take(self, now_s: float, message: QuoteMessage) -> float:
        self.ask(self, self.account(message.position - 1))
        nodes = self._nodes(message.attributes)
        matches = staying = 0
        for node in nodes:
            node.delivered += 1
            count = len(node.subscribers)
            matches += count
            staying += count - node.leaving
        delay_s = self.machine.delay_s(self._matched, matches)
        free_s = now_s + delay_s
        one_s = self._one_s
        first_s = max(free_s, self._link_free_s)
        self._link_free_s = first_s + matches * one_s
        if matches:
            self.deliver(first_s, one_s, matches, message.published_s)
        self._meter.matched(
            now_s,
            delay_s=delay_s,
            matches=matches,
            subscriptions=self._matched,
            staying=self._matched - self.leaving_count,
            staying_bytes=staying * QUOTE_BYTES,
            output_wait_s=first_s - free_s,
        )
        sampler = self.balancer.sampler
        if sampler is not None:
            sampler.take(
                message.attributes,
                [node.filter for node in nodes if len(node.subscribers) > node.leaving],
                QUOTE_BYTES,
            )
            if sampler.is_over(now_s):
                self.sampled(self)
        return free_s
