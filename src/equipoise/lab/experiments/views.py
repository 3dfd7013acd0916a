"""Views for the controllers of experiments, a few of them made by Spark.

A Spark step takes at least a third of a second. So one thread sums the views (`LiveViews`), and with `SparkViews`
Spark's executors sum every n-th view (`pipeline.batch`): the planner uses that view, and it is compared with the other.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.

from equipoise.errors import PipelineError
from equipoise.lab.simulation.cluster.controller import LiveViews
from equipoise.lab.task_pool import SparkPool, current_pool, is_task
from equipoise.pipeline.validation import conformed
from equipoise.view import View
from equipoise.view.codec import from_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from equipoise.pipeline.spark.session import SparkDriver

__all__ = ["SparkViews", "ViewMaking", "spark_driver", "view_making"]

_US = 1e6
# Sums of floats in another order differ in their last digits.
TOLERANCE = 1e-12


class SparkViews(LiveViews):
    """Views of which Spark's executors sum every n-th one."""

    def __init__(self, session: SparkSession, every: int) -> None:
        super().__init__()
        self._session = session
        self._every = every
        self._looks = 0
        # Records that the window may still need, by time of arrival.
        self._kept: deque[tuple[float, list[pa.RecordBatch]]] = deque()
        # Number of views made by Spark, and the largest relative difference of their numbers.
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
    """The largest relative difference between two views of the same records; infinite if topics or hubs differ."""
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


log = logging.getLogger("equipoise.lab.experiments")


class ViewMaking:
    """Makes the views of each run, and records how many Spark made and whether they agreed."""

    def __init__(self, make: Callable[[], LiveViews], why_not: str = "") -> None:
        self._make = make
        self._made: list[LiveViews] = []
        # The reason why Spark is not used; empty if it is.
        self.why_not = why_not

    def __call__(self) -> LiveViews:
        views = self._make()
        self._made.append(views)
        return views

    @property
    def note(self) -> str:
        """A note for readers on the source of the views."""
        if self.why_not:
            return (
                f"Views were summed by the live pipeline's code in one thread, without Spark: {self.why_not}."
            )
        by_spark = [views for views in self._made if isinstance(views, SparkViews)]
        made = sum(views.made for views in by_spark)
        worst = max((views.difference_max for views in by_spark), default=0.0)
        return (
            f"Views were summed by the live pipeline's code in one thread; {made} of them, at even distances, by "
            f"Spark's executors, planned on, and compared: the largest difference was {worst:.1g} of a number."
        )

    @property
    def agrees(self) -> bool:
        return all(views.agrees for views in self._made if isinstance(views, SparkViews))


@contextmanager
def spark_driver(master: str) -> Iterator[SparkDriver | str]:
    """The session of the current pool, else a new one at `master`; or the reason why there is none."""
    pool = current_pool()
    if isinstance(pool, SparkPool):
        yield pool.driver
        return
    if is_task():
        yield "the run is one of many tasks, which may be Spark's own"
        return
    try:
        from equipoise.pipeline.settings import SessionSettings
        from equipoise.pipeline.spark.session import SparkDriver

        driver = SparkDriver.start(SessionSettings(master=master))
    except (PipelineError, ImportError) as problem:
        log.warning("without Spark: %s", problem)
        yield f"Spark could not be started ({problem})"
        return
    try:
        yield driver
    finally:
        driver.stop()


@contextmanager
def view_making(every: int) -> Iterator[ViewMaking]:
    """Let Spark make every n-th view of each run, if it is available."""
    with spark_driver("local[1]") as found:
        if isinstance(found, str):
            yield ViewMaking(LiveViews, found)
        else:
            session = found.session
            yield ViewMaking(lambda: SparkViews(session, every))
