"""Print a benchmark's result and keep it: one JSON file with where and when it was taken in its name and in it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from equipoise.bench import environment

__all__ = ["tell"]


def tell(benchmark: str, found: Mapping[str, Any], folder: Path | None) -> None:
    """Print the result, and write it into the folder if there is one."""
    taken = datetime.now(UTC)
    commit = environment.commit()
    result = {
        "benchmark": benchmark,
        "taken_at": taken.isoformat(timespec="seconds"),
        "commit": commit,
        "machine": msgspec.to_builtins(environment.machine()),
        "versions": environment.library_versions(),
        # Of everything on the machine: well above its cores, times are rather too long.
        "load_average": os.getloadavg()[0],
        **found,
    }
    text = json.dumps(result, indent=1)
    print(text)
    if folder is not None:
        path = folder / f"{benchmark}-{taken:%Y%m%dT%H%M%S}-{commit.rstrip('+')}.json"
        path.write_text(text + "\n")
