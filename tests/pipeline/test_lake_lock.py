"""One process at a time changes a lake, and a dead one blocks no other."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from pathlib import Path

import pytest

from equipoise.errors import SettingsError
from equipoise.pipeline.lake.lake import held
from support.processes import running

# Holds the lock, starts a child as a pipeline starts its JVM, and prints the child's process id.
HOLDER = """
import subprocess, sys, time
from pathlib import Path
from equipoise.pipeline.lake.lake import held
with held(Path(sys.argv[1]), "a test", wait_s=0.0):
    child = subprocess.Popen(["sleep", "600"])
    print("child", child.pid, flush=True)
    time.sleep(600)
"""


def refusal(lake: Path) -> str:
    """The error of a process that tries to change the lake while another one does."""
    with pytest.raises(SettingsError) as told, held(lake, "equipoise lake compact", wait_s=0.0):
        pass
    return str(told.value)


def test_another_process_gets_an_error_that_names_the_holder_and_the_lock_afterwards(tmp_path: Path) -> None:
    with held(tmp_path, "equipoise pipeline", wait_s=0.0):
        assert f"process {os.getpid()}, equipoise pipeline: wait" in refusal(tmp_path)
    with held(tmp_path, "equipoise lake compact", wait_s=0.0):
        assert (tmp_path / "_lock").read_text() == f"process {os.getpid()}, equipoise lake compact"


def test_a_waiting_process_gets_the_lock_once_it_is_free(tmp_path: Path) -> None:
    has_it = threading.Event()

    def wait_for_it() -> None:
        with held(tmp_path, "second", wait_s=20.0):
            has_it.set()

    second = threading.Thread(target=wait_for_it)
    with held(tmp_path, "first", wait_s=0.0):
        second.start()
        assert not has_it.is_set()
    second.join(20)
    assert has_it.is_set()


def test_a_killed_holder_blocks_no_process_though_its_children_live(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with running(command, re.compile(r"^child \d+").match) as holder:
        child = int(holder.lines[-1].split()[1])
        try:
            assert f"process {holder.pid}, a test: wait" in refusal(tmp_path)
            holder.kill()
            with held(tmp_path, "me", wait_s=0.0):
                os.kill(child, 0)
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert refusal(tmp_path / "file" / "lake").endswith("file/lake: Not a directory")
