"""Count connections and streams per peer and in total, and reject those above the bounds. Pure."""

from __future__ import annotations

__all__ = ["PeerSlots"]


class PeerSlots:
    """A bounded number of slots, and a bound for each peer."""

    def __init__(self, total_max: int, per_peer_max: int) -> None:
        self._total_max = total_max
        self._per_peer_max = per_peer_max
        self._held: dict[str, int] = {}
        self.total = 0

    def take(self, peer: str) -> bool:
        """Whether there was a slot; then the caller has to call `give_back`."""
        held = self._held.get(peer, 0)
        if self.total >= self._total_max or held >= self._per_peer_max:
            return False
        self.total += 1
        self._held[peer] = held + 1
        return True

    def give_back(self, peer: str) -> None:
        self.total -= 1
        left = self._held[peer] - 1
        if left:
            self._held[peer] = left
        else:
            del self._held[peer]
