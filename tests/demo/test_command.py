"""`equipoise demo` as a newcomer types it."""

from __future__ import annotations

import subprocess
import sys


def test_the_demo_ends_by_itself_and_reports_that_nothing_was_lost() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "equipoise.cli.main", "demo", "--seconds", "1"],
        capture_output=True,
        text=True,
        timeout=60,
        env={"COLUMNS": "120", "PATH": "/usr/bin:/bin"},
    )
    assert run.returncode == 0, run.stderr
    assert "messages published per second" in run.stdout
    assert "none lost, none twice, none out of order" in run.stdout
