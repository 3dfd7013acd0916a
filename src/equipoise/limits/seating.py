"""Deal the publishers of a split topic to its homes, one by one: groups apart, shares kept.

Publishers of one group fire together, so they should sit at different homes; and every home should have its share of
all publishers. Each comer gets the home that lacks most of both, of the comer's group and of all. When shares change,
or publishers leave, those that sit at a home with too many are moved, the ones first whose groups have too many there;
and where groups turn out otherwise than they were dealt, members are moved until each is spread.

A group has a name that its publishers have stated, or it is a number: so many neighbours in an order that was found
from their arrivals (`limits.seat_order`).

Always true:
    a publisher has one seat, at a home;
    `surplus` names no publisher if every home has its share, give or take `SLACK`, and `deal` leaves it so;
    a move that `crowded` asks for makes the sum of squares of what homes have too many of, of each group and of all,
    smaller: a deal does not flap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["SLACK", "Group", "Seat", "Seating"]

# How many publishers a home may have above its share before one of them is moved.
SLACK = 1.0
# What a home has too many of a group counts so many times as much as what it has too many of all.
_TOGETHER = 2.0
# A move must make the sum of squares smaller by more than twice this.
_GAIN_MIN = 0.01
# Shares are millionths: what they come to for thousands of publishers is off by less than this.
_ROUNDING = 0.05

# Stated, or found; an empty name is that of all of whom neither is known.
Group = bytes | int


class Seat(NamedTuple):
    """Where a publisher sits, and with whom it fires."""

    home: str
    group: Group


class Seating:
    """Of one topic. `shares` are parts of 1, by home."""

    def __init__(self, shares: Mapping[str, float]) -> None:
        self._shares = dict(shares)
        self.seats: dict[bytes, Seat] = {}
        # Exactly the homes that have publishers, and how many.
        self._at: Counter[str] = Counter()
        # By group and home, those who sit there; no group without any.
        self._groups: dict[Group, dict[str, dict[bytes, None]]] = {}
        # Groups that `crowded` has yet to look at; and whether anything has changed since they were noted.
        self._due: list[Group] = []
        self._is_changed = False

    @property
    def shares(self) -> Mapping[str, float]:
        return self._shares

    @shares.setter
    def shares(self, shares: Mapping[str, float]) -> None:
        self._is_changed |= shares != self._shares
        self._shares = dict(shares)

    def take(self, publisher: bytes, group: Group, home: str) -> None:
        """It sits there: it was told so, by this hub or by one that dealt before."""
        self.leave(publisher)
        self._is_changed = True
        self.seats[publisher] = Seat(home, group)
        self._at[home] += 1
        self._groups.setdefault(group, {}).setdefault(home, {})[publisher] = None

    def leave(self, publisher: bytes) -> None:
        seat = self.seats.pop(publisher, None)
        if seat is None:
            return
        self._is_changed = True
        self._at[seat.home] -= 1
        if not self._at[seat.home]:
            del self._at[seat.home]
        homes = self._groups[seat.group]
        del homes[seat.home][publisher]
        if not homes[seat.home]:
            del homes[seat.home]
        if not homes:
            del self._groups[seat.group]

    def deal(self, publisher: bytes, group: Group) -> str:
        """Give it a seat, or another one."""
        self.leave(publisher)
        homes = [home for home in self._shares if self._over(home) <= self._shares[home] + _ROUNDING]
        home = max(homes, key=lambda home: (self._lack(home, group), home))
        self.take(publisher, group, home)
        return home

    def _lack(self, home: str, group: Group) -> float:
        """How much the home would lack of its share if one more of the group came: of the group, and of all."""
        return (_TOGETHER + 1) * self._shares[home] - self._too_many(group, home)

    def _too_many(self, group: Group, home: str) -> float:
        return _TOGETHER * self._crowding(group, home) + self._over(home)

    def _crowding(self, group: Group, home: str) -> float:
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
        if fullest in self.shares and self._over(fullest) <= SLACK + 2 * _ROUNDING:
            return None
        there = [group for group, seats in self._groups.items() if fullest in seats]
        crowded = max(there, key=lambda group: self._crowding(group, fullest))
        return next(reversed(self._groups[crowded][fullest]))

    def crowded(self, most: int) -> bytes | None:
        """A publisher whose group would be spread better if it sat elsewhere. Looks at so many groups at most.

        None: there is none, or not among those.
        """
        if not self._due and self._is_changed and self._shares:
            self._due, self._is_changed = list(self._groups), False
        for _ in range(min(most, len(self._due))):
            if (publisher := self._misplaced(self._due[-1])) is not None:
                return publisher
            self._due.pop()
        return None

    def _misplaced(self, group: Group) -> bytes | None:
        """One of the group that `deal` would give another seat, with a gain."""
        homes = self._groups.get(group, {})
        roomy = [home for home in self._shares if self._over(home) <= _ROUNDING]
        if group == b"" or not homes or not roomy:
            return None
        fullest = max(homes, key=lambda home: self._too_many(group, home))
        least = min(self._too_many(group, home) for home in roomy)
        is_worth_it = self._too_many(group, fullest) - least > _TOGETHER + 1 + _GAIN_MIN
        return next(reversed(homes[fullest])) if is_worth_it else None
