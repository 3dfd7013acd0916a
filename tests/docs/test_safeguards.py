"""The page of safeguards names every ablation, every module of its folders, and tests that exist."""

from __future__ import annotations

import re
from functools import cache

import pytest

from docs.blocks import ROOT
from equipoise.lab.simulation.campaign import ABLATIONS

PAGE = ROOT / "docs" / "internals" / "safeguards.md"
SOURCES = ROOT / "src" / "equipoise"
FOLDERS = ("hub/cluster", "hub/membership", "store", "client")


@cache
def words() -> list[str]:
    """All that the page has in backticks."""
    return re.findall(r"`([^`\n]+)`", PAGE.read_text())


def part(folder: str) -> str:
    found = re.search(rf"^## {folder}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert found is not None, f"there is no part about {folder}"
    return found[1]


def test_every_safeguard_that_can_be_switched_off_is_on_the_page() -> None:
    named = [word for word in words() if re.fullmatch(r"[a-z]+(-[a-z]+)*", word)]
    assert set(named) - {"name", "client", "store", "alive"} == set(ABLATIONS)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_module_is_on_the_page_with_its_safeguards_or_as_one_without(folder: str) -> None:
    modules = {
        str(path.relative_to(SOURCES / folder))
        for path in (SOURCES / folder).rglob("*.py")
        if path.name != "__init__.py"
    }
    named = re.findall(r"`([\w/]+\.py)`", part(folder))
    own = {name for name in named if not name.startswith("tests/")}
    assert own == modules


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_safeguard_is_shown_by_an_ablation_or_a_test(folder: str) -> None:
    rows = [
        [cell.strip() for cell in row.strip("|").split("|")]
        for row in part(folder).splitlines()
        if "|" in row
    ]
    safeguards = [row for row in rows if row[0] != "module" and not row[0].startswith("---")]
    assert safeguards
    for _module, words, shown in safeguards:
        named = re.findall(r"`([^`]+)`", shown)
        assert any(name in ABLATIONS or name.startswith("tests/") for name in named), words


def test_the_tests_that_it_names_are_there() -> None:
    named = {word for word in words() if word.startswith("tests/") and word.endswith(".py")}
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
