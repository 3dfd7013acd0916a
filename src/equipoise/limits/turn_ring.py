"""Weighted round robin over the publishers that wait for tokens.

A new party is placed before those at the end of the ring that have had a turn since its own last one, and behind all
others. So a party that leaves and returns, or was rejected, is not placed behind parties that rejoin at once. A party
is passed at most once before its next turn, so a flood of new parties does not delay it.

The last turns are kept after a party leaves, for a limited number of parties.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic, TypeVar

__all__ = ["TurnRing"]

Party = TypeVar("Party")

# The least number of parties whose last turn is kept: about as many as rejoin before others have had a round.
REMEMBERED = 1_000


class TurnRing(Generic[Party]):
    """Always true: a party is in the ring once, and `total` is the sum of the weights."""

    __slots__ = ("_had", "_last_turns", "_passed", "_turns", "_weights", "total")

    def __init__(self) -> None:
        self._weights: OrderedDict[Party, int] = OrderedDict()
        # Turns that the first has had in this round.
        self._had = 0
        # Turns in a round.
        self.total = 0
        # By party, the number of its last turn, the latest last; and the count of turns.
        self._last_turns: OrderedDict[Party, int] = OrderedDict()
        self._turns = 0
        # Parties in the ring that were passed since they joined, or since their last turn.
        self._passed: set[Party] = set()

    def __len__(self) -> int:
        return len(self._weights)

    def __iter__(self) -> Iterator[Party]:
        return iter(self._weights)

    def __contains__(self, party: Party) -> bool:
        return party in self._weights

    @property
    def first(self) -> Party | None:
        """The party whose turn it is; None if no party waits."""
        return next(iter(self._weights), None)

    def weight(self, party: Party) -> int:
        """Its turns in a round; 0 if it is not in the ring."""
        return self._weights.get(party, 0)

    def join(self, party: Party, weight: int = 1) -> None:
        """Add the party; a party in the ring keeps its place, with the new weight."""
        weight, is_new = max(1, weight), party not in self._weights
        later = self._later(party) if is_new else []
        self.total += weight - self._weights.get(party, 0)
        self._weights[party] = weight
        for other in reversed(later):
            self._weights.move_to_end(other)
            self._passed.add(other)

    def turns_before(self, party: Party) -> int:
        """Turns of others before its next one; for a party outside the ring: if it joined now."""
        behind = self._from(party) if party in self._weights else self._later(party)
        turns = self.total - sum(self._weights[other] for other in behind)
        first = self.first
        # The first is at the end of this list, if it is in it.
        if first is None or (behind and behind[-1] == first):
            return turns
        # It still has one turn, even if its weight is now below the turns it has had.
        return turns - min(self._had, self._weights[first] - 1)

    def _from(self, party: Party) -> list[Party]:
        """The party and all behind it, the last of them first."""
        found: list[Party] = []
        for other in reversed(self._weights):
            found.append(other)
            if other == party:
                break
        return found

    def _later(self, party: Party) -> list[Party]:
        """The parties behind which a new party need not wait, the last of them first."""
        last_turn = self._last_turns.get(party, 0)
        found: list[Party] = []
        for other in reversed(self._weights):
            is_later = self._last_turns.get(other, 0) > last_turn and other not in self._passed
            if not is_later or (self._had and other == self.first):
                break
            found.append(other)
        return found

    def leave(self, party: Party) -> None:
        if party not in self._weights:
            return
        if party == self.first:
            self._had = 0
        self.total -= self._weights.pop(party)
        self._passed.discard(party)

    def turn_over(self) -> None:
        """The first has had a turn: the next party is first, unless its weight allows another turn."""
        first = self.first
        assert first is not None, "a party has had the turn"
        self._turns += 1
        self._last_turns[first] = self._turns
        self._last_turns.move_to_end(first)
        if len(self._last_turns) > max(REMEMBERED, 2 * len(self._weights)):
            self._last_turns.popitem(last=False)
        self._passed.discard(first)
        self._had += 1
        if self._had >= self._weights[first]:
            self._had = 0
            self._weights.move_to_end(first)
