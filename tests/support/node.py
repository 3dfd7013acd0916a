"""Node.js with packages, for tests: node comes with the development dependencies, packages from npm by lock files."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

__all__ = ["NODE_MODULES", "node_path", "require_ioredis", "require_packages"]

_FOLDER = Path(__file__).parents[1] / "conformance" / "node"
NODE_MODULES = _FOLDER / "node_modules"
_INSTALL_PATIENCE_S = 110.0


def node_path(tool: str = "node") -> str | None:
    """Beside the interpreter, where pip puts it, or wherever the machine has it."""
    beside = Path(sys.executable).parent / tool
    return str(beside) if beside.exists() else shutil.which(tool)


def require_ioredis() -> str:
    """The path of node, with ioredis in NODE_MODULES; skips the test where they cannot be had."""
    return require_packages(_FOLDER)


def require_packages(folder: Path) -> str:
    """The path of node, with the folder's packages beside its lock file; skips the test where they cannot be had."""
    node, npm = node_path(), node_path("npm")
    if node is None or npm is None:
        pytest.skip("node and npm are not installed")
    # Tests may run in several processes.
    with (Path(tempfile.gettempdir()) / "equipoise-npm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is_installed(folder):
            _install(npm, Path(node).parent, folder)
    return node


def _is_installed(folder: Path) -> bool:
    """npm writes its own copy of the lock file when it has finished."""
    installed, wanted = folder / "node_modules" / ".package-lock.json", folder / "package-lock.json"
    return installed.exists() and installed.stat().st_mtime >= wanted.stat().st_mtime


def _install(npm: str, beside: Path, folder: Path) -> None:
    command = [npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
    # npm is a script that looks for node itself.
    environment = os.environ | {"PATH": f"{beside}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_INSTALL_PATIENCE_S,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"the packages for Node.js cannot be installed: {done.stderr.strip()[-500:]}")
