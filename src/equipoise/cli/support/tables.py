"""Print rows as a table that fits the terminal, or as JSON."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import typer

_GAP = "  "
# The least width of a truncated column.
_WIDTH_MIN = 8


def show_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table. On a terminal the widest columns are truncated until it fits; in a pipe none is."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in table_lines(headers, rows, width):
        typer.echo(line)


def show_rows(headers: Sequence[str], rows: Sequence[Mapping[str, object]]) -> None:
    """Print a table of rows that have a value under each header's name in lower case; an absent one is empty."""
    show_table(headers, [[row.get(header.lower()) for header in headers] for row in rows])


def table_lines(
    headers: Sequence[str], rows: Sequence[Sequence[object]], width: int | None = None
) -> list[str]:
    texts = [[str(header) for header in headers], *([_text(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in texts) for column in range(len(headers))]
    is_number = [
        bool(rows) and all(isinstance(row[column], int | float) for row in rows)
        for column in range(len(headers))
    ]
    while width is not None and sum(widths) + len(_GAP) * (len(widths) - 1) > width:
        widest = max(range(len(widths)), key=widths.__getitem__)
        if widths[widest] <= _WIDTH_MIN:
            break
        widths[widest] -= 1
    lines = []
    for row in texts:
        cells = [
            _cut(text, size).rjust(size) if number else _cut(text, size).ljust(size)
            for text, size, number in zip(row, widths, is_number, strict=True)
        ]
        lines.append(_GAP.join(cells).rstrip())
    return lines


def show_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def show_result(facts: Mapping[str, Any], words: str, *, as_json: bool) -> None:
    """Print the result of a command as text or as a JSON object."""
    if as_json:
        show_json(facts)
    else:
        typer.echo(words)


def name_of(name: bytes) -> str:
    """A topic or pattern as text; bytes that are not UTF-8 are escaped."""
    return name.decode("utf-8", "backslashreplace")


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1] + "…"


def _text(cell: object) -> str:
    if cell is None:
        return "-"
    return f"{cell:.2f}" if isinstance(cell, float) else str(cell)
