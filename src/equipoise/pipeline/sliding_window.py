"""The sliding window of the live view: the last ten seconds of each hub.

There are two kinds. `SlidingWindow` keeps samples and sums them here, in one thread: the best choice on one machine.
`JoinedWindow` keeps sums of samples that executors hold in their own state (`hub_state`), and joins them. From the
sums of all hubs `view_tables` makes the three tables of a view: one row per topic and hub, so this is little work.

Always true: the end of the window, the newest record of any hub, only increases; samples from before its start are
counted as late and dropped; a hub whose newest record is before the start is not in the view. Both kinds give the same
view of the same records.

Always true of a view at `end`:
    a topic's rates are sums over hubs, worst cases their maximum, its largest second the sum of each hub's largest;
    clients are counted by the topic's newest records: a hub that it has left does not count twice;
    coordinates are the last ones reported by hubs and clients; `topic_latency` computes latencies from them;
    a hub without a record for STALE_S, or without its `alive` node, is not alive.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
import pyarrow.compute as pc  # type: ignore[import-untyped]  # As above.
from numpy.typing import NDArray

from equipoise.pipeline.hub_sums import HubSums, hub_sums, joined_sums
from equipoise.pipeline.measured_latency import MeasuredRows, measured_latency
from equipoise.pipeline.samples import (
    HUB_SAMPLES,
    PLACE_NUMBERS,
    SIDES,
    TOPIC_SAMPLES,
    WHERE_NUMBERS,
    Sampled,
    place_rows,
    unpacked_rows,
)
from equipoise.pipeline.source.hub_directory import HubEntry
from equipoise.pipeline.topic_latency import TopicRows, gathered, home_rows, is_relaying
from equipoise.pipeline.view_bound import ViewBound, bounded
from equipoise.view.codec import CARRIED_SCHEMA, HUB_SCHEMA, TOPIC_SCHEMA, ViewTables
from equipoise.view.schema import HUB_COLUMNS, TOPIC_COLUMNS, Aggregate, Shape

__all__ = ["OVER_S", "STALE_S", "JoinedWindow", "SlidingWindow", "WindowedView", "timely", "view_tables"]

OVER_S = 10.0
_US = 1e6


class WindowedView(NamedTuple):
    """A view for the controller, and the end of its window, in seconds since 1970."""

    time_s: float
    window_s: float
    tables: ViewTables


def timely(found: Sampled, since_us: int) -> tuple[Sampled, Counter[str]]:
    """The samples after that moment, and the number of earlier ones, by hub."""
    late = Counter[str]()
    kept = []
    for samples in (found.topics, found.hubs):
        is_late = pc.less_equal(samples.column("time_us"), since_us)
        if pc.any(is_late).as_py():
            late.update(samples.filter(is_late).column("hub").to_pylist())
            samples = samples.filter(pc.invert(is_late))
        kept.append(samples)
    return Sampled(kept[0], kept[1], found.rejected), late


class _Window:
    """The common part of both kinds: the position of the window."""

    def __init__(self, over_s: float = OVER_S) -> None:
        self.over_s = over_s
        # The time of the newest record of any hub; 0 before the first.
        self.end_us = 0
        # Which topics of each hub have names in views; None: all.
        self.bound: ViewBound | None = None

    @property
    def over_us(self) -> int:
        return int(self.over_s * _US)

    @property
    def start_us(self) -> int:
        return self.end_us - self.over_us

    def _view(self, sums: HubSums, entries: Mapping[str, HubEntry] | None) -> WindowedView:
        if self.bound is not None:
            sums = bounded(sums, self.bound)
        tables = view_tables(sums, end_us=self.end_us, entries=entries)
        return WindowedView(self.end_us / _US, self.over_s, tables)


class SlidingWindow(_Window):
    """Owned by the query, which adds every batch and then takes a view."""

    def __init__(self, over_s: float = OVER_S) -> None:
        super().__init__(over_s)
        # Samples of topics, batch by batch, each with the time of the last one of each hub.
        self._topics: deque[tuple[pa.Table, dict[str, int]]] = deque()
        self._hubs: pa.Table = HUB_SAMPLES.empty_table()

    def add(self, found: Sampled) -> Counter[str]:
        """Add a batch; return the number of samples from before the previous window, by hub."""
        kept, late = timely(found, self.start_us)
        if len(kept.topics):
            self._topics.append((kept.topics, _newest(kept.topics)))
        self._hubs = pa.concat_tables([self._hubs, kept.hubs])
        newest = _newest(self._hubs)
        self.end_us = max(self.end_us, *newest.values(), 0)
        # The start of each hub's window. A silent hub may return while its window and that of the view overlap.
        begun = {hub: us - self.over_us for hub, us in newest.items() if us > self.start_us - self.over_us}
        starts = [begun.get(hub, self.end_us) for hub in self._hubs.column("hub").to_pylist()]
        self._hubs = self._hubs.filter(pc.greater(self._hubs.column("time_us"), pa.array(starts, pa.int64())))
        while self._topics and all(
            us <= begun.get(hub, self.start_us) for hub, us in self._topics[0][1].items()
        ):
            self._topics.popleft()
        return late

    @property
    def newest_us(self) -> dict[str, int]:
        return _newest(self._hubs)

    def view(self, entries: Mapping[str, HubEntry] | None = None) -> WindowedView | None:
        """The view at the end of the window; None before the first record of a hub."""
        if not len(self._hubs):
            return None
        present = pa.array([hub for hub, us in self.newest_us.items() if us > self.start_us])
        hubs = self._hubs.filter(pc.is_in(self._hubs.column("hub"), present))
        topics = pa.concat_tables([TOPIC_SAMPLES.empty_table(), *(table for table, _ in self._topics)])
        return self._view(hub_sums(topics, hubs, over_us=self.over_us), entries)


class JoinedWindow(_Window):
    """Owned by the query; the newest sums of each hub, from executors."""

    def __init__(self, over_s: float = OVER_S) -> None:
        super().__init__(over_s)
        self._parts: list[HubSums] = []

    def add(self, parts: Sequence[HubSums]) -> None:
        """Add the sums of tasks; new sums of a hub replace its old ones."""
        parts = [part for part in parts if len(part.hubs)]
        newest = (pc.max(part.hubs.column("time_us")).as_py() for part in parts)
        self.end_us = max(self.end_us, *newest, 0)
        renewed = {hub for part in parts for hub in part.hubs.column("hub").to_pylist()}
        found = [
            *(self._without(part, renewed) for part in self._parts),
            *(self._without(part) for part in parts),
        ]
        self._parts = [part for part in found if len(part.hubs)]

    def _without(self, part: HubSums, renewed: AbstractSet[str] = frozenset()) -> HubSums:
        """The part without these hubs, and without those that were silent for the whole window."""
        is_silent = part.hubs.column("time_us").to_numpy() <= self.start_us
        is_kept = ~is_silent & np.array([hub not in renewed for hub in part.hubs.column("hub").to_pylist()])
        if is_kept.all():
            return part
        code = part.topics.column("code").to_numpy()
        moved = pa.array((np.cumsum(is_kept) - 1)[code], pa.int32())
        topics = part.topics.set_column(0, "code", moved).filter(pa.array(is_kept[code]))
        return HubSums(topics, part.hubs.filter(pa.array(is_kept)))

    @property
    def newest_us(self) -> dict[str, int]:
        return {hub: us for part in self._parts for hub, us in _newest(part.hubs).items()}

    def view(self, entries: Mapping[str, HubEntry] | None = None) -> WindowedView | None:
        return self._view(joined_sums(self._parts), entries) if self._parts else None


def _newest(samples: pa.Table) -> dict[str, int]:
    """The time of the last sample of each hub."""
    # Arrow passes all columns of a table through the groups, and threads cost more than this little work.
    found = (
        samples.select(["hub", "time_us"]).group_by("hub", use_threads=False).aggregate([("time_us", "max")])
    )
    return dict(zip(found.column("hub").to_pylist(), found.column("time_us_max").to_pylist(), strict=True))


# --- the tables of a view ---------------------------------------------------------------------------------------------

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Two windows of a hub: records of a topic with a longer distance are not of the same moment.
PRESENT_US = 2_000_000
# A hub without a record for this long counts as dead, whatever the store says.
STALE_S = 5.0
_LAGS = ("loop_lag_s_p50", "loop_lag_s_p90", "loop_lag_s_p99", "loop_lag_s_max")


def view_tables(sums: HubSums, *, end_us: int, entries: Mapping[str, HubEntry] | None) -> ViewTables:
    """`entries`: the hubs in the store, if there is one."""
    hub = sums.hubs.column("hub").combine_chunks().take(sums.topics.column("code").combine_chunks())
    carried = {
        "topic": sums.topics.column("topic"),
        "hub": hub,
        "out_bytes_per_s": sums.topics.column("out_bytes_per_s"),
        "limit_use": _limit_use(sums.topics),
    }
    return ViewTables(_topics(sums), _hubs(sums.hubs, end_us, entries), _table(carried, CARRIED_SCHEMA))


def _limit_use(by_hub: pa.Table) -> pa.Array:
    """Each hub's use of its share of each topic's envelope; null if no message needed a token.

    The order is that of LimitUse.
    """
    names = (
        "publications_per_s",
        "limit_drained",
        "limit_waiting",
        "limit_refused_per_s",
        "throttle_delay_s",
    )
    columns = [by_hub.column(name).to_numpy() for name in names]
    is_limited = np.any(np.array(columns[1:]) > 0, axis=0)
    if not is_limited.any():
        return pa.nulls(len(by_hub), pa.list_(pa.float64()))
    ends = np.concatenate([[0], np.cumsum(np.where(is_limited, len(columns), 0))]).astype(np.int32)
    numbers = np.column_stack(columns)[is_limited].ravel()
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(numbers), mask=pa.array(~is_limited))


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
    """The columns computed from coordinates, for the hubs that carry each topic at present."""
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
            queue_s=now.column("queue_delay_s").to_numpy(),
        ),
        count,
    )
    made: dict[str, Any] = found._asdict()
    places = [column.name for column in TOPIC_COLUMNS if column.shape is Shape.PLACE]
    return made | {name: _written_places(made[name]) for name in places}


def _measured(sums: HubSums, codes: Indices, is_present: NDArray[np.bool_], count: int) -> dict[str, Any]:
    """The columns of measured latency, for the hubs that carry each topic at present."""
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
    """Chunk by chunk: Arrow would first copy all of them into one."""
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
    """The existing columns; the planner has defaults for the others."""
    return pa.table(dict(columns), schema=pa.schema([schema.field(name) for name in columns]))
