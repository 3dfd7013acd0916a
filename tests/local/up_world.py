"""A system that `equipoise up` runs: its output, its processes, its ports."""

from __future__ import annotations

import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from equipoise.errors import StoreUnavailableError
from equipoise.store.embedded.zookeeper_process import find_jars, find_java
from support.polling import PATIENCE_S, eventually
from support.ports import write_ports

# In the environment of every process of a system, also of grandchildren, whose command lines may not show it.
MARK = "EQUIPOISE_TEST_SYSTEM"


def require_java() -> None:
    """Skip the test if there is no Java."""
    try:
        find_java()
        find_jars()
    except StoreUnavailableError as problem:
        pytest.skip(str(problem))


class Up:
    """One directory and the processes that run in it. Call `stop` at the end, also after a failure."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self._log = folder / "up.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *words: str, environment: dict[str, str] | None = None) -> None:
        """Without waiting for anything. What earlier ones said is forgotten."""
        write_ports(self.data)
        command = [sys.executable, "-m", "equipoise.cli.main", "up", "--dir", str(self.data), *words]
        own = {"PYTHONUNBUFFERED": "1", "COLUMNS": "200", "EQUIPOISE_STORE": "", MARK: str(self.folder)}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, **own, **(environment or {})}
            )

    def interrupt(self) -> float:
        """Ctrl-C; how long it took, in seconds."""
        assert self._process is not None, "not started"
        began_at = time.monotonic()
        self._process.send_signal(signal.SIGINT)
        assert self._process.wait(PATIENCE_S) == 0, self.said
        return time.monotonic() - began_at

    def kill(self) -> None:
        """The supervisor alone, as the kernel would when memory is short."""
        assert self._process is not None, "not started"
        self._process.kill()
        self._process.wait()

    def status(self) -> int:
        """Wait for its end by itself."""
        assert self._process is not None, "not started"
        return self._process.wait(PATIENCE_S)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()

    @property
    def said(self) -> str:
        return self._log.read_text()

    @property
    def port(self) -> int:
        found = re.search(r"equipoise://127\.0\.0\.1:(\d+)", self.said)
        assert found is not None, self.said
        return int(found.group(1))

    @property
    def dashboard(self) -> str:
        found = re.search(r"dashboard: (https?://\S+)", self.said)
        assert found is not None, self.said
        return found.group(1)

    @property
    def token(self) -> str:
        return (self.data / "token").read_text().strip()

    def ask(self, path: str) -> Any:
        """The dashboard's answer; None while it gives none."""
        try:
            authority = self.data / "tls" / "ca.pem"
            context = ssl.create_default_context(cafile=authority) if authority.exists() else None
            with urllib.request.urlopen(self.dashboard + path, timeout=5, context=context) as answer:
                return json.load(answer)
        except OSError:
            return None

    def until(self, is_so: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
        eventually(is_so, lambda: f"{what}; it said:\n{self.said}", patience_s, interval_s=0.05)

    def until_up(self) -> None:
        self.until(lambda: "equipoise is up" in self.said, "no hub came up")

    def processes(self) -> dict[int, list[str]]:
        """Command lines of all that was started here and lives, the supervisor left out."""
        mark = f"{MARK}={self.folder}".encode()
        supervisor = None if self._process is None else self._process.pid
        found = {}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                is_ours = mark in (entry / "environ").read_bytes().split(b"\0")
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue  # Another user's, or gone meanwhile.
            if is_ours and int(entry.name) != supervisor:
                found[int(entry.name)] = words
        return found

    def pid_of(self, *words: str) -> int:
        """The process whose command line has all these words; 0 if there is none."""
        for pid, line in self.processes().items():
            if all(word in line for word in words):
                return pid
        return 0
