"""Run the blocks of one page as a reader would: in a folder of their own, on ports that are free, on loopback.

The ports that a page names are replaced by free ones, in what is run and in what is expected. Nothing that a page has
started is left when it ends.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from docs.blocks import ROOT
from equipoise.processes import free_port
from support.node import NODE_MODULES
from support.polling import PATIENCE_S, eventually
from support.ports import write_ports

__all__ = ["SPARK_WORDS", "Reader", "Started", "console_steps", "is_told"]

# A program that has printed something and is silent for this long waits for another program.
QUIET_S = 0.3
_PORT = re.compile(r"(?<![\d.])(6[34]\d\d|2181|9[34]\d\d)(?![\d.])")
# Spark takes half a minute of both cores, more on a busy machine: only pages that mention it start it.
_WITHOUT_SPARK = " --no-pipeline"
# A page with one of these, a line of `up` or a command, needs Spark.
SPARK_WORDS = ("pipeline ready", "equipoise lake")
SPARK_PATIENCE_S = 180.0
_EXPORTS = ".exports"
# Where `equipoise up` keeps its things.
DATA = "equipoise-data"
# What a system chooses by itself, and what pages call it.
_PORTS_OF_UP = (("hub-1", "6399"), ("hub-2", "6400"), ("dashboard", "6398"), ("store", "2181"))


@dataclass
class Started:
    """A command line that runs, or has run, at a terminal of its own."""

    command: str
    process: subprocess.Popen[bytes]
    heard: bytearray = field(default_factory=bytearray)
    heard_at: float = 0.0

    @property
    def lines(self) -> list[str]:
        text = self.heard.decode("utf-8", "replace")
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
        return [" ".join(line.split()) for line in text.splitlines()]


class Reader:
    """Types the commands of a page into terminals."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports: dict[str, int] = {}
        self._started: list[Started] = []
        (folder / "bin").mkdir(exist_ok=True)
        for name, words in {"equipoise": "-m equipoise.cli.main", "python": "", "python3": ""}.items():
            script = folder / "bin" / name
            script.write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
            script.chmod(0o755)

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("EQUIPOISE_")}
        return kept | {
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "PYTHONUNBUFFERED": "1",
            "NODE_PATH": str(NODE_MODULES),
            "TERM": "dumb",
            "NO_COLOR": "1",
            "COLUMNS": "100",
        }

    def ported(self, text: str) -> str:
        """The text with ports that are free here."""

        def replace(found: re.Match[str]) -> str:
            if found[1] not in self.ports:
                self.ports[found[1]] = free_port()
            return str(self.ports[found[1]])

        return _PORT.sub(replace, text)

    def run(self, program: list[str], text: str, suffix: str) -> str:
        """Run a whole program to its end; what it printed."""
        file = self.folder / f"block{suffix}"
        file.write_text(self.ported(text))
        done = subprocess.run(
            [*program, str(file)],
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, f"status {done.returncode} of\n{file.read_text()}\n{done.stdout}"
        return done.stdout

    def shell(self, text: str) -> str:
        """What is exported stays so for what comes later."""
        return self.run(["bash"], f"set -eu\n{self._exports()}\n{text}\nexport -p > {_EXPORTS}\n", ".sh")

    def type(self, command: str, *, has_spark: bool = False) -> Started:
        """Begin a command line; it need not end."""
        if command.startswith("export "):
            self.shell(command)
            command = "true"
        ours, theirs = pty.openpty()
        # As wide as a table may get.
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        line = self.ported(command)
        if command.startswith("equipoise up"):
            write_ports(self.folder / DATA)
            line += "" if has_spark else _WITHOUT_SPARK
        process = subprocess.Popen(
            ["bash", "-c", f"{self._exports()}\n{line}"],
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        started = Started(line, process)
        threading.Thread(target=_listen, args=(ours, started), daemon=True).start()
        self._started.append(started)
        return started

    def play(self, steps: list[tuple[str, list[str]]]) -> None:
        """A transcript: type each command, and see that everything that was to be seen was seen in the end."""
        typed: list[tuple[Started, list[str]]] = []
        for command, expected in steps:
            has_spark = any(line.startswith(SPARK_WORDS) for line in (command, *expected))
            patience_s = SPARK_PATIENCE_S if has_spark else PATIENCE_S
            started = self.type(command, has_spark=has_spark)
            typed.append((started, expected))
            if command.startswith("equipoise up"):
                self._await_system(started, expected, patience_s)
            eventually(lambda: self._may_go_on(started, expected), lambda: _said(started), patience_s)  # noqa: B023  called at once
        for started, expected in typed:
            eventually(
                lambda: is_told(self._wanted(expected), started.lines),  # noqa: B023  called at once
                lambda: _said(started, expected),  # noqa: B023
            )
            status = started.process.poll()
            assert not status, f"status {status}: {_said(started)}"

    def _may_go_on(self, started: Started, expected: list[str]) -> bool:
        if started.process.poll() is not None or (
            expected and is_told(self._wanted(expected), started.lines)
        ):
            return True
        is_quiet = time.monotonic() - started.heard_at > QUIET_S
        return is_quiet and len(expected) > 1 and is_told(self._wanted(expected[:1]), started.lines)

    def _wanted(self, expected: list[str]) -> list[str]:
        return [self.ported(line) for line in expected]

    def _exports(self) -> str:
        return f"[ ! -f {_EXPORTS} ] || . ./{_EXPORTS}"

    def _await_system(self, started: Started, expected: list[str], patience_s: float) -> None:
        """A system chooses its ports by itself, those of the first hub first."""
        eventually(lambda: any("is up" in line for line in started.lines), lambda: _said(started))
        self.adopt(self.folder / DATA / "ports.json")
        eventually(
            lambda: is_told(self._wanted(expected), started.lines),
            lambda: _said(started, expected),
            patience_s,
        )
        self.adopt(self.folder / DATA / "ports.json")

    def adopt(self, file: Path) -> None:
        found: Mapping[str, int] = json.loads(file.read_text())
        for name, port in _PORTS_OF_UP:
            if name in found:
                self.ports[port] = found[name]

    def stop(self) -> None:
        """End everything, the last first."""
        for started in reversed(self._started):
            for how, patience_s in ((signal.SIGINT, 10.0), (signal.SIGKILL, 10.0)):
                if started.process.poll() is None:
                    os.killpg(started.process.pid, how)
                    try:
                        started.process.wait(patience_s)
                    except subprocess.TimeoutExpired:
                        continue
        self._started.clear()
        self.ports.clear()
        (self.folder / _EXPORTS).unlink(missing_ok=True)


def console_steps(text: str) -> list[tuple[str, list[str]]]:
    """The commands of a transcript, each with the lines that it prints. A `\\` at the end continues a command."""
    steps: list[tuple[str, list[str]]] = []
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            steps.append((re.sub(r"\s+# .*$", "", line[2:]), []))
        elif line.strip():
            assert steps, f"{line!r} is printed by no command"
            steps[-1][1].append(" ".join(line.split()))
    return steps


def is_told(expected: list[str], lines: list[str]) -> bool:
    """Whether the expected lines came, in this order, others between them or not. `…` stands for anything."""
    rest = iter(lines)
    for wanted in expected:
        pattern = re.compile(".*".join(re.escape(part) for part in wanted.split("…")))
        if not any(pattern.fullmatch(line) for line in rest):
            return False
    return True


def _said(started: Started, expected: list[str] | None = None) -> str:
    wanted = "" if expected is None else "\n--- expected\n" + "\n".join(expected)
    return f"{started.command}\n--- said\n" + "\n".join(started.lines) + wanted


def _listen(terminal: int, started: Started) -> None:
    with os.fdopen(terminal, "rb", buffering=0) as source:
        while True:
            try:
                piece = source.read(65_536)
            except OSError:
                # The other side of a terminal has gone.
                return
            if not piece:
                return
            started.heard += piece
            started.heard_at = time.monotonic()
