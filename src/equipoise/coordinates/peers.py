"""The peers of a finder: probes, visits to hubs without a connection, and the gateway.

Always true: peers that a client is connected to are remembered; of the others, those asked longest ago are forgotten
first.

A visit is a short connection for some round trips: the direction of a place comes from hubs that a client does not use.
Visits are frequent while the coordinate is sought, rare once it is found, and less and less frequent while they fail. A
fleet starts at once, loses its gateway at once, finds its coordinates at once: so each client draws the moment of its
first visit.

A client behind a gateway has the gateway's coordinate, with the access line added to the height (ePulsar 4):
coordinates of mobile nodes do not settle, but whatever such a node sends passes its gateway, which stands still. So the
client asks the gateway where it is, and measures the way there alone.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from equipoise.coordinates.coordinate import Coordinate
from equipoise.coordinates.peer import RTTS, Peer, much
from equipoise.coordinates.settings import FinderSettings

__all__ = ["Guide", "Peers", "Visits"]

# More than the connections a client may have.
_PEERS_MAX = 128


class Peers:
    """Owned by one finder."""

    def __init__(self) -> None:
        self._by_name: dict[str, Peer] = {}

    def __getitem__(self, name: str) -> Peer:
        return self._by_name[name]

    def get(self, name: str) -> Peer | None:
        return self._by_name.get(name)

    def meet(self, name: str) -> Peer:
        """The peer, remembered from now on."""
        return self._by_name.setdefault(name, Peer())

    def forget(self, links: Mapping[str, bool]) -> None:
        """Remember no more than there is room for."""
        if len(self._by_name) <= _PEERS_MAX:
            return
        idle = [
            (peer.asked_at, name)
            for name, peer in self._by_name.items()
            if not peer.is_asked and name not in links
        ]
        for _, name in sorted(idle)[: len(self._by_name) - _PEERS_MAX]:
            del self._by_name[name]

    def start_anew(self) -> None:
        """The client is elsewhere: no round trip that was measured counts, nor one that is under way."""
        for peer in self._by_name.values():
            peer.rtts_s.clear()
            peer.usual_s, peer.usual_at, peer.is_stale = None, None, peer.is_asked

    def tell_all_anew(self) -> None:
        """However lately each was informed."""
        for peer in self._by_name.values():
            peer.reported_at = -math.inf

    # Whom to ask.

    def free(self, links: Mapping[str, bool]) -> dict[str, Peer]:
        """Those with an open connection that may be asked."""
        return {
            name: peer
            for name in links
            if not (peer := self._by_name[name]).is_asked and not peer.is_refusing
        }

    def whose_turn(self, links: Mapping[str, bool], interval_s: float, now: float) -> str | None:
        """Of those that were not asked for an interval, the one asked longest ago."""
        waiting = [
            (peer.asked_at, name)
            for name, peer in self.free(links).items()
            if peer.asked_at + interval_s <= now
        ]
        return min(waiting)[1] if waiting else None

    def unconnected(self, known: Sequence[str], links: Mapping[str, bool]) -> dict[str, Peer]:
        """Known hubs without an open connection that do not refuse."""
        return {
            name: peer for name in known if name not in links and not (peer := self.meet(name)).is_refusing
        }

    # What they say together.

    @property
    def measured(self) -> int:
        return sum(peer.is_measured for peer in self._by_name.values())

    @property
    def rtt_s_max(self) -> float:
        return max((peer.rtt_s or 0.0) for peer in self._by_name.values())

    def show_another_place(self, name: str) -> bool:
        """Whether the way to this peer has changed so much, or the places of most, that it is not the weather."""
        peer = self._by_name[name]
        rtt_s = peer.rtt_s
        if rtt_s is None or len(peer.rtts_s) < RTTS:
            return False
        if peer.usual_s is None or peer.usual_at is None:
            peer.usual_s, peer.usual_at = rtt_s, peer.at
        if abs(rtt_s - peer.usual_s) > much(peer.usual_s):
            return True
        # One peer that is elsewhere may be lying, or lost; most of them are not.
        moved = sum(other.has_moved for other in self._by_name.values())
        return 2 * moved > self.measured


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
        """When the next visit is due, if there is a hub to visit."""
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


# One slow round trip is a busy moment: as many as the estimator's filter takes.
_SAMPLES = 3


class Guide:
    """Owned by one finder. Without an address there is no gateway."""

    def __init__(self) -> None:
        self.address: str | None = None
        # Where the gateway says it is, with the access line; of the former one until the present has answered.
        self.coordinate: Coordinate | None = None
        # Whether the present gateway has answered yet.
        self.is_heard = False
        # When it was last asked, and when it answered; before its first answer, when it was chosen.
        self.asked_at = 0.0
        self.heard_at = 0.0
        self.is_asked = False
        # It does not know the question: no gateway, or one of another kind.
        self.is_refusing = False
        self._accesses_s: deque[float] = deque(maxlen=_SAMPLES)

    def choose(self, address: str | None, now: float) -> None:
        self.address = address
        self.is_heard = self.is_asked = self.is_refusing = False
        self.heard_at = now
        self.asked_at = float("-inf")
        self._accesses_s.clear()
        if address is None:
            self.coordinate = None

    def leads(self, now: float, patience_s: float) -> bool:
        """Whether its word holds, or may still come."""
        return self.address is not None and now < self.leads_until(patience_s)

    def leads_until(self, patience_s: float) -> float:
        return self.heard_at + patience_s

    @property
    def is_free(self) -> bool:
        """Whether it may be asked."""
        return self.address is not None and not self.is_asked and not self.is_refusing

    def asking(self, now: float) -> None:
        self.asked_at = now
        self.is_asked = True

    def hear(self, at: Coordinate, access_s: float | None, now: float) -> bool:
        """The gateway is there, so far away; whether it said so for the first time. Without a round trip, no word."""
        if access_s is not None:
            self._accesses_s.append(access_s)
        if not self._accesses_s:
            return False
        self.coordinate = at.behind(sorted(self._accesses_s)[len(self._accesses_s) // 2])
        self.heard_at = now
        is_first, self.is_heard = not self.is_heard, True
        return is_first
