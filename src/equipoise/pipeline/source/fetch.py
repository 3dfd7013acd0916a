"""Read one range of one hub's records, piece by piece, as rows that hold them packed.

Always true: every record of the range is given once, or counted once as one that could not be had; all of it ends
within the time given, and about one more answer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.

from equipoise.errors import DisconnectedError, EquipoiseError
from equipoise.pipeline.source.hub_connection import Door, HubConnection, Piece
from equipoise.pipeline.source.offsets import Range
from equipoise.pipeline.source.piece_rows import Rejection, missing, piece_row

__all__ = ["fetched"]

log = logging.getLogger("equipoise.pipeline")

# Between two attempts to reach a hub that has just answered the driver.
_RETRY_S = 0.1
# A hub that has died does not come back with what it had.
_REFUSED_S = 1.0
# Workers are used again for later batches: a login costs the hub 50 ms. Exactly the connections of this process.
_connections: dict[Door, HubConnection] = {}


def fetched(
    span: Range,
    door: Door | None,
    *,
    piece_bytes_max: int,
    timeout_s: float,
    connect: Callable[[Door], HubConnection] = HubConnection,
) -> Iterator[pa.RecordBatch]:
    """Rows of the range, in order, and rows that stand for what is missing."""
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
    """Try until the time is up: the connection may be old, the hub busy. Where nobody listens, not for long."""
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
