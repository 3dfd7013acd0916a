"""A folder for files that are kept from one run of the tests to the next: archives of classes, wheels."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

__all__ = ["kept_folder"]


def kept_folder() -> Path:
    """May not exist yet."""
    return Path(tempfile.gettempdir()) / f"equipoise-tests-{os.getuid()}"
