"""A process is known to have ended only if this machine can prove it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from equipoise.processes import identity as identity_module
from equipoise.processes import is_process_gone, process_identity


def test_a_process_has_ended_once_it_is_reaped() -> None:
    text = "from equipoise.processes import process_identity; print(process_identity(), flush=True); input()"
    child = subprocess.Popen(
        [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None
    assert child.stdout is not None
    identity = child.stdout.readline().strip()
    assert identity.count("/") == 2
    assert not is_process_gone(identity)
    child.kill()
    # Its parent has not asked for its status yet.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_process_gone(identity)
    child.communicate(timeout=30)
    assert is_process_gone(identity)


def test_another_process_with_the_same_id_does_not_count() -> None:
    machine, pid, started = process_identity().split("/")
    assert not is_process_gone(f"{machine}/{pid}/{started}")
    assert is_process_gone(f"{machine}/{pid}/{int(started) + 1}")


@pytest.mark.parametrize("identity", ["", "x", "x/1/2", "/", "//", "a/b/c"])
def test_processes_of_other_machines_and_invalid_names_are_unknown(identity: str) -> None:
    assert not is_process_gone(identity)


def test_without_proc_the_state_is_unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    mine = process_identity()
    monkeypatch.setattr(identity_module, "_PROC", tmp_path)
    assert process_identity() == ""
    assert not is_process_gone(mine)
