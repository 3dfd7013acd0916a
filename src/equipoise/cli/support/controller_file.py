"""The settings file of `equipoise controller`: `[controller]` and `[planner]`.

Always true: every setting of a controller and of its pages is set in exactly one place, by an option of the command
line or in the table `[controller]`; so there is no order of priority.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from equipoise.control.settings import ControllerSettings
from equipoise.errors import SettingsError
from equipoise.model.renamed_settings import CONTROLLER_SETTINGS, refuse_renamed
from equipoise.plan import PlannerSettings
from equipoise.web import WebSettings

__all__ = ["CONTROLLER_OPTIONS", "PAGES_OPTIONS", "Loaded", "load"]

# The settings that have an option, with the option; all others are in the file.
CONTROLLER_OPTIONS = {
    "name": "--name",
    "site": "--site",
    "sites": "--sites",
    "policy": "--policy",
    "period_s": "--period",
    "hubs_min": "--hubs-min",
    "hubs_max": "--hubs-max",
}
PAGES_OPTIONS = {
    "host": "--http",
    "port": "--http",
    "token": "--token-file",
    "loopback_reads_allowed": "--loopback-reads",
    "tls_certificate": "--tls-certificate",
    "tls_key": "--tls-key",
}

_TABLES = ("controller", "planner")
_Settings = TypeVar("_Settings", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Loaded:
    controller: ControllerSettings
    pages: WebSettings
    planner: PlannerSettings


def load(path: Path | None, given: Mapping[str, Any]) -> Loaded:
    """The file's settings, with those of the command line (`given`). Raises SettingsError with the mistake."""
    tables = {} if path is None else _read(path)
    refuse_renamed(tables, CONTROLLER_SETTINGS)
    own, pages = _parted(path, tables.get("controller", {}))
    return Loaded(
        _made(path, {**own, **given}, ControllerSettings),
        _made(path, pages, WebSettings),
        _made(path, tables.get("planner", {}), PlannerSettings),
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        tables = tomllib.loads(path.read_text())
    except OSError as problem:
        raise SettingsError(f"cannot read the settings file {path}: {problem.strerror}") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise SettingsError(f"{path} is not valid TOML: {problem}") from problem
    for name, table in tables.items():
        if name not in _TABLES or not isinstance(table, dict):
            raise SettingsError(f"{path}: there is no table {name!r}, only [controller] and [planner]")
    return tables


def _parted(path: Path | None, table: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings of the controller, and those of its pages."""
    own = set(ControllerSettings.__struct_fields__) - CONTROLLER_OPTIONS.keys()
    pages = set(WebSettings.__struct_fields__) - PAGES_OPTIONS.keys()
    for name in table:
        option = CONTROLLER_OPTIONS.get(name) or PAGES_OPTIONS.get(name)
        if option is not None:
            raise SettingsError(f"{path}: {name} is not set here: give it on the command line, with {option}")
        if name not in own | pages:
            known = ", ".join(sorted(own | pages))
            raise SettingsError(f"{path}: there is no setting {name!r} in [controller]; it has {known}")
    return (
        {name: value for name, value in table.items() if name in own},
        {name: value for name, value in table.items() if name in pages},
    )


def _made(path: Path | None, values: Mapping[str, Any], kind: type[_Settings]) -> _Settings:
    try:
        return msgspec.convert(dict(values), kind)
    except msgspec.ValidationError as problem:
        raise SettingsError(f"{path}: {problem}" if path is not None else str(problem)) from problem
