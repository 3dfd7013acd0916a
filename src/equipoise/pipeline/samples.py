"""What a view needs of a record, and no more. Pure.

Always true of samples: they come in the order of the hub's records; a number that a record does not say is 0 in them,
a place is null.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
import pyarrow.compute as pc  # type: ignore[import-untyped]  # As above.

from equipoise.pipeline.client_locations import packed
from equipoise.pipeline.source.unpack import Rejected
from equipoise.pipeline.topic_latency import ROLES
from equipoise.telemetry import Kind

__all__ = ["HUB_SAMPLES", "TOPIC_SAMPLES", "Sampled", "sampled"]

_TOPIC_NUMBERS = (
    "window_us",
    "publications",
    "deliveries",
    "bytes_in",
    # To clients and to other hubs: all that the topic made the hub send.
    "out_bytes",
    "publishers",
    "subscribers",
    "backlog_bytes_max",
    "queue_us_max",
    "throttle_us_max",
)
_HUB_NUMBERS = (
    "incarnation",
    "window_us",
    "publications",
    "deliveries",
    "loop_lag_us_mean",
    "memory_bytes",
    "connections",
    "topics_home",
    "plan_version",
)
_HUB_FRACTIONS = ("cpu_ratio", "out_bytes_per_s", "out_bytes_per_s_max", "deliveries_per_s_max")
_ROLES = pa.array(ROLES)
_SENT = ("bytes_out", "egress_bytes", "ingress_bytes")

# Times are whole microseconds since 1970, as they are calculated with.
TOPIC_SAMPLES = pa.schema(
    [("hub", pa.string()), ("topic", pa.binary()), ("time_us", pa.int64())]
    + [(name, pa.int64()) for name in _TOPIC_NUMBERS]
    # An index into ROLES; and where its clients are, as `whereabouts` packs it.
    + [("role", pa.int8()), ("where", pa.binary())]
)
HUB_SAMPLES = pa.schema(
    [("hub", pa.string()), ("time_us", pa.int64())]
    + [(name, pa.int64()) for name in _HUB_NUMBERS]
    + [(name, pa.float64()) for name in _HUB_FRACTIONS]
    + [("coordinate", pa.binary())]
)


class Sampled(NamedTuple):
    """Of some records: samples, and how many were rejected, by hub and reason."""

    topics: pa.Table
    hubs: pa.Table
    rejected: Rejected


def sampled(records: Iterable[pa.RecordBatch], rejected: Rejected) -> Sampled:
    """Of judged records."""
    topics, hubs = [], []
    for batch in records:
        topics.append(topic_samples(batch))
        hubs.append(hub_samples(batch))
    return Sampled(
        pa.Table.from_batches(topics, TOPIC_SAMPLES), pa.Table.from_batches(hubs, HUB_SAMPLES), rejected
    )


def topic_samples(records: pa.RecordBatch) -> pa.RecordBatch:
    """Of judged records: those of topics that were not rejected."""
    valid = _valid(records, Kind.TOPIC)
    sent = _column(valid, _SENT[0], pa.int64())
    for name in _SENT[1:]:
        sent = pc.add(sent, _column(valid, name, pa.int64()))
    columns = [valid.column("hub"), valid.column("topic"), valid.column("time").cast(pa.int64())]
    columns += [sent if name == "out_bytes" else _column(valid, name, pa.int64()) for name in _TOPIC_NUMBERS]
    # An older hub's record may not say it; then it is the home of nothing.
    role = pc.index_in(valid.column("role"), _ROLES).fill_null(0).cast(pa.int8())
    columns += [role, packed(valid)]
    return pa.RecordBatch.from_arrays(columns, schema=TOPIC_SAMPLES)


def hub_samples(records: pa.RecordBatch) -> pa.RecordBatch:
    """Of judged records: those of hubs that were not rejected."""
    valid = _valid(records, Kind.HUB)
    columns = [valid.column("hub"), valid.column("time").cast(pa.int64())]
    columns += [_column(valid, name, pa.int64()) for name in _HUB_NUMBERS]
    columns += [_column(valid, name, pa.float64()) for name in _HUB_FRACTIONS]
    columns.append(valid.column("coordinate"))
    return pa.RecordBatch.from_arrays(columns, schema=HUB_SAMPLES)


def _valid(records: pa.RecordBatch, kind: Kind) -> pa.RecordBatch:
    is_such = pc.equal(records.column("kind"), kind.value)
    return records.filter(pc.and_(is_such, records.column("rejected").is_null()))


def _column(records: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
    column = records.column(name).cast(kind)
    return column.fill_null(0) if column.null_count else column
