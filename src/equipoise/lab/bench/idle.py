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

from equipoise.errors import EquipoiseError, PeerError
from equipoise.lab.bench.cases import IdleCase
from equipoise.profile.audience import close_all, subscribe_all
from equipoise.profile.meters import resident_bytes
from equipoise.profile.servers import ServerUnderTest

FRESH_S = 1.0
SETTLE_S_MAX = 40.0

# Settled: within this share of the growth for this long. Redis's decline pauses for less.
_STEADY_SHARE = 0.01
_STEADY_S = 3.0
_LOOK_S = 0.25

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


def measure_idle(servers: Sequence[ServerUnderTest], case: IdleCase) -> dict[str, IdleSample | str]:
    """Measure all servers, letting them settle together. Instead of a sample a failed one has its reason."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    needed = (case.connections + _WARM_UP) * len(servers) + _DESCRIPTORS_SPARE
    if needed > allowed:
        return {each.name: f"needs {needed:,} open files, {allowed:,} are allowed" for each in servers}
    outcome: dict[str, IdleSample | str] = {}
    crowds = [IdleSubscribers(server, case) for server in servers]
    try:
        for crowd in crowds:
            try:
                crowd.connect()
            except (EquipoiseError, OSError) as error:
                outcome[crowd.server.name] = str(error)
        connected = [crowd for crowd in crowds if crowd.server.name not in outcome]
        _settle(connected)
        for crowd in connected:
            try:
                outcome[crowd.server.name] = crowd.sample()
            except (EquipoiseError, OSError) as error:
                outcome[crowd.server.name] = str(error)
    finally:
        for crowd in crowds:
            crowd.close()
    return outcome


def _settle(crowds: Sequence[IdleSubscribers]) -> None:
    """Wait until no server's memory has moved for a while, or for as long as is allowed."""
    deadline = time.monotonic() + SETTLE_S_MAX
    while time.monotonic() < deadline and not all(crowd.is_steady(time.monotonic()) for crowd in crowds):
        time.sleep(_LOOK_S)


class IdleSubscribers:
    """The idle subscribers of one server. `connect` first, `close` always; `sample` once steady."""

    def __init__(self, server: ServerUnderTest, case: IdleCase) -> None:
        self.server = server
        self._case = case
        self._sockets: list[socket.socket] = []
        self._before_bytes = 0
        self._fresh_bytes = 0.0
        # The reading that the memory has stayed close to, and since when.
        self._reference_bytes, self._since_s = -1.0, 0.0

    def connect(self) -> None:
        subscribe_all(self.server, [b"bench.idle.warm"] * _WARM_UP, self._sockets)
        self._before_bytes = resident_bytes(self.server.pid)
        numbers = range(self._case.connections)
        names = [b"bench.idle.%05d" % (0 if self._case.is_topic_shared else number) for number in numbers]
        subscribe_all(self.server, names, self._sockets)
        time.sleep(FRESH_S)
        self._fresh_bytes = self._per_subscriber()

    def is_steady(self, now_s: float) -> bool:
        current = self._per_subscriber()
        if abs(current - self._reference_bytes) > _STEADY_SHARE * abs(self._reference_bytes):
            self._reference_bytes, self._since_s = current, now_s
        return now_s - self._since_s >= _STEADY_S

    def sample(self) -> IdleSample:
        """Raises PeerError if a subscriber was cut: a server holds no memory for those."""
        for each in self._sockets:
            each.setblocking(False)
            try:
                is_open = each.recv(1, socket.MSG_PEEK) != b""
            except BlockingIOError:
                is_open = True
            if not is_open:
                raise PeerError("an idle subscriber was cut")
        return IdleSample(self._fresh_bytes, self._per_subscriber())

    def close(self) -> None:
        close_all(self._sockets)

    def _per_subscriber(self) -> float:
        return (resident_bytes(self.server.pid) - self._before_bytes) / self._case.connections
