"""The settings file of `equipoise controller`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from equipoise.cli.main import make_app
from equipoise.cli.support import controller_process
from equipoise.cli.support.controller_file import CONTROLLER_OPTIONS, PAGES_OPTIONS, Loaded, load
from equipoise.cli.support.controller_process import ControllerOptions, bounded
from equipoise.control.settings import ControllerSettings
from equipoise.errors import SettingsError
from equipoise.plan import PlannerSettings
from equipoise.web import WebSettings


def read(folder: Path, text: str, **given: Any) -> Loaded:
    (folder / "c.toml").write_text(text)
    return load(folder / "c.toml", given)


def test_without_a_file_everything_is_as_usual() -> None:
    assert load(None, {}) == Loaded(ControllerSettings(), WebSettings(), PlannerSettings())


def test_a_file_sets_what_it_names_and_the_command_line_the_rest(tmp_path: Path) -> None:
    text = """
        [controller]
        urgent_period_s = 2
        view_age_s_max = 20.0
        hub_start_timeout_s = 60
        refresh_interval_s = 0.5
        chart_history_s = 60
        metrics_topics_max = 7
        [planner]
        plan_wait_s = 3
    """
    made = read(tmp_path, text, name="one", sites=("lyon", "paris"))
    assert made.controller == ControllerSettings(
        name="one",
        sites=("lyon", "paris"),
        urgent_period_s=2.0,
        view_age_s_max=20.0,
        hub_start_timeout_s=60.0,
    )
    assert made.pages == WebSettings(refresh_interval_s=0.5, chart_history_s=60.0, metrics_topics_max=7)
    assert made.planner == PlannerSettings(plan_wait_s=3.0)


def test_every_setting_of_a_controller_has_an_option_or_is_in_the_file(tmp_path: Path) -> None:
    command: Any = get_command(make_app(["controller"])).commands["controller"]  # type: ignore[attr-defined]  # a group
    options = {option for parameter in command.params for option in parameter.opts}
    for kind, by_option in ((ControllerSettings, CONTROLLER_OPTIONS), (WebSettings, PAGES_OPTIONS)):
        usual = msgspec.to_builtins(kind())
        for name, value in usual.items():
            if name in by_option:
                assert by_option[name] in options
            else:
                other = f'"{value}x"' if isinstance(value, str) else value + 1
                read(tmp_path, f"[controller]\n{name} = {other}\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[planner]\nplan_wait = 3\n", "plan_wait"),
        ("[planner]\nsafe_ratio = 0.9\n", "safe_ratio ≤ high_ratio"),
        ("[palnner]\n", r"no table 'palnner', only \[controller\] and \[planner\]"),
        ("controller = 3\n", "no table 'controller'"),
        ("nonsense", "not valid TOML"),
        (
            "[controller]\npresing_s = 3\n",
            r"no setting 'presing_s' in \[controller\]; it has .*urgent_period_s",
        ),
        ("[controller]\nperiod_s = 3\n", "period_s is not set here: .* with --period"),
        ("[controller]\ntoken = 'x'\n", "token is not set here: .* with --token-file"),
        ("[controller]\nurgent_period_s = 0\n", r"c.toml: Expected `float` > 0.0 - at `\$.urgent_period_s`"),
        ("[controller]\nmetrics_topics_max = 'all'\n", r"c.toml: Expected `int`.*metrics_topics_max"),
    ],
)
def test_an_invalid_file_is_an_error_with_a_remedy(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        read(tmp_path, text)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot read"):
        load(tmp_path / "c.toml", {})


def test_the_controller_runs_with_the_settings_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[ControllerOptions] = []

    async def serve(wanted: ControllerOptions) -> None:
        made.append(wanted)

    monkeypatch.setattr(controller_process, "_serve", serve)
    (tmp_path / "c.toml").write_text("[controller]\nurgent_period_s = 3\nchart_history_s = 60\n")
    words = [
        "controller",
        "--store",
        "zk://zk.example",
        "--period",
        "7",
        "--config",
        str(tmp_path / "c.toml"),
    ]
    result = CliRunner().invoke(make_app(["controller"]), words)
    assert result.exit_code == 0, result.output
    (wanted,) = made
    assert (wanted.settings.urgent_period_s, wanted.settings.period_s, wanted.pages.chart_history_s) == (
        3.0,
        7.0,
        60.0,
    )


@pytest.mark.parametrize(
    ("hubs_min", "hubs_max", "servers"),
    [(3, 5, (3, 5)), (2, 0, (2, 2)), (1, 0, (1, 1)), (3, 500, (3, 256))],
)
def test_the_planner_gets_the_maximum_number_of_hubs(
    hubs_min: int, hubs_max: int, servers: tuple[int, int]
) -> None:
    made = bounded(PlannerSettings(), ControllerSettings(hubs_min=hubs_min, hubs_max=hubs_max))
    assert (made.servers_min, made.servers_max) == servers
