"""From the sums of all hubs to the three tables of a view. Pure, and small work: one row per topic and hub.

Always true of a view at `end`:
    a topic's rates are sums over hubs, worst cases their maximum, its largest second the sum of each hub's largest;
    clients are counted where the topic's newest records are: a hub that it has left does not count twice;
    coordinates are those that hubs and clients told last; `topic_latency` says what follows from them;
    a hub without a record for STALE_S, or without its `alive` node, is not alive.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
from numpy.typing import NDArray

from equipoise.pipeline.client_locations import PLACE_NUMBERS, SIDES, WHERE_NUMBERS, place_rows, unpacked_rows
from equipoise.pipeline.hub_sums import HubSums
from equipoise.pipeline.measured_latency import MeasuredRows, measured_latency
from equipoise.pipeline.source.hub_directory import HubEntry
from equipoise.pipeline.topic_latency import TopicRows, gathered, home_rows, is_relaying
from equipoise.view.codec import CARRIED_SCHEMA, HUB_SCHEMA, TOPIC_SCHEMA, ViewTables
from equipoise.view.schema import HUB_COLUMNS, TOPIC_COLUMNS, Aggregate, Shape

__all__ = ["STALE_S", "view_tables"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Two windows of a hub: records of a topic that are further apart are not of the same moment.
PRESENT_US = 2_000_000
# A hub without a record for so long is not to be believed, whatever the store says.
STALE_S = 5.0
_US = 1e6
_LAGS = ("loop_lag_s_p50", "loop_lag_s_p90", "loop_lag_s_p99", "loop_lag_s_max")


def view_tables(sums: HubSums, *, end_us: int, entries: Mapping[str, HubEntry] | None) -> ViewTables:
    """`entries`: what the store knows of hubs, if there is one."""
    hub = sums.hubs.column("hub").combine_chunks().take(sums.topics.column("code").combine_chunks())
    carried = {
        "topic": sums.topics.column("topic"),
        "hub": hub,
        "out_bytes_per_s": sums.topics.column("out_bytes_per_s"),
    }
    return ViewTables(_topics(sums), _hubs(sums.hubs, end_us, entries), _table(carried, CARRIED_SCHEMA))


def _topics(sums: HubSums) -> pa.Table:
    """Totals over hubs."""
    by_hub = sums.topics
    encoded = by_hub.column("topic").combine_chunks().dictionary_encode()
    codes, names = encoded.indices.to_numpy().astype(np.int64), encoded.dictionary
    count = len(names)
    time_us = by_hub.column("time_us").to_numpy()
    is_present = time_us > _largest(codes, time_us, count)[codes] - PRESENT_US
    made: dict[str, Any] = {"topic": names}
    for column in TOPIC_COLUMNS:
        if column.aggregate in (Aggregate.LOCATION, Aggregate.MEASURED):
            continue
        values = by_hub.column(column.name).to_numpy()
        if column.aggregate is Aggregate.WORST:
            made[column.name] = _largest(codes, values, count)
        elif column.aggregate is Aggregate.LAST:
            made[column.name] = np.bincount(codes, values * is_present, minlength=count)
        else:
            made[column.name] = np.bincount(codes, values, minlength=count)
    where = by_hub.column("where")
    if where.null_count < len(where):
        made |= _located(sums, codes, is_present, count)
        made |= _measured(sums, codes, is_present, count)
    return _table(made, TOPIC_SCHEMA)


def _located(sums: HubSums, codes: Indices, is_present: NDArray[np.bool_], count: int) -> dict[str, Any]:
    """The columns that follow from coordinates, of the hubs that carry each topic now."""
    now = sums.topics.filter(pa.array(is_present))
    hub = now.column("code").to_numpy()
    found = gathered(
        TopicRows(
            topic=codes[is_present],
            role=now.column("role").to_numpy(),
            time_us=now.column("time_us").to_numpy(),
            where=_where(now.column("where")),
            clients=np.column_stack([now.column(side).to_numpy() for side in SIDES]),
            hub_at=place_rows(sums.hubs.column("coordinate"))[hub],
            lag_s=sums.hubs.column("loop_lag_s").to_numpy()[hub],
        ),
        count,
    )
    made: dict[str, Any] = found._asdict()
    places = [column.name for column in TOPIC_COLUMNS if column.shape is Shape.PLACE]
    return made | {name: _written_places(made[name]) for name in places}


def _measured(sums: HubSums, codes: Indices, is_present: NDArray[np.bool_], count: int) -> dict[str, Any]:
    """The columns of measured latency, of the hubs that carry each topic now."""
    now = sums.topics.filter(pa.array(is_present))
    hub, topic, role = now.column("code").to_numpy(), codes[is_present], now.column("role").to_numpy()
    home = home_rows(topic, role, now.column("time_us").to_numpy(), count)
    found = measured_latency(
        MeasuredRows(
            topic=topic,
            is_numbering=~is_relaying(topic, role, home),
            where=_where(now.column("where")),
            clients=np.column_stack([now.column(side).to_numpy() for side in SIDES]),
            lag_s=np.column_stack([sums.hubs.column(name).to_numpy() for name in _LAGS])[hub],
            queue_s=now.column("queue_delay_s").to_numpy(),
            queued=now.column("subscribers_queued").to_numpy(),
            throttle_s=now.column("throttle_delay_s").to_numpy(),
        ),
        home,
        count,
    )
    names = [column.name for column in TOPIC_COLUMNS if column.aggregate is Aggregate.MEASURED]
    return {name: found[:, at] for at, name in enumerate(names)}


def _where(column: pa.ChunkedArray) -> Floats:
    """Chunk by chunk: Arrow would copy all of them into one first."""
    rows = [unpacked_rows(chunk) for chunk in column.chunks]
    return np.concatenate(rows) if rows else np.zeros((0, WHERE_NUMBERS))


def _written_places(places: Floats) -> pa.Array:
    """Lists of numbers, null in place of NaN."""
    ends = pa.array(np.arange(len(places) + 1, dtype=np.int32) * PLACE_NUMBERS)
    is_unknown = pa.array(np.isnan(places[:, 0]))
    return pa.ListArray.from_arrays(ends, pa.array(places.ravel()), mask=is_unknown)


def _largest(codes: Indices, values: NDArray[Any], count: int) -> NDArray[Any]:
    """The largest of each group; values are not negative."""
    found = np.zeros(count, values.dtype)
    np.maximum.at(found, codes, values)
    return found


def _hubs(hubs: pa.Table, end_us: int, entries: Mapping[str, HubEntry] | None) -> pa.Table:
    names = hubs.column("hub").to_pylist()
    is_fresh = end_us - hubs.column("time_us").to_numpy() <= STALE_S * _US
    listed = [(entries or {}).get(name) for name in names]
    is_alive = is_fresh & np.array([entries is None or bool(entry and entry.is_alive) for entry in listed])
    made: dict[str, Any] = {
        "hub": pa.array(names, pa.string()),
        "site": ["" if entry is None else entry.site for entry in listed],
        "rack": ["" if entry is None else entry.rack for entry in listed],
        "is_alive": is_alive,
    }
    made |= {
        column.name: pa.array(hubs.column(column.name).to_numpy(), HUB_SCHEMA.field(column.name).type)
        for column in HUB_COLUMNS
        if column.source or column.aggregate is Aggregate.REST
    }
    made["coordinate"] = _written_places(place_rows(hubs.column("coordinate")))
    return _table(made, HUB_SCHEMA)


def _table(columns: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    """The columns that there are; the planner knows the defaults of the others."""
    return pa.table(dict(columns), schema=pa.schema([schema.field(name) for name in columns]))
