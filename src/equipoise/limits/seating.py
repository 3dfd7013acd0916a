"""Deal the publishers of a split topic to its homes, one by one as they come: groups apart, shares kept.

Publishers of one group fire together, so they should sit at different homes; and every home should have as many
publishers as its share of the envelope's rate serves. Each comer gets the home that lacks most of both, of the comer's
group and of all. When shares change, or publishers leave, those that sit at a home with too many are moved, the ones
first whose groups have too many there.

Always true:
    a publisher has one seat, at a home;
    `surplus` names no publisher if every home has its share, give or take `SLACK`: a deal does not flap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["SLACK", "Seat", "Seating"]

# How many publishers a home may have above its share before one of them is moved.
SLACK = 1.0


class Seat(NamedTuple):
    """Where a publisher sits, and the group that it has stated; an empty one is that of all who have not."""

    home: str
    group: bytes


class Seating:
    """Of one topic. `shares` are parts of 1, by home."""

    def __init__(self, shares: Mapping[str, float]) -> None:
        self.shares = dict(shares)
        self.seats: dict[bytes, Seat] = {}
        # Exactly the homes that have publishers, and how many.
        self._at: Counter[str] = Counter()
        # By group and home, those who sit there; no group without any.
        self._groups: dict[bytes, dict[str, dict[bytes, None]]] = {}

    def take(self, publisher: bytes, group: bytes, home: str) -> None:
        """It sits there: it was told so, by this hub or by one that dealt before."""
        self.leave(publisher)
        self.seats[publisher] = Seat(home, group)
        self._at[home] += 1
        self._groups.setdefault(group, {}).setdefault(home, {})[publisher] = None

    def leave(self, publisher: bytes) -> None:
        seat = self.seats.pop(publisher, None)
        if seat is None:
            return
        self._at[seat.home] -= 1
        if not self._at[seat.home]:
            del self._at[seat.home]
        homes = self._groups[seat.group]
        del homes[seat.home][publisher]
        if not homes[seat.home]:
            del homes[seat.home]
        if not homes:
            del self._groups[seat.group]

    def deal(self, publisher: bytes, group: bytes) -> str:
        """Give it a seat, or another one."""
        self.leave(publisher)
        home = max(self.shares, key=lambda home: (self._lack(home, group), home))
        self.take(publisher, group, home)
        return home

    def _lack(self, home: str, group: bytes) -> float:
        """How much the home would lack of its share if one more of the group came: of the group, and of all."""
        return self.shares[home] * 2 - self._crowding(group, home) - self._over(home)

    def _crowding(self, group: bytes, home: str) -> float:
        """How many of the group sit there beyond the home's share of it."""
        homes = self._groups.get(group, {})
        return len(homes.get(home, ())) - self.shares.get(home, 0.0) * sum(map(len, homes.values()))

    def _over(self, home: str) -> float:
        return self._at[home] - self.shares.get(home, 0.0) * len(self.seats)

    def surplus(self) -> bytes | None:
        """A publisher that should sit elsewhere; None if all is as it should be."""
        homes = self.shares.keys() | self._at.keys()
        if not self.shares or not homes:
            return None
        fullest = max(
            homes, key=lambda home: (home not in self.shares and self._at[home], self._over(home), home)
        )
        if fullest in self.shares and self._over(fullest) <= SLACK:
            return None
        there = [group for group, seats in self._groups.items() if fullest in seats]
        crowded = max(there, key=lambda group: (self._crowding(group, fullest), group))
        return next(reversed(self._groups[crowded][fullest]))
