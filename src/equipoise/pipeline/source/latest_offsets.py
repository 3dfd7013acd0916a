"""How far every hub's records reach, asked of all hubs at once, with none waiting for another.

A hub that answered last time is waited for; one that did not is asked again in the background, and counts as silent
until it answers. So a hub that hangs costs one time-out, once.

Always true: at most one question is under way to each hub.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from equipoise.errors import DisconnectedError, EquipoiseError
from equipoise.pipeline.source.hub_connection import Door, HubConnection, Piece

__all__ = ["Heads"]

log = logging.getLogger("equipoise.pipeline")

# Questions under way at once; a hub answers in a millisecond.
_THREADS_MAX = 16


@dataclass(slots=True)
class _Hub:
    connection: HubConnection
    asking: Future[Piece] | None = None
    is_silent: bool = False
    # Its last answer that nobody has taken yet.
    found: list[Piece] = field(default_factory=list)


class Heads:
    """Owned by one reader; not for several threads. `connect` makes a connection: tests give their own."""

    def __init__(self, *, timeout_s: float, connect: Callable[[Door], HubConnection] = HubConnection) -> None:
        self._timeout_s = timeout_s
        self._connect = connect
        self._hubs: dict[str, _Hub] = {}
        self._threads = ThreadPoolExecutor(_THREADS_MAX, thread_name_prefix="equipoise-heads")

    def ask(self, doors: dict[str, Door]) -> dict[str, Piece | None]:
        """An answer of each hub, with no records in it; None of those that did not answer in time."""
        self._forget_all_but(doors)
        for name, door in doors.items():
            hub = self._hubs.setdefault(name, _Hub(self._connect(door)))
            if hub.asking is None:
                hub.asking = self._threads.submit(_ask, hub.connection)
        awaited = [hub.asking for hub in self._hubs.values() if hub.asking is not None and not hub.is_silent]
        wait(awaited, self._timeout_s)
        return {name: self._take(name) for name in doors}

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        for hub in self._hubs.values():
            hub.connection.close()

    def _take(self, name: str) -> Piece | None:
        hub = self._hubs[name]
        if hub.asking is None or not hub.asking.done():
            self._tell(name, hub, "no answer in time")
            return None
        answer, hub.asking = hub.asking, None
        try:
            piece = answer.result()
        except EquipoiseError as problem:
            self._tell(name, hub, str(problem))
            return None
        hub.is_silent = False
        return piece

    def _tell(self, name: str, hub: _Hub, problem: str) -> None:
        if not hub.is_silent:
            log.warning("hub %s is passed over: %s", name, problem)
        hub.is_silent = True

    def _forget_all_but(self, doors: dict[str, Door]) -> None:
        """Of hubs that have gone or moved. A thread that waits for one ends when its time is up."""
        for name in [n for n, hub in self._hubs.items() if doors.get(n) != hub.connection.door]:
            self._hubs.pop(name).connection.close()


def _ask(connection: HubConnection) -> Piece:
    """No hub has an incarnation of 0, so none sends records. A connection may have gone stale: try once more."""
    try:
        return connection.ask(0, 0, 0)
    except DisconnectedError as problem:
        if isinstance(problem.__cause__, TimeoutError):
            raise
        return connection.ask(0, 0, 0)
