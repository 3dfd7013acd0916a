"""A Spark session for as long as an experiment runs, where there is one to be had."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from equipoise.errors import PipelineError
from equipoise.lab.experiments.views import LiveViews, SparkViews
from equipoise.lab.task_pool import SparkPool, current_pool, is_task

if TYPE_CHECKING:
    from equipoise.pipeline.spark.session import SparkDriver

__all__ = ["ViewMaking", "spark_driver", "view_making"]

log = logging.getLogger("equipoise.lab.experiments")


class ViewMaking:
    """Makes the views of each run, and remembers how often Spark did, and whether it agreed."""

    def __init__(self, make: Callable[[], LiveViews], why_not: str = "") -> None:
        self._make = make
        self._made: list[LiveViews] = []
        # Why Spark has no part in it; empty if it has.
        self.why_not = why_not

    def __call__(self) -> LiveViews:
        views = self._make()
        self._made.append(views)
        return views

    @property
    def note(self) -> str:
        """What a reader should know of how views were made."""
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
    """The session of the current pool, else one of its own at `master`; or the reason why there is none."""
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
    """Have every n-th view of each run made by Spark, if there is one."""
    with spark_driver("local[1]") as found:
        if isinstance(found, str):
            yield ViewMaking(LiveViews, found)
        else:
            session = found.session
            yield ViewMaking(lambda: SparkViews(session, every))
