"""When a client visits hubs that it has no connection to, and which one.

A visit is a short connection for some round trips: the direction of a place comes from hubs that a client does not use.
Often while the place is sought, seldom once it is found, less and less while visits fail.

A fleet starts at once, loses its gateway at once, finds its place at once. So the first visit of each client comes at a
moment of its own, every later interval is left to chance by half, and among hubs that were never visited chance says
which is first.

Always true: one visit at a time; the hub visited longest ago is next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from equipoise.coordinates.finder_settings import FinderSettings
from equipoise.coordinates.peer import Peer

__all__ = ["Visits"]

# After so many failed visits in a row they are as rare as those of a client that has found its place.
_FAILURES_MAX = 8
# Of the time between two visits, half is left to chance.
_SPREAD = 0.5


@dataclass(slots=True)
class Visits:
    """Owned by one finder. `draw` gives random numbers between 0 and 1."""

    draw: Callable[[], float]
    settings: FinderSettings
    # The hub that is being visited.
    under_way: str | None = None
    # A moment around the last visit; none since the client is where it is.
    _visited_at: float = -math.inf
    _failures: int = 0

    def start_anew(self) -> None:
        """The client is elsewhere."""
        self._visited_at = -math.inf

    def begin(self, now: float) -> None:
        """A client that has just begun, or begun anew, waits for a moment of its own."""
        if self._visited_at == -math.inf:
            self._visited_at = now + self.draw() * self.settings.visit_s_first

    @property
    def may_be(self) -> bool:
        """Whether another one could begin, were it due."""
        return bool(self.settings.visit_s) and self.under_way is None

    def due_at(self, *, is_found: bool) -> float:
        """When the next visit is due, if there is somebody to visit."""
        return self._visited_at + self._interval_s(is_found)

    def choose(self, others: Mapping[str, Peer], now: float, *, is_found: bool) -> str | None:
        """Whom of these to visit now, if it is time."""
        if not others or now < self.due_at(is_found=is_found):
            return None
        self._visited_at = now + (self.draw() - 0.5) * _SPREAD * self._interval_s(is_found)
        oldest = min(peer.visited_at for peer in others.values())
        names = [name for name, peer in others.items() if peer.visited_at == oldest]
        self.under_way = name = names[min(int(self.draw() * len(names)), len(names) - 1)]
        others[name].visited_at = others[name].asked_at = now
        return name

    def over(self, name: str, *, is_answered: bool) -> None:
        if self.under_way == name:
            self.under_way = None
            self._failures = 0 if is_answered else min(_FAILURES_MAX, self._failures + 1)

    def _interval_s(self, is_found: bool) -> float:
        settings = self.settings
        if is_found or self._failures >= _FAILURES_MAX:
            return settings.visit_s
        return min(settings.visit_s, settings.visit_s_first * 2.0**self._failures)
