"""Resident memory per idle subscriber.

Two readings, because they differ: one second after the last subscription was acknowledged (`fresh`), and
once the figure has stopped moving (`settled`). Redis gives each new client buffers that it takes back after
some seconds, and its allocator returns the pages some ten seconds later; a server judged only fresh or only
settled is judged in part.
"""

from __future__ import annotations

import resource
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass

from equipoise.bench.audience import close_all, subscribe_all
from equipoise.bench.cases import IdleCase
from equipoise.bench.meters import resident_bytes
from equipoise.bench.servers import Server
from equipoise.errors import EquipoiseError, PeerError

FRESH_S = 1.0
SETTLE_S_MAX = 40.0

# Settled: within this share of the growth for this long. Redis's decline pauses for less.
_STEADY_SHARE = 0.01
_STEADY_S = 6.0

# Subscribers before the first reading, so that code and tables touched by any subscription are in it already.
_WARM_UP = 50

# Descriptors that are not subscribers: files, listeners, the rest of the interpreter.
_DESCRIPTORS_SPARE = 256


@dataclass(frozen=True, slots=True)
class IdleSample:
    fresh_bytes: float
    settled_bytes: float


def raise_descriptor_limit() -> int:
    """Raise the soft limit on open files to the hard one, for this process and its children; return it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def measure_idle(servers: Sequence[Server], case: IdleCase) -> dict[str, IdleSample | str]:
    """Measure all servers, letting them settle together. Instead of a sample a failed one has its reason."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    needed = (case.connections + _WARM_UP) * len(servers) + _DESCRIPTORS_SPARE
    if needed > allowed:
        return {each.name: f"needs {needed:,} open files, {allowed:,} are allowed" for each in servers}
    outcome: dict[str, IdleSample | str] = {}
    sockets: list[socket.socket] = []
    try:
        growing = []
        for server in servers:
            try:
                growing.append(_Growth(server, case, sockets))
            except (EquipoiseError, OSError) as error:
                outcome[server.name] = str(error)
        for growth in growing:
            outcome[growth.server.name] = growth.settle()
        _check_connected(sockets)
    finally:
        close_all(sockets)
    return outcome


class _Growth:
    """One server with its idle subscribers connected, and its memory before and just after."""

    def __init__(self, server: Server, case: IdleCase, sockets: list[socket.socket]) -> None:
        self.server = server
        self._connections = case.connections
        subscribe_all(server, [b"bench.idle.warm"] * _WARM_UP, sockets)
        self._before_bytes = resident_bytes(server.pid)
        names = [b"bench.idle.%05d" % (0 if case.is_topic_shared else i) for i in range(case.connections)]
        subscribe_all(server, names, sockets)
        time.sleep(FRESH_S)
        self._fresh_bytes = self._per_subscriber()

    def settle(self) -> IdleSample:
        deadline = time.monotonic() + SETTLE_S_MAX
        reference, since = self._per_subscriber(), time.monotonic()
        while time.monotonic() < min(since + _STEADY_S, deadline):
            time.sleep(0.25)
            current = self._per_subscriber()
            if abs(current - reference) > _STEADY_SHARE * max(reference, 1.0):
                reference, since = current, time.monotonic()
        return IdleSample(self._fresh_bytes, self._per_subscriber())

    def _per_subscriber(self) -> float:
        return (resident_bytes(self.server.pid) - self._before_bytes) / self._connections


def _check_connected(sockets: Sequence[socket.socket]) -> None:
    """A server that cut its idle subscribers holds no memory for them: that is no measurement."""
    for each in sockets:
        each.setblocking(False)
        try:
            if not each.recv(1 << 16, socket.MSG_PEEK):
                raise PeerError("an idle subscriber was cut")
        except BlockingIOError:
            continue
        except OSError as error:
            raise PeerError(f"an idle subscriber was lost: {error}") from error
