"""What an edge measures of its content topics: how long messages take, what they match, what is written of them.

The matching delay of a message is from taking it to having written its outputs. Topics of one hub are measured, and
profiled, together: there a subscription is its filter with the topic as one more constraint, so that covers and
profiles never mix topics.

Always true: what is measured here concerns topics whose subscribers this hub carries as an edge, and no others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from equipoise.content.balancing.load import EdgeLoad, LoadMeter
from equipoise.content.cover_set import CoverSet
from equipoise.content.filter import Constraint, Filter, ValueType
from equipoise.content.groups import FilterNode

if TYPE_CHECKING:
    from equipoise.content.balancing.press import PressSampler
    from equipoise.content.balancing.settings import BalancingSettings
    from equipoise.hub.content.topic_filters import MatchedRun, TopicFilters

__all__ = ["EdgeProbe", "covers_of", "tagged"]

# The attribute that a topic's name is taken for. No subscriber's filter that asks for it is profiled.
TOPIC_PATH = "$topic"
# What a hub can send, where no operator has said: 1 Gbit/s.
BANDWIDTH_BYTES_PER_S = 125e6
# What a smart subscription with its filter takes of the memory.
SUBSCRIPTION_BYTES = 2_000
# A covering set of more filters is not told: finding it would keep the hub for more than 40 ms.
COVERED_MAX = 20_000
_ALL = 1 << 60


def tagged(topic: bytes, filter: Filter) -> Filter | None:
    """The filter with the topic as one more constraint; None: it has one by that name."""
    if filter.of(TOPIC_PATH) is not None:
        return None
    constraint = Constraint(TOPIC_PATH, ValueType.STRING, (topic.decode("latin-1"),))
    return Filter(tuple(sorted((constraint, *filter.constraints), key=lambda each: each.path)))


def covers_of(filters: Iterable[Filter]) -> tuple[str, ...]:
    """The texts of the filters that no other covers; empty, which is no mistake, if there are very many."""
    distinct = dict.fromkeys(filters)
    if len(distinct) > COVERED_MAX:
        return ()
    covers: CoverSet[FilterNode] = CoverSet()
    for filter in distinct:
        covers.add(FilterNode(filter))
    covers.settle(_ALL)
    return tuple(str(node.filter) for node in covers)


class _Shell(Protocol):
    def now(self) -> float: ...
    def work_s(self) -> float: ...
    def cpu_s(self) -> float: ...
    def memory_bytes(self) -> int: ...
    def resident_bytes(self) -> int: ...


class _MeasuredTopic(Protocol):
    name: bytes
    bytes_out: int


class EdgeProbe:
    """Owned by a ContentEdge, told of each run by the filters of its topics."""

    def __init__(
        self, shell: _Shell, settings: BalancingSettings, bandwidth_bytes_per_s: float | None
    ) -> None:
        self._shell = shell
        self._now = shell.now
        self.work_s: Callable[[], float] = shell.work_s
        self._window_s = settings.window_s
        self._meter = LoadMeter(
            window_s=settings.window_s,
            bandwidth_bytes_per_s=bandwidth_bytes_per_s or BANDWIDTH_BYTES_PER_S,
            subscription_s=0.0,
            match_s=None,
        )
        # Of the latest seconds: when, and the CPU time used until then.
        self._cpu: deque[tuple[float, float]] = deque([(shell.now(), shell.cpu_s())])
        # Messages since the beginning.
        self.messages = 0
        # While a session samples.
        self.sampler: PressSampler[Filter] | None = None
        self._keys: dict[tuple[bytes, Filter], Filter | None] = {}

    def tick(self) -> None:
        """Once a second."""
        now = self._now()
        self._cpu.append((now, self._shell.cpu_s()))
        while len(self._cpu) > 2 and self._cpu[1][0] <= now - self._window_s:
            self._cpu.popleft()
        if self.sampler is None:
            self._keys.clear()

    def load(self, subscriptions: int) -> EdgeLoad:
        """`subscriptions`: those of all topics that stay."""
        memory, now = self._shell.memory_bytes() or 1, self._now()
        options = {
            "subscriptions": subscriptions,
            "memory_ratio": min(1.0, self._shell.resident_bytes() / memory),
            "subscription_memory_ratio": SUBSCRIPTION_BYTES / memory,
        }
        load = self._meter.load(now, **options)  # type: ignore[arg-type]  # by name
        other = max(0.0, self._cpu_ratio() - load.input_ratio)
        return self._meter.load(now, **options, other_cpu_ratio=other)  # type: ignore[arg-type]  # by name

    def _cpu_ratio(self) -> float:
        (began_at, began), (now, used) = self._cpu[0], self._cpu[-1]
        return (used - began) / (now - began_at) if now > began_at else 0.0

    def delivered(
        self,
        filters: TopicFilters,
        topic: _MeasuredTopic,
        run: MatchedRun,
        began_s: float,
        bytes_before: int,
    ) -> None:
        """A run was matched and written. Its messages are taken for equal: what one of them took is not known."""
        now_s, count = self._now(), len(run.payloads)
        delay_s = (self.work_s() - began_s) / count
        self.messages += count
        matches = sum(run.counts)
        staying = matches
        if filters.leaving:
            staying -= sum(
                node.smart.leaving for _, found in run.matched for node in found if node.smart is not None
            )
        staying_bytes = (topic.bytes_out - bytes_before) * (staying / matches if matches else 1.0)
        meter = self._meter
        for _ in run.payloads:
            meter.arrived(now_s)
            meter.matched(
                now_s,
                delay_s=delay_s,
                matches=matches / count,
                subscriptions=filters.subscriptions,
                staying=filters.subscriptions - filters.leaving,
                staying_bytes=staying_bytes / count,
            )
        if self.sampler is not None:
            self._sample(self.sampler, topic.name, run)

    def _sample(self, sampler: PressSampler[Filter], topic: bytes, run: MatchedRun) -> None:
        name = topic.decode("latin-1")
        for payload, (attributes, found) in zip(run.payloads, run.matched, strict=True):
            keys = [key for node in found if (key := self._key(topic, node.filter)) is not None]
            sampler.take({**(attributes or {}), TOPIC_PATH: name}, keys, len(payload))

    def _key(self, topic: bytes, filter: Filter) -> Filter | None:
        known = topic, filter
        if known not in self._keys:
            self._keys[known] = tagged(topic, filter)
        return self._keys[known]
