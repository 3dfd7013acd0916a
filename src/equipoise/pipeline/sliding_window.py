"""The sliding window of the live view: the last ten seconds of samples, and the view they make.

Spark has no cheap way to do this every second: ten seconds of 50,000 topics are half a million rows, which cost it 2 s
of CPU each time, where Arrow's own grouping takes 0.05 s (docs/internals/pipeline.md). So the driver keeps the window,
as Arrow tables. `transforms` has the same sums for batches, in Spark, and tests hold the two against each other.

Always true: the end of the window only goes on; samples from before its start are counted as late and not kept.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
import pyarrow.compute as pc  # type: ignore[import-untyped]  # As above.

from equipoise.pipeline.aggregate import view_tables
from equipoise.pipeline.samples import HUB_SAMPLES, TOPIC_SAMPLES, Sampled
from equipoise.pipeline.source.hub_directory import HubEntry
from equipoise.view.arrow_table import ViewTables

__all__ = ["OVER_S", "SlidingWindow", "WindowedView"]

OVER_S = 10.0
_US = 1e6


class WindowedView(NamedTuple):
    """A view on its way, with the time that its window ended, in seconds since 1970."""

    time_s: float
    window_s: float
    tables: ViewTables


class SlidingWindow:
    """Owned by the query, which adds every batch and then takes a view."""

    def __init__(self, over_s: float = OVER_S) -> None:
        self.over_s = over_s
        # When the newest record of any hub was made; 0 before the first.
        self.end_us = 0
        self._topics: deque[pa.Table] = deque()
        self._hubs: pa.Table = HUB_SAMPLES.empty_table()

    @property
    def start_us(self) -> int:
        return self.end_us - int(self.over_s * _US)

    def add(self, found: Sampled) -> Counter[str]:
        """Take in what came; how much of it is from before the window as it was until now, by hub."""
        late = Counter[str]()
        topics, hubs = self._timely(found.topics, late), self._timely(found.hubs, late)
        self.end_us = max(self.end_us, pc.max(hubs.column("time_us")).as_py() or 0)
        if len(topics):
            self._topics.append(topics)
        self._hubs = self._since_start(pa.concat_tables([self._hubs, hubs]))
        while self._topics and pc.max(self._topics[0].column("time_us")).as_py() <= self.start_us:
            self._topics.popleft()
        return late

    def view(self, entries: Mapping[str, HubEntry] | None = None) -> WindowedView | None:
        """The view at the end of the window; None while no hub has told anything."""
        if not len(self._hubs):
            return None
        topics = pa.concat_tables([TOPIC_SAMPLES.empty_table(), *self._topics])
        tables = view_tables(topics, self._hubs, end_us=self.end_us, start_us=self.start_us, entries=entries)
        return WindowedView(self.end_us / _US, self.over_s, tables)

    def _timely(self, samples: pa.Table, late: Counter[str]) -> pa.Table:
        timely = self._since_start(samples)
        if len(timely) < len(samples):
            before, after = samples.column("hub").to_pylist(), timely.column("hub").to_pylist()
            late.update(Counter(before) - Counter(after))
        return timely

    def _since_start(self, samples: pa.Table) -> pa.Table:
        return samples.filter(pc.greater(samples.column("time_us"), self.start_us))
