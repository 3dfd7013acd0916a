"""The command `equipoise simulate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from equipoise.cli.main import app
from equipoise.lab.scenarios import scenario_by_name
from equipoise.lab.simulation.runner import run_seed

RUNNER = CliRunner()


def simulate(*words: str) -> tuple[int, str]:
    result = RUNNER.invoke(app, ["simulate", *words])
    return result.exit_code, result.output


def test_json_is_one_object_with_case_verdict_and_hash_of_each_seed() -> None:
    status, output = simulate("--case", "hub-small", "--case", "hub-cuts", "--seeds", "3..6", "--json")
    told = json.loads(output)
    assert status == 0
    assert told["verdict"] == "green"
    assert [(row["case"], row["seed"]) for row in told["seeds"]] == [
        (case, seed) for case in ("hub-cuts", "hub-small") for seed in (3, 4, 5)
    ]
    assert {row["verdict"] for row in told["seeds"]} == {"green"}
    assert told["seeds"][3]["trace_hash"] == run_seed(scenario_by_name("hub-small"), 3).trace_hash
    assert set(told["faults"]) == {"hub-small", "hub-cuts"}
    assert told["failures"] == []


def test_a_failure_prints_seed_commit_replay_command_and_the_end_of_the_trace() -> None:
    status, output = simulate("--case", "hub-resets", "--seeds", "0..2", "--without", "resubscription")
    assert status == 1
    assert "FAILED hub-resets seed 0 at commit " in output
    assert "progress: " in output
    assert "replay: equipoise simulate --case hub-resets --replay 0 --without resubscription" in output
    assert "deliver hub:6399>" in output


def test_the_replay_command_of_a_failure_shows_the_same_failure() -> None:
    words = ["--case", "hub-resets", "--without", "resubscription", "--json"]
    _, output = simulate(*words, "--seeds", "0..1")
    (failure,) = json.loads(output)["failures"]
    status, replayed = simulate(*failure["replay"].split()[2:], "--json")
    assert status == 1
    assert json.loads(replayed)["failures"] == [failure]
    assert json.loads(replayed)["seeds"] == json.loads(output)["seeds"]


def test_a_replay_writes_every_event_and_does_not_change_the_run(tmp_path: Path) -> None:
    trace = tmp_path / "trace.txt"
    status, output = simulate("--case", "hub-small", "--replay", "5", "--trace", str(trace))
    assert status == 0
    lines = trace.read_text().splitlines()
    assert len(lines) > 100
    assert all(len(line.split(" ", 4)) == 5 for line in lines)
    assert run_seed(scenario_by_name("hub-small"), 5).trace_hash in output


def test_the_table_has_the_number_of_each_kind_of_fault() -> None:
    status, output = simulate("--case", "hub-resets", "--seeds", "0..3")
    assert status == 0
    resets = sum(run_seed(scenario_by_name("hub-resets"), seed).faults["reset"] for seed in range(3))
    assert f"reset {resets}" in output
    assert "3 seeds in " in output and "seeds/s" in output


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--seeds", "5"], "FIRST..END"),
        (["--seeds", "5..5"], "FIRST..END"),
        (["--case", "nowhere"], "unknown case 'nowhere'"),
        (["--without", "nothing"], "unknown safeguard 'nothing'"),
        (["--case", "hub-small", "--seeds", "0..2", "--trace", "x"], "--trace writes the events of one run"),
        (["--case", "hub-small", "--replay", "0", "--trace", "/dev/null/x"], "cannot write the trace to"),
    ],
)
def test_an_error_names_the_valid_choices(words: list[str], text: str) -> None:
    status, output = simulate(*words)
    assert status == 2
    assert text in output


def test_cases_and_safeguards_are_listed() -> None:
    status, output = simulate("--list")
    assert status == 0
    assert "hub-everything" in output and "output-limits" in output
