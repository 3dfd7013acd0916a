"""Build the compiled parts where a C compiler is there, and go without them where none is.

They are optional: `hub/shell/listening.py` serves connections with the event loop's transports where one is missing,
`resp/runs.py` has sequences of payloads in place of compiled runs, and `hub/cluster/relays.py` leaves relayed messages
to the way in Python. So neither building nor installing needs a compiler, and no failure here is an error: it is told
and passed over.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = (
    Path("src/equipoise/hub/cluster/_relays.c"),
    Path("src/equipoise/hub/shell/_sockets.c"),
    Path("src/equipoise/resp/_runs.c"),
)
COMPILE_S_MAX = 120


class CompileSockets(BuildHookInterface[Any]):
    """Called by hatchling for wheels and for editable installs."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        for name in SOURCES:
            source = Path(self.root) / name
            target = source.with_name(f"{source.stem}{sysconfig.get_config_var('EXT_SUFFIX')}")
            problem = compile_to(source, target)
            if problem is not None:
                self.app.display_warning(f"{name.name} is left out, hubs serve without it: {problem}")
                continue
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
            build_data["artifacts"].append(str(target.relative_to(self.root)))


def compile_to(source: Path, target: Path, compiler: str | None = None) -> str | None:
    """Compile an extension module; why it could not be, if so. What was built before is gone in any case."""
    target.unlink(missing_ok=True)
    if not sys.platform.startswith("linux"):
        return "it needs Linux"
    command = [
        *shlex.split(compiler or os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"),
        *("-O2", "-fPIC", "-shared", "-I", sysconfig.get_paths()["include"]),
        *(str(source), "-o", str(target)),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_S_MAX)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return str(problem)
    if done.returncode:
        target.unlink(missing_ok=True)
        return done.stderr.strip()[-500:] or f"{command[0]} failed"
    return None
