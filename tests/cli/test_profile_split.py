"""`equipoise profile split` rejects impossible numbers before it reads anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from equipoise.cli.profile import app


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--rate", "nan"),
        ("--rate", "inf"),
        ("--rate", "0"),
        ("--rate", "10000001"),
        ("--burst", "0"),
        ("--burst", "10000001"),
        ("--chunk-us", "inf"),
        ("--message-us", "-1"),
        ("--message-us", "1e300"),
        ("--hubs", "65"),
    ],
)
def test_numbers_out_of_range_are_rejected_by_name(tmp_path: Path, option: str, value: str) -> None:
    trace = tmp_path / "trace.csv"
    done = CliRunner().invoke(app, ["split", "t", "--trace", str(trace), "--latency", "1ms", option, value])
    assert done.exit_code == 2
    assert option in done.output
