"""A standalone cluster of Spark's own on this machine: one master, some workers of one core each."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from equipoise.pipeline.spark.spark_home import prepare_home
from support.processes import ROOT, ServerProcess, running
from support.spark import spark_cache

# A machine of two cores with ten things to do starts a JVM in two minutes.
_START_S = 200.0
_URL = re.compile(r"spark://127\.0\.0\.1:\d+")


@dataclass(frozen=True)
class SparkCluster:
    """A running cluster. Workers are in the order of their start."""

    url: str
    workers: list[ServerProcess]

    @property
    def is_used(self) -> bool:
        """Whether every worker has been asked for an executor."""
        return all("Asked to launch executor" in worker.output for worker in self.workers)


@contextmanager
def spark_cluster(folder: Path, workers: int = 2) -> Iterator[SparkCluster]:
    """`folder` is for the workers' own files."""
    with ExitStack() as stack:
        # Port 0: Spark takes a free one and says which.
        ports = ("--port", "0", "--webui-port", "0")
        master = stack.enter_context(
            _daemon("master.Master", r"Starting Spark master at spark://", *ports, folder=folder)
        )
        found = _URL.search(master.output)
        assert found is not None, master.output
        url = found.group()
        words = ("--webui-port", "0", "--cores", "1", "--memory", "1g", url)
        started = [
            stack.enter_context(
                _daemon("worker.Worker", "Successfully registered with master", *words, folder=folder)
            )
            for _ in range(workers)
        ]
        yield SparkCluster(url, started)


def _daemon(name: str, ready: str, *words: str, folder: Path) -> AbstractContextManager[ServerProcess]:
    home = prepare_home(spark_cache())
    environment = {
        "SPARK_HOME": str(home.home),
        "JAVA_HOME": str(home.java_home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        # Executors inherit it: tasks of tests are importable there.
        "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT / "tests"))),
    }
    program = str(home.home / "bin" / "spark-class")
    command = [program, f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", *words]
    return running(command, re.compile(ready).search, timeout_s=_START_S, environment=environment)
