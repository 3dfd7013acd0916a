"""Record the activity of each topic and of the hub every second.

The hot path counts on the topic anyway; the values of a window are the growth of the counters. Only active topics are
recorded: a topic becomes active when its audience is used after a rest, or when a client publishes or subscribes, and
inactive after a window without activity. So the cost of a window depends on the number of active topics, not of all
topics, and there is no cost per delivery.

Rows are built in slices, each in a turn of its own. A topic's activity between the end of the window and its slice
counts for that window; nothing is counted twice or omitted.

The windows of all hubs end at the same wall-clock times, shortly before whole seconds: the pipeline reads at whole
seconds, so no record waits for it, and a view covers one whole window of each hub.

The ring holds the records; commands/telemetry.py serves them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from equipoise.hub.data.turns import LongWork
from equipoise.hub.telemetry.arrivals import Arrivals
from equipoise.hub.telemetry.gauges import PROBE_S, Gauges, Process
from equipoise.hub.telemetry.meter import TopicMeter
from equipoise.hub.telemetry.window import SLICE, Slice, Sums, add_hidden, joined
from equipoise.telemetry import Block, RecordKind, TelemetryRing

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.ports import Timer
    from equipoise.hub.data.session import Session
    from equipoise.hub.data.topics import Topic

__all__ = ["TelemetryRecorder"]

# Phase of the wall clock at which a window ends, as a part of its length. Recording 10,000 topics takes 10 ms, and a
# busy loop delays it as much again; a longer lead would only add latency.
_PHASE = 0.8
_SYSTEM = b"$"


class TelemetryRecorder:
    """Owned by HubCore. Records from `start` to `stop`; before and after, calls have no effect."""

    def __init__(self, core: HubCore) -> None:
        self._core = core
        self._settings = core.settings.telemetry
        self.ring = self._new_ring()
        self.arrivals = Arrivals(core)
        self.is_on = False
        # Set exactly while `is_on`.
        self._gauges: Gauges | None = None
        self.randbytes: Callable[[int], bytes] | None = None
        # Exactly the topics with a meter: those recorded before, in slices, and those active since; while a window is
        # recorded they may be in `_work` instead. Hidden topics have no records of their own, and count for the hub
        # only.
        self._slices: list[Slice] = []
        self._fresh: list[Topic] = []
        self._hidden: list[Topic] = []
        self._work = LongWork(core.turns)
        self._timer: Timer | None = None
        self._began_at = 0.0
        self._end_at = 0.0
        self._probe_at = 0.0
        # Number of topics and of slices in the last window.
        self.topics_active = 0
        self.slices = 0

    @property
    def load_ratio(self) -> float:
        """The hub's load ratio; 0 while telemetry is off."""
        return 0.0 if self._gauges is None else self._gauges.load_ratio

    def start(self, process: Process, randbytes: Callable[[int], bytes]) -> None:
        """Begin to record, if the settings enable telemetry."""
        if not self._settings.enabled or self.is_on:
            return
        self._gauges, self.is_on = Gauges(self._core, process), True
        self.randbytes = randbytes
        self._begin_window(self._core.now())
        self._probe_at = self._began_at + PROBE_S
        self._timer = self._core.shell.call_later(PROBE_S, self._probe)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._gauges = None
        self.is_on = False
        self._work.cancel()
        self._forget_topics()

    def begin_anew(self) -> None:
        """A new incarnation of the hub begins: start an empty ring, and discard all state of topics."""
        self.ring = self._new_ring()
        self.arrivals.clear()
        self._work.cancel()
        self._forget_topics()

    # --- events of the hub

    def touch(self, topic: Topic) -> TopicMeter | None:
        """The topic is about to become active: return its meter, created if necessary. None while telemetry is off."""
        meter = topic.trunk.meter
        if meter is None and self._gauges is not None:
            # A lane has no record of its own: its activity counts for its topic.
            topic = topic.trunk
            meter = topic.meter = TopicMeter(topic)
            is_hidden = topic.is_shard or topic.name.startswith(_SYSTEM)
            (self._hidden if is_hidden else self._fresh).append(topic)
        return meter

    def published_by(self, topic: Topic, session: Session) -> None:
        """A client other than the last publisher is about to publish to the topic."""
        meter = topic.meter
        if meter is None or meter.seen is None:
            meter = self.touch(topic)
            self.arrivals.adopt(topic)
        if meter is not None:
            meter.note_publisher(topic, session.id)
        topic.publisher = session.id

    def published_elsewhere(self, topic: Topic) -> None:
        """A client of another hub is about to publish; that hub counts it."""
        meter = self.touch(topic)
        if meter is not None and topic.publisher is not None:
            meter.note_publisher(topic, None)
        topic.publisher = None

    def subscribed(self, topic: Topic) -> None:
        """A client has subscribed to the topic or unsubscribed from it."""
        meter = self.touch(topic)
        if meter is not None:
            meter.is_noted = True

    def refused(self, topic: Topic) -> None:
        """A client's message was rejected because of the topic's rate limit: the topic has a record of this window."""
        meter = self.touch(topic)
        if meter is not None:
            meter.is_noted = True

    # --- windows

    def _probe(self) -> None:
        now = self._core.now()
        assert self._gauges is not None, "the timer runs only while it is on"
        self._gauges.note_lag(now - self._probe_at)
        self._core.lag_spikes.note(now - self._probe_at, self._core.shell.wall_time())
        self._probe_at = max(self._probe_at + PROBE_S, now)
        self._timer = self._core.shell.call_later(max(0.0, self._probe_at - now), self._probe)
        # Half a probe interval early, because windows would end late on average otherwise.
        if not self._work.is_running and now > self._end_at - PROBE_S / 2:
            window_s = now - self._began_at
            self._begin_window(now)
            self._work.run(self._record(window_s, int(self._core.shell.wall_time() * 1_000_000)))

    def _begin_window(self, now: float) -> None:
        length_s = self._settings.window_s
        past = self._core.shell.wall_time() / length_s
        ahead = (_PHASE - past) % 1.0
        # At least half a window: a shorter one would mean little. The clock may also have been set.
        self._began_at, self._end_at = now, now + length_s * (ahead if ahead > 0.5 else ahead + 1.0)

    def _record(self, window_s: float, time_us: int) -> Iterator[None]:
        """Build all records of a window, in steps of about a millisecond."""
        core, window_us = self._core, int(window_s * 1_000_000)
        slices, self._slices = self._slices, []
        fresh, self._fresh = self._fresh, []
        sums = Sums()
        topics_active = steps = 0
        known = chain.from_iterable(each.topics for each in slices)
        yield from core.places.renewing.renew(chain(known, fresh))
        new = (Slice(fresh[start : start + SLICE]) for start in range(0, len(fresh), SLICE))
        for each in joined(chain(slices, new)):
            values = each.record(core, sums)
            count = len(each.topics)
            if count:
                self._slices.append(each)
                block = Block.of(RecordKind.TOPIC, count, values, time_us=time_us, window_us=window_us)
                self.ring.append(block)
            topics_active += count
            steps += 1
            yield
        hidden, self._hidden = self._hidden, []
        for start in range(0, len(hidden), SLICE):
            self._hidden += add_hidden(hidden[start : start + SLICE], sums)
            steps += 1
            yield
        if self.arrivals.until or self.arrivals.runs:
            for block in self.arrivals.take(core.now()):
                self.ring.append(block)
                yield
        assert self._gauges is not None, "`stop` cancels this work"
        facts = self._gauges.read(window_s, sums)
        facts["topics_active"] = topics_active
        self.ring.append(Block.of(RecordKind.HUB, 1, facts, time_us=time_us, window_us=window_us))
        self.topics_active, self.slices = topics_active, steps + 1

    # --- inside

    def _new_ring(self) -> TelemetryRing:
        settings = self._settings
        return TelemetryRing(
            self._core.incarnation, retention_s=settings.retention_s, bytes_max=settings.ring_bytes_max
        )

    def _forget_topics(self) -> None:
        for topics in (self._core.index.topics, self._core.index.shards):
            for topic in topics.values():
                topic.meter = topic.publisher = None
        self._slices, self._fresh, self._hidden = [], [], []
