"""Who of those that wait has the next turn: one after another, each as often in a round as its weight says.

A party that joins comes last in the present round, so no party waits for longer than one round of those before it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic, TypeVar

__all__ = ["TurnRing"]

Party = TypeVar("Party")


class TurnRing(Generic[Party]):
    """Always true: a party is in the ring once, and `total` is the sum of the weights."""

    __slots__ = ("_had", "_weights", "total")

    def __init__(self) -> None:
        self._weights: OrderedDict[Party, int] = OrderedDict()
        # Turns that the first has had in this round.
        self._had = 0
        # Turns in a round.
        self.total = 0

    def __len__(self) -> int:
        return len(self._weights)

    def __iter__(self) -> Iterator[Party]:
        return iter(self._weights)

    def __contains__(self, party: Party) -> bool:
        return party in self._weights

    @property
    def first(self) -> Party | None:
        """Whose turn it is; None if no party waits."""
        return next(iter(self._weights), None)

    def join(self, party: Party, weight: int = 1) -> None:
        """Have turns from now on, after all others; one that is in the ring keeps its place, with another weight."""
        weight = max(1, weight)
        self.total += weight - self._weights.get(party, 0)
        self._weights[party] = weight

    def leave(self, party: Party) -> None:
        if party not in self._weights:
            return
        if party == self.first:
            self._had = 0
        self.total -= self._weights.pop(party)

    def turn_over(self) -> None:
        """The first has had a turn: the next one's, unless its weight gives it more."""
        first = self.first
        assert first is not None, "a party has had the turn"
        self._had += 1
        if self._had >= self._weights[first]:
            self._had = 0
            self._weights.move_to_end(first)
