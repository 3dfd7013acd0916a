"""Decide whether and when a new connection is served.

Loopback is exempt by default from the limits per address: a local process could do worse harm anyway. A connection
above the rate is not rejected but queued. Addresses are served round-robin, one connection each: many clients that
reconnect at once are served in order and do not starve connected clients, and a flood from one address delays only that
address. A connection that closes while it is queued does not count towards the rate.

An address is an IPv4 address, or an IPv6 network of 64 bits, because one client can have many addresses in that.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from equipoise.hub.client_limits import Limits
    from equipoise.hub.data.ports import CallLater, Timer

__all__ = ["ConnectionLimits", "is_loopback"]

_NETWORK_BITS = 64
# Addresses whose networks are kept: parsing one takes as long as all else that accepting a connection does here.
_PARSED_MAX = 1_024
# Tolerance for rounding errors of times.
_TOLERANCE_S = 1e-6


class ConnectionLimits:
    """Counts connections in total and per address, and queues those above the rate.

    Owned by HubCore. `now` and `call_later` are the loop's.
    """

    def __init__(self, limits: Limits, *, now: Callable[[], float], call_later: CallLater) -> None:
        self._limits = limits
        self._now = now
        self._call_later = call_later
        self.count = 0
        self._by_address: dict[str, int] = {}
        # Time at which the last connection was served, or would have been at the rate: bursts of one second are
        # allowed.
        self._served_at = -math.inf
        # By address, the callbacks of its queued connections; the next address comes first.
        self._waiting: dict[str, deque[Callable[[], None]]] = {}
        # Runs exactly while a connection waits.
        self._timer: Timer | None = None

    @property
    def addresses(self) -> int:
        """Number of addresses with a connection that counts."""
        return len(self._by_address)

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    def refusal(self, address: str) -> str | None:
        """The error text if the connection is rejected, as in Redis where it has one; else None."""
        if self.count >= self._limits.connections_max:
            return "ERR max number of clients reached"
        if self._counts(address):
            most = self._limits.connections_per_address_max
            if self._by_address.get(_network(address), 0) >= most:
                return f"ERR max number of clients per address reached ({most})"
        return None

    def admit(self, address: str, serve: Callable[[], None]) -> bool:
        """Count the connection; return whether it is served now. If not, `serve` is called in its turn."""
        self.count += 1
        if not self._counts(address):
            return True
        network = _network(address)
        self._by_address[network] = self._by_address.get(network, 0) + 1
        if not self._waiting and self._is_due():
            self._served_at = self._next_at()
            return True
        self._waiting.setdefault(network, deque()).append(serve)
        self._set_timer()
        return False

    def release(self, address: str, serve: Callable[[], None] | None = None) -> None:
        """A connection has closed. `serve` identifies it if it may still be queued."""
        self.count -= 1
        if not self._counts(address):
            return
        network = _network(address)
        left = self._by_address.get(network, 0) - 1
        if left > 0:
            self._by_address[network] = left
        else:
            self._by_address.pop(network, None)
        queue = self._waiting.get(network)
        if serve is not None and queue is not None and serve in queue:
            queue.remove(serve)
            if not queue:
                del self._waiting[network]
            if not self._waiting:
                self.stop()

    def stop(self) -> None:
        """Drop the queue and the timer: the hub closes, or no connection is queued."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _next_at(self) -> float:
        return max(self._served_at, self._now() - 1.0) + 1 / self._limits.accepts_per_s

    def _is_due(self) -> bool:
        return self._next_at() <= self._now() + _TOLERANCE_S

    def _set_timer(self) -> None:
        if self._timer is None:
            self._timer = self._call_later(max(0.0, self._next_at() - self._now()), self._serve)

    def _serve(self) -> None:
        """Serve the next address, and further ones as far as the rate allows."""
        self._timer = None
        # The connection is due because its timer fired, whatever the rounding of the clock.
        self._served_at = self._next_at()
        while True:
            network, queue = next(iter(self._waiting.items()))
            serve = queue.popleft()
            del self._waiting[network]
            if queue:
                self._waiting[network] = queue
            serve()
            if not self._waiting:
                return
            if not self._is_due():
                self._set_timer()
                return
            self._served_at = self._next_at()

    def _counts(self, address: str) -> bool:
        return not (self._limits.loopback_is_exempt and is_loopback(address))


@lru_cache(_PARSED_MAX)
def is_loopback(address: str) -> bool:
    if address == "localhost":
        return True
    try:
        return _plain(address).is_loopback
    except ValueError:
        return False


@lru_cache(_PARSED_MAX)
def _network(address: str) -> str:
    """The address, or the IPv6 network that counts as one."""
    try:
        parsed = _plain(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        return format(IPv6Address(int(parsed) >> _NETWORK_BITS << _NETWORK_BITS))
    return str(parsed)


def _plain(address: str) -> IPv4Address | IPv6Address:
    """Parse an address: drop the zone, unwrap mapped IPv4. Raises ValueError for anything else."""
    parsed = ip_address(address.partition("%")[0])
    return (isinstance(parsed, IPv6Address) and parsed.ipv4_mapped) or parsed
