"""Decide whether and when a new connection is served.

Loopback is exempt by default from the limits per address: what runs on this machine could do worse. A connection
above the rate is not refused but waits its turn. Turns go round the addresses, one connection each: a crowd that
reconnects at once is served in order and does not starve connected clients, and a flood from one address makes that
address wait, no other. A connection that closes while it waits has used nothing up.

An address is what one client can have many of at no cost: an IPv4 address, or an IPv6 network of 64 bits.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from equipoise.hub.client_limits import Limits
    from equipoise.hub.data.ports import CallLater, Timer

__all__ = ["ConnectionLimits", "is_loopback"]

_NETWORK_BITS = 64
# Sums of fractions of a second are not exact.
_TOLERANCE_S = 1e-6


class ConnectionLimits:
    """Counts connections in total and per address, and gives those above the rate their turns.

    Owned by HubCore. `now` and `call_later` are the loop's.
    """

    def __init__(self, limits: Limits, *, now: Callable[[], float], call_later: CallLater) -> None:
        self._limits = limits
        self._now = now
        self._call_later = call_later
        self.count = 0
        self._by_address: dict[str, int] = {}
        # When the last connection was served, or would have been at the rate: a second's worth may come at once.
        self._served_at = -math.inf
        # What to call for each connection that waits, by address; the address whose turn is next comes first.
        self._waiting: dict[str, deque[Callable[[], None]]] = {}
        # Runs exactly while a connection waits.
        self._timer: Timer | None = None

    @property
    def addresses(self) -> int:
        """How many have a connection that counts."""
        return len(self._by_address)

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    def refusal(self, address: str) -> str | None:
        """Why the connection is not to be served at all, in Redis's words where it has them."""
        if self.count >= self._limits.connections_max:
            return "ERR max number of clients reached"
        if self._counts(address):
            most = self._limits.connections_per_address_max
            if self._by_address.get(_network(address), 0) >= most:
                return f"ERR max number of clients per address reached ({most})"
        return None

    def admit(self, address: str, serve: Callable[[], None]) -> bool:
        """Count the connection in; whether it is served now. If not, `serve` is called when it is its turn."""
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
        """A connection is no more; `serve` if it may still wait for its turn."""
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
        """Serve no more clients: the hub closes."""
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
        """Give the next address its turn; and those after it as far as the rate has room."""
        self._timer = None
        # Due because its timer fired, however the clock rounds.
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


def is_loopback(address: str) -> bool:
    if address == "localhost":
        return True
    try:
        return _plain(address).is_loopback
    except ValueError:
        return False


def _network(address: str) -> str:
    """What counts as one address."""
    try:
        parsed = _plain(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        return format(IPv6Address(int(parsed) >> _NETWORK_BITS << _NETWORK_BITS))
    return str(parsed)


def _plain(address: str) -> IPv4Address | IPv6Address:
    """Without a zone, and as IPv4 where that is all there is in it. Raises ValueError for what is no address."""
    parsed = ip_address(address.partition("%")[0])
    return (isinstance(parsed, IPv6Address) and parsed.ipv4_mapped) or parsed
