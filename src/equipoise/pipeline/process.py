"""The process of `equipoise pipeline`.

Always true: no other process changes the lake meanwhile; it stops gracefully on SIGINT and SIGTERM, and with an error
that has the remedy if Spark has ended by itself; it leaves no child process.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

from equipoise.pipeline.job import Pipeline
from equipoise.pipeline.lake.lake import held
from equipoise.pipeline.sender import ViewSender
from equipoise.pipeline.settings import PipelineSettings, SessionSettings
from equipoise.pipeline.source.hub_directory import HubDirectory, open_directory
from equipoise.pipeline.spark.appcds import start_training
from equipoise.pipeline.spark.session import SparkDriver

__all__ = ["run"]

log = logging.getLogger("equipoise.pipeline")

_POLL_S = 0.25
_REPORT_S = 60.0
# Patience with another pipeline that is stopping: it finishes its batch first.
_LAKE_WAIT_S = 10.0
# By this time a system that was started together with it has settled.
_TRAINING_AFTER_S = 120.0


def run(settings: PipelineSettings, spark: SessionSettings, *, to: str, token: str) -> None:
    """Runs until a signal. `to`: the controller's host:port; empty: the leader by the store.

    Raises PipelineError, AddressError, and SettingsError if another process uses the lake.
    """
    began_at = time.monotonic()
    stopped = threading.Event()
    with ExitStack() as stack:
        if settings.lake_enabled:
            stack.enter_context(held(settings.lake, "equipoise pipeline", wait_s=_LAKE_WAIT_S))
        directory = open_directory(settings.source.hubs, settings.source.region)
        stack.callback(directory.close)
        driver = SparkDriver.start(spark)
        stack.callback(driver.stop)
        # After Spark, which takes SIGINT for itself.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stopped.set())
        sender = ViewSender(lambda: to or _leader(directory), token)
        stack.callback(sender.close)
        pipeline = Pipeline(settings, driver, directory, sender)
        stack.callback(pipeline.stop)
        pipeline.start()
        while not pipeline.is_running and not stopped.wait(_POLL_S):
            pipeline.check()
        if not stopped.is_set():
            took_s = time.monotonic() - began_at
            print(f"equipoise pipeline ready after {took_s:.1f} s on {spark.master}", flush=True)
        _watch(pipeline, sender, stopped, lambda: _train(spark, stack))


def _watch(
    pipeline: Pipeline, sender: ViewSender, stopped: threading.Event, train: Callable[[], None]
) -> None:
    report_at = time.monotonic() + _REPORT_S
    train_at: float | None = time.monotonic() + _TRAINING_AFTER_S
    while not stopped.wait(_POLL_S):
        pipeline.check()
        if train_at is not None and time.monotonic() >= train_at:
            train_at = None
            train()
        if time.monotonic() >= report_at:
            report_at += _REPORT_S
            status = pipeline.status
            log.info(
                "%d batches, %d records, rejected %s; views %s, the last of %d topics after %.1f s",
                status.batches,
                status.records,
                dict(status.rejected) or "none",
                dict(sender.counts) or "none",
                status.view_topics,
                status.view_lag_s,
            )


def _train(spark: SessionSettings, stack: ExitStack) -> None:
    """Call it from the main thread: the process dies with the thread that starts it."""
    process = start_training(spark.cache)
    if process is not None:
        stack.callback(process.kill)


def _leader(directory: HubDirectory) -> str:
    leader = directory.intake()
    return "" if leader is None else leader.intake
