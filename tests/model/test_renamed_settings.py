"""A settings file with an old name is refused, and the error names the new one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from equipoise.cli.support.controller_file import load
from equipoise.client.settings import ClientSettings, make_settings
from equipoise.control.settings import ControllerSettings
from equipoise.errors import SettingsError
from equipoise.hub.settings import HubSettings, parse_settings
from equipoise.model.renamed_settings import CLIENT_SETTINGS, CONTROLLER_SETTINGS, HUB_SETTINGS
from equipoise.plan import PlannerSettings
from equipoise.web import WebSettings


@pytest.mark.parametrize(("old", "new"), HUB_SETTINGS.items())
def test_an_old_name_of_a_hub_setting_is_refused(old: str, new: str) -> None:
    table, key = old.split(".")
    with pytest.raises(SettingsError, match=f"{old} was renamed to {new}"):
        parse_settings({table: {key: 1}})


@pytest.mark.parametrize(("old", "new"), CONTROLLER_SETTINGS.items())
def test_an_old_name_of_a_controller_setting_is_refused(old: str, new: str, tmp_path: Path) -> None:
    table, key = old.split(".")
    (tmp_path / "controller.toml").write_text(f"[{table}]\n{key} = 1\n")
    with pytest.raises(SettingsError, match=f"{old} was renamed to {new}"):
        load(tmp_path / "controller.toml", {})


@pytest.mark.parametrize(("old", "new"), CLIENT_SETTINGS.items())
def test_an_old_name_of_a_client_setting_is_refused(old: str, new: str) -> None:
    with pytest.raises(SettingsError, match=f"{old} was renamed to {new}"):
        make_settings(None, {old: 1})


def test_new_names_exist_and_old_ones_do_not() -> None:
    hub = {
        f"{table}.{field}"
        for table, settings in msgspec.structs.asdict(HubSettings()).items()
        if isinstance(settings, msgspec.Struct)
        for field in settings.__struct_fields__
    }
    own = {*ControllerSettings.__struct_fields__, *WebSettings.__struct_fields__}
    controller = {f"controller.{name}" for name in own}
    controller |= {f"planner.{name}" for name in PlannerSettings.__struct_fields__}
    client = set(ClientSettings.__struct_fields__)
    for renamed, known in ((HUB_SETTINGS, hub), (CONTROLLER_SETTINGS, controller), (CLIENT_SETTINGS, client)):
        assert set(renamed.values()) <= known
        assert not renamed.keys() & known
