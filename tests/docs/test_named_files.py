"""A module that a page of docs/internals names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = sorted((REPOSITORY / "docs" / "internals").glob("*.md"))
MODULE = re.compile(r"`(?:[\w/]+/)?(\w+\.(?:py|js|c))`")
FOLDERS = ("src", "tests", "benchmarks", "examples")


@pytest.fixture(scope="module")
def names() -> frozenset[str]:
    return frozenset(
        path.name
        for folder in FOLDERS
        for path in (REPOSITORY / folder).rglob("*")
        if path.suffix in (".py", ".js", ".c")
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_module_named_by_a_page_exists(page: Path, names: frozenset[str]) -> None:
    assert sorted(set(MODULE.findall(page.read_text())) - names) == []
