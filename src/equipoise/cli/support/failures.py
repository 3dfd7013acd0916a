"""Exit statuses of commands, and errors as one line on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from equipoise.errors import EquipoiseError, MisuseError

FAILED = 1
MISUSED = 2
INTERRUPTED = 130


@contextmanager
def exit_on_failure() -> Iterator[None]:
    """Print expected errors as a line on standard error. Any other exception is a bug and keeps its traceback."""
    try:
        yield
    except EquipoiseError as problem:
        print(f"equipoise: {problem}", file=sys.stderr)
        raise typer.Exit(MISUSED if isinstance(problem, MisuseError) else FAILED) from problem
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
