"""The glossary defines each word once, and only words that are used."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
GLOSSARY = REPOSITORY / "docs" / "glossary.md"
WORDS = [row[1] for row in re.finditer(r"^\| ([a-z][a-z -]*) \| ", GLOSSARY.read_text(), re.MULTILINE)][1:]


@cache
def text_of_the_project() -> str:
    files = [
        *(REPOSITORY / "src").rglob("*.py"),
        *(REPOSITORY / "docs").rglob("*.md"),
        REPOSITORY / "README.md",
    ]
    return "\n".join(path.read_text() for path in files if path != GLOSSARY).lower()


def test_each_word_is_defined_once() -> None:
    assert len(WORDS) > 50
    assert sorted(WORDS) == sorted(set(WORDS))


@pytest.mark.parametrize("word", WORDS)
def test_a_word_is_used(word: str) -> None:
    spelled = re.escape(word).replace(r"\ ", r"[\s_-]+")
    assert re.search(rf"\b{spelled}", text_of_the_project()) is not None
