"""Docstrings, comments and tests name their subjects, such as hub or controller, not "whoever" or "somebody"."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("src/equipoise", "tests", "benchmarks", "examples")
VAGUE = re.compile(r"\b(whoever|whomever|nobody|somebody|anybody|everybody)\b", re.IGNORECASE)
# These two tests contain the words themselves.
TESTS_OF_WORDS = {"test_named_subjects.py", "test_plain_words.py"}
# Lines with such a word. The ceiling may only be lowered.
LINES_MAX = 5


def test_lines_name_their_subjects() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in (".py", ".js", ".html", ".c", ".h") and path.name not in TESTS_OF_WORDS
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if VAGUE.search(line)
    ]
    assert len(found) <= LINES_MAX, "\n".join(found)
