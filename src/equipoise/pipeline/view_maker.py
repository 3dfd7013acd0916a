"""Make views on the driver from the results of batches.

`sums_choice` decides whether executors sum, or the driver, or both during a change. Without Spark.

Always true: a view is later than the one before it; during a change no view covers less than the one before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from equipoise.pipeline.settings import PipelineSettings
from equipoise.pipeline.sliding_window import JoinedWindow, SlidingWindow, WindowedView
from equipoise.pipeline.sums_choice import SumsAt, SumsChoice
from equipoise.pipeline.view_bound import ViewBound
from equipoise.view.interest import Interest

if TYPE_CHECKING:
    from equipoise.pipeline.batch_task import BatchResult
    from equipoise.pipeline.source.hub_directory import HubEntry

__all__ = ["ViewMaker"]

# The least number of named topics per hub, for any number of hubs: enough to relieve an overloaded one.
TOPICS_PER_HUB_MIN = 100
_US = 1e6


class ViewMaker:
    """Owned by the pipeline; changes through `add`."""

    def __init__(self, settings: PipelineSettings) -> None:
        self._topics_max = settings.view_topics_max
        # One of them makes the views; during a change both get the records.
        self._samples = SlidingWindow()
        self._sums = JoinedWindow()
        self._choice = SumsChoice(
            settings.sums, records_per_s=settings.executors_records_per_s, over_s=self._samples.over_s
        )
        # Where the last view was summed, and the end of its window, in seconds since 1970.
        self.sums_at: SumsAt = self._choice.at
        self.time_s = 0.0

    @property
    def wants_samples(self) -> bool:
        """Whether the next batch needs samples."""
        return self._choice.has_samples

    @property
    def wants_sums(self) -> bool:
        """Whether the next batch needs sums."""
        return self._choice.has_state

    @property
    def over_us(self) -> int:
        """The length of the window."""
        return self._sums.over_us

    @property
    def since_us(self) -> int:
        """If executors sum, earlier samples are late."""
        return max(self._sums.start_us, 0)

    @property
    def newest_us(self) -> dict[str, int]:
        """The time of each hub's newest record in the view."""
        return self._window.newest_us

    def bound(self, interest: Interest) -> ViewBound:
        """Which topics a view names. Tasks apply it to their sums, so that the driver joins small tables."""
        hubs = max(1, len(self.newest_us))
        return ViewBound(max(TOPICS_PER_HUB_MIN, self._topics_max // hubs), interest)

    def add(
        self, batch: BatchResult, entries: Mapping[str, HubEntry] | None, interest: Interest
    ) -> tuple[WindowedView | None, int]:
        """The view with this batch, None if it ends no later than the last; and the number of late samples here."""
        before_us = max(self._samples.end_us, self._sums.end_us)
        if self.wants_sums:
            self._sums.add(batch.sums)
        late = self._samples.add(batch.samples).total() if self.wants_samples else 0
        self.sums_at = self._choice.at
        self._samples.bound = self.bound(interest)
        view = self._window.view(entries)
        if view is not None and view.time_s <= self.time_s:
            view = None
        if view is not None:
            self.time_s = view.time_s
        self._choice.observe(batch.records, (self._window.end_us - before_us) / _US if before_us else 0.0)
        return view, late

    @property
    def _window(self) -> SlidingWindow | JoinedWindow:
        return self._sums if self.sums_at is SumsAt.EXECUTORS else self._samples
