"""Since when this hub has been the only one to number a topic, for buckets without history. Pure.

A hub keeps the last routings that it went by, and when the barrier of each passed. A topic has been this hub's alone
since the first barrier that passed in the unbroken run of routings that have it here. If a hub had died before that
barrier, the dead one may have numbered on under its lease for a term longer (`lease`).

Pure: routings and moments come as arguments, in nanoseconds.
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
    """Whether the entry of a topic gives the hub a lane."""
    return entry is not None and entry.mode is Mode.ALL_SUBSCRIBERS and hub in entry.homes[1:]


class SoleHome(NamedTuple):
    """No other hub has numbered the topic since `since`, nor will from `until` on, when leases of the dead are over."""

    since: int
    hold_until: int


class _Era:
    """One routing."""

    __slots__ = ("death_at", "passed_at", "plan", "serving")

    def __init__(self, plan: Plan, serving: Collection[str]) -> None:
        self.plan = plan
        self.serving = serving
        # When its barrier passed here; and the latest such moment, up to then, that followed a death. None: not yet.
        self.passed_at: int | None = None
        self.death_at: int | None = None

    def is_home(self, hub: str, topic: bytes) -> bool:
        homes = self.plan.home_of(topic, self.serving).homes
        return bool(homes) and homes[0] == hub


class Tenure:
    """Owned by the rate limits of one life of a hub. Hubs may have died before that life began."""

    def __init__(self, hub: str, term: int) -> None:
        """`term`: of the lease, in nanoseconds."""
        self._hub = hub
        self._term = term
        self._eras: deque[_Era] = deque(maxlen=ROUTINGS_MAX)
        self._has_deaths = True
        self._death_at: int | None = None

    def applied(self, plan: Plan, serving: Collection[str], *, has_deaths: bool) -> None:
        """The hub goes by another routing from now on."""
        self._has_deaths = self._has_deaths or has_deaths
        self._eras.append(_Era(plan, serving))

    def passed(self, now: int) -> None:
        """The barrier of the present routing has passed, now or some time ago."""
        if not self._eras or (self._eras[-1].passed_at is not None and not self._has_deaths):
            return
        era = self._eras[-1]
        if self._has_deaths:
            self._has_deaths, self._death_at = False, now
        if era.passed_at is None:
            era.passed_at, era.death_at = now, self._death_at

    @property
    def deaths_over_at(self) -> int | None:
        """From when on no hub that has died numbers anything; None: it is not known yet."""
        return None if self._has_deaths or self._death_at is None else self._death_at + self._term

    def last_followed(self, topic: bytes, lane: str) -> Entry | None:
        """The topic's entry in the last routing with that lane whose barrier has passed; None: it is not known."""
        for era in reversed(self._eras):
            entry = era.plan.entries.get(topic)
            if has_lane(entry, lane) and era.passed_at is not None:
                return entry
        return None

    def of(self, topic: bytes) -> SoleHome | None:
        """Of a topic that the present routing has here; None if its barrier has not passed."""
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
