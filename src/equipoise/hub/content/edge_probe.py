"""Measurements of an edge's content topics: processing times, matches and output of messages.

The matching delay of a message is the time from its arrival until its outputs are written. Connections gather the
output of a turn and send it at the end of the turn; that time is divided among the runs by their bytes. All topics of a
hub are measured and profiled together: a subscription is represented by its filter with the topic as one more
constraint, so that covers and profiles never mix topics.

Delays are wall-clock time, so a hub with half a core has twice the delay. CPU time is related to the part of a core
that the hub gets while it works: a hub that gets a tenth of a core, and uses all of it, has a CPU ratio of 1.

Always true: only topics of which this hub is an edge are measured.
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

# The attribute that stands for the topic's name. Subscribers' filters on an attribute of this name are not profiled.
TOPIC_PATH = "$topic"
# Default output bandwidth of a hub: 1 Gbit/s.
BANDWIDTH_BYTES_PER_S = 125e6
# Memory of a smart subscription with its filter.
SUBSCRIPTION_BYTES = 2_000
# The covering set of more filters is not computed: it would block the hub for more than 40 ms.
COVERED_MAX = 20_000
# Seconds of work on runs within the window below which the hub's part of a core is not estimated.
WORK_S_MIN = 0.01
_ALL = 1 << 60


def tagged(topic: bytes, filter: Filter) -> Filter | None:
    """The filter with the topic as one more constraint; None: it has a constraint on an attribute of that name."""
    if filter.of(TOPIC_PATH) is not None:
        return None
    constraint = Constraint(TOPIC_PATH, ValueType.STRING, (topic.decode("latin-1"),))
    return Filter(tuple(sorted((constraint, *filter.constraints), key=lambda each: each.path)))


def covers_of(filters: Iterable[Filter]) -> tuple[str, ...]:
    """The texts of the covering set of the filters; empty, which is permitted, if there are very many filters."""
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
    """Measurements of a run. Its messages count as equal, because the cost of a single one is unknown."""

    messages: int
    work_s: float
    matches: int
    subscriptions: int
    staying: int
    bytes_out: int
    staying_bytes: float


class _CpuSample(NamedTuple):
    """Sums so far: CPU time, wall-clock time of work on runs, and CPU time of work on runs."""

    at: float
    cpu_s: float
    run_work_s: float
    run_cpu_s: float


class EdgeProbe:
    """Owned by a ContentEdge; the filters of its topics report each run to it."""

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
        # Samples of the latest seconds.
        self._cpu: deque[_CpuSample] = deque([self._cpu_sample()])
        # Runs of this turn whose output is not sent yet; and the output sent before the turn.
        self._unsent: list[_MeasuredRun] = []
        self._sent_before = 0.0, 0
        # Number of messages measured.
        self.messages = 0
        # Set while a session samples.
        self.sampler: PressSampler[Filter] | None = None
        self._keys: dict[tuple[bytes, Filter], Filter | None] = {}

    def tick(self) -> None:
        """Take a sample of CPU time; called once per turn of the edge."""
        self._cpu.append(self._cpu_sample())
        oldest = self._cpu[-1].at - self._window_s
        while len(self._cpu) > 2 and self._cpu[1].at <= oldest:
            self._cpu.popleft()
        if self.sampler is None:
            self._keys.clear()

    def load(self, subscriptions: int) -> EdgeLoad:
        """The load of the window. `subscriptions`: the number, over all topics, without those migrating away."""
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
        """CPU time used, divided by the CPU time that the hub could get."""
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
        """Record a run that was matched and written."""
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
        """Count the run, once its output is sent."""
        sent = self._shell.turns.sent()
        if sent is None:
            self._note(run, 0.0)
            return
        if not self._unsent:
            self._sent_before = sent
            self._shell.call_later(0, self._note_sent)
        self._unsent.append(run)

    def _note_sent(self) -> None:
        """The turn is over, and the output of its runs is sent: count them."""
        runs, self._unsent = self._unsent, []
        (before_s, before), (after_s, after) = (
            self._sent_before,
            self._shell.turns.sent() or self._sent_before,
        )
        # The turn's output includes that of other work.
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
