"""JSON results of commands; and names that a shell completes from a running system."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.two_hubs import System
from equipoise.cli.main import app


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    with System() as made:
        yield made


def test_changes_are_printed_with_the_version_of_the_plan(system: System) -> None:
    moved = system.json("move", "told", "h1", "--wait")
    assert (moved["topic"], moved["homes"], moved["is_there"]) == ("told", ["h1"], True)
    copied = system.json("replicate", "told", "--mode", "all-publishers", "--hubs", "h2,h1")
    assert copied["version"] > moved["version"] and copied["mode"] == "all-publishers"
    drained = system.json("hubs", "drain", "h2", "--wait")
    assert drained["hub"] == "h2" and drained["is_empty"]
    assert system.json("hubs", "weigh", "h2", "1")["weight"] == 1.0
    assert system.json("topics", "set", "told.*", "--latency", "40ms")["latency_ms"] == 40.0
    assert system.json("topics", "unset", "told.*") == {"pattern": "told.*"}


def test_publishing_prints_json(system: System) -> None:
    url = f"equipoise://127.0.0.1:{system.members['h1'].hub.port}"
    words = ["pub", "told", "--size", "10", "--count", "1500", "--json", "--url", url]
    result = CliRunner().invoke(app, words)
    assert json.loads(result.stdout) == {"topic": "told", "published": 1500}


def test_users_are_printed_without_their_secrets(tmp_path: Path) -> None:
    file = str(tmp_path / "users.toml")
    add = ["users", "add", "ann", "--publish", "game.*", "--password-stdin", "--json", "--file", file]
    assert json.loads(CliRunner().invoke(app, add, input="a secret\n").stdout)["added"] == "ann"
    (row,) = json.loads(CliRunner().invoke(app, ["users", "ls", "--json", "--file", file]).stdout)
    assert row["user"] == "ann" and row["has_password"] and row["grants"]["publish"] == ["game.*"]
    assert "scrypt" not in json.dumps(row)
    removed = CliRunner().invoke(app, ["users", "rm", "ann", "--json", "--file", file])
    assert json.loads(removed.stdout)["removed"] == "ann"


def complete(system: System, line: str) -> list[str]:
    words = line.split(" ")
    shown = subprocess.run(
        [sys.executable, "-m", "equipoise.cli.main"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=os.environ
        | {"EQUIPOISE_STORE": system.url, "_EQUIPOISE_COMPLETE": "complete_bash"}
        | {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)},
    )
    return shown.stdout.split()


def test_names_of_hubs_and_topics_are_completed(system: System) -> None:
    system.client("h1").publish("completed.1", "x")
    system.run("move", "completed.2", "h2")
    assert complete(system, "equipoise hubs drain h") == ["h1", "h2"]
    assert complete(system, "equipoise replicate x --hubs h2,") == ["h2,h1"]
    assert set(complete(system, "equipoise move comp")) >= {"completed.2"}
    assert complete(system, "equipoise move completed.2 h") == ["h1", "h2"]
