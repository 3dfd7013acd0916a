"""Files that Spark needs before it starts: a thin home, a logger configuration, an archive of classes.

Two of them save most of the start-up time. A home with only links to PySpark's `jars` and `bin` keeps Python workers
from importing a zipped copy of PySpark in place of the installed one. With an archive of loaded classes (AppCDS) the
JVM need not read and verify some fifteen thousand; `training` makes it.

Always true: an archive under its final name is complete, and was made by this Java from these jars; a missing file
only costs time.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from equipoise.errors import PipelineError, StoreUnavailableError
from equipoise.store.embedded.zookeeper_process import find_java

__all__ = ["SparkHome", "cache_folder", "prepare_home", "require_spark"]

# Spark logs errors only; the pipeline logs its normal operation.
_LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark: %p %c{1}: %m%n%ex{short}
# PySpark counts as a shell, which otherwise announces that it talks more than this.
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = error
# What ends a query is raised to its caller, and logged once.
logger.query.name = org.apache.spark.sql.execution.streaming
logger.query.level = off
"""


@dataclass(frozen=True, slots=True)
class SparkHome:
    """A folder of the cache, made for one Java and one PySpark."""

    folder: Path
    # The `java` for Spark.
    java: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def archive(self) -> Path:
        return self.folder / "classes.jsa"

    @property
    def logging(self) -> Path:
        return self.folder / "log4j2.properties"

    @property
    def java_home(self) -> Path:
        return self.java.parent.parent

    @property
    def lock(self) -> Path:
        """Held by the process that makes the archive."""
        return self.folder / "training.lock"


def cache_folder() -> Path:
    """The cache folder: EQUIPOISE_CACHE, or the user's usual one."""
    own = os.environ.get("EQUIPOISE_CACHE")
    if own:
        return Path(own)
    usual = os.environ.get("XDG_CACHE_HOME")
    return (Path(usual) if usual else Path.home() / ".cache") / "equipoise"


def require_spark() -> tuple[Path, Path]:
    """Find PySpark and Java. Raises PipelineError with the missing part and how to install it."""
    found = find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        raise PipelineError("PySpark is not installed: pip install 'equipoise[pipeline]'")
    try:
        java = Path(find_java()).resolve()
    except StoreUnavailableError as problem:
        raise PipelineError(f"Spark needs Java: {problem}") from problem
    return Path(found.submodule_search_locations[0]), java


def prepare_home(cache: Path) -> SparkHome:
    """Make the missing files. Raises PipelineError without PySpark, a recent Java, or a writable folder."""
    spark, java = require_spark()
    made = SparkHome(cache / "spark" / _fingerprint(spark, java), java)
    try:
        made.home.mkdir(parents=True, exist_ok=True)
        for name in ("jars", "bin"):
            _link(made.home / name, spark / name)
        made.logging.write_text(_LOGGING)
    except OSError as problem:
        raise PipelineError(
            f"cannot write to {cache}: {problem.strerror}. Set EQUIPOISE_CACHE to a folder that can be written"
        ) from problem
    return made


def _fingerprint(spark: Path, java: Path) -> str:
    """A hash of an archive's dependencies: another Java or other jars get a folder of their own."""
    try:
        release = version("pyspark")
    except PackageNotFoundError:
        release = "unknown"
    binary = java.stat()
    said = f"{spark.resolve()} {release} {java} {binary.st_size} {binary.st_mtime_ns}"
    return f"{release}-{hashlib.sha256(said.encode()).hexdigest()[:12]}"


def _link(link: Path, target: Path) -> None:
    try:
        link.symlink_to(target)
    except FileExistsError:
        pass
