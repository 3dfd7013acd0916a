"""Find the code blocks of a page, and what the page says about how they are run.

A block says its language, and `not-run` if it cannot be run here: its syntax is checked then. Comments that
readers do not see tell the rest:

    <!-- needs: hub -->       what runs before the page begins: a hub on 6399, or `up`, a whole system
    <!-- fresh -->            all that was started so far ends, and what follows begins anew
    <!-- around               the program that the next block is a part of; BLOCK stands for it
    …
    -->
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ROOT", "Block", "Fresh", "blocks_of", "needs_of", "pages"]

ROOT = Path(__file__).resolve().parents[2]

_PARTS = re.compile(
    r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```[ ]*$"
    r"|^<!-- around\n(?P<around>.*?)^-->$"
    r"|^(?P<fresh><!-- fresh -->)$",
    re.MULTILINE | re.DOTALL,
)
_NEEDS = re.compile(r"^<!-- needs: (?P<what>[a-z]+) -->$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    # Where it begins.
    line: int
    language: str
    is_run: bool
    text: str
    # The whole program, with BLOCK where the text belongs; empty if the text is one.
    around: str = ""

    @property
    def program(self) -> str:
        """The text, put where it belongs."""
        if not self.around:
            return self.text
        found = re.search(r"^(?P<indent> *)BLOCK$", self.around, re.MULTILINE)
        assert found is not None, "a program around a block has a line BLOCK"
        inner = textwrap.indent(self.text, found["indent"])
        return self.around[: found.start()] + inner + self.around[found.end() :]


@dataclass(frozen=True)
class Fresh:
    """Everything begins anew."""


def pages() -> list[str]:
    """Every page of the documentation, as a path from the root."""
    found = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *(ROOT / "docs").rglob("*.md")]
    return sorted(str(path.relative_to(ROOT)) for path in found)


def needs_of(page: str) -> str:
    """What has to run before the page begins; empty for nothing."""
    found = _NEEDS.search((ROOT / page).read_text())
    return found["what"] if found else ""


def blocks_of(page: str) -> Iterator[Block | Fresh]:
    whole = (ROOT / page).read_text()
    around = ""
    for found in _PARTS.finditer(whole):
        if found["fresh"]:
            yield Fresh()
        elif found["around"] is not None:
            around = found["around"]
        else:
            language, _, rest = found["info"].strip().partition(" ")
            assert rest.strip() in ("", "not-run"), f"{page}: a block says {found['info']!r}"
            text = textwrap.dedent(found["text"])
            line = whole.count("\n", 0, found.start()) + 1
            yield Block(line, language, not rest.strip(), text, around)
            around = ""
