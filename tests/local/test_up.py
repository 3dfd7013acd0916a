"""`equipoise up` as a user runs it: usable soon, whole again after a kill, gone with its supervisor."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from equipoise.store.java import find_jars, find_java

pytestmark = pytest.mark.needs_java
PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def _java() -> None:
    try:
        find_java()
        find_jars()
    except Exception as problem:
        pytest.skip(str(problem))


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    running: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "equipoise.cli.main", "up", "--hubs", "2", "--no-pipeline"]
        with (tmp_path / "up.log").open("ab") as log:
            process = subprocess.Popen(
                [*command, "--dir", str(tmp_path / "data")],
                stdout=log,
                stderr=log,
                text=True,
                env=environment(),
            )
        running.append(process)
        return process

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
        process.wait()


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "200", "EQUIPOISE_STORE": ""}


def until(is_so: Callable[[], bool], what: str, tmp_path: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, f"{what}; it said:\n{(tmp_path / 'up.log').read_text()}"
        time.sleep(0.05)


def said(tmp_path: Path) -> str:
    return (tmp_path / "up.log").read_text()


def port_of(tmp_path: Path) -> int:
    found = re.search(r"equipoise://127\.0\.0\.1:(\d+)", said(tmp_path))
    assert found is not None
    return int(found.group(1))


def processes_in(folder: Path) -> list[int]:
    """Everything whose command line names the folder or one of the ports that were chosen there."""
    ports = json.loads((folder / "data" / "ports.json").read_text()).values()
    marks = {str(port).encode() for port in ports}
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in line or marks & set(line.replace(b":", b"\0").split(b"\0")):
            found.append(int(entry.name))
    return found


def pid_of_hub(name: str, port: int) -> int:
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"hub" in words and name.encode() in words and b"%d" % port in words:
            return int(entry.name)
    return 0


def test_a_hub_that_is_killed_comes_back_and_one_interrupt_ends_everything(
    tmp_path: Path, up: Callable[[], subprocess.Popen[str]]
) -> None:
    process = up()
    until(lambda: "equipoise is up" in said(tmp_path), "no hub came up", tmp_path)
    port = port_of(tmp_path)
    assert redis.Redis(port=port).publish("news", "hello") == 0
    first = pid_of_hub("hub-1", port)
    os.kill(first, signal.SIGKILL)
    until(lambda: pid_of_hub("hub-1", port) not in (0, first), "the hub was not started again", tmp_path)
    until(lambda: "hub-1 waiting" in said(tmp_path), "nobody was told", tmp_path)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    assert "nothing is left running" in said(tmp_path)
    until(lambda: not processes_in(tmp_path), f"left: {processes_in(tmp_path)}", tmp_path)


def test_state_survives_and_nothing_outlives_a_supervisor_that_is_killed(
    tmp_path: Path, up: Callable[[], subprocess.Popen[str]]
) -> None:
    process = up()
    until(lambda: "equipoise is up" in said(tmp_path), "no hub came up", tmp_path)
    port = port_of(tmp_path)
    process.kill()
    process.wait()
    until(lambda: not processes_in(tmp_path), f"left: {processes_in(tmp_path)}", tmp_path)
    (tmp_path / "up.log").write_text("")
    up()
    until(lambda: "equipoise is up" in said(tmp_path), "it did not come up again", tmp_path)
    assert port_of(tmp_path) == port
