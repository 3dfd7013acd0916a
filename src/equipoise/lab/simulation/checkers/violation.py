"""The result of a checker: one violated property, as text."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Violation"]


@dataclass(frozen=True, slots=True)
class Violation:
    """`property` is the name of the checker that found it."""

    property: str
    text: str

    def __str__(self) -> str:
        return f"{self.property}: {self.text}"
