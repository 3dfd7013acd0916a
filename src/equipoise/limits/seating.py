"""Assign the publishers of a split topic to its homes, one by one: groups apart, shares kept.

Publishers of one group fire together, so they should be at different homes; and every home should have its share of
all publishers. Each new publisher gets the home with the largest deficit, of its group and of all. When shares change,
or publishers leave, some publishers move from a home with too many, those first whose groups have too many there; and
if the groups change, members move until each group is spread.

A group has a name stated by its publishers, or it is a number: a block of neighbours in an order that was computed from
their arrivals (`limits.seat_order`).

Always true:
    a publisher has one seat, at a home;
    `surplus` returns no publisher if every home has its share within `SLACK`, and `deal` leaves it so;
    a move by `crowded` decreases the sum of squares of the excess at homes, of each group and of all: assignments do
    not oscillate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["SLACK", "Group", "Seat", "Seating"]

# The number of publishers that a home may have above its share before one of them is moved.
SLACK = 1.0
# Weight of the excess of one group at a home, relative to the excess of all publishers.
_TOGETHER = 2.0
# A move must decrease the sum of squares by more than twice this.
_GAIN_MIN = 0.01
# Shares are millionths: their error for thousands of publishers is less than this.
_ROUNDING = 0.05

# Stated or computed; the empty name is the group of all publishers without either.
Group = bytes | int


class Seat(NamedTuple):
    """The home and the group of a publisher."""

    home: str
    group: Group


class Seating:
    """Of one topic. `shares` are parts of 1, by home."""

    def __init__(self, shares: Mapping[str, float]) -> None:
        self._shares = dict(shares)
        self.seats: dict[bytes, Seat] = {}
        # Exactly the homes that have publishers, and the number of these.
        self._at: Counter[str] = Counter()
        # By group and home, its publishers; no empty groups.
        self._groups: dict[Group, dict[str, dict[bytes, None]]] = {}
        # Groups that `crowded` has yet to check; and whether anything has changed since they were listed.
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
        """Record a seat that this hub, or an earlier assigner, gave to the publisher."""
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
        """Assign a home to the publisher, or another home."""
        self.leave(publisher)
        homes = [home for home in self._shares if self._over(home) <= self._shares[home] + _ROUNDING]
        home = max(homes, key=lambda home: (self._lack(home, group), home))
        self.take(publisher, group, home)
        return home

    def _lack(self, home: str, group: Group) -> float:
        """The deficit of the home if one more of the group is assigned: of the group, and of all."""
        return (_TOGETHER + 1) * self._shares[home] - self._too_many(group, home)

    def _too_many(self, group: Group, home: str) -> float:
        return _TOGETHER * self._crowding(group, home) + self._over(home)

    def _crowding(self, group: Group, home: str) -> float:
        """The excess of the group at the home over its share."""
        homes = self._groups.get(group, {})
        return len(homes.get(home, ())) - self.shares.get(home, 0.0) * sum(map(len, homes.values()))

    def _over(self, home: str) -> float:
        return self._at[home] - self.shares.get(home, 0.0) * len(self.seats)

    def surplus(self) -> bytes | None:
        """A publisher to move to another home; None if no home has too many."""
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
        """A publisher whose move would spread its group better. Checks at most this many groups.

        None: there is none among those groups.
        """
        if not self._due and self._is_changed and self._shares:
            self._due, self._is_changed = list(self._groups), False
        for _ in range(min(most, len(self._due))):
            if (publisher := self._misplaced(self._due[-1])) is not None:
                return publisher
            self._due.pop()
        return None

    def _misplaced(self, group: Group) -> bytes | None:
        """A publisher of the group to which `deal` would assign another home, with a gain."""
        homes = self._groups.get(group, {})
        roomy = [home for home in self._shares if self._over(home) <= _ROUNDING]
        if group == b"" or not homes or not roomy:
            return None
        fullest = max(homes, key=lambda home: self._too_many(group, home))
        least = min(self._too_many(group, home) for home in roomy)
        is_worth_it = self._too_many(group, fullest) - least > _TOGETHER + 1 + _GAIN_MIN
        return next(reversed(homes[fullest])) if is_worth_it else None
