"""Put something else in the place of one function for a while, in simulation only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["replaced"]


@contextmanager
def replaced(owner: Any, attribute: str, replacement: object) -> Iterator[None]:
    """Put something else in the place of one attribute. Works on modules and on classes, slotted or not."""
    original = vars(owner)[attribute]
    setattr(owner, attribute, replacement)
    try:
        yield
    finally:
        setattr(owner, attribute, original)
