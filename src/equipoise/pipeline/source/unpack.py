"""Unpack pieces into validated records. Pure.

Always true: each record of a piece is returned once, judged, or counted once as rejected with the whole piece.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
import pyarrow.compute as pc  # type: ignore[import-untyped]  # As above.

from equipoise.pipeline.settings import Plausible
from equipoise.pipeline.source.piece_rows import Rejected, Rejection, stream_of
from equipoise.pipeline.validation import conformed, reasons
from equipoise.telemetry import arrow_schema

__all__ = ["unpacked"]


def unpacked(
    pieces: Iterable[Mapping[str, Any]], *, now_us: int, plausible: Plausible
) -> tuple[list[pa.RecordBatch], Rejected]:
    """The records of some rows of pieces, with `rejected` as a column; and the counts of all rejections.

    One batch for each run of pieces of one incarnation: an operation on a batch has a fixed cost for each of its fifty
    columns, with a hundred records or with ten thousand.
    """
    found: list[pa.RecordBatch] = []
    rejected: Rejected = Counter()
    for (hub, incarnation), some in groupby(pieces, key=lambda piece: (piece["hub"], piece["incarnation"])):
        records = []
        for piece in some:
            if piece["rejected"] is not None:
                rejected[hub, piece["rejected"]] += piece["records"]
                continue
            try:
                records.append(_records(piece))
            except (pa.ArrowException, KeyError, TypeError, ValueError):
                rejected[hub, Rejection.MALFORMED.value] += piece["records"]
        merged = _merged(records)
        if len(merged):
            reason = reasons(merged, now_us=now_us, plausible=plausible, hub=hub, incarnation=incarnation)
            _count(reason, hub, rejected)
            found.append(merged.append_column("rejected", reason))
    return found, rejected


def _records(piece: Mapping[str, Any]) -> pa.RecordBatch:
    """In the columns of the schema. A piece may exceed the requested range."""
    with pa.ipc.open_stream(stream_of(piece)) as stream:
        table = stream.read_all()
    sequence = table.column("sequence")
    within = pc.and_kleene(
        pc.greater_equal(sequence, piece["first"]), pc.less(sequence, piece["next"])
    ).combine_chunks()
    if within.null_count or within.false_count:
        table = table.filter(within)
    return conformed(_merged(table.to_batches(), table.schema))


def _merged(batches: Sequence[pa.RecordBatch], schema: pa.Schema | None = None) -> pa.RecordBatch:
    """All of them as one; an empty one for none."""
    if not batches:
        return pa.RecordBatch.from_pylist([], schema or arrow_schema())
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _count(reasons: pa.Array, hub: str, into: Rejected) -> None:
    if reasons.null_count < len(reasons):
        for found in reasons.drop_null().value_counts().to_pylist():
            into[hub, found["values"]] += found["counts"]
