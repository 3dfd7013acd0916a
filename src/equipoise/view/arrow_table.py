"""The view as three Arrow tables, which is how the pipeline sends it.

    topics   one row per topic: `topic` (binary) and the numbers of `TopicView`
    hubs     one row per hub: `hub` (string), `site`, `rack`, flags and the numbers of `HubView`
    carried  one row per hub that carries a topic: `topic`, `hub`, `out_bytes_per_s` of that topic through that hub

Always true: what `to_tables` writes `from_tables` reads back, and a table that is no part of a view raises ViewError.
A column that is missing has its default, so that an older pipeline serves a newer planner; an unknown one is passed
over. Numbers are float64, versions int64, flags bool, coordinates lists of float64, null where nobody knows.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
import pyarrow.compute as pc  # type: ignore[import-untyped]  # As above.
from numpy.typing import NDArray

from equipoise.errors import ViewError
from equipoise.view.columns import (
    PLACES,
    TEXT,
    Carried,
    HubColumns,
    TopicColumns,
    column_names,
    dtype_of,
)
from equipoise.view.coordinate_columns import Places, is_known, no_places
from equipoise.view.rows import HubView, TopicView
from equipoise.view.view import View

__all__ = ["CARRIED_SCHEMA", "HUB_SCHEMA", "TOPIC_SCHEMA", "ViewTables", "from_tables", "to_tables"]


def _schema(kind: type[TopicColumns | HubColumns], name: str, name_type: pa.DataType) -> pa.Schema:
    columns = [pa.field(name, name_type, nullable=False)]
    for column in column_names(kind)[1:]:
        columns.append(pa.field(column, _type_of(column)))
    return pa.schema(columns)


def _type_of(column: str) -> pa.DataType:
    if column in PLACES:
        return pa.list_(pa.float64())
    return pa.string() if column in TEXT else pa.from_numpy_dtype(dtype_of(column))


TOPIC_SCHEMA = _schema(TopicColumns, "topic", pa.binary())
HUB_SCHEMA = _schema(HubColumns, "hub", pa.string())
CARRIED_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.binary(), nullable=False),
        pa.field("hub", pa.string(), nullable=False),
        pa.field("out_bytes_per_s", pa.float64()),
    ]
)


class ViewTables(NamedTuple):
    """One view on its way."""

    topics: pa.Table
    hubs: pa.Table
    carried: pa.Table


def to_tables(view: View) -> ViewTables:
    through = view.topics.out_bytes_per_s[view.carried.topic] * view.carried.share
    carried = {
        "topic": [view.topics.names[index] for index in view.carried.topic.tolist()],
        "hub": [view.hubs.names[index] for index in view.carried.hub.tolist()],
        "out_bytes_per_s": through,
    }
    return ViewTables(
        _write(view.topics, TOPIC_SCHEMA),
        _write(view.hubs, HUB_SCHEMA),
        pa.table(carried, CARRIED_SCHEMA),
    )


def from_tables(time_s: float, tables: ViewTables, *, window_s: float = 10.0) -> View:
    """Raises ViewError. Rows of `carried` about topics or hubs that the view does not have are left out."""
    try:
        topics = TopicColumns(**_read(tables.topics, TopicColumns, TOPIC_SCHEMA, TopicView))
        hubs = HubColumns(**_read(tables.hubs, HubColumns, HUB_SCHEMA, HubView))
        carried = _read_carried(tables, topics.out_bytes_per_s)
    except (pa.ArrowException, KeyError, TypeError, ValueError) as problem:
        raise ViewError(f"not a view: {problem}") from problem
    return View(time_s, topics, hubs, carried, window_s)


def _write(columns: TopicColumns | HubColumns, schema: pa.Schema) -> pa.Table:
    arrays = []
    for at, name in enumerate(column_names(type(columns))):
        values = getattr(columns, name)
        arrays.append(_written(values) if name in PLACES else pa.array(values, schema.field(at).type))
    return pa.Table.from_arrays(arrays, schema=schema)


def _written(places: Places) -> pa.Array:
    count, width = places.shape
    if not width:
        return pa.nulls(count, _type_of("coordinate"))
    ends = pa.array(np.arange(count + 1, dtype=np.int32) * width)
    return pa.ListArray.from_arrays(ends, pa.array(places.ravel()), mask=pa.array(~is_known(places)))


def _read(
    table: pa.Table, kind: type[TopicColumns | HubColumns], schema: pa.Schema, row: type[TopicView | HubView]
) -> dict[str, Any]:
    defaults = {part.name: part.default for part in fields(row)}
    made: dict[str, Any] = {"names": table.column(schema.names[0]).to_pylist()}
    for column in column_names(kind)[1:]:
        default = defaults[column]
        if column in PLACES:
            made[column] = _read_places(table, column)
            continue
        if column not in table.column_names:
            filled = [default] * table.num_rows
            made[column] = filled if column in TEXT else np.array(filled, dtype_of(column))
            continue
        values = table.column(column).cast(schema.field(column).type).fill_null(default)
        made[column] = values.to_pylist() if column in TEXT else np.array(values.to_numpy())
    return made


def _read_places(table: pa.Table, column: str) -> Places:
    if column not in table.column_names:
        return no_places(table.num_rows)
    values = table.column(column).cast(_type_of(column)).combine_chunks()
    is_told = values.is_valid().to_numpy(zero_copy_only=False)
    widths = set(pc.list_value_length(values).drop_null().to_pylist())
    if len(widths) > 1:
        raise ViewError(f"{column} holds coordinates of different spaces")
    if not widths:
        return no_places(table.num_rows)
    places = np.full((table.num_rows, widths.pop()), np.nan)
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


def _shares(
    topics: NDArray[np.int64], through: NDArray[np.float64], out_bytes_per_s: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Shares of the bytes; equal ones of a topic that sends nothing, which has work to do all the same."""
    if not np.isfinite(through).all() or (through < 0).any():
        raise ViewError("what a hub carries of a topic is not finite, or negative")
    count = len(out_bytes_per_s)
    rows = np.bincount(topics, minlength=count)
    totals = np.maximum(np.bincount(topics, through, minlength=count), out_bytes_per_s)
    is_silent = totals[topics] <= 0
    shares = np.where(is_silent, 1.0 / rows[topics], through / np.where(is_silent, 1.0, totals[topics]))
    # A hub that carries a topic without sending any of it still has it.
    return np.maximum(shares, 1e-12)
