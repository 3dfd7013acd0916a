"""The environment of a kept result: machine, commit, versions; no host names, no paths.

`report_result` prints and keeps the result of a benchmark that is a single object, `keep` only keeps it.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from pathlib import Path
from typing import Any

import msgspec

_LIBRARIES = ("uvloop", "hiredis")


class MachineFacts(msgspec.Struct, frozen=True):
    processor: str
    cores: int
    memory_bytes: int
    system: str


def machine() -> MachineFacts:
    return MachineFacts(
        processor=parse_processor(_read("/proc/cpuinfo")),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        system=f"{platform.system()} {platform.release()}",
    )


def parse_processor(cpuinfo: str) -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return found.group(1) if found else platform.machine()


def commit() -> str:
    """The commit of the running source, with `+` if tracked files differ; `unknown` outside a repository."""
    here = Path(__file__).parent
    head = _git(here, "rev-parse", "--short=12", "HEAD")
    if not head:
        return "unknown"
    return head + ("+" if _git(here, "status", "--porcelain", "--untracked-files=no") else "")


def library_versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            versions[name] = package_version(name)
        except PackageNotFoundError:
            versions[name] = "absent"
    return versions


def report_result(benchmark: str, found: Mapping[str, Any], folder: Path | None) -> None:
    """Print the result, and write it into the folder if there is one."""
    print(keep(benchmark, found, folder), end="")


def keep(benchmark: str, found: Mapping[str, Any], folder: Path | None) -> str:
    """The result with its environment, as JSON; written into the folder if there is one."""
    taken = datetime.now(UTC)
    head = commit()
    result = {
        "benchmark": benchmark,
        "taken_at": taken.isoformat(timespec="seconds"),
        "commit": head,
        "machine": msgspec.to_builtins(machine()),
        "versions": library_versions(),
        # Of the whole machine: well above its number of cores, times are rather too long.
        "load_average": os.getloadavg()[0],
        **found,
    }
    text = json.dumps(result, indent=1) + "\n"
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{benchmark}-{taken:%Y%m%dT%H%M%S}-{head.rstrip('+')}.json").write_text(text)
    return text


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
