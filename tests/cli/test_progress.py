"""Long jobs show a bar with rate and remaining time on a terminal, and leave standard output alone."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from equipoise.cli.support.progress import rate_text


def run_on_terminal(*words: str) -> tuple[str, str]:
    """What the command printed on standard output, a pipe, and on standard error, a terminal."""
    ours, theirs = pty.openpty()
    seen: list[bytes] = []

    def read() -> None:
        # Linux answers EIO once the other end is closed.
        try:
            while data := os.read(ours, 65_536):
                seen.append(data)
        except OSError:
            pass

    reader = threading.Thread(target=read)
    reader.start()
    command = [sys.executable, "-m", "equipoise.cli.main", *words]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "160"}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=theirs, env=environment, text=True, timeout=300, check=True
    )
    os.close(theirs)
    reader.join(30)
    os.close(ours)
    return done.stdout, b"".join(seen).decode(errors="replace")


@pytest.mark.timeout(330)
@pytest.mark.parametrize(
    ("words", "unit"),
    [
        (("simulate", "--case", "hub-small", "--seeds", "0..100"), "seeds/"),
        (("reproduce", "epulsar-6", "--quick"), "%/"),
        (("reproduce", "epulsar-6", "--quick", "--seeds", "1..3"), "seeds/"),
    ],
)
def test_a_terminal_shows_the_rate_and_json_stays_clean(words: tuple[str, ...], unit: str) -> None:
    output, shown = run_on_terminal(*words, "--json")
    assert isinstance(json.loads(output), dict)
    assert unit in shown
    assert "━" in shown


@pytest.mark.timeout(330)
def test_nothing_is_shown_without_a_terminal(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "equipoise.cli.main",
        "simulate",
        "--case",
        "hub-small",
        "--seeds",
        "0..3",
    ]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=300, check=True)
    assert isinstance(json.loads(done.stdout), dict)
    assert done.stderr == ""


def test_a_rate_below_one_a_second_is_shown_per_minute() -> None:
    assert rate_text(0, 5.0, "seeds") == ""
    assert rate_text(10, 5.0, "seeds") == "2 seeds/s"
    assert rate_text(1, 20.0, "seeds") == "3.0 seeds/min"
    assert rate_text(0.5, 100.0, "") == "30.0 %/min"
    assert rate_text(12_000, 2.0, "files") == "6,000 files/s"
