"""PlaceTopics of ePulsar's Algorithm 1: assign topics to hubs, and report unserved topics.

As in the paper: topics with the fewest choices first, each to the first of its choices that can host it; a topic that
no choice can host stays. Two additions, which never make the result worse:

    levelling   choices with latencies within `level_s` of the first one count as one choice: the least loaded of them
    is
                taken, so that the hubs of one site share its load;
    making way  a topic whose choices are full displaces a topic there that can move elsewhere within its own limit,
                maybe to the hub of the first; the displaced topic may displace another, a few times over.

Always true: no hub receives a topic that it cannot host; a topic moves only to one of its choices; at least as many
topics are within their limits as in the paper's order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equipoise.plan.latency.headroom import HubHeadroom
from equipoise.plan.latency.ranking import Candidates

__all__ = ["Assignment", "place_topics"]

NOWHERE = -1
# Depth of displacement, and how many topics are tried for one topic, and for all together.
_DEPTH = 3
_ASKED_MAX = 64
_ASKED_MAX_IN_ALL = 20_000


@dataclass(frozen=True, eq=False)
class Assignment:
    """The result. Rows are those of the candidates."""

    # The new hub of each topic; its present hub if it stays.
    hub: NDArray[np.int64]
    # Whether it is within its limit there, by the estimates.
    is_served: NDArray[np.bool_]

    @property
    def unserved(self) -> int:
        return int((~self.is_served).sum())


def place_topics(
    candidates: Candidates,
    room: HubHeadroom,
    homes: Sequence[int],
    *,
    must_leave: Sequence[bool] = (),
    level_s: float = 0.0,
    makes_way: bool = True,
) -> Assignment:
    """`homes` is each row's present hub, -1 for none; rows in `must_leave` may not stay there.

    `room` is changed to the state after the placement. Without levelling and making way this is the paper's procedure.
    """
    first = _Placing(candidates, room, homes, must_leave)
    first.place_all(level_s)
    if makes_way:
        first.make_way()
    made = first.placement()
    if level_s <= 0 or not (candidates.is_feasible & ~made.is_served).any():
        return made
    # Levelling may have filled a hub that is the only choice of another topic.
    first.undo()
    strict = _Placing(candidates, room, homes, must_leave)
    strict.place_all(0.0)
    if makes_way:
        strict.make_way()
    other = strict.placement()
    if other.unserved < made.unserved:
        return other
    strict.undo()
    first.redo(made)
    return made


class _Placing:
    """One attempt."""

    def __init__(
        self, candidates: Candidates, room: HubHeadroom, homes: Sequence[int], must_leave: Sequence[bool]
    ) -> None:
        self._candidates, self._room = candidates, room
        self._topics: list[int] = candidates.topics.tolist()
        self._limit_s: list[float] = candidates.limit_s.tolist()
        self._homes = list(homes)
        self._must_leave = list(must_leave) or [False] * len(self._homes)
        self._hub = list(homes)
        self._worst_s = [np.inf] * len(self._homes)
        # By hub, the rows there that some hub would keep within their limits.
        self._guests: dict[int, dict[int, None]] = {}
        for row in np.flatnonzero(candidates.is_feasible).tolist():
            self._guests.setdefault(self._hub[row], {})[row] = None
        # How many topics may still be tried, for this topic and in all.
        self._asks = 0
        self._asks_in_all = _ASKED_MAX_IN_ALL

    def place_all(self, level_s: float) -> None:
        for row in self._candidates.fewest_first():
            self._place(row, level_s)

    def _place(self, row: int, level_s: float) -> None:
        if not self._choose(row, self._candidates.first(row), level_s):
            self._choose(row, self._candidates.beyond(row), level_s)

    def _choose(self, row: int, choices: Iterable[tuple[int, float]], level_s: float) -> bool:
        """Assign the first of these that can host the topic, or the least loaded of its equals; whether one can."""
        topic, home, room = self._topics[row], self._homes[row], self._room
        chosen, chosen_s, last_s, least = NOWHERE, np.inf, np.inf, np.inf
        for hub, worst_s in choices:
            if worst_s > last_s:
                break
            if hub == home:
                if self._must_leave[row]:
                    continue
                # It is there already, and no clearly better hub can host it.
                self._worst_s[row] = worst_s
                return True
            ratio = room.if_hosted(topic, hub)
            if ratio < least and room.can_host(topic, hub):
                last_s = min(last_s, worst_s + level_s)
                chosen, chosen_s, least = hub, worst_s, ratio
            if level_s <= 0 and chosen != NOWHERE:
                break
        if chosen == NOWHERE:
            return False
        self._put(row, chosen)
        self._worst_s[row] = chosen_s
        return True

    def make_way(self) -> None:
        """For topics that are not within their limits though some hub would keep them."""
        for row in self._candidates.fewest_first():
            if self._candidates.is_feasible[row] and not self._is_served(row):
                self._asks = min(_ASKED_MAX, self._asks_in_all)
                self._asks_in_all -= self._asks
                self._find_way(row, _DEPTH, set())
                self._asks_in_all += self._asks

    def _find_way(self, row: int, depth: int, tried: set[int]) -> bool:
        topic = self._topics[row]
        choices = [
            (hub, worst_s)
            for hub, worst_s in self._candidates.first(row)
            if hub not in tried and hub != self._homes[row]
        ]
        for hub, worst_s in choices:
            if self._room.can_host(topic, hub):
                self._put(row, hub)
                self._worst_s[row] = worst_s
                return True
        if depth == 0:
            return False
        for hub, worst_s in choices:
            tried.add(hub)
            for guest in list(self._guests.get(hub, ())):
                if self._asks <= 0:
                    return False
                if self._swap(row, guest, hub, depth, tried):
                    self._worst_s[row] = worst_s
                    return True
        return False

    def _swap(self, row: int, guest: int, hub: int, depth: int, tried: set[int]) -> bool:
        """Assign the guest's hub to the topic if the guest finds another."""
        self._asks -= 1
        before, guest_s = self._hub[row], self._worst_s[guest]
        self._put(guest, NOWHERE)
        if self._room.can_host(self._topics[row], hub):
            self._put(row, hub)
            if self._find_way(guest, depth - 1, tried):
                return True
            self._put(row, before)
        self._put(guest, hub)
        self._worst_s[guest] = guest_s
        return False

    def _put(self, row: int, hub: int) -> None:
        topic, before = self._topics[row], self._hub[row]
        self._room.give(topic, before)
        if before in self._guests:
            self._guests[before].pop(row, None)
        if hub != NOWHERE:
            self._room.take(topic, hub)
            if self._candidates.is_feasible[row]:
                self._guests.setdefault(hub, {})[row] = None
        self._hub[row] = hub

    def _is_served(self, row: int) -> bool:
        return self._worst_s[row] <= self._limit_s[row]

    def placement(self) -> Assignment:
        served = [self._is_served(row) for row in range(len(self._topics))]
        return Assignment(np.array(self._hub, np.int64), np.array(served, np.bool_))

    def undo(self) -> None:
        for row, home in enumerate(self._homes):
            self._put(row, home)

    def redo(self, placement: Assignment) -> None:
        for row, hub in enumerate(placement.hub.tolist()):
            self._put(row, hub)
