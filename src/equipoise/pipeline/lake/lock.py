"""Who may change a lake: one process at a time.

The lock is the kernel's, on a file in the lake: it goes with the process that holds it, however that ends. What the
file says is for the message to whoever comes second. Readers need no lock.

Always true on a local file system: within `held`, no other process that uses `held` changes the lake. Over a network
file system it may hold on one machine only.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from equipoise.errors import SettingsError

__all__ = ["held"]

log = logging.getLogger("equipoise.pipeline")

_POLL_S = 0.05
# Of what the holder says: enough for its number and name, whatever else is in the file.
_WORDS_BYTES_MAX = 200


@contextmanager
def held(lake: Path, who: str, *, wait_s: float) -> Iterator[None]:
    """Change the lake in this block. `who` is what others are told, such as `equipoise pipeline`.

    Raises SettingsError if another process has it for longer than `wait_s`, or the folder cannot be used.
    """
    try:
        lake.mkdir(parents=True, exist_ok=True)
        # Closed in every process that this one starts: it must not outlive us there.
        lock = os.open(lake / "_lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as problem:
        raise SettingsError(f"cannot use {lake}: {problem.strerror}") from problem
    try:
        _take(lock, lake, time.monotonic() + wait_s)
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"process {os.getpid()}, {who}".encode(), 0)
        yield
    finally:
        os.close(lock)


def _take(lock: int, lake: Path, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as problem:
            if time.monotonic() >= deadline:
                holder = os.pread(lock, _WORDS_BYTES_MAX, 0).decode(errors="replace") or "another process"
                raise SettingsError(
                    f"{lake} is in use by {holder}: wait until it has ended, or stop it, and try again"
                ) from problem
            time.sleep(_POLL_S)
        except OSError as problem:
            # Some network file systems have no locks; the pipeline is worth more than the protection.
            log.warning("%s cannot be locked (%s): let one process at a time use it", lake, problem.strerror)
            return
        else:
            return
