"""Decide whether and when a new connection is served.

Loopback is exempt by default from the limits per address: what runs on this machine could do worse. A connection
above the rate is not refused but waits its turn, so that a crowd that reconnects at once is served in order and does
not starve those who are connected.
"""

from __future__ import annotations

import math
from ipaddress import ip_address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from equipoise.hub.settings import Limits


class Admission:
    """Counts connections in total and per address, and hands out the times at which new ones are served."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.count = 0
        self._by_address: dict[str, int] = {}
        # When the next connection may be served; runs ahead of the clock while a crowd waits.
        self._next_at = -math.inf

    @property
    def addresses(self) -> int:
        """How many have a connection that counts."""
        return len(self._by_address)

    def refusal(self, address: str) -> str | None:
        """Why the connection is not to be served at all, in Redis's words where it has them."""
        if self.count >= self._limits.connections_max:
            return "ERR max number of clients reached"
        if self._counts(address):
            most = self._limits.connections_per_address_max
            if self._by_address.get(address, 0) >= most:
                return f"ERR max number of clients per address reached ({most})"
        return None

    def admit(self, address: str, now: float) -> float:
        """Count the connection in; how many seconds it has to wait before it is served."""
        self.count += 1
        if not self._counts(address):
            return 0.0
        self._by_address[address] = self._by_address.get(address, 0) + 1
        interval_s = 1 / self._limits.accepts_per_s
        # A second's worth may come at once; after that, one per interval.
        self._next_at = max(self._next_at, now - 1.0) + interval_s
        return max(0.0, self._next_at - now)

    def release(self, address: str) -> None:
        self.count -= 1
        if not self._counts(address):
            return
        left = self._by_address.get(address, 0) - 1
        if left > 0:
            self._by_address[address] = left
        else:
            self._by_address.pop(address, None)

    def _counts(self, address: str) -> bool:
        return not (self._limits.loopback_is_exempt and is_loopback(address))


def is_loopback(address: str) -> bool:
    if address == "localhost":
        return True
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False
