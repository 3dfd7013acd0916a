"""How long this hub has been the only one to number a topic, for buckets without history.

A hub keeps its last routings, and the time at which the barrier of each passed. This hub has been the only one to
number a topic since the first barrier that passed in the unbroken sequence of routings with this home. If a hub had
died before that barrier, it may have numbered on under its lease for a term longer (`lease`).

Pure: routings and times, in nanoseconds, are arguments.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import NamedTuple

from equipoise.model import Entry, Mode, Plan

__all__ = ["SoleHome", "Tenure", "has_lane"]

# Plans follow each other every few seconds at most; a bucket that takes longer to fill starts with less.
ROUTINGS_MAX = 32


def has_lane(entry: Entry | None, hub: str) -> bool:
    """Whether the hub has a lane by the topic's entry."""
    return entry is not None and entry.mode is Mode.ALL_SUBSCRIBERS and hub in entry.homes[1:]


class SoleHome(NamedTuple):
    """No other live hub has numbered the topic since `since`; from `hold_until` on, no lease of a dead hub is left."""

    since: int
    hold_until: int


class _Era:
    """One routing."""

    __slots__ = ("death_at", "passed_at", "plan", "serving")

    def __init__(self, plan: Plan, serving: Collection[str]) -> None:
        self.plan = plan
        self.serving = serving
        # Time at which its barrier passed; and the latest such time, up to then, after a death. None: not yet.
        self.passed_at: int | None = None
        self.death_at: int | None = None

    def is_home(self, hub: str, topic: bytes) -> bool:
        homes = self.plan.home_of(topic, self.serving).homes
        return bool(homes) and homes[0] == hub


class Tenure:
    """Owned by the rate limits of one incarnation of a hub. Hubs may have died before it began."""

    def __init__(self, hub: str, term: int) -> None:
        """`term`: the lease's term in nanoseconds."""
        self._hub = hub
        self._term = term
        self._eras: deque[_Era] = deque(maxlen=ROUTINGS_MAX)
        self._has_deaths = True
        self._death_at: int | None = None

    def applied(self, plan: Plan, serving: Collection[str], *, has_deaths: bool) -> None:
        """The hub has applied another routing."""
        self._has_deaths = self._has_deaths or has_deaths
        self._eras.append(_Era(plan, serving))

    def passed(self, now: int) -> None:
        """The barrier of the current routing has passed, now or some time ago."""
        if not self._eras or (self._eras[-1].passed_at is not None and not self._has_deaths):
            return
        era = self._eras[-1]
        if self._has_deaths:
            self._has_deaths, self._death_at = False, now
        if era.passed_at is None:
            era.passed_at, era.death_at = now, self._death_at

    @property
    def deaths_over_at(self) -> int | None:
        """Time from which no dead hub numbers any message; None: not known yet."""
        return None if self._has_deaths or self._death_at is None else self._death_at + self._term

    def last_followed(self, topic: bytes, lane: str) -> Entry | None:
        """The topic's entry in the last routing with that lane whose barrier has passed; None: unknown."""
        for era in reversed(self._eras):
            entry = era.plan.entries.get(topic)
            if has_lane(entry, lane) and era.passed_at is not None:
                return entry
        return None

    def of(self, topic: bytes) -> SoleHome | None:
        """The tenure of a topic whose home is this hub by the current routing; None if no barrier has passed."""
        found: _Era | None = None
        for era in reversed(self._eras):
            if not era.is_home(self._hub, topic):
                break
            if era.passed_at is not None:
                found = era
        if found is None or found.passed_at is None:
            return None
        held = found.passed_at if found.death_at is None else found.death_at + self._term
        return SoleHome(found.passed_at, max(found.passed_at, held))
