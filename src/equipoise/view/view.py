"""What the planner sees: one frozen view of all topics and hubs, as columns.

A policy reads nothing else. A view holds what was true of a window of some seconds: rates are per second over that
window, counts are those of its end, and numbers of a topic are totals over all hubs that carry it. With 100,000 topics
a planner has no time for objects, so the numbers are numpy columns (`columns`); `TopicView` and `HubView`
(`schema`) are rows of them, for people, tests and small worlds.

Always true of a view:
    every required number is finite and not negative, trends may be negative, and what is not known yet is NaN;
    no topic and no hub is there twice;
    what a hub carries of a topic refers to a topic and a hub of this view; shares of a topic are above 0 and sum to at
    most 1 (less if a part is carried by a hub that is not in the view).

Making views belongs to the pipeline, their bytes to `codec`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from equipoise.errors import ViewError
from equipoise.view.columns import (
    Carried,
    HubColumns,
    TopicColumns,
    check_carried,
    check_columns,
    check_one_space,
    columns_of,
    row_of,
)
from equipoise.view.schema import HUB_COLUMNS, TOPIC_COLUMNS, HubView, TopicView

__all__ = ["View"]

# What the store knows of a hub rather than its records.
_FACTS = ("site", "rack", "is_alive", "is_draining", "is_releasable", "incarnation")


@dataclass(frozen=True, eq=False)
class View:
    """One instant as the planner knows it."""

    # When the window ended, on the clock that `now` of the planner reads.
    time_s: float
    topics: TopicColumns
    hubs: HubColumns
    carried: Carried
    # What rates and trends were taken over.
    window_s: float = 10.0

    def __post_init__(self) -> None:
        """Raises ViewError unless everything said at the top of this module is true."""
        if not (np.isfinite(self.time_s) and np.isfinite(self.window_s) and self.window_s > 0):
            raise ViewError(f"a view of {self.window_s} s that ends at {self.time_s}")
        check_columns(self.topics)
        check_columns(self.hubs)
        check_one_space(self.topics.publishers_at, self.topics.subscribers_at, self.hubs.coordinate)
        check_carried(self.carried, self.topics.count, self.hubs.count)

    @classmethod
    def of(
        cls,
        time_s: float,
        topics: Iterable[TopicView] = (),
        hubs: Iterable[HubView] = (),
        *,
        window_s: float = 10.0,
    ) -> View:
        """A view from rows. What hubs carry that are not in the view is left out. Raises ViewError."""
        topic_rows, hub_rows = list(topics), list(hubs)
        hub_index = {hub.name: index for index, hub in enumerate(hub_rows)}
        carried = [
            (index, hub_index[hub], share)
            for index, topic in enumerate(topic_rows)
            for hub, share in topic.carried_by.items()
            if hub in hub_index
        ]
        return cls(
            time_s,
            TopicColumns(**columns_of(TOPIC_COLUMNS, topic_rows)),
            HubColumns(**columns_of(HUB_COLUMNS, hub_rows)),
            Carried(
                topic=np.array([row[0] for row in carried], np.int64),
                hub=np.array([row[1] for row in carried], np.int64),
                share=np.array([row[2] for row in carried], np.float64),
            ),
            window_s,
        )

    def with_store(self, alive: Iterable[HubView]) -> View:
        """This view, corrected by what the store knows: who is alive, and as what.

        `alive` holds the hubs that have their `alive` node, by their facts alone. A hub that has sent no records
        yet is added as it is told, without load; one that is not told is dead.
        """
        told = {hub.name: hub for hub in alive}
        rows = [
            replace(hub, is_alive=False)
            if (facts := told.pop(hub.name, None)) is None
            else replace(hub, **{name: getattr(facts, name) for name in _FACTS})
            for hub in self.hub_rows()
        ]
        hubs = HubColumns(**columns_of(HUB_COLUMNS, [*rows, *told.values()]))
        return replace(self, hubs=hubs)

    @cached_property
    def hub_index(self) -> Mapping[str, int]:
        return {name: index for index, name in enumerate(self.hubs.names)}

    @cached_property
    def topic_index(self) -> Mapping[bytes, int]:
        return {name: index for index, name in enumerate(self.topics.names)}

    def hub(self, name: str) -> HubView:
        """Raises KeyError."""
        return HubView(**row_of(self.hubs, self.hub_index[name]))

    def topic(self, name: bytes) -> TopicView:
        """Raises KeyError."""
        index = self.topic_index[name]
        rows = np.flatnonzero(self.carried.topic == index)
        carried_by = {
            self.hubs.names[self.carried.hub[row]]: float(self.carried.share[row]) for row in rows.tolist()
        }
        return TopicView(**row_of(self.topics, index), carried_by=carried_by)

    def hub_rows(self) -> Iterator[HubView]:
        return (HubView(**row_of(self.hubs, index)) for index in range(self.hubs.count))

    def topic_rows(self) -> Iterator[TopicView]:
        carried_by: list[dict[str, float]] = [{} for _ in range(self.topics.count)]
        columns = (self.carried.topic.tolist(), self.carried.hub.tolist(), self.carried.share.tolist())
        for topic, hub, share in zip(*columns, strict=True):
            carried_by[topic][self.hubs.names[hub]] = share
        return (TopicView(**row_of(self.topics, index), carried_by=by) for index, by in enumerate(carried_by))
