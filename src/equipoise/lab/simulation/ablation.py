"""A safeguard that can be switched off, to test that a checker detects its absence.

Production code has no switches: what is replaced is the one function or attribute that holds the safeguard, for as long
as the context manager lasts, and everything is put back afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

__all__ = ["Ablation", "replaced", "replacing"]


@contextmanager
def replaced(owner: Any, attribute: str, replacement: object) -> Iterator[None]:
    """Put something else in the place of one attribute. Works on modules and on classes, slotted or not."""
    original = vars(owner)[attribute]
    setattr(owner, attribute, replacement)
    try:
        yield
    finally:
        setattr(owner, attribute, original)


def replacing(
    owner: object, attribute: str, replacement: object
) -> Callable[[], AbstractContextManager[None]]:
    """For `Ablation.off`: the same, each time it is called. `owner`: a class, or a module."""
    return lambda: replaced(owner, attribute, replacement)


@dataclass(frozen=True, slots=True)
class Ablation:
    """One safeguard and what its absence does."""

    name: str
    # What is switched off.
    summary: str
    # The checker that must notice, and the case in which it does.
    property: str
    case: str
    off: Callable[[], AbstractContextManager[None]]
    # A seed of the case that has shown it; others may as well.
    seed: int = 0
