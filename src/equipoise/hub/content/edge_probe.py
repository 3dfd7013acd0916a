"""What an edge measures of its content topics: how long messages take, what they match, what is written of them.

The matching delay of a message is from taking it to having written its outputs. Connections gather what a turn writes,
and send it at the end of the turn: of that time a run has the part that it has of the bytes. Topics of one hub are
measured, and profiled, together: there a subscription is its filter with the topic as one more constraint, so that
covers and profiles never mix topics.

Delays are wall-clock time, so a hub with half a core has twice the delay. CPU time is compared with the part of a core
that the hub gets while it works: a hub that gets a tenth of a core, and uses all of that, has a CPU ratio of 1.

Always true: what is measured here concerns topics whose subscribers this hub carries as an edge, and no others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from equipoise.content.balancing.load import EdgeLoad, LoadMeter
from equipoise.content.cover_set import CoverSet
from equipoise.content.filter import Constraint, Filter, ValueType
from equipoise.content.groups import FilterNode
from equipoise.hub.content.topic_filters import RunStart

if TYPE_CHECKING:
    from equipoise.content.balancing.press import PressSampler
    from equipoise.content.balancing.settings import BalancingSettings
    from equipoise.hub.content.topic_filters import MatchedRun, TopicFilters
    from equipoise.hub.data.ports import OutputTurns, Timer

__all__ = ["EdgeProbe", "covers_of", "tagged"]

# The attribute that a topic's name is taken for. No subscriber's filter that asks for it is profiled.
TOPIC_PATH = "$topic"
# What a hub can send, where no operator has said: 1 Gbit/s.
BANDWIDTH_BYTES_PER_S = 125e6
# What a smart subscription with its filter takes of the memory.
SUBSCRIPTION_BYTES = 2_000
# A covering set of more filters is not told: finding it would keep the hub for more than 40 ms.
COVERED_MAX = 20_000
# Of work on runs within the window, with less of it nothing is said of the part of a core that the hub gets.
WORK_S_MIN = 0.01
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
    turns: OutputTurns

    def call_later(self, delay_s: float, callback: Callable[[], object], /) -> Timer: ...
    def now(self) -> float: ...
    def work_s(self) -> float: ...
    def cpu_s(self) -> float: ...
    def memory_bytes(self) -> int: ...
    def resident_bytes(self) -> int: ...


class _MeasuredTopic(Protocol):
    name: bytes
    bytes_out: int


class _MeasuredRun(NamedTuple):
    """Of messages that are taken for equal: what one of them took is not known."""

    messages: int
    work_s: float
    matches: int
    subscriptions: int
    staying: int
    bytes_out: int
    staying_bytes: float


class _CpuSample(NamedTuple):
    """Sums so far: of the processor, of work on runs by the wall clock, and of the processor meanwhile."""

    at: float
    cpu_s: float
    run_work_s: float
    run_cpu_s: float


class EdgeProbe:
    """Owned by a ContentEdge, told of each run by the filters of its topics."""

    def __init__(
        self, shell: _Shell, settings: BalancingSettings, bandwidth_bytes_per_s: float | None
    ) -> None:
        self._shell = shell
        self._now = shell.now
        self._window_s = settings.window_s
        self._meter = LoadMeter(
            window_s=settings.window_s,
            bandwidth_bytes_per_s=bandwidth_bytes_per_s or BANDWIDTH_BYTES_PER_S,
            subscription_s=0.0,
            match_s=None,
        )
        self._run_work_s = self._run_cpu_s = 0.0
        # Of the latest seconds.
        self._cpu: deque[_CpuSample] = deque([self._cpu_sample()])
        # Runs of this turn whose outputs are yet to be sent, and what had been sent when it began.
        self._unsent: list[_MeasuredRun] = []
        self._sent_before = 0.0, 0
        # Messages since the beginning.
        self.messages = 0
        # While a session samples.
        self.sampler: PressSampler[Filter] | None = None
        self._keys: dict[tuple[bytes, Filter], Filter | None] = {}

    def tick(self) -> None:
        """Once a second."""
        self._cpu.append(self._cpu_sample())
        oldest = self._cpu[-1].at - self._window_s
        while len(self._cpu) > 2 and self._cpu[1].at <= oldest:
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

    def _cpu_sample(self) -> _CpuSample:
        return _CpuSample(self._now(), self._shell.cpu_s(), self._run_work_s, self._run_cpu_s)

    def _cpu_ratio(self) -> float:
        """CPU time over what the hub would get."""
        first, last = self._cpu[0], self._cpu[-1]
        if last.at <= first.at:
            return 0.0
        ratio, work_s = (last.cpu_s - first.cpu_s) / (last.at - first.at), last.run_work_s - first.run_work_s
        if work_s < WORK_S_MIN:
            return ratio
        share = (last.run_cpu_s - first.run_cpu_s) / work_s
        return min(1.0, ratio / share) if 0 < share < 1 else ratio

    def begin(self, topic: _MeasuredTopic) -> RunStart:
        return RunStart(self._shell.work_s(), self._shell.cpu_s(), topic.bytes_out)

    def delivered(
        self, filters: TopicFilters, topic: _MeasuredTopic, run: MatchedRun, start: RunStart
    ) -> None:
        """A run was matched and written."""
        work_s, bytes_out = self._shell.work_s() - start.work_s, topic.bytes_out - start.bytes_out
        self._run_work_s += work_s
        self._run_cpu_s += self._shell.cpu_s() - start.cpu_s
        self.messages += len(run.payloads)
        matches = sum(run.counts)
        staying = matches
        if filters.leaving:
            staying -= sum(
                node.smart.leaving for _, found in run.matched for node in found if node.smart is not None
            )
        measured = _MeasuredRun(
            len(run.payloads),
            work_s,
            matches,
            filters.subscriptions,
            filters.subscriptions - filters.leaving,
            bytes_out,
            bytes_out * (staying / matches if matches else 1.0),
        )
        self._note_soon(measured)
        if self.sampler is not None:
            self._sample(self.sampler, topic.name, run)

    def _note_soon(self, run: _MeasuredRun) -> None:
        """Count the run, once its outputs are sent."""
        sent = self._shell.turns.sent()
        if sent is None:
            self._note(run, 0.0)
            return
        if not self._unsent:
            self._sent_before = sent
            self._shell.call_later(0, self._note_sent)
        self._unsent.append(run)

    def _note_sent(self) -> None:
        """The turn is over: what its runs have written is sent."""
        runs, self._unsent = self._unsent, []
        (before_s, before), (after_s, after) = (
            self._sent_before,
            self._shell.turns.sent() or self._sent_before,
        )
        # Others have written in this turn, too.
        gathered = max(after - before, sum(run.bytes_out for run in runs))
        for run in runs:
            self._note(run, (after_s - before_s) * run.bytes_out / gathered if gathered else 0.0)

    def _note(self, run: _MeasuredRun, sending_s: float) -> None:
        now_s, count, meter = self._now(), run.messages, self._meter
        for _ in range(count):
            meter.arrived(now_s)
            meter.matched(
                now_s,
                delay_s=(run.work_s + sending_s) / count,
                matches=run.matches / count,
                subscriptions=run.subscriptions,
                staying=run.staying,
                staying_bytes=run.staying_bytes / count,
            )

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
