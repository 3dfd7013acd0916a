"""Pieces, as hubs sent them, to judged records. Pure.

Always true: each record of a piece is given once, judged, or counted once as rejected with the whole piece.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
import pyarrow.compute as pc  # type: ignore[import-untyped]  # As above.

from equipoise.pipeline.settings import Plausible
from equipoise.pipeline.source.piece_rows import Rejection, stream_of
from equipoise.pipeline.validation import judged

__all__ = ["Rejected", "unpacked"]

# How many records, by hub and reason.
Rejected = Counter[tuple[str, str]]


def unpacked(
    pieces: Iterable[Mapping[str, Any]], *, now_us: int, plausible: Plausible
) -> tuple[list[pa.RecordBatch], Rejected]:
    """The records of some rows of pieces, with `rejected` as a column; and the counts of all rejections."""
    found: list[pa.RecordBatch] = []
    rejected: Rejected = Counter()
    for piece in pieces:
        if piece["rejected"] is not None:
            rejected[piece["hub"], piece["rejected"]] += piece["records"]
            continue
        try:
            batches = _records(piece, now_us, plausible)
        except (pa.ArrowException, KeyError, TypeError, ValueError):
            rejected[piece["hub"], Rejection.MALFORMED.value] += piece["records"]
            continue
        for batch in batches:
            _count(batch.column("rejected"), piece["hub"], rejected)
        found += batches
    return found, rejected


def _records(piece: Mapping[str, Any], now_us: int, plausible: Plausible) -> list[pa.RecordBatch]:
    """A piece may reach beyond the range that it was asked for."""
    hub, incarnation, first, following = (piece[name] for name in ("hub", "incarnation", "first", "next"))
    found = []
    with pa.ipc.open_stream(stream_of(piece)) as stream:
        for batch in stream:
            sequence = batch.column("sequence")
            within = batch.filter(
                pc.and_kleene(pc.greater_equal(sequence, first), pc.less(sequence, following))
            )
            if len(within):
                found.append(
                    judged(within, now_us=now_us, plausible=plausible, hub=hub, incarnation=incarnation)
                )
    return found


def _count(reasons: pa.Array, hub: str, into: Rejected) -> None:
    if reasons.null_count < len(reasons):
        for found in reasons.drop_null().value_counts().to_pylist():
            into[hub, found["values"]] += found["counts"]
