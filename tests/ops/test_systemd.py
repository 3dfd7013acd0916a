"""The systemd units are whole, and start commands that exist with options that they have."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from docs.checking import check_command
from equipoise.cli import hub as hub_command
from equipoise.cli.main import make_app
from equipoise.cli.support import controller_process
from equipoise.cli.support.controller_process import ControllerOptions
from equipoise.hub import HubSettings
from equipoise.hub.membership.process import check_reachable

FOLDER = Path(__file__).resolve().parents[2] / "ops" / "systemd"
CONTROLLER = "equipoise-controller.service"
UNITS = sorted(FOLDER.glob("*.service"))


def settings_of(unit: Path) -> dict[str, dict[str, list[str]]]:
    """By section, by key, every value."""
    sections: dict[str, dict[str, list[str]]] = {}
    section: dict[str, list[str]] = {}
    for line in unit.read_text().splitlines():
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            section.setdefault(key, []).append(value)
    return sections


def test_there_is_a_unit_for_each_process_of_a_system() -> None:
    names = [unit.name for unit in UNITS]
    assert names == [
        "equipoise-bookie@.service",
        "equipoise-controller.service",
        "equipoise-gateway.service",
        "equipoise-hub@.service",
        "equipoise-pipeline.service",
    ]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_starts_a_command_that_our_command_line_understands(
    unit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EQUIPOISE_STORE", "zk://zk.example/equipoise")
    (start,) = settings_of(unit)["Service"]["ExecStart"]
    words = shlex.split(start.replace("%i", "1").replace("%H", "host"))
    assert words[0] == "/opt/equipoise/bin/equipoise"
    check_command(words[1:])


def words_of(name: str) -> list[str]:
    """What a unit starts on the machine `db7`, without the program."""
    (start,) = settings_of(FOLDER / name)["Service"]["ExecStart"]
    return shlex.split(start.replace("%i", "1").replace("%H", "db7"))[1:]


def test_a_controller_tells_others_where_they_reach_it_and_not_where_it_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text("a token that is long enough")
    made: list[ControllerOptions] = []

    async def serve(wanted: ControllerOptions) -> None:
        made.append(wanted)

    monkeypatch.setenv("EQUIPOISE_STORE", "zk://zk.example/equipoise")
    monkeypatch.setattr(controller_process, "_serve", serve)
    words = [str(token) if word == "/etc/equipoise/token" else word for word in words_of(CONTROLLER)]
    result = CliRunner().invoke(make_app(["controller"]), words)
    assert result.exit_code == 0, result.output
    (wanted,) = made
    assert wanted.http is not None
    assert (wanted.advertised(*wanted.intake), wanted.advertised(*wanted.http)) == ("db7:6397", "db7:6398")


def test_a_hub_tells_others_where_they_reach_it_and_not_where_it_listens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[HubSettings] = []

    async def serve(settings: HubSettings, *_: object) -> None:
        made.append(settings)

    monkeypatch.setenv("EQUIPOISE_STORE", "zk://zk.example/equipoise")
    monkeypatch.setattr(hub_command, "serve", serve)
    words = words_of("equipoise-hub@.service")
    at = words.index("--config")
    result = CliRunner().invoke(make_app(["hub"]), words[:at] + words[at + 2 :])
    assert result.exit_code == 0, result.output
    (settings,) = made
    check_reachable(settings)
    assert settings.membership.advertise == f"db7:{settings.port}" == "db7:6401"


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_is_started_again_by_itself_and_runs_as_nobody_in_particular(unit: Path) -> None:
    service = settings_of(unit)["Service"]
    assert service["Restart"] == ["always"] and service["User"] == ["equipoise"]
    assert service["EnvironmentFile"] == ["/etc/equipoise/equipoise.env"]
    assert settings_of(unit)["Install"]["WantedBy"] == ["multi-user.target"]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_has_nothing_to_say_against_a_unit(unit: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    # The program and the files are those of another machine.
    text = unit.read_text().replace("/opt/equipoise/bin/equipoise", "/bin/true")
    copy = tmp_path / unit.name.replace("@", "@1")
    copy.write_text(text)
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = [line for line in verified.stderr.splitlines() if unit.name.split("@")[0].split(".")[0] in line]
    assert said == []
