"""Fetch ranges of telemetry from hubs, piece by piece, as rows of packed records.

All hubs are queried concurrently. The reader waits for a hub that replied last time; any other hub is queried in the
background, and counts as silent until it replies: a hub that hangs costs one time-out, once.

Always true: each hub has at most one request in flight; every record of a range is returned once, or counted once as
missing; all of it ends within the time limit plus about one reply.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.

from equipoise.errors import DisconnectedError, EquipoiseError
from equipoise.pipeline.source.hub_connection import Door, HubConnection, Piece
from equipoise.pipeline.source.offsets import Range
from equipoise.pipeline.source.piece_rows import Rejection, missing, piece_row

__all__ = ["Heads", "fetched"]

log = logging.getLogger("equipoise.pipeline")

# Concurrent requests; a hub replies within a millisecond.
_THREADS_MAX = 16


@dataclass(slots=True)
class _Hub:
    connection: HubConnection
    asking: Future[Piece] | None = None
    is_silent: bool = False
    # Its last reply that was not taken yet.
    found: list[Piece] = field(default_factory=list)


class Heads:
    """Owned by one reader; not thread-safe. `connect` opens a connection: tests replace it."""

    def __init__(self, *, timeout_s: float, connect: Callable[[Door], HubConnection] = HubConnection) -> None:
        self._timeout_s = timeout_s
        self._connect = connect
        self._hubs: dict[str, _Hub] = {}
        self._threads = ThreadPoolExecutor(_THREADS_MAX, thread_name_prefix="equipoise-heads")

    def ask(self, doors: dict[str, Door]) -> dict[str, Piece | None]:
        """The reply of each hub, without records; None for those that did not reply in time."""
        self._forget_all_but(doors)
        for name, door in doors.items():
            hub = self._hubs.setdefault(name, _Hub(self._connect(door)))
            if hub.asking is None:
                hub.asking = self._threads.submit(_ask_latest, hub.connection)
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
            log.warning("hub %s is skipped: %s", name, problem)
        hub.is_silent = True

    def _forget_all_but(self, doors: dict[str, Door]) -> None:
        """Close connections of hubs that were removed or moved. A waiting thread ends at its time-out."""
        for name in [n for n, hub in self._hubs.items() if doors.get(n) != hub.connection.door]:
            self._hubs.pop(name).connection.close()


def _ask_latest(connection: HubConnection) -> Piece:
    """No hub has an incarnation of 0, so none sends records. A connection may be stale: retry once."""
    try:
        return connection.ask(0, 0, 0)
    except DisconnectedError as problem:
        if isinstance(problem.__cause__, TimeoutError):
            raise
        return connection.ask(0, 0, 0)


# Delay between attempts to reach a hub that has just replied to the driver.
_RETRY_S = 0.1
# A dead hub has lost its records.
_REFUSED_S = 1.0
# Workers are reused for later batches: a login costs the hub 50 ms. Exactly the connections of this process.
_connections: dict[Door, HubConnection] = {}


def fetched(
    span: Range,
    door: Door | None,
    *,
    piece_bytes_max: int,
    timeout_s: float,
    connect: Callable[[Door], HubConnection] = HubConnection,
) -> Iterator[pa.RecordBatch]:
    """Rows of the range, in order, and rows for missing records."""
    if span.unanswered:
        yield missing(Rejection.UNANSWERED, span.hub, span.incarnation, span.unanswered)
    if span.start >= span.end:
        return
    if door is None:
        yield missing(Rejection.LOST, span.hub, span.incarnation, span.end - span.start)
        return
    connection = _connections.get(door)
    if connection is None:
        connection = _connections[door] = connect(door)
    yield from _pieces(span, connection, piece_bytes_max, time.monotonic() + timeout_s)


def _pieces(
    span: Range, connection: HubConnection, bytes_max: int, deadline: float
) -> Iterator[pa.RecordBatch]:
    at = span.start
    while at < span.end:
        try:
            piece = _ask(span, connection, at, bytes_max, deadline)
        except EquipoiseError as problem:
            log.warning("hub %s: records %d to %d are lost: %s", span.hub, at, span.end, problem)
            break
        if piece.incarnation != span.incarnation or piece.next <= at:
            break
        until = min(piece.next, span.end)
        if piece.first > at:
            yield missing(Rejection.LOST, span.hub, span.incarnation, min(piece.first, span.end) - at)
        if piece.first < until:
            yield piece_row(span.hub, span.incarnation, piece.first, until, piece.stream)
        at = until
    if at < span.end:
        yield missing(Rejection.LOST, span.hub, span.incarnation, span.end - at)


def _ask(span: Range, connection: HubConnection, at: int, bytes_max: int, deadline: float) -> Piece:
    """Retry until the time is up: the connection may be stale, the hub busy. Without a listening process, not for
    long.
    """
    began_at = time.monotonic()
    while True:
        try:
            return connection.ask(span.incarnation, at, bytes_max)
        except DisconnectedError as problem:
            is_dead = isinstance(problem.__cause__, ConnectionRefusedError)
            give_up_at = min(deadline, began_at + _REFUSED_S) if is_dead else deadline
            if time.monotonic() + _RETRY_S >= give_up_at:
                raise
            time.sleep(_RETRY_S)
