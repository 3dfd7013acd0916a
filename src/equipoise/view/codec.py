"""Encode a view as Arrow tables and as bytes. Pure.

    topics   one row per topic: `topic` (binary) and the columns of `schema.TOPIC_COLUMNS`
    hubs     one row per hub: `hub` (string) and the columns of `schema.HUB_COLUMNS`
    carried  one row per hub that carries a topic: `topic`, `hub`, `out_bytes_per_s` of that topic through that hub, and
             `limit_use`, what became of the hub's share of the topic's envelope

    connection   `EQV1 token LF`, the token empty where none is set
    view         header (see _HEADER), then three Arrow IPC streams: topics, hubs, carried
    answer       one line for each view: `+` taken, with what the planner wants by name (`interest`); `-reason` refused

Always true: what `to_tables` writes `from_tables` reads back, and a table that is no part of a view raises ViewError.
A missing column has its default, so that an older pipeline works with a newer planner; an unknown one is ignored.
A header is checked before a buffer of its size is allocated; a rejected view does not end the connection, an invalid
header does.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
import pyarrow.compute as pc  # type: ignore[import-untyped]  # As above.
from numpy.typing import NDArray

from equipoise.errors import ProtocolError, ViewError
from equipoise.view.schema import HUB_COLUMNS, TOPIC_COLUMNS, LimitUse, Shape, ViewColumn
from equipoise.view.view import Carried, HubColumns, Places, TopicColumns, View, filled, is_known, no_places

__all__ = [
    "CARRIED_SCHEMA",
    "GREETING",
    "HEADER_BYTES",
    "HUB_SCHEMA",
    "TOPIC_SCHEMA",
    "Header",
    "ViewTables",
    "decode_header",
    "decode_view",
    "encode_view",
    "from_tables",
    "greeting",
    "to_tables",
]

GREETING = b"EQV1"
_HEADER = struct.Struct("!4sddIII")
_MAGIC = b"VIEW"
HEADER_BYTES = _HEADER.size
# A view of a million topics; the planner is built for a tenth of that.
PART_BYTES_MAX = 256 * 1024 * 1024

_TYPES = {
    Shape.NUMBER: pa.float64(),
    Shape.WHOLE: pa.int64(),
    Shape.FLAG: pa.bool_(),
    Shape.TEXT: pa.string(),
    Shape.PLACE: pa.list_(pa.float64()),
}


def _schema(name: str, name_type: pa.DataType, columns: Sequence[ViewColumn]) -> pa.Schema:
    named = pa.field(name, name_type, nullable=False)
    return pa.schema([named, *(pa.field(column.name, _TYPES[column.shape]) for column in columns)])


TOPIC_SCHEMA = _schema("topic", pa.binary(), TOPIC_COLUMNS)
HUB_SCHEMA = _schema("hub", pa.string(), HUB_COLUMNS)
CARRIED_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.binary(), nullable=False),
        pa.field("hub", pa.string(), nullable=False),
        pa.field("out_bytes_per_s", pa.float64()),
        # The numbers of LimitUse; null of a topic that has no rate limit, or of which none of them is above 0.
        pa.field("limit_use", pa.list_(pa.float64())),
    ]
)


class ViewTables(NamedTuple):
    """One view on its way."""

    topics: pa.Table
    hubs: pa.Table
    carried: pa.Table


def to_tables(view: View) -> ViewTables:
    through = view.topics.out_bytes_per_s[view.carried.topic] * view.carried.share
    carried: dict[str, Any] = {
        "topic": [view.topics.names[index] for index in view.carried.topic.tolist()],
        "hub": [view.hubs.names[index] for index in view.carried.hub.tolist()],
        "out_bytes_per_s": through,
    }
    pairs = zip(carried["topic"], carried["hub"], strict=True)
    carried["limit_use"] = [view.limited.get(topic, {}).get(hub) for topic, hub in pairs]
    return ViewTables(
        _write(view.topics, TOPIC_COLUMNS, TOPIC_SCHEMA),
        _write(view.hubs, HUB_COLUMNS, HUB_SCHEMA),
        pa.table(carried, CARRIED_SCHEMA),
    )


def from_tables(time_s: float, tables: ViewTables, *, window_s: float = 10.0) -> View:
    """Raises ViewError. Rows of `carried` about topics or hubs that the view does not have are left out."""
    try:
        topics = TopicColumns(**_read(tables.topics, "topic", TOPIC_COLUMNS))
        hubs = HubColumns(**_read(tables.hubs, "hub", HUB_COLUMNS))
        carried = _read_carried(tables, topics.out_bytes_per_s)
        limited = _read_limited(tables.carried)
    except (pa.ArrowException, KeyError, TypeError, ValueError) as problem:
        raise ViewError(f"not a view: {problem}") from problem
    return View(time_s, topics, hubs, carried, window_s, limited)


def _write(columns: TopicColumns | HubColumns, declared: Sequence[ViewColumn], schema: pa.Schema) -> pa.Table:
    arrays = [pa.array(columns.names, schema.field(0).type)]
    for column in declared:
        values = getattr(columns, column.name)
        is_place = column.shape is Shape.PLACE
        arrays.append(_written(values) if is_place else pa.array(values, _TYPES[column.shape]))
    return pa.Table.from_arrays(arrays, schema=schema)


def _written(places: Places) -> pa.Array:
    count, width = places.shape
    if not width:
        return pa.nulls(count, _TYPES[Shape.PLACE])
    ends = pa.array(np.arange(count + 1, dtype=np.int32) * width)
    return pa.ListArray.from_arrays(ends, pa.array(places.ravel()), mask=pa.array(~is_known(places)))


def _read(table: pa.Table, name: str, declared: Sequence[ViewColumn]) -> dict[str, Any]:
    made: dict[str, Any] = {"names": table.column(name).to_pylist()}
    for column in declared:
        if column.name not in table.column_names:
            made[column.name] = filled(column, table.num_rows)
        elif column.shape is Shape.PLACE:
            made[column.name] = _read_places(table.column(column.name), column.name)
        else:
            values = table.column(column.name).cast(_TYPES[column.shape]).fill_null(column.default)
            is_text = column.shape is Shape.TEXT
            made[column.name] = values.to_pylist() if is_text else np.array(values.to_numpy())
    return made


def _read_places(column: pa.ChunkedArray, name: str) -> Places:
    values = column.cast(_TYPES[Shape.PLACE]).combine_chunks()
    is_told = values.is_valid().to_numpy(zero_copy_only=False)
    widths = set(pc.list_value_length(values).drop_null().to_pylist())
    if len(widths) > 1:
        raise ViewError(f"{name} has coordinates of different spaces")
    if not widths:
        return no_places(len(values))
    places = np.full((len(values), widths.pop()), np.nan)
    places[is_told] = values.flatten().to_numpy(zero_copy_only=False).reshape(-1, places.shape[1])
    return places


def _read_carried(tables: ViewTables, out_bytes_per_s: NDArray[np.float64]) -> Carried:
    topic = pc.index_in(tables.carried.column("topic"), tables.topics.column("topic").combine_chunks())
    hub = pc.index_in(tables.carried.column("hub"), tables.hubs.column("hub").combine_chunks())
    through = tables.carried.column("out_bytes_per_s").cast(pa.float64()).fill_null(0.0).to_numpy()
    is_known = pc.and_(topic.is_valid(), hub.is_valid()).to_numpy()
    topics = topic.fill_null(0).to_numpy()[is_known].astype(np.int64)
    hubs = hub.fill_null(0).to_numpy()[is_known].astype(np.int64)
    return Carried(topic=topics, hub=hubs, share=_shares(topics, through[is_known], out_bytes_per_s))


def _read_limited(carried: pa.Table) -> dict[bytes, dict[str, LimitUse]]:
    """Of the few topics that have a rate limit."""
    found: dict[bytes, dict[str, LimitUse]] = {}
    if "limit_use" not in carried.column_names:
        return found
    limited = carried.filter(carried.column("limit_use").is_valid())
    for row in limited.select(["topic", "hub", "limit_use"]).to_pylist():
        # A newer pipeline may append numbers.
        use = LimitUse(*row["limit_use"][: len(LimitUse._fields)])
        if not all(math.isfinite(number) and number >= 0 for number in use):
            raise ViewError("an envelope counter of a hub is not finite, or negative")
        found.setdefault(row["topic"], {})[row["hub"]] = use
    return found


def _shares(
    topics: NDArray[np.int64], through: NDArray[np.float64], out_bytes_per_s: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Shares of the bytes; equal ones of a topic that sends nothing, which has work to do all the same."""
    if not np.isfinite(through).all() or (through < 0).any():
        raise ViewError("a hub's share of a topic is not finite, or negative")
    count = len(out_bytes_per_s)
    rows = np.bincount(topics, minlength=count)
    totals = np.maximum(np.bincount(topics, through, minlength=count), out_bytes_per_s)
    is_silent = totals[topics] <= 0
    shares = np.where(is_silent, 1.0 / rows[topics], through / np.where(is_silent, 1.0, totals[topics]))
    # A hub that carries a topic without sending any of it still has it.
    return np.maximum(shares, 1e-12)


class Header(NamedTuple):
    time_s: float
    window_s: float
    sizes: tuple[int, int, int]

    @property
    def total_bytes(self) -> int:
        return sum(self.sizes)


def greeting(token: str) -> bytes:
    return GREETING + b" " + token.encode() + b"\n"


def encode_view(time_s: float, window_s: float, tables: ViewTables) -> bytes:
    parts = [_to_ipc(table) for table in tables]
    return b"".join((_HEADER.pack(_MAGIC, time_s, window_s, *map(len, parts)), *parts))


def decode_header(data: bytes) -> Header:
    """Raises ProtocolError if it is none."""
    magic, time_s, window_s, *sizes = _HEADER.unpack(data)
    if magic != _MAGIC or max(sizes) > PART_BYTES_MAX:
        raise ProtocolError("not the header of a view")
    if not (math.isfinite(time_s) and math.isfinite(window_s)):
        raise ProtocolError("a view of no time")
    return Header(time_s, window_s, (sizes[0], sizes[1], sizes[2]))


def decode_view(header: Header, data: bytes) -> View:
    """Raises ViewError."""
    parts: list[pa.Table] = []
    at = 0
    for size in header.sizes:
        try:
            parts.append(pa.ipc.open_stream(data[at : at + size]).read_all())
        except (pa.ArrowException, OSError, ValueError) as problem:
            raise ViewError(f"not a table: {problem}") from problem
        at += size
    return from_tables(header.time_s, ViewTables(*parts), window_s=header.window_s)


def _to_ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    made: bytes = sink.getvalue().to_pybytes()
    return made
