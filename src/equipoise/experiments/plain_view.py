"""Make views of records in plain Python: what the Spark transforms compute, for worlds that are small and many.

A step of Spark takes a third of a second whatever it is given, and a simulated hour has 3,600 of them. This reads the
same records and yields the same views; tests/experiments hold the two against each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.

from equipoise.plan import HubView, TopicView, View

__all__ = ["PlainViews"]

WINDOW_S = 10
_US = 1_000_000

Row = Mapping[str, Any]


class PlainViews:
    """Keeps the records of one window; each second makes a view of them."""

    def __init__(self) -> None:
        # By the second in which the record's window ended.
        self._topics: dict[int, list[Row]] = defaultdict(list)
        self._hubs: dict[int, list[Row]] = defaultdict(list)

    def view(self, batches: Sequence[pa.RecordBatch], now: float) -> View | None:
        """The view of the last window, which ends with the latest record."""
        for batch in batches:
            for row in batch.to_pylist():
                self._add(row)
        if not self._hubs:
            return None
        end = max(self._hubs)
        for kept in (self._topics, self._hubs):
            for second in [second for second in kept if second <= end - WINDOW_S]:
                del kept[second]
        return View.of(now, self._topic_views(end), self._hub_views(end), window_s=float(WINDOW_S))

    def _add(self, row: Row) -> None:
        second = round(row["time"].timestamp())
        if row["kind"] == "topic":
            self._topics[second].append(row)
        elif row["kind"] == "hub":
            self._hubs[second].append(row)

    def _topic_views(self, end: int) -> list[TopicView]:
        found: dict[bytes, list[tuple[int, Row]]] = defaultdict(list)
        for second, rows in self._topics.items():
            for row in rows:
                found[row["topic"]].append((second, row))
        return [_topic_view(name, rows, end) for name, rows in sorted(found.items())]

    def _hub_views(self, end: int) -> list[HubView]:
        found: dict[str, list[tuple[int, Row]]] = defaultdict(list)
        for second, rows in self._hubs.items():
            for row in rows:
                found[row["hub"]].append((second, row))
        return [_hub_view(name, rows) for name, rows in sorted(found.items())]


def _topic_view(name: bytes, rows: list[tuple[int, Row]], end: int) -> TopicView:
    publications, deliveries, in_bytes, out_bytes = [0.0] * WINDOW_S, 0.0, 0.0, [0.0] * WINDOW_S
    through: dict[str, float] = defaultdict(float)
    latest: dict[str, tuple[int, Row]] = {}
    for second, row in rows:
        at = WINDOW_S - 1 - (end - second)
        sent = row["bytes_out"] + row["egress_bytes"] + row["ingress_bytes"]
        publications[at] += row["publications"]
        deliveries += row["deliveries"]
        in_bytes += row["bytes_in"]
        out_bytes[at] += sent
        through[row["hub"]] += sent
        if row["hub"] not in latest or latest[row["hub"]][0] < second:
            latest[row["hub"]] = (second, row)
    total = sum(out_bytes)
    present = [row for second, row in latest.values() if second >= end - 1]
    return TopicView(
        name=name,
        publications_per_s=sum(publications) / WINDOW_S,
        deliveries_per_s=deliveries / WINDOW_S,
        in_bytes_per_s=in_bytes / WINDOW_S,
        out_bytes_per_s=total / WINDOW_S,
        publishers=float(sum(row["publishers"] for row in present)),
        subscribers=float(sum(row["subscribers"] for row in present)),
        publications_per_s_max=max(publications),
        out_bytes_per_s_max=max(out_bytes),
        backlog_bytes_max=float(max(row["backlog_bytes_max"] for _, row in rows)),
        queue_delay_s=max(row["queue_us_max"] for _, row in rows) / _US,
        out_bytes_trend=_slope(out_bytes),
        carried_by={hub: sent / total for hub, sent in sorted(through.items()) if sent > 0},
    )


def _hub_view(name: str, rows: list[tuple[int, Row]]) -> HubView:
    rows = sorted(rows, key=lambda pair: pair[0])
    last = rows[-1][1]
    count = len(rows)

    def mean(column: str) -> float:
        return float(sum(row[column] for _, row in rows)) / count

    return HubView(
        name=name,
        incarnation=last["incarnation"],
        plan_version=last["plan_version"] or 0,
        cpu_ratio=mean("cpu_ratio"),
        loop_lag_s=mean("loop_lag_us_mean") / _US,
        memory_bytes=float(last["memory_bytes"] or 0),
        out_bytes_per_s=mean("out_bytes_per_s"),
        out_bytes_per_s_max=float(last["out_bytes_per_s_max"] or 0.0),
        publications_per_s=sum(row["publications"] for _, row in rows) / count,
        deliveries_per_s=sum(row["deliveries"] for _, row in rows) / count,
        connections=float(last["connections"]),
        topics=float(last["topics_home"]),
        out_bytes_trend=_slope([row["out_bytes_per_s"] for _, row in rows]),
        cpu_trend=_slope([row["cpu_ratio"] for _, row in rows]),
    )


def _slope(values: Sequence[float]) -> float:
    """Change per second, by least squares; 0 of fewer than three."""
    count = len(values)
    if count < 3:
        return 0.0
    middle, mean = (count - 1) / 2, sum(values) / count
    spread = sum((at - middle) ** 2 for at in range(count))
    return sum((at - middle) * (value - mean) for at, value in enumerate(values)) / spread
