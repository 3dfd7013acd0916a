"""What a finder remembers of all its peers: whom it may ask, whose turn it is, and whether most are elsewhere.

Always true: peers that a client is connected to are remembered; of the others, those asked longest ago are forgotten
first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from equipoise.coordinates.peer import RTTS, Peer, much

__all__ = ["Peers"]

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
        """However lately each was told."""
        for peer in self._by_name.values():
            peer.told_at = -math.inf

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
