"""The part of `totals` that says where hubs and topics' clients are. Pure.

Always true: where no record tells of a place, there is nothing to do and no column in the view.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
from numpy.typing import NDArray

from equipoise.pipeline.client_locations import PLACE_NUMBERS, SIDES, WHERE_NUMBERS, place_rows, unpacked_rows
from equipoise.pipeline.topic_latency import Told, gathered

__all__ = ["HubPlaces", "hub_places", "is_told", "placed", "written_places"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


class HubPlaces(NamedTuple):
    """One row per hub."""

    # NaN where it does not know.
    at: Floats
    # How late it is on average.
    lag_s: Floats

    @property
    def written(self) -> pa.Array:
        """As a column of the view."""
        return written_places(self.at)


def hub_places(told: Sequence[NDArray[Any]], lag_s: Floats) -> HubPlaces:
    """Of what each hub has told of its place in the window, in order of time: the last that it knew."""
    newest = [next((place for place in reversed(places) if place is not None), None) for places in told]
    return HubPlaces(place_rows(pa.array(newest, pa.binary())), lag_s)


def is_told(topics: pa.Table) -> bool:
    """Whether any sample tells of a place."""
    where = topics.column("where")
    return bool(where.null_count < len(where))


def placed(
    topics: pa.Table, by_hub: pa.Table, codes: Indices, is_present: NDArray[np.bool_], hubs: HubPlaces
) -> dict[str, Any]:
    """Columns of the view; `by_hub` has the sample that speaks for each row, `codes` the topic it is of."""
    count = int(codes.max()) + 1 if len(codes) else 0
    rows = by_hub.column("row").to_numpy()[is_present]
    code = by_hub.column("code").to_numpy()[is_present]
    found = gathered(
        Told(
            topic=codes[is_present],
            role=topics.column("role").take(pa.array(rows)).to_numpy(),
            time_us=by_hub.column("time_us").to_numpy()[is_present],
            where=_where(topics.column("where"), rows),
            clients=np.column_stack([by_hub.column(side).to_numpy()[is_present] for side in SIDES]),
            hub_at=hubs.at[code],
            lag_s=hubs.lag_s[code],
        ),
        count,
    )
    made: dict[str, Any] = found._asdict()
    for name in ("publishers_at", "subscribers_at"):
        made[name] = written_places(made[name])
    return made


def _where(column: pa.ChunkedArray, rows: Indices) -> Floats:
    """The rows of a column, chunk by chunk: Arrow would make one chunk of all of them first."""
    found = np.full((len(rows), WHERE_NUMBERS), np.nan)
    begin = 0
    for chunk in column.chunks:
        is_own = np.flatnonzero((rows >= begin) & (rows < begin + len(chunk)))
        if len(is_own) and chunk.null_count < len(chunk):
            found[is_own] = unpacked_rows(chunk.take(pa.array(rows[is_own] - begin)))
        begin += len(chunk)
    return found


def written_places(places: Floats) -> pa.Array:
    """Lists of numbers, null in place of NaN."""
    ends = pa.array(np.arange(len(places) + 1, dtype=np.int32) * PLACE_NUMBERS)
    is_unknown = pa.array(np.isnan(places[:, 0]))
    return pa.ListArray.from_arrays(ends, pa.array(places.ravel()), mask=is_unknown)
