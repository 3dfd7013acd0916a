"""The sliding window of the live view: the last ten seconds of each hub, and the view they make.

Two ways to keep it. `SlidingWindow` keeps samples and sums them here, in one thread: what one machine does best.
`JoinedWindow` keeps sums that executors made of the samples in their own state (`hub_state`), and joins them.

Always true: the end of the window, the newest record of any hub, only goes on; samples from before its start are
counted as late and not kept; a hub whose newest record lies before the start is not in the view. Both ways give the
same view of the same records.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
import pyarrow.compute as pc  # type: ignore[import-untyped]  # As above.

from equipoise.pipeline.hub_sums import HubSums, hub_sums, joined_sums
from equipoise.pipeline.samples import HUB_SAMPLES, TOPIC_SAMPLES, Sampled
from equipoise.pipeline.source.hub_directory import HubEntry
from equipoise.pipeline.view_bound import ViewBound, bounded
from equipoise.pipeline.view_join import view_tables
from equipoise.view.codec import ViewTables

__all__ = ["OVER_S", "JoinedWindow", "SlidingWindow", "WindowedView", "timely"]

OVER_S = 10.0
_US = 1e6


class WindowedView(NamedTuple):
    """A view on its way, with the time that its window ended, in seconds since 1970."""

    time_s: float
    window_s: float
    tables: ViewTables


def timely(found: Sampled, since_us: int) -> tuple[Sampled, Counter[str]]:
    """The samples from after that moment, and how many were from before it, by hub."""
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
    """What both ways share: where the window is."""

    def __init__(self, over_s: float = OVER_S) -> None:
        self.over_s = over_s
        # When the newest record of any hub was made; 0 before the first.
        self.end_us = 0
        # What views name of each hub; None: everything.
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
        """Take a batch; the number of samples from before the window as it was until now, by hub."""
        kept, late = timely(found, self.start_us)
        if len(kept.topics):
            self._topics.append((kept.topics, _newest(kept.topics)))
        self._hubs = pa.concat_tables([self._hubs, kept.hubs])
        newest = _newest(self._hubs)
        self.end_us = max(self.end_us, *newest.values(), 0)
        # Where each hub's window begins. One that is silent may come back as long as its window and that of the view
        # meet.
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
        """Take what tasks summed up; of a hub that is there already, the new sums replace the old."""
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
        """The part without these hubs, and without those that have been silent for the whole window."""
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
    found = samples.group_by("hub").aggregate([("time_us", "max")])
    return dict(zip(found.column("hub").to_pylist(), found.column("time_us_max").to_pylist(), strict=True))
