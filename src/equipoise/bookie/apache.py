"""Run one bookie of Apache BookKeeper from its jars, on loopback, for trials and tests.

It can replace our bookie: hubs use the same protocol and the same ledger metadata with both. A production cluster of
BookKeeper is run by its own scripts; see `docs/howto/use-apache-bookkeeper.md`.

Always true: the child process ends with this process, even if that is killed; `start` returns once the bookie is
registered in the store and accepts connections; all bookies of a region are of one kind, since Java's tools use another
version of the protocol than our bookies.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from equipoise.errors import SettingsError, StoreUnavailableError
from equipoise.processes import bound_log, check_port, log_since, spawn
from equipoise.store.contract import Store
from equipoise.store.embedded.zookeeper_process import find_java
from equipoise.store.records.bookies import BookiesStore
from equipoise.store.records.ledgers import LedgersStore
from equipoise.store.tree import Tree
from equipoise.store.zookeeper_url import ZooKeeperAddress, parse_zookeeper

__all__ = ["HOST", "ApacheBookie", "ApacheSettings", "find_bookkeeper", "java_command"]

HOST = "127.0.0.1"
_LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"
_MAIN = "org.apache.bookkeeper.server.Main"
# For trials: little memory, and half the start time. BookKeeper accesses file descriptors by reflection.
_JAVA_OPTIONS = (
    "-Xmx256m",
    "-XX:MaxDirectMemorySize=256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dorg.apache.logging.log4j.level=INFO",
)
_START_TIMEOUT_S = 90.0
_STOP_TIMEOUT_S = 10.0
# The port and the registration of a killed bookie are released after a delay.
_PORT_TIMEOUT_S = 10.0
_SESSION_MS = 4_000
_LOOK_S = 0.05
_LOG_LINES_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ApacheSettings:
    """One bookie: its jars, files and ZooKeeper."""

    name: str
    port: int
    directory: Path
    jars: Path
    store_url: str
    tree: Tree
    collect_every_s: float = 60.0
    # Size of an entry log; the disk needs this much free space.
    log_bytes: int = 64 * 1024 * 1024

    def check(self) -> None:
        """Raises SettingsError if jars are missing or BookKeeper cannot use the store."""
        _checked_address(self.store_url)
        find_bookkeeper(self.jars)


def find_bookkeeper(jars: Path) -> list[Path]:
    """BookKeeper's jars. Raises SettingsError if there are none."""
    found = sorted(jars.glob("*.jar"))
    if not any(jar.name.startswith("bookkeeper-server-") for jar in found):
        raise SettingsError(
            f"there is no bookkeeper-server jar in {jars}: fetch it with `make bookkeeper`, or name the folder with "
            "--jars or EQUIPOISE_BOOKKEEPER"
        )
    return found


def java_command(jars: Path, main: str, *words: str) -> list[str]:
    """The command to run a BookKeeper class. Raises SettingsError without jars, StoreUnavailableError without Java."""
    path = os.pathsep.join(map(str, find_bookkeeper(jars)))
    return [find_java(), *_JAVA_OPTIONS, "-cp", path, main, *words]


class ApacheBookie:
    """One process. The kernel ends it when the thread that called `start` ends."""

    def __init__(self, settings: ApacheSettings, store: Store) -> None:
        self.settings = settings
        self._address = _checked_address(settings.store_url)
        self._store = store
        self._bookies = BookiesStore(store, settings.tree)
        self._process: subprocess.Popen[bytes] | None = None
        self._log_from = 0
        # Id of the previous registration, which a killed bookie leaves until its session expires.
        self._left: int | None = None

    @property
    def log_path(self) -> Path:
        return self.settings.directory / "bookkeeper.log"

    @property
    def config_path(self) -> Path:
        return self.settings.directory / "bookkeeper.conf"

    async def start(self, instance: str) -> None:
        """`instance`: a new UUID, for a region without bookies. Raises SettingsError, StoreUnavailableError."""
        settings = self.settings
        command = await asyncio.to_thread(
            java_command, settings.jars, _MAIN, "--conf", str(self.config_path.resolve())
        )
        await LedgersStore(self._store, settings.tree).prepare(instance)
        await self._check_kind()
        await self._free_port()
        self._left = await self._bookies.registered_id(settings.name)
        for name in ("journal", "ledgers", "index"):
            (settings.directory / name).mkdir(parents=True, exist_ok=True)
        self.config_path.write_text(self._config(), encoding="utf-8")
        bound_log(self.log_path)
        self._log_from = self.log_path.stat().st_size if self.log_path.exists() else 0
        self._process = spawn(command, self.log_path)
        try:
            async with asyncio.timeout(_START_TIMEOUT_S):
                while not await self._is_ready():
                    if self._process.poll() is not None:
                        raise StoreUnavailableError(f"the bookie ended at once: {self._log_errors()}")
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError as problem:
            await self.stop()
            raise StoreUnavailableError(
                f"the bookie did not answer within {_START_TIMEOUT_S:.0f} s; see {self.log_path}"
            ) from problem

    async def wait(self) -> int:
        """Wait until the process ends. Returns its status, negative for a signal."""
        assert self._process is not None, "not started"
        # The event loop's child watcher differs under uvloop and needs the main thread.
        while (status := self._process.poll()) is None:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_S)
        return status

    async def stop(self) -> None:
        """Terminate the process; kill it after a timeout."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            async with asyncio.timeout(_STOP_TIMEOUT_S):
                await self.wait()
        except TimeoutError:
            self._process.kill()
        finally:
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait()

    # --- inside

    async def _check_kind(self) -> None:
        for name in await self._bookies.cookies():
            cookie = await self._bookies.cookie(name)
            if cookie is not None and cookie.is_ours:
                raise SettingsError(
                    f"bookie {name} of this region is not one of Apache BookKeeper's: give the Apache bookies a region "
                    "of their own with --region"
                )

    async def _free_port(self) -> None:
        until = asyncio.get_running_loop().time() + _PORT_TIMEOUT_S
        while True:
            try:
                check_port(HOST, self.settings.port)
            except SettingsError:
                if asyncio.get_running_loop().time() > until:
                    raise
                await asyncio.sleep(_LOOK_S)
            else:
                return

    async def _is_ready(self) -> bool:
        if await self._bookies.registered_id(self.settings.name) in (None, self._left):
            return False
        try:
            with socket.create_connection((HOST, self.settings.port), timeout=1):
                return True
        except OSError:
            return False

    def _log_errors(self) -> str:
        """The errors in its log without their stack traces, else the last lines."""
        lines = log_since(self.log_path, self._log_from).splitlines()
        errors = [line for line in lines if "ERROR" in line or "Exception" in line]
        return " / ".join(line.strip() for line in (errors or lines)[-_LOG_LINES_SHOWN:]) or "no output"

    def _config(self) -> str:
        settings, folder = self.settings, self.settings.directory.resolve()
        root = self._address.root.rstrip("/") + settings.tree.ledgers
        collect_ms = max(1, round(settings.collect_every_s * 1000))
        collect_s = -(-collect_ms // 1000) + 1
        values = {
            "bookieId": settings.name,
            "bookiePort": settings.port,
            "listeningInterface": _LOOPBACK,
            "allowLoopback": "true",
            "advertisedAddress": HOST,
            "metadataServiceUri": f"zk+hierarchical://{self._address.hosts.replace(',', ';')}{root}",
            "zkTimeout": _SESSION_MS,
            "journalDirectories": folder / "journal",
            "ledgerDirectories": folder / "ledgers",
            "indexDirectories": folder / "index",
            # RocksDB's storage loses the fence of an idle bookie in a crash (apache/bookkeeper#4843).
            "ledgerStorageClass": "org.apache.bookkeeper.bookie.SortedLedgerStorage",
            # By default a single add waits for 2 ms.
            "journalFlushWhenQueueEmpty": "true",
            "journalPreAllocSizeMB": 4,
            "entryLogSizeLimit": settings.log_bytes,
            "skipListSizeLimit": 16 * 1024 * 1024,
            "gcWaitTime": collect_ms,
            "minorCompactionInterval": collect_s,
            "majorCompactionInterval": collect_s + 1,
            "diskUsageThreshold": "0.99",
            "diskUsageWarnThreshold": "0.98",
            "serverNumIOThreads": 2,
            "numAddWorkerThreads": 1,
            "numReadWorkerThreads": 1,
            "numHighPriorityWorkerThreads": 1,
            "autoRecoveryDaemonEnabled": "false",
            "httpServerEnabled": "false",
        }
        return "".join(f"{key}={value}\n" for key, value in values.items())


def _checked_address(url: str) -> ZooKeeperAddress:
    address = parse_zookeeper(url)
    if address is None or address.is_tls or address.auth:
        raise SettingsError(
            f"{url!r}: a bookie of Apache BookKeeper needs a ZooKeeper, with --apache one without TLS and password: "
            "zk://host:port/root; for others run BookKeeper by its own scripts"
        )
    return address
