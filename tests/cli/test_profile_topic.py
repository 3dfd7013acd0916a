"""`equipoise profile topic`: from a trace, and from hubs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from equipoise.cli.profile import app
from equipoise.cli.support.arrival_traces import read_trace, write_trace
from equipoise.errors import SettingsError

runner = CliRunner()


def steady(path: Path, messages: int) -> Path:
    write_trace(path, [(0.1 * n, n % 3, 1) for n in range(messages)])
    return path


def test_a_trace_gives_rate_burst_curve_and_verdict(tmp_path: Path) -> None:
    done = runner.invoke(app, ["topic", "t", "--trace", str(steady(tmp_path / "trace.csv", 500))])
    assert done.exit_code == 0
    assert "500 messages of 3 publishers" in done.output
    assert "rate 11.04/s, bursts of 1" in done.output
    assert "holds on the second half" in done.output
    answer = runner.invoke(app, ["topic", "t", "--json", "--trace", str(tmp_path / "trace.csv")])
    facts = json.loads(answer.output)
    assert (facts["burst"], facts["problem"]) == (1, None)
    assert [one["fitted_s"] for one in facts["curve"]] == [0.0] * len(facts["curve"])


def test_too_little_data_gives_a_warning(tmp_path: Path) -> None:
    done = runner.invoke(app, ["topic", "t", "--trace", str(steady(tmp_path / "trace.csv", 50))])
    assert "warning: too little data" in done.output


@pytest.mark.parametrize("lines", ["", "1.0,p,1\n"])
def test_without_arrivals_no_limit_is_proposed(tmp_path: Path, lines: str) -> None:
    (tmp_path / "trace.csv").write_text(lines)
    done = runner.invoke(app, ["topic", "t", "--trace", str(tmp_path / "trace.csv")])
    assert "warning: too little data" in done.output and "rate" not in done.output


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["1", "2", "1.5"], "line 3: 1.5 s comes before 2 s"),
        (["# a comment", "", "x"], "line 3: 'x' is not: seconds"),
        (["1,p,0"], "line 1"),
        (["nan"], "line 1"),
    ],
)
def test_an_invalid_trace_is_rejected_with_its_line(tmp_path: Path, lines: list[str], said: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(lines))
    with pytest.raises(SettingsError, match=said):
        read_trace(path)
    done = runner.invoke(app, ["topic", "t", "--trace", str(path)])
    assert done.exit_code != 0


def test_one_source_of_arrivals_is_needed(tmp_path: Path) -> None:
    assert runner.invoke(app, ["topic", "t"]).exit_code != 0
    assert runner.invoke(app, ["topic", "t", "--record", "1s", "--trace", "x"]).exit_code != 0
