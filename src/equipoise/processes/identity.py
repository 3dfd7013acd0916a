"""Identify a process so that a later one on the same machine can prove that it has ended.

An identity is the machine's boot, the PID namespace, the process id and its start time: it is unique. An ended process
whose parent has not read its status yet (a zombie) counts as ended. A proof is possible only within the same boot and
the same namespace. Elsewhere, and on systems without /proc, the result is "not known to have ended", and the caller
waits for the session time-out.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["is_process_gone", "process_identity"]

_PROC = Path("/proc")
# Fields of /proc/PID/stat after the name in brackets, which is field 2: the state, the number of remaining threads, and
# the start time in ticks since boot.
_STATE, _THREADS, _START_TIME = 3 - 3, 20 - 3, 22 - 3


def process_identity() -> str:
    """The identity of this process; empty if the system does not provide it."""
    try:
        return f"{_machine()}/{os.getpid()}/{_facts(os.getpid())[_START_TIME]}"
    except (OSError, IndexError):
        return ""


def is_process_gone(identity: str) -> bool:
    """Whether the process is known to have ended. False may also mean: unknown."""
    machine, _, process = identity.partition("/")
    pid, _, started = process.partition("/")
    try:
        is_here = machine == _machine()
    except OSError:
        return False
    if not is_here or not pid.isdecimal() or not started:
        return False
    try:
        facts = _facts(int(pid))
        # Threads of a killed process may still be ending after its first one.
        is_zombie = facts[_STATE] in "ZX" and int(facts[_THREADS]) <= 1
        return is_zombie or facts[_START_TIME] != started
    except (FileNotFoundError, ProcessLookupError):
        return True
    except (OSError, IndexError):
        return False


def _machine() -> str:
    boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}:{(_PROC / 'self/ns/pid').readlink()}"


def _facts(pid: int) -> list[str]:
    # A process's name may have spaces and brackets: the fields follow the last bracket.
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
