"""Bounds on input that a hub cannot execute yet: incomplete requests and queued transactions.

Each connection may hold some input. The sum over all connections is bounded, and a request has a deadline from its
first byte: otherwise a thousand connections that send slowly could hold gigabytes indefinitely.

Always true: `bytes` is the sum over all holders, and at most `bytes_max` when `note` returns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from equipoise.hub.client_limits import Limits
    from equipoise.hub.data.ports import Shell, Timer

__all__ = ["UnfinishedInput"]

# Interval of the check of deadlines, in seconds.
CHECK_S = 1.0


class _Holder(Protocol):
    @property
    def address(self) -> str: ...


H = TypeVar("H", bound=_Holder)


class _Held(NamedTuple):
    bytes: int
    # Sequence number of the connection's unfinished request, and its start; 0: no request has begun.
    request: int
    began_at: float


class UnfinishedInput(Generic[H]):
    """Owned by HubCore. `cut` disconnects a client, which results in a call of `forget`."""

    def __init__(self, limits: Limits, shell: Shell, cut: Callable[[H, str], object]) -> None:
        self.bytes_max = int(shell.memory_bytes() * limits.input_total_share)
        self._request_s = limits.request_s
        self._now = shell.now
        self._call_later = shell.call_later
        self._cut = cut
        self._held: dict[H, _Held] = {}
        self.bytes = 0
        # Runs exactly while anything is held.
        self._timer: Timer | None = None

    def note(self, holder: H, size: int, request: int) -> bool:
        """The connection holds `size` bytes, of request number `request` if not 0; return whether it holds any."""
        former = self._held.get(holder)
        if not size:
            self.forget(holder)
            return False
        is_new = former is None or former.request != request
        began_at = self._now() if is_new or former is None else former.began_at
        self._held[holder] = _Held(size, request, began_at)
        self.bytes += size - (0 if former is None else former.bytes)
        if self._timer is None:
            self._timer = self._call_later(CHECK_S, self._check)
        while self.bytes > self.bytes_max:
            self._cut_one()
        return holder in self._held

    def forget(self, holder: H) -> None:
        former = self._held.pop(holder, None)
        if former is not None:
            self.bytes -= former.bytes
            if not self._held and self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _check(self) -> None:
        self._timer = self._call_later(CHECK_S, self._check)
        late_at = self._now() - self._request_s
        late = [one for one, held in self._held.items() if held.request and held.began_at <= late_at]
        for one in late:
            self._cut(one, f"no complete request within {self._request_s:g} s (request_s)")
            self.forget(one)

    def _cut_one(self) -> None:
        """Cut the connection with most input, of the address with most input: other addresses are not affected."""
        by_address: dict[str, int] = {}
        for holder, held in self._held.items():
            host = _host(holder)
            by_address[host] = by_address.get(host, 0) + held.bytes
        greatest = max(by_address, key=by_address.__getitem__)
        largest = max(
            (holder for holder in self._held if _host(holder) == greatest),
            key=lambda holder: self._held[holder].bytes,
        )
        self._cut(largest, "unfinished requests of all clients exceeded input_total_share")
        self.forget(largest)


def _host(holder: _Holder) -> str:
    return holder.address.rpartition(":")[0]
