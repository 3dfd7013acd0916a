"""The syntax trees of the project's own files."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    """What the file parses to.

    The collector waits meanwhile. A finalizer that it runs inside `ast.parse` and that fails has its traceback
    printed, for which Python 3.11 parses the failing line: a parse inside a parse, which ends the outer one with
    "SystemError: AST constructor recursion depth mismatch".
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(path.read_text())
    finally:
        if was_enabled:
            gc.enable()
