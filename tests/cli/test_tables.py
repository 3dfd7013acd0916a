"""Tables fit the terminal, and quantities are parsed with their units."""

from __future__ import annotations

import pytest

from equipoise.cli.support.tables import name_of, table_lines
from equipoise.cli.support.units import parse_milliseconds, parse_rate
from equipoise.errors import SettingsError


def test_columns_line_up_and_numbers_are_right_aligned() -> None:
    assert table_lines(("HUB", "LOAD", "SITE"), [("h1", 0.5, None), ("longer", 10.25, "paris")]) == [
        "HUB      LOAD  SITE",
        "h1       0.50  -",
        "longer  10.25  paris",
    ]


def test_the_widest_column_is_cut_until_the_table_fits() -> None:
    lines = table_lines(("TOPIC", "HOME"), [("x" * 100, "h1")], width=30)
    assert max(map(len, lines)) == 30
    assert lines[1].startswith("x" * 23 + "…  h1")


def test_a_table_that_cannot_fit_has_a_minimum_width() -> None:
    lines = table_lines(("A", "B"), [("x" * 50, "y" * 50)], width=3)
    assert lines[1] == "x" * 7 + "…  " + "y" * 7 + "…"


def test_a_table_without_rows_has_its_headers() -> None:
    assert table_lines(("A", "B"), []) == ["A  B"]


def test_names_that_are_not_utf_8_are_shown_escaped() -> None:
    assert name_of(b"caf\xc3\xa9 \xff") == "café \\xff"


@pytest.mark.parametrize(("text", "ms"), [("40ms", 40.0), ("1.5s", 1500.0), ("250 us", 0.25)])
def test_times_have_units(text: str, ms: float) -> None:
    assert parse_milliseconds(text) == ms


@pytest.mark.parametrize(("text", "per_s"), [("500/s", 500.0), ("30/min", 0.5), ("7200 / h", 2.0)])
def test_rates_have_units(text: str, per_s: float) -> None:
    assert parse_rate(text) == per_s


@pytest.mark.parametrize("text", ["40", "ms", "-1ms", "1e3s", "500", "5/day"])
def test_quantities_without_a_unit_are_rejected_with_an_example(text: str) -> None:
    with pytest.raises(SettingsError, match="such as"):
        parse_milliseconds(text)
    with pytest.raises(SettingsError, match=r"such as 500/s, between 0\.001 and 10000000"):
        parse_rate(text)
