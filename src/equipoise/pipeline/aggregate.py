"""From the samples of one window to the three tables of a view, in Arrow and numpy. Pure.

Always true of a view at `end`, over the window (end − over, end]:
    a hub's topics count up to its own last record in the window, which is what closes each of its windows;
    rates are over the time that the hub's records in the window cover, so a hub that has just come, or was away for
    some seconds, is not taken for an idle one;
    a topic's numbers are sums over hubs, worst cases their maximum, its largest second the sum of each hub's largest;
    clients are counted where the topic's newest records are: a hub that it has left does not count twice;
    where clients and hubs are is what they said last; `gathering` says what follows from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
import pyarrow.compute as pc  # type: ignore[import-untyped]  # As above.
from numpy.typing import NDArray

from equipoise.pipeline.aggregate_locations import HubPlaces, hub_places, is_told, placed
from equipoise.pipeline.samples import HUB_SAMPLES
from equipoise.pipeline.source.hub_directory import HubEntry
from equipoise.view.arrow_table import CARRIED_SCHEMA, HUB_SCHEMA, TOPIC_SCHEMA, ViewTables

__all__ = ["PRESENT_US", "SLOPE_POINTS_MIN", "STALE_S", "slope", "view_tables"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Two windows of a hub: records of a topic that are further apart are not of the same moment.
PRESENT_US = 2_000_000
# A line through fewer points is noise.
SLOPE_POINTS_MIN = 3
# A hub without a record for so long is not to be believed, whatever the store says.
STALE_S = 5.0
_US = 1e6


class HubSpans(NamedTuple):
    """What each hub's records in the window cover; one row per hub, times in seconds from the end."""

    covered_s: Floats
    newest_us: Indices
    # Of the times of its records, for trends: how many, their mean, and the sum of squares about it.
    points: Floats
    mean_s: Floats
    spread: Floats


def view_tables(
    topics: pa.Table, hubs: pa.Table, *, end_us: int, start_us: int, entries: Mapping[str, HubEntry] | None
) -> ViewTables:
    """Of the window's samples; those of hubs end within it. `entries`: what the store knows of hubs, if it is asked."""
    names = sorted(set(hubs.column("hub").to_pylist()))
    rows = {name: _samples_of(hubs, name) for name in names}
    spans = _spans(list(rows.values()), end_us)
    grouped = _grouped(topics, names, spans, start_us, end_us)
    last = topics.select(["publishers", "subscribers", "time_us"]).take(grouped.column("row_last"))
    by_hub = _rated(grouped, last, spans)
    told = _hubs(rows, spans, end_us, entries)
    places = hub_places(
        [samples["coordinate"] for samples in rows.values()], told.column("loop_lag_s").to_numpy()
    )
    return ViewTables(
        _topics(by_hub, topics if is_told(topics) else None, places),
        told.append_column("coordinate", places.written),
        _carried(by_hub, names),
    )


def _samples_of(hubs: pa.Table, name: str) -> dict[str, NDArray[Any]]:
    """A hub's samples as arrays, in order of time."""
    table = hubs.filter(pc.equal(hubs.column("hub"), name)).sort_by("time_us")
    return {column: table.column(column).to_numpy() for column in HUB_SAMPLES.names[1:]}


def _spans(hubs: list[dict[str, NDArray[Any]]], end_us: int) -> HubSpans:
    times = [(rows["time_us"] - end_us) / _US for rows in hubs]
    means = np.array([each.mean() for each in times])
    return HubSpans(
        covered_s=np.array([rows["window_us"].sum() / _US for rows in hubs]),
        newest_us=np.array([rows["time_us"].max() for rows in hubs], np.int64),
        points=np.array([float(len(each)) for each in times]),
        mean_s=means,
        spread=np.array([((each - mean) ** 2).sum() for each, mean in zip(times, means, strict=True)]),
    )


_SUMMED = ("publications", "deliveries", "bytes_in", "out_bytes")
_LARGEST = ("backlog_bytes_max", "queue_us_max", "throttle_us_max")
_AGGREGATES = [
    *((name, "sum") for name in (*_SUMMED, "sent", "sent_by_time")),
    *((name, "max") for name in (*_LARGEST, "sent", "published")),
    ("row", "last"),
]


def _grouped(topics: pa.Table, names: list[str], spans: HubSpans, start_us: int, end_us: int) -> pa.Table:
    """One row per topic and hub: sums and worst cases over the window, and which row of `topics` was the last."""
    code = pc.index_in(topics.column("hub"), pa.array(names)).fill_null(-1).to_numpy()
    time_us = topics.column("time_us").to_numpy()
    is_within = (code >= 0) & (time_us > start_us) & (time_us <= spans.newest_us[code])
    row = np.flatnonzero(is_within)
    topics = topics.select(["topic", "window_us", *_SUMMED, *_LARGEST])
    if not is_within.all():
        topics, code, time_us = topics.filter(pa.array(is_within)), code[is_within], time_us[is_within]
    window_s = topics.column("window_us").to_numpy() / _US
    sent = topics.column("out_bytes").to_numpy() / window_s
    return (
        topics.drop_columns(["window_us"])
        .append_column("row", pa.array(row))
        .append_column("code", pa.array(code, pa.int32()))
        .append_column("sent", pa.array(sent))
        .append_column("sent_by_time", pa.array(sent * ((time_us - end_us) / _US)))
        .append_column("published", pa.array(topics.column("publications").to_numpy() / window_s))
        # In one thread rows keep their order, which `last` goes by; and it is faster.
        .group_by(["topic", "code"], use_threads=False)
        .aggregate(_AGGREGATES)
    )


def slope(times_s: Floats, values: Floats) -> float:
    """Change per second, by least squares; 0 of fewer than three points."""
    if len(values) < SLOPE_POINTS_MIN:
        return 0.0
    centred = times_s - times_s.mean()
    spread = float((centred**2).sum())
    return float((centred * values).sum()) / spread if spread > 0 else 0.0


def _rated(grouped: pa.Table, last: pa.Table, spans: HubSpans) -> pa.Table:
    """Sums become rates over what the hub covers; seconds without a record count as nothing sent. `last`: what counts
    as it was told last."""
    code = grouped.column("code").to_numpy()
    covered_s = spans.covered_s[code]

    def rate(name: str) -> Floats:
        return np.asarray(grouped.column(f"{name}_sum").to_numpy() / covered_s)

    is_line = (spans.points[code] >= SLOPE_POINTS_MIN) & (spans.spread[code] > 0)
    centred = (
        grouped.column("sent_by_time_sum").to_numpy()
        - spans.mean_s[code] * grouped.column("sent_sum").to_numpy()
    )
    trend = np.where(is_line, centred / np.where(is_line, spans.spread[code], 1.0), 0.0)
    return pa.table(
        {
            "topic": grouped.column("topic"),
            "code": grouped.column("code"),
            "publications_per_s": rate("publications"),
            "deliveries_per_s": rate("deliveries"),
            "in_bytes_per_s": rate("bytes_in"),
            "out_bytes_per_s": rate("out_bytes"),
            "publications_per_s_max": grouped.column("published_max"),
            "out_bytes_per_s_max": grouped.column("sent_max"),
            "out_bytes_trend": trend,
            "backlog_bytes_max": grouped.column("backlog_bytes_max_max").cast(pa.float64()),
            "queue_delay_s": grouped.column("queue_us_max_max").to_numpy() / _US,
            "throttle_delay_s": grouped.column("throttle_us_max_max").to_numpy() / _US,
            "publishers": last.column("publishers").cast(pa.float64()),
            "subscribers": last.column("subscribers").cast(pa.float64()),
            "time_us": last.column("time_us"),
            "row": grouped.column("row_last"),
        }
    )


_TOTALS = (
    "publications_per_s",
    "deliveries_per_s",
    "in_bytes_per_s",
    "out_bytes_per_s",
    "publications_per_s_max",
    "out_bytes_per_s_max",
    "out_bytes_trend",
)
_CLIENTS = ("publishers", "subscribers")
_WORST = ("backlog_bytes_max", "queue_delay_s", "throttle_delay_s")


def _topics(by_hub: pa.Table, topics: pa.Table | None, hubs: HubPlaces) -> pa.Table:
    """Totals over hubs. `topics`: the samples, if any of them tells where clients are."""
    encoded = by_hub.column("topic").combine_chunks().dictionary_encode()
    codes, names = encoded.indices.to_numpy().astype(np.int64), encoded.dictionary
    count = len(names)
    time_us = by_hub.column("time_us").to_numpy()
    newest_us = _largest(codes, time_us, count)
    is_present = time_us > newest_us[codes] - PRESENT_US
    made: dict[str, Any] = {"topic": names}
    for name in _TOTALS:
        made[name] = np.bincount(codes, by_hub.column(name).to_numpy(), minlength=count)
    for name in _CLIENTS:
        made[name] = np.bincount(codes, by_hub.column(name).to_numpy() * is_present, minlength=count)
    for name in _WORST:
        made[name] = _largest(codes, by_hub.column(name).to_numpy(), count)
    if topics is not None:
        made |= placed(topics, by_hub, codes, is_present, hubs)
    return _table(made, TOPIC_SCHEMA)


def _largest(codes: Indices, values: NDArray[Any], count: int) -> NDArray[Any]:
    """The largest of each group; values are not negative."""
    found = np.zeros(count, values.dtype)
    np.maximum.at(found, codes, values)
    return found


def _hubs(
    rows: Mapping[str, dict[str, NDArray[Any]]],
    spans: HubSpans,
    end_us: int,
    entries: Mapping[str, HubEntry] | None,
) -> pa.Table:
    made = []
    for at, (name, samples) in enumerate(rows.items()):
        entry = (entries or {}).get(name)
        is_fresh = end_us - int(spans.newest_us[at]) <= STALE_S * _US
        is_listed = entries is None or (entry is not None and entry.is_alive)
        made.append(
            {
                "hub": name,
                "site": entry.site if entry is not None else "",
                "rack": entry.rack if entry is not None else "",
                "is_alive": is_fresh and is_listed,
                **_hub_numbers(samples, (samples["time_us"] - end_us) / _US, float(spans.covered_s[at])),
            }
        )
    names = [name for name in HUB_SCHEMA.names if name in made[0]]
    return pa.Table.from_pylist(made, schema=pa.schema([HUB_SCHEMA.field(name) for name in names]))


def _hub_numbers(samples: dict[str, NDArray[Any]], times_s: Floats, covered_s: float) -> dict[str, Any]:
    """Means by the length of each window, and the last word on what is counted."""
    weights = samples["window_us"] / _US / covered_s

    def mean(name: str) -> float:
        return float((samples[name] * weights).sum())

    return {
        "incarnation": int(samples["incarnation"][-1]),
        "plan_version": int(samples["plan_version"][-1]),
        "cpu_ratio": mean("cpu_ratio"),
        "loop_lag_s": mean("loop_lag_us_mean") / _US,
        "memory_bytes": float(samples["memory_bytes"][-1]),
        "out_bytes_per_s": mean("out_bytes_per_s"),
        "out_bytes_per_s_max": float(samples["out_bytes_per_s_max"][-1]),
        "deliveries_per_s_max": float(samples["deliveries_per_s_max"][-1]),
        "publications_per_s": float(samples["publications"].sum()) / covered_s,
        "deliveries_per_s": float(samples["deliveries"].sum()) / covered_s,
        "connections": float(samples["connections"][-1]),
        "topics": float(samples["topics_home"][-1]),
        "out_bytes_trend": slope(times_s, samples["out_bytes_per_s"]),
        "cpu_trend": slope(times_s, samples["cpu_ratio"]),
    }


def _carried(by_hub: pa.Table, names: list[str]) -> pa.Table:
    hub = pa.array(names).take(by_hub.column("code").combine_chunks())
    made = {"topic": by_hub.column("topic"), "hub": hub, "out_bytes_per_s": by_hub.column("out_bytes_per_s")}
    return _table(made, CARRIED_SCHEMA)


def _table(columns: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    """The columns that there are; the planner knows what the others are by default."""
    return pa.table(dict(columns), schema=pa.schema([schema.field(name) for name in columns]))
