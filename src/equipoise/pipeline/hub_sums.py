"""Sum the samples of a window into one row per hub and one per topic and hub, in Arrow and numpy. Pure.

A hub's sums depend only on its own records: so hubs can be summed anywhere, in any grouping, and `sliding_window` joins
them. The driver sums all hubs at once, executors those of their task.

Always true of the sums of a hub, over its window (newest − over, newest], newest being its own last record:
    its topics count up to that record, which ends each of its windows;
    rates are over the time that its records in the window cover, so a hub that has just joined, or was silent for some
    seconds, does not count as idle;
    a trend counts a second without a record as 0, and is 0 for fewer than three points.

`view.schema` defines the sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
import pyarrow.compute as pc  # type: ignore[import-untyped]  # As above.
from numpy.typing import NDArray

from equipoise.view.schema import HUB_COLUMNS, REST, TOPIC_COLUMNS, Aggregate

__all__ = ["HubSums", "hub_sums", "joined_sums"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# A line through fewer points is noise.
SLOPE_POINTS_MIN = 3
_US = 1e6


class HubSums(NamedTuple):
    """The sums of some hubs' records."""

    # One row per topic and hub: `code` (a row of `hubs`), `topic`, the numbers of a topic, the time of its last record
    # (`time_us`), and that record's `role` and `where`.
    topics: pa.Table
    # One row per hub: `hub`, its own numbers, the time of its last record, and the last `coordinate`.
    hubs: pa.Table


class _Spans(NamedTuple):
    """The times covered by each hub's records in its window; one row per hub, in seconds from its newest record."""

    covered_s: Floats
    newest_us: Indices
    # For trends: the mean of its records' times, and the sum of squares about it, 0 without a line.
    mean_s: Floats
    spread: Floats

    def slope(self, code: Indices, by_time: Floats, plain: Floats) -> Floats:
        """Change per second, by least squares, given Σ(time·value) and Σ(value) of each group."""
        spread = self.spread[code]
        is_line = spread > 0
        centred = by_time - self.mean_s[code] * plain
        return np.where(is_line, centred / np.where(is_line, spread, 1.0), 0.0)


def hub_sums(topics: pa.Table, hubs: pa.Table, *, over_us: int) -> HubSums:
    """From samples, each hub's in the order of time; samples from before a hub's window are skipped."""
    names = sorted(pc.unique(hubs.column("hub")).to_pylist())
    code = _codes(hubs, names)
    time_us = hubs.column("time_us").to_numpy()
    order = np.lexsort((time_us, code))
    newest_us = np.zeros(len(names), np.int64)
    np.maximum.at(newest_us, code, time_us)
    order = order[time_us[order] > newest_us[code[order]] - over_us]
    own, code, time_us = hubs.take(pa.array(order)), code[order], time_us[order]
    spans = _spans(code, time_us, own.column("window_us").to_numpy() / _US, newest_us)
    return HubSums(
        _topics(topics, _codes(topics, names), spans, over_us),
        _hubs(own, names, code, (time_us - newest_us[code]) / _US, spans),
    )


def joined_sums(parts: Sequence[HubSums]) -> HubSums:
    """Join the sums of different hubs. At least one."""
    topics, first = [], 0
    for part in parts:
        code = pa.array(part.topics.column("code").to_numpy() + np.int32(first), pa.int32())
        topics.append(part.topics.set_column(0, "code", code))
        first += len(part.hubs)
    return HubSums(pa.concat_tables(topics), pa.concat_tables([part.hubs for part in parts]))


def _codes(samples: pa.Table, names: list[str]) -> Indices:
    """The hub of each sample; −1 for a hub without a record of its own."""
    code = pc.index_in(samples.column("hub"), pa.array(names, pa.string())).fill_null(-1)
    return np.asarray(code.to_numpy(), np.int64)


def _spans(code: Indices, time_us: Indices, window_s: Floats, newest_us: Indices) -> _Spans:
    count = len(newest_us)
    at_s = (time_us - newest_us[code]) / _US
    points = np.bincount(code, minlength=count)
    mean_s = _added(code, at_s, count) / points
    spread = _added(code, (at_s - mean_s[code]) ** 2, count)
    return _Spans(
        covered_s=_added(code, window_s, count),
        newest_us=newest_us,
        mean_s=mean_s,
        spread=np.where(points >= SLOPE_POINTS_MIN, spread, 0.0),
    )


def _hubs(own: pa.Table, names: list[str], code: Indices, at_s: Floats, spans: _Spans) -> pa.Table:
    """Samples in the order of hub and time."""
    count = len(names)
    last = np.cumsum(np.bincount(code, minlength=count)) - 1
    window_s = own.column("window_us").to_numpy() / _US
    made: dict[str, Any] = {"hub": pa.array(names, pa.string())}
    for column in HUB_COLUMNS:
        if not column.source:
            continue
        values = own.column(column.source).to_numpy()
        if column.aggregate is Aggregate.LAST:
            found = values[last]
        elif column.aggregate is Aggregate.MEAN:
            found = _added(code, values * window_s, count) / spans.covered_s
        elif column.aggregate is Aggregate.RATE:
            found = _added(code, values, count) / spans.covered_s
        elif column.aggregate is Aggregate.TREND:
            by_time, plain = _added(code, at_s * values, count), _added(code, values, count)
            found = spans.slope(np.arange(count), by_time, plain)
        else:
            found = _largest(code, values, count)
        made[column.name] = _in_unit(found, column.scale)
    made |= {name: np.zeros(count) for name in REST}
    made["time_us"] = spans.newest_us
    coordinate = own.column("coordinate")
    latest_row = np.full(count, -1)
    rows = np.flatnonzero(coordinate.is_valid().to_numpy())
    # Of several values for one index the last one is kept.
    latest_row[code[rows]] = rows
    made["coordinate"] = coordinate.take(pa.array(latest_row, mask=latest_row < 0))
    return pa.table(made)


def _topics(samples: pa.Table, code: Indices, spans: _Spans, over_us: int) -> pa.Table:
    # A hub without a record of its own has no window: its topics' samples wait.
    ago_us = np.append(spans.newest_us, -1)[code] - samples.column("time_us").to_numpy()
    is_within = (ago_us >= 0) & (ago_us < over_us)
    row = np.flatnonzero(is_within)
    if len(row) < len(code):
        code, ago_us = code[row], ago_us[row]
    grouped = _grouped(samples, row, code, ago_us / -_US)
    of, last = grouped.column("code").to_numpy(), grouped.column("row_last")
    made: dict[str, Any] = {"code": grouped.column("code"), "topic": grouped.column("topic")}
    latest = samples.select([*_LAST.values(), "time_us", "role", "where"]).take(last)
    for column in TOPIC_COLUMNS:
        source = column.source
        if column.aggregate is Aggregate.RATE:
            found = grouped.column(f"{source}_sum").to_numpy() / spans.covered_s[of]
        elif column.aggregate is Aggregate.PEAK:
            found = grouped.column(f"{source}_per_s_max").to_numpy()
        elif column.aggregate is Aggregate.TREND:
            by_time, plain = (
                grouped.column(f"{source}_{end}_sum").to_numpy() for end in ("by_time", "per_s")
            )
            found = spans.slope(of, by_time, plain)
        elif column.aggregate is Aggregate.WORST:
            found = grouped.column(f"{source}_max").to_numpy()
        elif column.aggregate is Aggregate.LAST:
            found = latest.column(source).to_numpy()
        else:
            continue
        made[column.name] = _in_unit(np.asarray(found, np.float64), column.scale)
    return pa.table(made | {name: latest.column(name) for name in ("time_us", "role", "where")})


def _by(aggregate: Aggregate) -> list[str]:
    return [column.source for column in TOPIC_COLUMNS if column.aggregate is aggregate]


_LAST = {column.name: column.source for column in TOPIC_COLUMNS if column.aggregate is Aggregate.LAST}
_PLAIN = list(dict.fromkeys([*_by(Aggregate.RATE), *_by(Aggregate.WORST)]))
_TRENDS = _by(Aggregate.TREND)
_PER_S = list(dict.fromkeys([*_by(Aggregate.PEAK), *_TRENDS]))
_AGGREGATES = [
    *((source, "sum") for source in _by(Aggregate.RATE)),
    *((source, "max") for source in _by(Aggregate.WORST)),
    *((f"{source}_per_s", "max") for source in _by(Aggregate.PEAK)),
    *((f"{source}_{end}", "sum") for source in _TRENDS for end in ("per_s", "by_time")),
    ("row", "last"),
]


def _grouped(samples: pa.Table, row: Indices, code: Indices, at_s: Floats) -> pa.Table:
    """One row per topic and hub: sums and worst cases, and the row of `samples` that was the last."""
    wanted = samples.select(["topic", "window_us", *dict.fromkeys([*_PLAIN, *_PER_S])])
    if len(row) < len(samples):
        wanted = wanted.take(pa.array(row))
    window_s = wanted.column("window_us").to_numpy() / _US
    made = wanted.drop_columns(["window_us"])
    for source in _PER_S:
        per_s = wanted.column(source).to_numpy() / window_s
        made = made.append_column(f"{source}_per_s", pa.array(per_s))
        if source in _TRENDS:
            made = made.append_column(f"{source}_by_time", pa.array(per_s * at_s))
    return (
        made.append_column("row", pa.array(row))
        .append_column("code", pa.array(code, pa.int32()))
        # In one thread rows keep their order, which `last` needs; and it is faster.
        .group_by(["topic", "code"], use_threads=False)
        .aggregate(_AGGREGATES)
    )


def _added(code: Indices, values: NDArray[Any], count: int) -> Floats:
    return np.asarray(np.bincount(code, values, minlength=count), np.float64)


def _largest(code: Indices, values: NDArray[Any], count: int) -> NDArray[Any]:
    """The largest of each group; values are not negative."""
    found = np.zeros(count, values.dtype)
    np.maximum.at(found, code, values)
    return found


def _in_unit(values: NDArray[Any], scale: float) -> NDArray[Any]:
    # Dividing by a million is exact; multiplying by a millionth is not.
    return values if scale == 1.0 else values / (1.0 / scale)
