"""The pipeline's streaming query, from hubs to the view and the lake.

    telemetry_pieces   records of hubs since the last batch        source/source.py
    task_results       validated, sampled, summed, written, by hub    batch_task.py, on executors
    batch_result       the results of all tasks                       batch_task.py, from here on the driver
    ViewMaker          the view of the last ten seconds               view_maker.py
    ViewSender, Lake   the view to the controller, files to the lake  sender.py, lake/

Spark runs a batch each second, calls `_process` with its pieces, and records its completion in the checkpoint.

Always true: the view of a batch is sent before the lake waits for its disk; a batch that is repeated after a crash adds
no record to the lake twice; when `stop` returns, no batch is unfinished.
"""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import threading
import time
from collections import Counter
from typing import Any

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from equipoise.errors import PipelineError
from equipoise.pipeline.batch_task import BatchResult, SumTask, TaskWork, batch_result, task_results
from equipoise.pipeline.hub_state import HubState
from equipoise.pipeline.lake.compaction import keep
from equipoise.pipeline.lake.lake import Lake
from equipoise.pipeline.sender import ViewSender
from equipoise.pipeline.settings import PipelineSettings
from equipoise.pipeline.source.hub_directory import HubDirectory
from equipoise.pipeline.source.piece_rows import Rejection
from equipoise.pipeline.source.source import telemetry_pieces
from equipoise.pipeline.spark.session import SparkDriver
from equipoise.pipeline.sums_choice import SumsAt
from equipoise.pipeline.view_maker import ViewMaker
from equipoise.view.interest import Interest

__all__ = ["Pipeline", "Status"]

log = logging.getLogger("equipoise.pipeline")

_POLL_S = 0.2
# A batch that has begun is finished within this, or abandoned: Spark runs it again.
_STOP_TIMEOUT_S = 30.0
# A killed process ends within a moment.
_JVM_END_S = 5.0


class Status(msgspec.Struct):
    """Progress of the pipeline, for status lines and tests."""

    batches: int = 0
    records: int = 0
    # Rejected records, by reason.
    rejected: Counter[str] = msgspec.field(default_factory=Counter)
    # The end of the last view's window, and how long after that it was passed to the sender; in seconds.
    view_time_s: float = 0.0
    view_lag_s: float = 0.0
    view_topics: int = 0
    # Where the last view was summed: driver or executors.
    sums_at: SumsAt = SumsAt.DRIVER
    # How long each part of the last batch took, in seconds.
    took_s: dict[str, float] = msgspec.field(default_factory=dict)


class Pipeline:
    """Owns the query, the views and the lake; the driver, the directory and the sender are given."""

    def __init__(
        self,
        settings: PipelineSettings,
        driver: SparkDriver,
        directory: HubDirectory,
        sender: ViewSender | None,
    ) -> None:
        self.settings = settings
        self.status = Status()
        self._driver = driver
        self._directory = directory
        self._sender = sender
        self._views = ViewMaker(settings)
        self._lake = Lake(settings.lake) if settings.lake_enabled else None
        self._query: Any = None
        # The problem that ended the query, if it was in a batch.
        self._problem: Exception | None = None
        self._name = ""
        self._tasks = driver.session.sparkContext.defaultParallelism
        self._stopping = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="equipoise-keeper", daemon=True)

    def start(self) -> None:
        """Start, or resume from the checkpoint. Raises PipelineError."""
        try:
            self._query = (
                telemetry_pieces(self._driver.session, self.settings.source)
                .writeStream.foreachBatch(self._process)
                .option("checkpointLocation", str(self.settings.checkpoint))
                .trigger(processingTime=f"{self.settings.trigger_interval_s * 1000:.0f} milliseconds")
                .start()
            )
        except PySparkException as problem:
            raise PipelineError(f"the query cannot be started: {problem}") from problem
        if self._lake is not None:
            self._keeper.start()

    def check(self) -> None:
        """Raises PipelineError if the query or the JVM has ended."""
        if not self._driver.is_alive:
            raise self._without_jvm()
        try:
            is_active = self._query.isActive
        except Exception as failure:
            # It may end between the two calls; the error of the call is Py4J's.
            raise self._without_jvm() from failure
        if not is_active:
            problem = self._problem or self._query.exception()
            raise PipelineError(f"the query has ended: {_first_words(problem)}") from self._problem

    def _without_jvm(self) -> PipelineError:
        try:
            status = self._driver.jvm.wait(_JVM_END_S)
        except subprocess.TimeoutExpired:
            return PipelineError("Spark does not reply: restart the pipeline")
        return PipelineError(f"the JVM has ended with status {status}: restart the pipeline")

    @property
    def is_running(self) -> bool:
        """Whether it has begun to query the hubs."""
        return self._query is not None and (
            self.status.batches > 0 or bool(self._query.status["message"].startswith("Waiting"))
        )

    def stop(self) -> None:
        """Finish the present batch, and end the query. May be called twice, and after the JVM has died."""
        self._stopping.set()
        if self._query is None or not self._driver.is_alive:
            return
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        while self._query.isActive and self._query.status["isTriggerActive"] and time.monotonic() < deadline:
            time.sleep(_POLL_S / 10)
        self._query.stop()
        if self._keeper.is_alive():
            self._keeper.join(_STOP_TIMEOUT_S)

    def _process(self, pieces: DataFrame, batch: int) -> None:
        """One batch, in a thread of Spark's. An exception ends the query."""
        try:
            self._work(pieces, batch)
        except Exception as problem:
            # Spark would wrap it in two pages of its own text.
            self._problem = problem
            raise

    def _work(self, pieces: DataFrame, batch: int) -> None:
        lake = self._lake
        if lake is not None and lake.is_finished(self._query_name(), batch):
            # The crash was after the lake's commit: only the view needs the batch again.
            lake = None
        began_at = time.monotonic()
        # A task for each core: each has a fixed cost of some 10 ms, and writes a file.
        results = task_results(pieces.coalesce(self._tasks), self._task_work(batch, lake)).toArrow()
        worked_at = time.monotonic()
        result = batch_result(results)
        self._show(result)
        shown_at = time.monotonic()
        if lake is not None:
            lake.commit(self._query_name(), batch, [file.name for file in result.files])
        self.status.batches += 1
        self.status.took_s = {
            "tasks": worked_at - began_at,
            "view": shown_at - worked_at,
            "commit": time.monotonic() - shown_at,
        }

    def _task_work(self, batch: int, lake: Lake | None) -> TaskWork:
        return TaskWork(
            now_us=time.time_ns() // 1000,
            plausible=self.settings.plausible,
            lake=None if lake is None else lake.folder.resolve(),
            sums=self._sum_task(batch) if self._views.wants_sums else None,
            has_samples=self._views.wants_samples,
        )

    def _sum_task(self, batch: int) -> SumTask:
        folder = self.settings.state.resolve() / self._query_name()
        if not folder.exists():
            # Windows of an earlier checkpoint belong to no batch of this one.
            shutil.rmtree(folder.parent, ignore_errors=True)
            folder.mkdir(parents=True)
        views = self._views
        return SumTask(HubState(folder, batch, views.over_us), views.since_us, views.bound(self._interest))

    def _show(self, result: BatchResult) -> None:
        """Send the view with this batch, and update the counters."""
        status, views = self.status, self._views
        view, late = views.add(result, self._directory.hubs(0.0), self._interest)
        status.records += result.records
        for (_, reason), count in result.samples.rejected.items():
            status.rejected[reason] += count
        status.rejected[Rejection.LATE.value] += late
        status.sums_at = views.sums_at
        if view is not None:
            status.view_time_s, status.view_lag_s = view.time_s, time.time() - view.time_s
            status.view_topics = len(view.tables.topics)
            if self._sender is not None:
                self._sender.offer(view)

    @property
    def _interest(self) -> Interest:
        """The topics that the controller requests by name."""
        return Interest() if self._sender is None else self._sender.interest

    @property
    def newest_us(self) -> dict[str, int]:
        """The time of each hub's newest record in the view."""
        return self._views.newest_us

    def spark_progress(self) -> list[dict[str, int]]:
        """Of the latest batches, the milliseconds of each step, with Spark's names."""
        return [dict(each["durationMs"]) for each in self._query.recentProgress]

    def _query_name(self) -> str:
        """The query's id, the same after each restart from its checkpoint: batches are numbered within it."""
        if not self._name:
            kept = json.loads((self.settings.checkpoint / "metadata").read_text())
            self._name = str(kept["id"]).replace("-", "")[:16]
        return self._name

    def _keep(self) -> None:
        settings = self.settings.keeping
        assert self._lake is not None
        while not self._stopping.wait(settings.compaction_interval_s):
            try:
                kept = keep(self._driver.session, self._lake, settings)
            except Exception as problem:
                # The next round repeats it, and its problems must not end the pipeline.
                log.warning("compaction of the lake failed: %s", _first_words(problem))
            else:
                log.debug("lake: %s", kept)


def _first_words(problem: object) -> str:
    """The first line: Spark's errors have pages."""
    return str(problem).strip().partition("\n")[0][:500]
