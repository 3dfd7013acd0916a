"""The federation of the paper's experiments in virtual time: publishers, joining subscribers, balancing hubs.

One queue of events. `padres_hubs` has the hubs, `padres_control` their control messages. Each hop of a control message
counts, as does each message between a subscriber and an edge for a move.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from equipoise.content.balancing.edge_events import EdgePhase, MigrateSubscribers
from equipoise.content.balancing.load import EdgeLoad
from equipoise.content.balancing.settings import BalancingSettings
from equipoise.content.filter import Filter
from equipoise.content.groups import FilterNode
from equipoise.content.index import FilterIndex, listed
from equipoise.lab.experiments.padres_control import HOP_S, LabControl
from equipoise.lab.experiments.padres_hubs import LabEdge, LabHead, LabMachine, LabSubscriber, QuoteMessage
from equipoise.lab.workload.quotes import QuotePublisher, StockMarket

__all__ = ["BalancedPair", "BrokerSample", "Federation", "FederationRun", "FederationScale", "run_federation"]

# Latency between a hub and a client.
LEG_S = 0.001
# Interval between two redirects of subscribers.
PACE_S = 0.005
SAMPLE_S = 10.0
SPAN_S = 1.0
# Time limit for queues to drain after the last message.
DRAIN_S = 3_600.0


class FederationScale(NamedTuple):
    """One run."""

    # The heads, each with its edges; the first has the publishers, and each head is the parent of the next.
    clusters: tuple[tuple[LabMachine, tuple[LabMachine, ...]], ...]
    settings: BalancingSettings
    is_balanced: bool = True
    publishers: int = 40
    subscribers: int = 2_000
    silent_share: float = 0.25
    joins_s: tuple[float, float] = (10.0, 1_010.0)
    changes_s: float = 3_000.0
    ends_s: float = 4_500.0


class BrokerSample(NamedTuple):
    """One edge at one time."""

    input_ratio: float
    output_ratio: float
    delay_s: float
    subscribers: int


class BalancedPair(NamedTuple):
    """The estimated and the measured load of one hub after one session."""

    at_s: float
    hub: str
    is_offloader: bool
    is_first_edge: bool
    subscribers: int
    estimated: EdgeLoad
    realised: EdgeLoad


@dataclass(slots=True)
class FederationRun:
    """The recorded outcome of a run."""

    scale: FederationScale
    times_s: list[float] = field(default_factory=list)
    edges: dict[str, list[BrokerSample]] = field(default_factory=dict)
    # Over the last SAMPLE_S: the mean delivery delay, deliveries, all messages, and control messages.
    delay_s: list[float] = field(default_factory=list)
    deliveries: list[int] = field(default_factory=list)
    messages: list[int] = field(default_factory=list)
    control: list[int] = field(default_factory=list)
    pairs: list[BalancedPair] = field(default_factory=list)
    sessions: int = 0
    moved: int = 0
    lost: int = 0
    twice: int = 0
    expected: int = 0


class _CountedFilter(FilterNode):
    """A filter with the number of its matches at the first head, which numbers messages."""

    __slots__ = ("matched",)

    def __init__(self, filter: Filter) -> None:
        super().__init__(filter)
        self.matched = 0


class _Pending(NamedTuple):
    """An estimate to be compared later."""

    estimated: EdgeLoad
    is_offloader: bool
    subscribers: int
    session: str


class Federation:
    """Owned by `run_federation`."""

    def __init__(self, scale: FederationScale, seed: int) -> None:
        self.scale = scale
        self.random = Random(seed)
        self.market = StockMarket(self.random, publishers=scale.publishers)
        self.run = FederationRun(scale)
        self.now_s = 0.0
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0
        self.heads: dict[str, LabHead] = {}
        self.edges: dict[str, LabEdge] = {}
        self.control = LabControl(self, scale.settings)
        self._build()
        self.root = next(iter(self.heads.values()))
        self.first_edge = next(iter(self.edges.values()))
        self.position = 0
        self._counted: FilterIndex[_CountedFilter] = FilterIndex()
        self._found: dict[tuple[Any, Any], list[_CountedFilter]] = {}
        self._subscribers: list[LabSubscriber] = []
        # Since the last sample.
        self._delay_s = 0.0
        self._delivered = 0
        self._control = 0
        self._received_before = 0
        self._position_before = 0
        self._rates = {publisher.symbol: publisher.rate_per_s for publisher in self.market.publishers}
        self._estimates: dict[str, _Pending] = {}
        self._last_session_s: dict[str, float] = {}

    def at(self, at_s: float, call: Callable[..., None], *arguments: Any) -> None:
        self._count += 1
        heapq.heappush(self._events, (at_s, self._count, call, arguments))

    def play(self) -> FederationRun:
        scale = self.scale
        for publisher in self.market.publishers:
            self.at(5.0 + self.random.random() / max(publisher.rate_per_s, 1e-3), self._publish, publisher, 0)
        for _ in range(scale.subscribers):
            is_silent = self.random.random() < scale.silent_share
            filter = self.market.subscription(is_silent=is_silent)
            self.at(self.random.uniform(*scale.joins_s), self._join, LabSubscriber(filter))
        self.at(scale.changes_s, self._change)
        self.at(SAMPLE_S, self._sample)
        self.at(SPAN_S, self._span)
        if scale.is_balanced:
            self.control.start(self.random)
        while self._events and self._events[0][0] < scale.ends_s + DRAIN_S:
            self.now_s, _, call, arguments = heapq.heappop(self._events)
            if self.now_s > scale.ends_s and not self._is_draining():
                break
            call(*arguments)
        self._close()
        return self.run

    def _is_draining(self) -> bool:
        hubs: Iterable[LabHead | LabEdge] = [*self.heads.values(), *self.edges.values()]
        # Extra time for messages in flight.
        return self.now_s < self.scale.ends_s + 2 * SPAN_S or any(hub.processor.waiting for hub in hubs)

    # Messages.

    def _build(self) -> None:
        settings = self.scale.settings
        parent: LabHead | None = None
        for machine, edges in self.scale.clusters:
            head = LabHead(machine, settings, lambda at, hub: self.at(at, self._resume, hub))
            head.forward = lambda at, child, message: self.at(at + HOP_S, self._arrive, child, message)
            self.heads[head.name] = head
            for each in edges:
                edge = LabEdge(each, head.name, settings, lambda at, hub: self.at(at, self._resume, hub))
                edge.deliver = self._deliver
                edge.sampled = self.control.sampled
                edge.ask = self._ask
                self.edges[edge.name] = edge
                self.run.edges[edge.name] = []
                head.add(edge)
            if parent is not None:
                parent.add(head)
            parent = head

    def _publish(self, publisher: QuotePublisher, number: int) -> None:
        if self.now_s >= self.scale.ends_s:
            return
        quote = publisher.quotes[number % len(publisher.quotes)]
        self.at(self.now_s + LEG_S, self._number, quote, self.now_s)
        self.at(self.now_s + 1 / self._rates[publisher.symbol], self._publish, publisher, number + 1)

    def _number(self, quote: dict[str, Any], published_s: float) -> None:
        self.position += 1
        key = quote["symbol"], quote["date"]
        nodes = self._found.get(key)
        if nodes is None:
            nodes = self._found[key] = listed(self._counted.match(quote))
        for node in nodes:
            node.matched += 1
        self.root.processor.offer(self.now_s, QuoteMessage(self.position, published_s, quote))

    def _arrive(self, hub: LabHead | LabEdge, message: QuoteMessage) -> None:
        if isinstance(hub, LabEdge):
            hub.arrived(self.now_s, message)
        else:
            hub.processor.offer(self.now_s, message)

    def _resume(self, hub: LabHead | LabEdge) -> None:
        hub.processor.resume(self.now_s)

    def _deliver(self, first_s: float, each_s: float, count: int, published_s: float) -> None:
        self._delay_s += count * (first_s + LEG_S - published_s) + each_s * count * (count + 1) / 2
        self._delivered += count

    def _change(self) -> None:
        """Double the rate of half of the publishers."""
        names = sorted(self._rates)
        for symbol in self.random.sample(names, len(names) // 2):
            self._rates[symbol] *= 2

    def _span(self) -> None:
        """Advance the positions of all edges, also without matching messages."""
        for edge in self.edges.values():
            if not edge.processor.waiting and edge.processor.free_s <= self.now_s:
                self._ask(edge, edge.account(self._position_before))
        self._position_before = self.position
        self.at(self.now_s + SPAN_S, self._span)

    def _ask(self, edge: LabEdge, changes: list[tuple[Filter, bool]]) -> None:
        if changes and edge.parent is not None:
            self.count_control(edge.parent.change(edge, changes))

    def count_control(self, messages: int) -> None:
        """Count control messages."""
        self._control += messages

    # Subscribers.

    def _join(self, subscriber: LabSubscriber) -> None:
        """Connect a subscriber to the first edge or, if hubs choose the edge, to the head, which redirects it."""
        edge = self.first_edge
        if self.scale.is_balanced and self.scale.settings.first_edge:
            chosen = self.root.balancer.first_edge(self.now_s)
            self.count_control(1)
            edge = edge if chosen is None else self.edges[chosen]
        self._subscribers.append(subscriber)
        counted = self._counted.get(subscriber.filter)
        if counted is None:
            counted = _CountedFilter(subscriber.filter)
            self._counted.add(counted)
            self._found.clear()
        subscriber.expected_from = counted.matched
        self._attach(subscriber, edge)

    def _attach(self, subscriber: LabSubscriber, edge: LabEdge) -> int:
        self._ask(edge, edge.want(subscriber))
        edge.attach(subscriber, self.position)
        subscriber.edge = edge
        return self.position

    def migrate(self, edge: LabEdge, effect: MigrateSubscribers) -> None:
        chosen = []
        for filter, count in effect.offload.chosen:
            staying = [
                one
                for one in edge.filters[filter].subscribers
                # Subscribers that wait to leave already belong to another edge.
                if one.edge is edge and not one.is_moving
            ]
            chosen += staying[:count]
        self.run.sessions += 1
        total = len(chosen)
        for number, subscriber in enumerate(chosen):
            subscriber.is_moving = True
            at_s = self.now_s + 2 * LEG_S + number * PACE_S
            self.at(at_s, self._move, subscriber, self.edges[effect.hub], effect.session, total)
        offload = effect.offload
        self._estimates[edge.name] = _Pending(offload.offloader, True, total, effect.session)
        self._estimates[effect.hub] = _Pending(offload.acceptor, False, total, effect.session)

    def _move(self, subscriber: LabSubscriber, to: LabEdge, session: str, total: int) -> None:
        old = subscriber.edge
        assert old is not None, "it has come"
        position = self._attach(subscriber, to)
        old.detach(subscriber, position)
        subscriber.is_moving = False
        subscriber.moves += 1
        self.run.moved += 1
        # The new edge's name, attach, attached, leave.
        self.count_control(4)
        self.control.carry(to, to.balancer.subscriber_came(self.now_s, session, total))

    # Observation.

    def ended(self, edge: LabEdge) -> None:
        """Compare the load with the estimate after a window, unless another session starts meanwhile."""
        self._last_session_s[edge.name] = self.now_s
        pending = self._estimates.pop(edge.name, None)
        if pending is not None:
            settings = self.scale.settings
            self.at(self.now_s + settings.window_s + SPAN_S, self._compare, edge, pending, self.now_s)

    def _compare(self, edge: LabEdge, pending: _Pending, ended_s: float) -> None:
        if self._last_session_s[edge.name] != ended_s or edge.balancer.phase in _IN_SESSION:
            return
        first = self.first_edge.name
        self.run.pairs.append(
            BalancedPair(
                ended_s,
                edge.name,
                pending.is_offloader,
                edge.name == first or pending.session.startswith(f"{first}:"),
                pending.subscribers,
                pending.estimated,
                edge.load(self.now_s),
            )
        )

    def _sample(self) -> None:
        run = self.run
        if self.now_s > self.scale.ends_s:
            return
        run.times_s.append(self.now_s)
        for edge in self.edges.values():
            load = edge.load(self.now_s)
            run.edges[edge.name].append(
                BrokerSample(load.input_ratio, load.output_ratio, load.delay_s, edge.subscribers)
            )
        run.delay_s.append(self._delay_s / self._delivered if self._delivered else float("nan"))
        run.deliveries.append(self._delivered)
        received = sum(head.received for head in self.heads.values())
        received += sum(edge.received for edge in self.edges.values())
        run.messages.append(received - self._received_before + self._delivered + self._control)
        run.control.append(self._control)
        self._received_before = received
        self._delay_s, self._delivered, self._control = 0.0, 0, 0
        self.at(self.now_s + SAMPLE_S, self._sample)

    def _close(self) -> None:
        for edge in self.edges.values():
            edge.account(self.position)
            edge.close()
        run = self.run
        if any(edge.processor.waiting for edge in self.edges.values()):
            # Without balancing messages are still queued, neither received nor lost.
            return
        for subscriber in self._subscribers:
            counted = self._counted.get(subscriber.filter)
            assert counted is not None, "every filter is counted from the start"
            expected = counted.matched - subscriber.expected_from
            run.expected += expected
            run.lost += max(0, expected - subscriber.received)
            run.twice += max(0, subscriber.received - expected)


_IN_SESSION = frozenset({EdgePhase.ASKING, EdgePhase.SAMPLING, EdgePhase.MIGRATING, EdgePhase.ACCEPTING})


def run_federation(scale: FederationScale, seed: int) -> FederationRun:
    return Federation(scale, seed).play()
