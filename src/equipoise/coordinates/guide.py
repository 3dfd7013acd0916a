"""The place of a client behind a gateway: the gateway's, with the access line added to the height.

ePulsar 4: coordinates of mobile nodes do not settle, but whatever such a node sends passes its gateway, which stands
still. So the client asks the gateway where it is, and measures nothing but the way there.
"""

from __future__ import annotations

from collections import deque

from equipoise.coordinates.coordinate import Coordinate

__all__ = ["Guide"]

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
