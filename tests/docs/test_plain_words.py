"""Help, errors and docs name their subjects: no riddle words where a user of Redis or Kafka reads."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from support.sources import tree_of

REPOSITORY = Path(__file__).resolve().parents[2]
RIDDLES = re.compile(
    r"\b(whoever|whomever|whosoever|somebody|nobody|anybody|everybody|is told of|are told of|is said of|was said of|"
    r"begins? anew|begun anew|began anew|under our hands|its own word|goes on as if|has to see to it|untold)\b",
    re.IGNORECASE,
)
# The labels of this page are docstrings of the handover's table.
LATER = {"reference/handover.md"}
PAGES = [
    REPOSITORY / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "benchmarks/README.md")
] + [
    path
    for path in sorted((REPOSITORY / "docs").rglob("*.md"))
    if str(path.relative_to(REPOSITORY / "docs")) not in LATER
]
COMMANDS = sorted((REPOSITORY / "src" / "equipoise" / "cli").rglob("*.py"))


def riddles(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if RIDDLES.search(line)]


def test_a_vague_word_is_found() -> None:
    assert riddles("a\nWhoever reads this\nb") == ["Whoever reads this"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_a_page_names_its_subjects(path: Path) -> None:
    assert riddles(path.read_text()) == []


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_a_command_names_its_subjects(path: Path) -> None:
    assert riddles(path.read_text()) == []


def test_errors_name_their_subjects() -> None:
    found: list[str] = []
    for path in sorted((REPOSITORY / "src" / "equipoise").rglob("*.py")):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Raise) and node.exc is not None:
                texts = [
                    part.value
                    for part in ast.walk(node.exc)
                    if isinstance(part, ast.Constant) and isinstance(part.value, str)
                ]
                found += [f"{path.name}: {text}" for text in texts if RIDDLES.search(text)]
    assert found == []
