"""`equipoise demo` as a newcomer types it."""

from __future__ import annotations

import re
import subprocess
import sys


def test_the_demo_ends_by_itself_and_reports_that_nothing_was_lost() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "equipoise.cli.main", "demo", "--seconds", "5"],
        capture_output=True,
        text=True,
        timeout=110,
        env={"COLUMNS": "120", "PATH": "/usr/bin:/bin"},
    )
    assert run.returncode == 0, run.stderr
    shown = " ".join(run.stdout.split())
    assert "messages published per second" in shown
    moved = re.search(r"moved (\d+) times: none lost, none twice, none out of order", shown)
    assert moved is not None, shown
    assert int(moved.group(1)) >= 1
