"""The client's benchmark still runs. What it measures gates nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from support.processes import ROOT


def test_the_benchmark_measures_every_row() -> None:
    run = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "micro" / "client.py"), "--seconds", "0.1", "--json"],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    rates = json.loads(run.stdout)
    assert len(rates) == 4
    assert all(rate > 0 for rate in rates.values())
