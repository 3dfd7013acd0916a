"""The peers of a finder: probes, visits to hubs without a connection, and the gateway.

Always true: peers with a connection are kept; of the others, those probed longest ago are removed first.

A visit is a short connection for some round trips: hubs that a client does not use give its coordinate a direction.
Visits are frequent while the coordinate is sought, rare once it is found, and less and less frequent while they fail.
The clients of a fleet start, lose their gateway and find their coordinates at the same time: so each client draws a
random time for its first visit.

A client behind a gateway uses the gateway's coordinate, with the access line added to the height (ePulsar 4):
coordinates of mobile nodes do not settle, but all packets of such a node pass its gateway, which does not move. So the
client requests the gateway's coordinate, and measures only the round trip to it.
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
        """The peer, created if unknown."""
        return self._by_name.setdefault(name, Peer())

    def forget(self, links: Mapping[str, bool]) -> None:
        """Remove peers above the limit."""
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
        """The client has moved: measured round trips, and pending ones, are void."""
        for peer in self._by_name.values():
            peer.rtts_s.clear()
            peer.usual_s, peer.usual_at, peer.is_stale = None, None, peer.is_asked

    def report_all_anew(self) -> None:
        """Make a report to each peer due, whenever the last one was."""
        for peer in self._by_name.values():
            peer.reported_at = -math.inf

    # Selection of peers.

    def free(self, links: Mapping[str, bool]) -> dict[str, Peer]:
        """Peers with an open connection that may be probed."""
        return {
            name: peer
            for name in links
            if not (peer := self._by_name[name]).is_asked and not peer.is_refusing
        }

    def longest_idle(self, links: Mapping[str, bool], interval_s: float, now: float) -> str | None:
        """Of the peers not probed for an interval, the one probed longest ago."""
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

    # Summaries of peers.

    @property
    def measured(self) -> int:
        return sum(peer.is_measured for peer in self._by_name.values())

    @property
    def rtt_s_max(self) -> float:
        return max((peer.rtt_s or 0.0) for peer in self._by_name.values())

    def show_another_place(self, name: str) -> bool:
        """Whether the path to this peer, or most peers' coordinates, changed by more than usual fluctuation."""
        peer = self._by_name[name]
        rtt_s = peer.rtt_s
        if rtt_s is None or len(peer.rtts_s) < RTTS:
            return False
        if peer.usual_s is None or peer.usual_at is None:
            peer.usual_s, peer.usual_at = rtt_s, peer.at
        if abs(rtt_s - peer.usual_s) > much(peer.usual_s):
            return True
        # One peer with another coordinate may be wrong; most peers are not.
        moved = sum(other.has_moved for other in self._by_name.values())
        return 2 * moved > self.measured


# After this many failed visits in a row visits are as rare as those of a client that has found its coordinate.
_FAILURES_MAX = 8
# Half of the time between two visits is random.
_SPREAD = 0.5


@dataclass(slots=True)
class Visits:
    """Owned by one finder. `draw` returns random numbers between 0 and 1."""

    draw: Callable[[], float]
    settings: FinderSettings
    # The hub that is being visited.
    under_way: str | None = None
    # A time near the last visit; None before the first one at this place.
    _visited_at: float = -math.inf
    _failures: int = 0

    def start_anew(self) -> None:
        """The client has moved."""
        self._visited_at = -math.inf

    def begin(self, now: float) -> None:
        """A client that has just started, or moved, draws a random time for its first visit."""
        if self._visited_at == -math.inf:
            self._visited_at = now + self.draw() * self.settings.visit_s_first

    @property
    def may_be(self) -> bool:
        """Whether another visit could begin, if it were due."""
        return bool(self.settings.visit_s) and self.under_way is None

    def due_at(self, *, is_found: bool) -> float:
        """When the next visit is due, if there is a hub to visit."""
        return self._visited_at + self._interval_s(is_found)

    def choose(self, others: Mapping[str, Peer], now: float, *, is_found: bool) -> str | None:
        """The hub to visit now; None if no visit is due."""
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


# As many as the estimator's filter takes: one slow round trip means a busy moment.
_SAMPLES = 3


class Guide:
    """Owned by one finder. Without an address there is no gateway."""

    def __init__(self) -> None:
        self.address: str | None = None
        # The gateway's coordinate, with the access line; the former gateway's until the present one has replied.
        self.coordinate: Coordinate | None = None
        # Whether the present gateway has replied.
        self.has_replied = False
        # When it was last asked, and when it replied; before its first reply, when it was chosen.
        self.asked_at = 0.0
        self.replied_at = 0.0
        self.is_asked = False
        # It does not know the command: not a gateway, or another version.
        self.is_refusing = False
        self._accesses_s: deque[float] = deque(maxlen=_SAMPLES)

    def choose(self, address: str | None, now: float) -> None:
        self.address = address
        self.has_replied = self.is_asked = self.is_refusing = False
        self.replied_at = now
        self.asked_at = float("-inf")
        self._accesses_s.clear()
        if address is None:
            self.coordinate = None

    def leads(self, now: float, patience_s: float) -> bool:
        """Whether its coordinate is in use, or may still arrive."""
        return self.address is not None and now < self.leads_until(patience_s)

    def leads_until(self, patience_s: float) -> float:
        return self.replied_at + patience_s

    @property
    def is_free(self) -> bool:
        """Whether it may be asked."""
        return self.address is not None and not self.is_asked and not self.is_refusing

    def asking(self, now: float) -> None:
        self.asked_at = now
        self.is_asked = True

    def replied(self, at: Coordinate, access_s: float | None, now: float) -> bool:
        """The gateway has this coordinate and round trip; return whether this is the first reply. No round trip:
        ignored.
        """
        if access_s is not None:
            self._accesses_s.append(access_s)
        if not self._accesses_s:
            return False
        self.coordinate = at.behind(sorted(self._accesses_s)[len(self._accesses_s) // 2])
        self.replied_at = now
        is_first, self.has_replied = not self.has_replied, True
        return is_first
