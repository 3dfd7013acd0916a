"""Common properties of all commands: JSON output, shell completion, a quick start."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import equipoise
from equipoise.cli.main import COMMANDS, make_app, named_command
from equipoise.cli.support import progress, store_options
from equipoise.cli.support.store_options import local_store_url
from equipoise.cli.support.tables import table_lines
from equipoise.control.settings import POLICIES

# Ours, wherever a command is run from.
SOURCES = str(Path(equipoise.__file__).parents[1])
# They run until they are stopped, or write files; what they print is for people and for supervisors.
WITHOUT_JSON = {
    ("hub",),
    ("controller",),
    ("pipeline",),
    ("store",),
    ("up",),
    ("demo",),
    ("bench", "render"),
    ("reference", "write"),
}


def leaves(command: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    inner = getattr(command, "commands", None)
    if inner is None:
        return {path: command}
    return {key: found for name, one in inner.items() for key, found in leaves(one, (*path, name)).items()}


def test_every_command_with_output_has_json() -> None:
    without = {
        path
        for path, command in leaves(get_command(make_app())).items()
        if not any("--json" in parameter.opts for parameter in command.params)
    }
    assert without == WITHOUT_JSON


def test_the_help_of_a_controller_has_a_line_for_each_policy() -> None:
    shown = (
        CliRunner().invoke(make_app(["controller"]), ["controller", "--help"], env={"COLUMNS": "250"}).stdout
    )
    lines = [line.strip("│ ") for line in shown.splitlines()]
    assert all(f"{name}: {line}" in lines for name, line in POLICIES.items()), shown


def test_the_list_of_commands_has_the_summaries_of_the_commands() -> None:
    whole = get_command(make_app())
    for name, summary in COMMANDS.items():
        command = whole.commands[name]  # type: ignore[attr-defined]  # it is a group
        said = (command.help or "").strip().partition("\n\n")[0].replace("\n", " ")
        assert summary == ("" if command.hidden else said), f"change {name} in COMMANDS of cli/main.py"


@pytest.mark.parametrize(
    ("words", "environment", "found"),
    [
        (["hub", "--port", "1"], {}, "hub"),
        (["--help"], {}, None),
        ([], {}, None),
        (["--install-completion", "bash"], {}, None),
        (["nothing"], {}, None),
        ([], {"_EQUIPOISE_COMPLETE": "complete_bash", "COMP_WORDS": "equipoise move n"}, "move"),
        ([], {"_EQUIPOISE_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "equipoise topics "}, "topics"),
        ([], {"_EQUIPOISE_COMPLETE": "complete_bash", "COMP_WORDS": "equipoise mo"}, None),
        (["sub", "x"], {"COMP_WORDS": "something else"}, "sub"),
    ],
)
def test_only_the_command_that_is_named_is_loaded(
    words: list[str], environment: dict[str, str], found: str | None
) -> None:
    assert named_command(words, environment) == found


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "equipoise.cli.main", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "COLUMNS": "80", "EQUIPOISE_STORE": "", **environment},
    )


def loaded_by(*words: str) -> set[str]:
    """The modules that a command line has loaded by its end."""
    program = (
        f"import sys, atexit; sys.argv[1:] = {list(words)!r}; "
        "atexit.register(lambda: print('\\nLOADED', *sys.modules)); "
        "import equipoise.cli.main as m; m.main()"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    return set(shown.stdout.partition("\nLOADED ")[2].split())


def test_help_loads_none_of_what_commands_need() -> None:
    loaded = loaded_by("--help")
    assert "typer" in loaded
    heavy = {
        "numpy",
        "pyarrow",
        "pyspark",
        "starlette",
        "uvicorn",
        "matplotlib",
        "kazoo",
        "uvloop",
        "msgspec",
    }
    assert loaded & heavy == set()
    ours = {name for name in loaded if name.startswith("equipoise.")}
    assert ours == {"equipoise.cli", "equipoise.cli.main", "equipoise.errors", "equipoise.version"}


@pytest.mark.parametrize(
    "words", [("hub", "--help"), ("doctor", "--help"), ("topics", "--help"), ("pub", "--help")]
)
def test_no_command_loads_planning_or_pages_or_spark_for_nothing(words: tuple[str, ...]) -> None:
    heavy = {
        "numpy",
        "pyarrow",
        "pyspark",
        "starlette",
        "uvicorn",
        "matplotlib",
        "kazoo",
        "prometheus_client",
    }
    assert loaded_by(*words) & heavy == set()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_printed_and_installed(shell: str, tmp_path: Path) -> None:
    by_name = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1", "HOME": str(tmp_path)}
    shown = run("--show-completion", shell, **by_name)
    assert shown.returncode == 0, shown.stderr
    assert "_EQUIPOISE_COMPLETE=complete_" in shown.stdout
    kept = run("--install-completion", shell, **by_name)
    assert kept.returncode == 0, kept.stderr
    files = [path for path in tmp_path.rglob("*equipoise*") if path.is_file()]
    assert any("_EQUIPOISE_COMPLETE" in path.read_text() for path in files)


def complete(line: str, cwd: Path | None = None, **environment: str) -> list[str]:
    words = line.split(" ")
    shown = subprocess.run(
        [sys.executable, "-m", "equipoise.cli.main"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": SOURCES, "EQUIPOISE_STORE": "", **environment}
        | {"_EQUIPOISE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)},
    )
    assert shown.stderr == ""
    return shown.stdout.split()


def test_commands_and_options_are_completed() -> None:
    assert complete("equipoise re") == ["reproduce", "replicate"]
    assert complete("equipoise hubs dr") == ["drain"]
    assert "--max-hubs" in complete("equipoise up --max")


def test_names_are_not_completed_where_there_is_no_store(tmp_path: Path) -> None:
    assert complete("equipoise hubs drain h", cwd=tmp_path) == []
    assert complete("equipoise move t", cwd=tmp_path, EQUIPOISE_STORE="eqs://127.0.0.1:1") == []


def test_the_store_of_the_system_in_this_folder_is_found(tmp_path: Path) -> None:
    assert local_store_url(tmp_path) == ""
    for text, url in (
        ('{"store": 2200}', "zk://127.0.0.1:2200"),
        ("[]", ""),
        ("{", ""),
        ('{"store": "x"}', ""),
    ):
        (tmp_path / "ports.json").write_text(text)
        assert local_store_url(tmp_path) == url


def test_without_a_running_system_the_error_says_how_to_start_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EQUIPOISE_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(store_options, "_PATIENCE_S", 0.5)
    (tmp_path / "equipoise-data").mkdir()
    # No server listens on port 1.
    (tmp_path / "equipoise-data" / "ports.json").write_text('{"store": 1}')
    told = CliRunner().invoke(make_app(["hubs"]), ["hubs", "ls"])
    assert told.exit_code == 1 and "start it with `equipoise up`" in told.output


def test_a_store_that_does_not_answer_is_named_after_two_seconds_but_not_to_programs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store_options, "_PATIENCE_S", 0.5)
    monkeypatch.setattr(progress, "LONG_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"zk://127.0.0.1:{deaf.getsockname()[1]}"
        for words, is_told in (([], True), (["--json"], False)):
            told = CliRunner().invoke(make_app(["hubs"]), ["hubs", "ls", "--store", url, *words])
            assert told.exit_code == 1 and "no store answers" in told.stderr
            assert (f"no answer yet from the store {url}" in told.stderr) is is_told
            assert told.stdout == ""


def test_lists_of_cases_have_json() -> None:
    told = json.loads(CliRunner().invoke(make_app(["simulate"]), ["simulate", "--list", "--json"]).stdout)
    assert told["cases"] and {"name", "summary", "breaks", "case"} <= told["safeguards"][0].keys()
    told = json.loads(CliRunner().invoke(make_app(["reproduce"]), ["reproduce", "--list", "--json"]).stdout)
    assert told[0]["name"] and told[0]["summary"]


def test_the_widest_table_that_operators_see_fits_eighty_columns() -> None:
    headers = ("HUB", "STATE", "ADDRESS", "SITE", "RACK", "WEIGHT", "LOAD", "ENTRIES")
    row = ("a-hub-with-a-name", "serving", "hub-1.example.org:6399", "frankfurt", "rack-17", 1.0, 0.5, 12_345)
    assert max(map(len, table_lines(headers, [row], width=80))) <= 80


@pytest.mark.parametrize("name", [name for name, summary in COMMANDS.items() if summary])
def test_help_fits_eighty_columns(name: str) -> None:
    runner = CliRunner(env={"COLUMNS": "80", "TERM": "dumb", "NO_COLOR": "1"})
    shown = runner.invoke(make_app([name]), [name, "--help"], prog_name="equipoise").stdout
    assert max(map(len, shown.splitlines())) <= 80
