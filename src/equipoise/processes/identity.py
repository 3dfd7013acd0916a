"""Name a process so that a later one on the same machine can prove that it has ended.

An identity is the machine's boot, the PID namespace, the process id and its start time: no other process ever has the
same one. Proof is possible only from the same boot and the same namespace. Elsewhere, and on systems without /proc, the
answer is "not known to be gone", and the caller waits for the session time-out as before.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["is_process_gone", "process_identity"]

_PROC = Path("/proc")
# In /proc/PID/stat behind the name in brackets: start time in ticks since boot is field 22, the name field 2.
_START_TIME = 22 - 3


def process_identity() -> str:
    """Of this process; empty where the system does not tell."""
    try:
        return f"{_machine()}/{os.getpid()}/{_start_time(os.getpid())}"
    except (OSError, IndexError):
        return ""


def is_process_gone(identity: str) -> bool:
    """Whether the process is known to have ended. False also means: this process cannot know."""
    machine, _, process = identity.partition("/")
    pid, _, started = process.partition("/")
    try:
        is_here = machine == _machine()
    except OSError:
        return False
    if not is_here or not pid.isdecimal() or not started:
        return False
    try:
        return _start_time(int(pid)) != started
    except (FileNotFoundError, ProcessLookupError):
        return True
    except (OSError, IndexError):
        return False


def _machine() -> str:
    boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}:{(_PROC / 'self/ns/pid').readlink()}"


def _start_time(pid: int) -> str:
    # A process's name may hold spaces and brackets: what counts comes after the last bracket.
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[_START_TIME]
