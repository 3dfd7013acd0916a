"""Options of commands that run their work on Spark."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["Master"]

Master = Annotated[
    str,
    typer.Option(
        help="Run on Spark: spark://host:port of a cluster whose machines have this package, or local[*]."
    ),
]
