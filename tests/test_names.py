"""One public class name stands for one thing in the whole package."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from support.sources import tree_of

ROOT = Path(__file__).resolve().parents[1] / "src" / "equipoise"
# Public class names that stand for several things: 67 before. The ceiling may only be lowered.
SEVERAL_MAX = 0


def public_classes() -> dict[str, list[str]]:
    """By name, the files that define a public class of it."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(ROOT)))
    return found


def test_few_public_class_names_stand_for_several_things() -> None:
    several = {name: files for name, files in public_classes().items() if len(files) > 1}
    assert len(several) <= SEVERAL_MAX, several
