"""Start and stop the servers that tests talk to: a redis-server, a hub.

Always true: `start` returns once the server has reported that it accepts connections, and leaving the
`with` block leaves no process behind. What a server printed is kept, and shown when it fails to start.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from equipoise.processes import free_port
from support.cache import kept_folder

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0

_REDIS_READY = re.compile(r"Ready to accept connections")
_HUB_READY = re.compile(
    r"^equipoise hub (?P<name>\S+) ready on (?P<host>\S+):(?P<port>\d+)(?: and with TLS on \S+:(?P<tls_port>\d+))?\s*$"
)
# The folder that holds this project, so that a hub starts from the same sources as the test.
ROOT = Path(__file__).resolve().parents[2]


def require(tool: str) -> str:
    """The path of a program; skips the test with a reason where it is not installed."""
    path = shutil.which(tool)
    if path is None:
        pytest.skip(f"{tool} is not installed")
    return path


@dataclass
class ServerProcess:
    """A running server. `lines` grows while it runs, standard output and error together."""

    process: subprocess.Popen[str]
    host: str = ""
    port: int = 0
    # 0 where it does not listen for TLS.
    tls_port: int = 0
    lines: list[str] = field(default_factory=list)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def output(self) -> str:
        return "".join(self.lines)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to go, insist after a while, and return its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait(STOP_TIMEOUT_S)

    def kill(self) -> int:
        return self.stop(signal.SIGKILL)


@contextmanager
def redis_server(*options: str, port: int | None = None) -> Iterator[ServerProcess]:
    """A redis-server on loopback that keeps nothing on disk."""
    port = port or free_port()
    command = [
        require("redis-server"),
        "--bind",
        "127.0.0.1",
        "--port",
        str(port),
        "--save",
        "",
        "--appendonly",
        "no",
    ]
    with running([*command, *options], _REDIS_READY.search) as server:
        server.host, server.port = "127.0.0.1", port
        yield server


@contextmanager
def hub(
    *options: str, name: str = "h1", port: int = 0, environment: Mapping[str, str] | None = None
) -> Iterator[ServerProcess]:
    """A hub process; port 0 lets it choose one."""
    command = [sys.executable, "-m", "equipoise.cli.main", "hub", "--name", name, "--port", str(port)]
    with running([*command, *options], _HUB_READY.match, environment=environment) as server:
        yield server


@contextmanager
def running(
    command: Sequence[str],
    ready: Callable[[str], re.Match[str] | None],
    *,
    timeout_s: float = START_TIMEOUT_S,
    environment: Mapping[str, str] | None = None,
) -> Iterator[ServerProcess]:
    """Run a command until the block ends; enter the block once it has printed a line that `ready` accepts."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=process_environment() | dict(environment or {}),
    )
    server = ServerProcess(process)
    told = threading.Event()
    reader = threading.Thread(target=_follow, args=(server, ready, told), daemon=True)
    reader.start()
    try:
        if not told.wait(timeout_s) or process.poll() is not None:
            server.stop()
            reader.join(STOP_TIMEOUT_S)
            raise AssertionError(f"{' '.join(command)} did not become ready; it printed:\n{server.output}")
        yield server
    finally:
        server.stop()
        # The output ends with the process; closing the pipe before that would race with the reader.
        reader.join(STOP_TIMEOUT_S)
        assert process.stdout is not None
        process.stdout.close()


def _follow(
    server: ServerProcess, ready: Callable[[str], re.Match[str] | None], told: threading.Event
) -> None:
    """Keep every line, so that the pipe never fills, and tell when the first ready one or the end comes."""
    assert server.process.stdout is not None
    for line in server.process.stdout:
        server.lines.append(line)
        found = ready(line)
        if found is not None and not told.is_set():
            facts = found.groupdict()
            server.host, server.port = facts.get("host", ""), int(facts.get("port", 0))
            server.tls_port = int(facts.get("tls_port") or 0)
            told.set()
    server.process.wait()
    told.set()


def process_environment() -> dict[str, str]:
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    found = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONUNBUFFERED": "1"}
    if found.pop("PYTHONDONTWRITEBYTECODE", ""):
        # Compiling all sources anew takes half of a start: what is compiled goes where it is in no way.
        found["PYTHONPYCACHEPREFIX"] = str(kept_folder() / "bytecode")
    return found
