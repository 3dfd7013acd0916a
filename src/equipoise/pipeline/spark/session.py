"""Start a Spark session within seconds, and stop it gracefully.

The settings are for a small driver with a small query every second: few shuffle partitions, no adaptive planning, no
user interface, a checkpoint without the code for remote file systems. `local[*]` needs nothing else; with `spark://…`
the same driver uses the executors of a cluster, on which this package is installed.

Always true: one session per process; when `stop` returns, the JVM and its Python workers are gone.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise.errors import PipelineError
from equipoise.pipeline.settings import SessionSettings
from equipoise.pipeline.spark.spark_home import SparkHome, cache_folder, prepare_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkDriver", "address_towards"]

# A JVM ends within a second, unless it writes an archive, which takes ten and on a busy machine a minute.
_STOP_TIMEOUT_S = 5.0
_ARCHIVE_TIMEOUT_S = 120.0


class SparkDriver:
    """The session of this process and its JVM."""

    def __init__(self, session: SparkSession, jvm: subprocess.Popen[bytes], stop_timeout_s: float) -> None:
        self.session = session
        self.jvm = jvm
        self._stop_timeout_s = stop_timeout_s

    @classmethod
    def start(cls, settings: SessionSettings, *, archive_to: Path | None = None) -> SparkDriver:
        """With `archive_to`, the JVM writes its classes there when it ends. Raises PipelineError."""
        home = prepare_home(settings.cache or cache_folder())
        _prepare_environment(home)
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # It ships no types.
        from pyspark import SparkConf, SparkContext
        from pyspark.errors import PySparkException
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession

        conf = SparkConf().setAll(list(configuration(settings, home, archive_to).items()))
        gateway: Any = None
        try:
            # In a group of its own: the pipeline handles an interrupt from the terminal, and stops Spark in order.
            gateway = launch_gateway(conf, {"process_group": 0})  # type: ignore[no-untyped-call]  # PySpark's.
            session = SparkSession(SparkContext(conf=conf, gateway=gateway))
        except (PySparkException, Py4JError) as problem:
            if gateway is not None:
                gateway.proc.kill()
            raise PipelineError(f"Spark did not start: {str(problem).strip().splitlines()[0]}") from problem
        return cls(session, gateway.proc, _STOP_TIMEOUT_S if archive_to is None else _ARCHIVE_TIMEOUT_S)

    @property
    def is_alive(self) -> bool:
        """Whether the JVM runs. If it dies, Python is not notified."""
        return self.jvm.poll() is None

    def stop(self) -> None:
        """Running work is aborted: stop queries first. May be called twice, and after the JVM has died."""
        from py4j.protocol import Py4JError

        gateway = type(self.session.sparkContext)._gateway
        if gateway is None:
            return
        try:
            if self.is_alive:
                self.session.stop()
        except (Py4JError, OSError):
            pass  # The JVM ended meanwhile.
        self._end_jvm(gateway)

    def _end_jvm(self, gateway: Any) -> None:
        """Close the pipe that it watches, and wait. Drop the gateway, so that a next session has a JVM."""
        from pyspark import SparkContext

        gateway.shutdown()
        if self.jvm.stdin is not None:
            self.jvm.stdin.close()
        try:
            self.jvm.wait(self._stop_timeout_s)
        except subprocess.TimeoutExpired:
            self.jvm.kill()
            self.jvm.wait()
        SparkContext._gateway = None
        SparkContext._jvm = None


def address_towards(master: str) -> str:
    """The address of this machine at which executors of that master reach it: loopback unless it is remote."""
    host, _, port = master.removeprefix("spark://").partition(",")[0].rpartition(":")
    if not master.startswith("spark://") or not port.isdecimal():
        return "127.0.0.1"
    try:
        # Connecting a datagram socket sends nothing: the kernel chooses the route, and with it the local address.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, int(port)))
            return str(probe.getsockname()[0])
    except OSError as problem:
        raise PipelineError(f"no route to the Spark master {master}: {problem}") from problem


def configuration(settings: SessionSettings, home: SparkHome, archive_to: Path | None) -> dict[str, str]:
    """Spark's configuration, by its own names."""
    return {
        "spark.app.name": "equipoise",
        "spark.master": settings.master,
        "spark.driver.memory": f"{settings.driver_memory_mib}m",
        "spark.driver.host": settings.driver_host,
        "spark.driver.bindAddress": settings.driver_host,
        "spark.driver.extraJavaOptions": " ".join(java_options(settings, home, archive_to)),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(settings.shuffle_partitions),
        # Both plan anew in every batch, although the plan never changes.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Rows beyond it come in several Arrow batches; the default of 10,000 costs a round trip each.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
        # A rename in place of the detour over FileContext: 2 s sooner for the first batch.
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        # Without a checksum file beside each file.
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        "spark.sql.streaming.minBatchesToRetain": "10",
        # A late trigger needs no warning: the status line shows it.
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.cleaner.periodicGC.interval": "5min",
    }


def java_options(settings: SessionSettings, home: SparkHome, archive_to: Path | None) -> list[str]:
    options = [
        # An archive that does not fit is skipped silently.
        "-Xlog:disable",
        "-Xlog:all=error:stderr",
        # One collector thread: the other core is for hubs.
        "-XX:+UseSerialGC",
        f"-Dlog4j2.configurationFile={home.logging.as_uri()}",
    ]
    if archive_to is not None:
        options.append(f"-XX:ArchiveClassesAtExit={archive_to}")
    elif home.archive.exists():
        options.append(f"-XX:SharedArchiveFile={home.archive}")
    return [*options, "-XX:TieredStopAtLevel=1"] if settings.fast_start else options


def _prepare_environment(home: SparkHome) -> None:
    """PySpark takes these only from the environment. The workers run the Python of this process."""
    # A JVM started by another program must not be used, or ended, here.
    os.environ.pop("PYSPARK_GATEWAY_PORT", None)
    os.environ["SPARK_HOME"] = str(home.home)
    os.environ["JAVA_HOME"] = str(home.java_home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # Otherwise Spark looks up the machine's name in DNS, which may take seconds.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
