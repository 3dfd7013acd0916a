"""The command `equipoise demo` in its short form."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from local.up_world import require_java

pytestmark = pytest.mark.xdist_group("up")


def demo(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "equipoise.cli.main",
            "demo",
            "--short",
            "--report",
            str(folder / "report.html"),
        ],
        capture_output=True,
        text=True,
        timeout=280,
        env={**os.environ, "COLUMNS": "120", "EQUIPOISE_STORE": "", **environment},
    )


@pytest.mark.needs_java
@pytest.mark.needs_spark
@pytest.mark.timeout(300)
def test_the_demo_moves_spreads_and_loses_nothing_and_ends_with_a_report(tmp_path: Path) -> None:
    require_java()
    run = demo(tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"Dashboard: http://127\.0\.0\.1:\d+", run.stdout)
    moved = re.search(r"moved the busy topic (\d+) times", run.stdout)
    assert moved is not None and int(moved.group(1)) >= 1, run.stdout
    assert "0 lost, 0 duplicated, 0 out of order" in run.stdout
    # It began with three.
    hubs = re.search(r"At most (\d+) hubs were running, and the crowd's tile had (\d+) homes", run.stdout)
    assert hubs is not None and int(hubs.group(1)) >= 4 and int(hubs.group(2)) >= 2, run.stdout
    # What the controller did, with its reason.
    assert re.search(r"replicated|high-load|rising-load|shared-out", run.stdout), run.stdout
    # The swarm's limit was broken when it crossed, and held when its topic had followed. What was measured before the
    # move may be shown after it: there are two seconds between two lines, and a move may take less.
    assert re.search(
        r"the swarm is in the east, .*BROKEN(?s:.*)the swarm is in the east, .*: held", run.stdout
    ), run.stdout
    assert re.search(r"swarm/1 → .*: latency \(latency_ms", run.stdout), run.stdout
    back = re.search(r"back under 40 ms after (\d+) s", run.stdout)
    assert back is not None and int(back.group(1)) <= 25, run.stdout
    assert "Latency from drone to drone, and its limit" in (tmp_path / "report.html").read_text()


def test_without_java_the_demo_shows_moves_and_says_why_no_more(tmp_path: Path) -> None:
    run = demo(tmp_path, PATH=str(tmp_path), JAVA_HOME="")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "Only moves can be shown: there is no Java" in run.stdout
    assert "0 lost, 0 duplicated, 0 out of order" in run.stdout
    moved = re.search(r"moved the busy topic (\d+) times", run.stdout)
    assert moved is not None and int(moved.group(1)) >= 1, run.stdout


def test_an_unwritable_report_is_an_error_before_any_process_starts(tmp_path: Path) -> None:
    run = demo(tmp_path / "nowhere")
    assert run.returncode == 2
    assert "cannot write the report" in run.stderr and run.stdout == ""
