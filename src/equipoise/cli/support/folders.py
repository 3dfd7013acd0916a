"""The folder of a process: created if necessary, and locked while the process runs."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from equipoise.errors import SettingsError

__all__ = ["held"]


@contextmanager
def held(folder: Path, *, lock: str, taken: str) -> Iterator[None]:
    """Lock a file of the folder. `taken`: the error's text if it is locked. Raises SettingsError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / lock).open("a", encoding="ascii")
    except OSError as problem:
        reason = "it is a file" if folder.is_file() else problem.strerror
        raise SettingsError(
            f"cannot write to {folder}: {reason}: give a folder that this user may write to"
        ) from problem
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            raise SettingsError(f"{taken} {folder}") from problem
        yield
