"""The reference pages agree with the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from equipoise.cli.reference import PAGES

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    kept = (FOLDER / f"{name}.md").read_text()
    assert kept == PAGES[name](), "run `make docs` and commit the result"


def test_every_setting_has_a_reason() -> None:
    rows = [line for line in PAGES["settings"]().splitlines() if line.startswith("| `")]
    assert len(rows) > 40
    assert not [row for row in rows if row.endswith("|  |")]
