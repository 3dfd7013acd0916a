"""Build the archive of Spark's classes once, in the background: later starts take half the time.

The JVM writes its loaded classes when it ends, which takes ten seconds, so a pipeline that did this itself could not
stop quickly. Instead, a process of the lowest priority runs a small similar query while the pipeline that started it
runs, and ends with it.

Always true: an archive under its final name is complete; one process at a time makes it.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from equipoise.pipeline.settings import SessionSettings
from equipoise.pipeline.spark.session import SparkDriver
from equipoise.pipeline.spark.spark_home import cache_folder, prepare_home
from equipoise.processes import spawn

__all__ = ["start_training", "train"]

# The lowest priority: all else is more urgent.
_NICENESS = 19
_QUERY_TIMEOUT_S = 60.0


def start_training(cache: Path | None) -> subprocess.Popen[bytes] | None:
    """Start, if there is no archive yet; returns the process, for a caller that has to end it sooner."""
    home = prepare_home(cache or cache_folder())
    if home.archive.exists():
        return None
    command = [sys.executable, "-m", "equipoise.pipeline.spark.appcds", str(cache or cache_folder())]
    return spawn(command, home.folder / "training.log")


def train(cache: Path) -> bool:
    """Make the archive; return whether it exists now. Another process may be making it."""
    home = prepare_home(cache)
    with home.lock.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        if home.archive.exists():
            return True
        draft = home.folder / "classes.draft"
        draft.unlink(missing_ok=True)
        driver = SparkDriver.start(SessionSettings(cache=cache, master="local[1]"), archive_to=draft)
        try:
            _exercise(driver)
        finally:
            driver.stop()
        if driver.jvm.returncode == 0 and draft.exists():
            draft.replace(home.archive)
    return home.archive.exists()


def _exercise(driver: SparkDriver) -> None:
    """Load the classes of a pipeline: a stream in batches, and our workers on empty pieces."""
    from pyspark.sql import DataFrame
    from pyspark.sql.pandas.types import from_arrow_schema

    from equipoise.pipeline.batch_task import TaskWork, task_results
    from equipoise.pipeline.settings import Plausible
    from equipoise.pipeline.source.piece_rows import PIECES_SCHEMA

    session = driver.session
    done = threading.Event()

    def process(batch: DataFrame, number: int) -> None:
        row = ["h1", 1, None, None, None, None, "lost", 1]
        pieces = session.createDataFrame([row], from_arrow_schema(PIECES_SCHEMA)).coalesce(1)
        task_results(pieces, TaskWork(time.time_ns() // 1000, Plausible())).toArrow()
        if number > 0:
            done.set()

    query = session.readStream.format("rate").load().writeStream.foreachBatch(process).start()
    done.wait(_QUERY_TIMEOUT_S)
    query.stop()


if __name__ == "__main__":
    os.nice(_NICENESS)
    sys.exit(0 if train(Path(sys.argv[1])) else 1)
