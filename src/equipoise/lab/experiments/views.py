"""Make views of what hubs recorded, with the pipeline's own code.

A simulation has no processes to fetch from, and a step of Spark takes a third of a second whatever it is given. So
`LiveViews` validates, samples and sums the records in one thread, as the pipeline's driver does on one machine, and
`SparkViews` has every n-th view summed by Spark's executors (`pipeline.batch`): that one is planned on, and compared
with the other.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.

from equipoise.pipeline.samples import sampled
from equipoise.pipeline.settings import Plausible
from equipoise.pipeline.sliding_window import SlidingWindow
from equipoise.pipeline.validation import conformed, judged
from equipoise.view import View
from equipoise.view.codec import from_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LiveViews", "SparkViews"]

_US = 1e6
# Sums of floats in another order differ in their last digits.
TOLERANCE = 1e-12


class LiveViews:
    """Records in, each second a view of the last ten."""

    def __init__(self) -> None:
        self._window = SlidingWindow()
        self._plausible = Plausible()

    def view(self, batches: Sequence[pa.RecordBatch], now: float) -> View | None:
        """The view with these records; None while no hub has told anything. `now` is the wall clock's."""
        records = [judged(batch, now_us=int(now * _US), plausible=self._plausible) for batch in batches]
        self._window.add(sampled(records, Counter()))
        made = self._window.view()
        return None if made is None else from_tables(made.time_s, made.tables, window_s=made.window_s)


class SparkViews(LiveViews):
    """The same, with every n-th view summed by Spark's executors."""

    def __init__(self, session: SparkSession, every: int) -> None:
        super().__init__()
        self._session = session
        self._every = every
        self._looks = 0
        # By time of arrival, what the window may still need.
        self._kept: deque[tuple[float, list[pa.RecordBatch]]] = deque()
        # Views that Spark made, and how far the worst of their numbers was off, relatively.
        self.made = 0
        self.difference_max = 0.0

    @property
    def agrees(self) -> bool:
        return self.difference_max <= TOLERANCE

    def view(self, batches: Sequence[pa.RecordBatch], now: float) -> View | None:
        live = super().view(batches, now)
        self._kept.append((now, [conformed(batch) for batch in batches]))
        while now - self._kept[0][0] > 2 * self._window.over_s:
            self._kept.popleft()
        self._looks += 1
        if live is None or self._looks % self._every:
            return live
        view = self._by_spark(now)
        self.made += 1
        self.difference_max = max(self.difference_max, _difference(live, view))
        return view

    def _by_spark(self, now: float) -> View:
        from equipoise.pipeline.batch import judged_records, valid_records, view_at

        table = pa.Table.from_batches([batch for _, batches in self._kept for batch in batches])
        records = self._session.createDataFrame(table)
        valid = valid_records(judged_records(records, now_us=int(now * _US)))
        made = view_at(valid, self._window.end_us, over_s=self._window.over_s)
        return from_tables(made.time_s, made.tables, window_s=made.window_s)


def _difference(one: View, other: View) -> float:
    """The largest relative difference between two views of the same records; infinite if they are of other things."""
    if set(one.topics.names) != set(other.topics.names) or set(one.hubs.names) != set(other.hubs.names):
        return float("inf")
    pairs: list[tuple[float, float]] = []
    for hub in one.hub_rows():
        twin = other.hub(hub.name)
        pairs += [(hub.out_bytes_per_s, twin.out_bytes_per_s), (hub.cpu_ratio, twin.cpu_ratio)]
        pairs += [(hub.connections, twin.connections), (hub.deliveries_per_s, twin.deliveries_per_s)]
    for topic in one.topic_rows():
        like = other.topic(topic.name)
        pairs += [(topic.out_bytes_per_s, like.out_bytes_per_s), (topic.subscribers, like.subscribers)]
        pairs += [(topic.publications_per_s, like.publications_per_s)]
    left, right = np.array(pairs).T if pairs else (np.zeros(1), np.zeros(1))
    return float(np.max(np.abs(left - right) / np.maximum(np.abs(left), 1e-9)))
