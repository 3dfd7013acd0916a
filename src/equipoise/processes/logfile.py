"""Keep the log of a process within bounds, while it writes or not.

Always true: a log is one file and one older one, `NAME.1`; together they take twice the bound and what is written
between two looks. A process that writes goes on in the same file, since it appends.
"""

from __future__ import annotations

import shutil
from pathlib import Path

__all__ = ["LOG_BYTES_MAX", "bound_log", "log_since"]

# Months of an ordinary process; minutes of one that complains about everything, which is enough to see why.
LOG_BYTES_MAX = 10 * 1024 * 1024
# Of one life, as much as anybody looks for a word in.
_READ_BYTES_MAX = 256 * 1024


def bound_log(path: Path, bytes_max: int = LOG_BYTES_MAX) -> bool:
    """Make the log the older one if it is too long; whether it was.

    It is copied and emptied rather than renamed: a process holds on to its file, not to the name. A line that is
    written between the two is lost, which is the price of asking nothing of the process.
    """
    try:
        if path.stat().st_size <= bytes_max:
            return False
        shutil.copyfile(path, path.with_name(f"{path.name}.1"))
        with path.open("r+b") as log:
            log.truncate(0)
    except OSError:
        # Gone, or the disk is full: no reason to end anybody. The next look comes soon.
        return False
    return True


def log_since(path: Path, offset: int) -> str:
    """The end of what was written behind the offset, of a log that may have been emptied since; empty without one."""
    try:
        with path.open("rb") as log:
            size = log.seek(0, 2)
            begin = offset if offset <= size else 0
            log.seek(max(begin, size - _READ_BYTES_MAX))
            return log.read().decode(errors="replace")
    except OSError:
        return ""
