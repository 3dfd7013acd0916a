"""A safeguard that can be switched off, to test that a checker detects its absence.

Production code has no switches. An ablation replaces the one function or attribute that implements the safeguard while
its context manager is active, and restores it afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

__all__ = ["Ablation", "replaced", "replacing"]


@contextmanager
def replaced(owner: Any, attribute: str, replacement: object) -> Iterator[None]:
    """Replace one attribute of a module or class while the context is active. Works with slots too."""
    original = vars(owner)[attribute]
    setattr(owner, attribute, replacement)
    try:
        yield
    finally:
        setattr(owner, attribute, original)


def replacing(
    owner: object, attribute: str, replacement: object
) -> Callable[[], AbstractContextManager[None]]:
    """A factory of `replaced` contexts, for `Ablation.off`. `owner`: a class or a module."""
    return lambda: replaced(owner, attribute, replacement)


@dataclass(frozen=True, slots=True)
class Ablation:
    """One safeguard, and the property that its absence violates."""

    name: str
    # The safeguard as one sentence.
    summary: str
    # The checker that must report its absence, and the case in which it does.
    property: str
    case: str
    off: Callable[[], AbstractContextManager[None]]
    # A seed of the case with a violation; other seeds may have one too.
    seed: int = 0
