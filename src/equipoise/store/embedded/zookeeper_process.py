"""Run a real ZooKeeper from the jars that PySpark ships, as a child of this process.

Always true: the child ends with this process, even if that is killed (on Linux, by the kernel's parent-death signal);
a directory is used by one server at a time: the child holds a lock on it while it lives;
`start` returns once the server answers.

A single node does not survive the loss of its disk: it is for trials, for tests and for small systems. The operators of
an ensemble run it, and its address is zk://host,host,host.
"""

from __future__ import annotations

import asyncio
import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Annotated, Self

import msgspec
from msgspec import Meta

from equipoise.errors import SettingsError, StoreUnavailableError
from equipoise.processes import bound_log, check_port, free_port, log_since, spawn

__all__ = [
    "JARS",
    "JAVA_VERSION_MIN",
    "EmbeddedSettings",
    "EmbeddedZooKeeper",
    "find_jars",
    "find_java",
    "java_version",
    "locate_java",
]

JAVA_VERSION_MIN = 17
# ZooKeeper's dependencies among PySpark's jars: itself, logging, metrics and compression.
JARS = (
    "zookeeper",
    "zookeeper-jute",
    "slf4j-api",
    "log4j-slf4j2-impl",
    "log4j-api",
    "log4j-core",
    "metrics-core",
    "snappy-java",
)


def locate_java() -> str | None:
    """The path of Java, of any version; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else None
    return java or shutil.which("java")


def java_version(java: str) -> int | None:
    """Its major version, by its own output; None if the output has none."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr)
    return None if found is None else int(found[1])


def find_java() -> str:
    """The path of a Java of the required version. Raises StoreUnavailableError."""
    java = locate_java()
    if java is None:
        raise StoreUnavailableError(
            f"there is no Java: install version {JAVA_VERSION_MIN} or newer, or set JAVA_HOME"
        )
    version = java_version(java)
    if version is None or version < JAVA_VERSION_MIN:
        raise StoreUnavailableError(
            f"{java} is Java {version or 'unknown'}: version {JAVA_VERSION_MIN} or newer is needed"
        )
    return java


def find_jars() -> list[Path]:
    """The jars in PySpark that ZooKeeper needs. Raises StoreUnavailableError."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise StoreUnavailableError(
            "PySpark, which brings ZooKeeper, is not installed: pip install 'equipoise[pipeline]'"
        )
    folder = Path(spec.submodule_search_locations[0]) / "jars"
    jars: list[Path] = []
    for name in JARS:
        found = sorted(folder.glob(f"{name}-[0-9]*.jar"))
        if not found:
            raise StoreUnavailableError(f"PySpark's {folder} has no {name} jar: install PySpark 4.3")
        jars.append(found[-1])
    return jars


_MAIN = "org.apache.zookeeper.server.ZooKeeperServerMain"
# A tree of 100,000 entries takes a tenth of it. With C1 alone and one collector thread it starts in half the time.
_JAVA_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LOG_LINES_SHOWN = 5
_ANSWER_BYTES_MAX = 4096


class EmbeddedSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The server's directory, address and time-outs."""

    directory: Annotated[Path, Meta(description="Folder for state, log and lock; created if missing.")]
    host: Annotated[str, Meta(description="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="0 takes a free one.")] = 0
    tick_ms: Annotated[
        int,
        Meta(
            gt=0,
            description="ZooKeeper's unit of time: sessions last at least two, and end up to one late. A quarter "
            "of its usual 2 s, as all clients are near.",
        ),
    ] = 500
    start_timeout_s: Annotated[
        float, Meta(gt=0, description="A JVM on a busy machine needs seconds; one that needs more hangs.")
    ] = 30.0
    stop_timeout_s: Annotated[
        float,
        Meta(gt=0, description="After it the process is killed; all acknowledged writes are on disk."),
    ] = 5.0


class EmbeddedZooKeeper:
    """One server process. Start it from a thread that lives as long as the server: the kernel ends both together."""

    def __init__(self, settings: EmbeddedSettings) -> None:
        self.settings = settings
        # The port in use after the start.
        self.port = settings.port
        self._process: subprocess.Popen[bytes] | None = None
        # Where this run's part of the log begins: the file is kept from run to run.
        self._log_from = 0

    @property
    def address(self) -> str:
        return f"{self.settings.host}:{self.port}"

    @property
    def url(self) -> str:
        return f"zk://{self.address}"

    @property
    def pid(self) -> int | None:
        """None before the start and after the end."""
        return None if self._process is None else self._process.pid

    @property
    def log_path(self) -> Path:
        return self.settings.directory / "zookeeper.log"

    async def start(self) -> None:
        """Raises StoreUnavailableError without Java or PySpark, SettingsError if port or directory is in use."""
        java, jars = await asyncio.to_thread(find_java), find_jars()
        self.port = self.port or free_port(self.settings.host)
        check_port(self.settings.host, self.port)
        directory = self.settings.directory
        try:
            (directory / "data").mkdir(parents=True, exist_ok=True)
            lock = _lock(directory)
        except OSError as problem:
            raise SettingsError(f"cannot use {directory}: {problem.strerror}") from problem
        try:
            config = directory / "zoo.cfg"
            config.write_text(self._config())
            bound_log(self.log_path)
            self._log_from = self.log_path.stat().st_size if self.log_path.exists() else 0
            self._process = _spawn(java, jars, config, self.log_path, lock)
        finally:
            # The child holds the lock now.
            os.close(lock)
        try:
            await self._wait_until_it_answers()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Terminate it, and kill it after a while. May be called twice."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(self.settings.stop_timeout_s):
                await _ended(process)
        except TimeoutError:
            process.kill()
        finally:
            # Immediate after a kill; and a cancelled call leaves no orphan either.
            if process.poll() is None:
                process.kill()
            process.wait()

    async def is_well(self, timeout_s: float = 1.0) -> bool:
        """Whether it replies within this time."""
        return await _is_ok(self.settings.host, self.port, timeout_s)

    async def wait(self) -> int:
        """Wait for its end and return its status; negative if by a signal. Only after a successful `start`."""
        assert self._process is not None, "not started"
        return await _ended(self._process)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def last_words(self) -> str:
        """The end of its log, of this run only."""
        lines = log_since(self.log_path, self._log_from).splitlines()
        return " / ".join(line.strip() for line in lines[-_LOG_LINES_SHOWN:])

    def _config(self) -> str:
        return "\n".join(
            (
                f"tickTime={self.settings.tick_ms}",
                f"dataDir={(self.settings.directory / 'data').resolve()}",
                f"clientPort={self.port}",
                f"clientPortAddress={self.settings.host}",
                # Sessions of any useful length, for any tick.
                "maxSessionTimeout=60000",
                # All hubs may be on one machine.
                "maxClientCnxns=0",
                "admin.enableServer=false",
                "4lw.commands.whitelist=srvr",
                "autopurge.snapRetainCount=3",
                "autopurge.purgeInterval=1",
                "",
            )
        )

    async def _wait_until_it_answers(self) -> None:
        try:
            async with asyncio.timeout(self.settings.start_timeout_s):
                while not await self.is_well():
                    if self._process is None or self._process.poll() is not None:
                        raise StoreUnavailableError(
                            f"ZooKeeper ended at once: {self.last_words() or 'no output'}"
                        )
                    await asyncio.sleep(0.02)
        except TimeoutError as problem:
            raise StoreUnavailableError(
                f"ZooKeeper did not answer within {self.settings.start_timeout_s:g} s; see {self.log_path}"
            ) from problem


def _spawn(java: str, jars: list[Path], config: Path, log_path: Path, lock: int) -> subprocess.Popen[bytes]:
    command = [java, *_JAVA_OPTIONS, "-cp", os.pathsep.join(map(str, jars)), _MAIN, str(config)]
    return spawn(command, log_path, pass_fds=(lock,))


async def _ended(process: subprocess.Popen[bytes]) -> int:
    # uvloop has another child watcher, which needs the main thread.
    while (status := process.poll()) is None:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    return status


async def _is_ok(host: str, port: int, timeout_s: float) -> bool:
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                # Not ruok, which replies before there is a database: a client that connects then waits for ten seconds.
                writer.write(b"srvr")
                return (await reader.read(_ANSWER_BYTES_MAX)).startswith(b"Zookeeper version")
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False


def _lock(directory: Path) -> int:
    """A file descriptor that holds the directory's lock."""
    lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        os.close(lock)
        raise SettingsError(
            f"the directory {directory} is in use by another store: stop that store, or choose another directory"
        ) from (problem)
    return lock
