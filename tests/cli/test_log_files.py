"""`equipoise topics export` and `import`: a log is restored unchanged, from either kind of file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from typer.testing import CliRunner

from equipoise.cli.topics import app
from support.processes import ServerProcess, hub

ENTRIES = 2_500
RAW = bytes(range(256))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with hub("--data", str(tmp_path_factory.mktemp("data"))) as server:
        client = redis.Redis(host=server.host, port=server.port, socket_timeout=30)
        with client.pipeline(transaction=False) as pipe:
            for number in range(ENTRIES):
                pipe.xadd("log", {b"n": b"%d" % number, b"raw": RAW}, id=f"5-{number + 1}")
            pipe.execute()
        yield server


def run(server: ServerProcess, *words: str) -> Any:
    done = CliRunner().invoke(app, [*words, "--hub", f"{server.host}:{server.port}", "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_log_is_restored_unchanged(server: ServerProcess, tmp_path: Path, suffix: str) -> None:
    file = str(tmp_path / f"log.{suffix}")
    assert run(server, "export", "log", file)["entries"] == ENTRIES
    facts = run(server, "import", f"copy-{suffix}", file)
    assert (facts["added"], facts["skipped"]) == (ENTRIES, 0)
    client: Any = redis.Redis(host=server.host, port=server.port, socket_timeout=30)
    assert client.xrange(f"copy-{suffix}") == client.xrange("log")


def test_a_topic_without_a_log_is_not_exported(server: ServerProcess, tmp_path: Path) -> None:
    file = tmp_path / "none.jsonl"
    words = ["export", "none", str(file), "--hub", f"{server.host}:{server.port}"]
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, file.exists()) == (2, False)
    assert "topic none has no log" in done.output


def test_a_file_that_cannot_be_written_is_named(server: ServerProcess, tmp_path: Path) -> None:
    for file, reason in (
        (tmp_path / "none" / "log.jsonl", "No such file"),
        (tmp_path / "dir.jsonl", "Is a directory"),
    ):
        if file.parent == tmp_path:
            file.mkdir()
        done = CliRunner().invoke(app, ["export", "log", str(file), "--hub", f"{server.host}:{server.port}"])
        assert (done.exit_code, done.exception.__class__) == (2, SystemExit), done.output
        assert f"cannot write {file}: {reason}" in " ".join(done.output.split())
        assert not list(tmp_path.glob("*.part"))


def test_an_interrupted_import_can_be_repeated(server: ServerProcess, tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    run(server, "export", "log", str(file))
    lines = file.read_text().splitlines(keepends=True)
    (tmp_path / "part.jsonl").write_text("".join(lines[:100]))
    run(server, "import", "again", str(tmp_path / "part.jsonl"))
    (tmp_path / "more.jsonl").write_text("".join(lines[:150]))
    facts = run(server, "import", "again", str(tmp_path / "more.jsonl"))
    assert (facts["added"], facts["skipped"]) == (50, 100)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("log.csv", "", "ends in .jsonl or .parquet"),
        ("missing.jsonl", None, "cannot read"),
        ("bad.jsonl", '{"id": "1-1"}\n', "line 1: not an entry of a log: write"),
        ("bad.jsonl", "nonsense\n", "line 1: not an entry of a log: write"),
        ("bad.jsonl", '{"id": "1-1", "fields": ["f", "v", "odd"]}\n', "line 1: not an entry of a log"),
        ("bad.jsonl", '{"id": "1-1", "fields": "text"}\n', "line 1: not an entry of a log"),
        ("bad.jsonl", '{"id": "1-1", "fields": [["f"], ["v"]]}\n', "line 1: not an entry of a log"),
        ("bad.parquet", "not Parquet at all", "not an exported log"),
    ],
)
def test_a_file_that_is_no_log_is_rejected(
    server: ServerProcess, tmp_path: Path, name: str, text: str | None, problem: str
) -> None:
    file = tmp_path / name
    if text is not None:
        file.write_text(text)
    done = CliRunner().invoke(app, ["import", "bad", str(file), "--hub", f"{server.host}:{server.port}"])
    assert done.exit_code != 0
    assert problem in " ".join(done.output.split())
