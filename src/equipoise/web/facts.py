"""The facts that pages, API and metrics show, as plain values.

Reads the controller's state; changes nothing. An unknown number is null, never NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from equipoise.control.controller import Controller
from equipoise.model import WEIGHT_NORMAL, Mode, TopicSpec
from equipoise.model.names import from_id, shown, to_id
from equipoise.store import Committed
from equipoise.view import View
from equipoise.web.content_status import content_status, edge_numbers
from equipoise.web.envelope_status import envelope_status
from equipoise.web.geography import Projector
from equipoise.web.latency_status import NO_STATUS, LatencyStatus, noted_topics, standings
from equipoise.web.series import Series, latency_of

__all__ = ["PAGE_MAX", "SORTS", "TOPICS_NOTED", "ClusterFacts", "spec_row"]

Json = dict[str, Any]

# Sort orders of topics: the column of the view, largest first; names ascend.
SORTS = (
    "name",
    "publications_per_s",
    "deliveries_per_s",
    "out_bytes_per_s",
    "publishers",
    "subscribers",
    "filters",
    "covers",
    "filter_matches_per_s",
    "matching_ratio",
    "kept_off_per_s",
    "latency_s_p50",
    "latency_s_p90",
    "latency_s_p99",
    "latency_s_max",
    "latency_s_worst",
    "queue_delay_s",
)
PAGE_MAX = 500
# Topics on a map, and those whose curves are kept beside the busiest.
TOPICS_NOTED = 200
# Displayed values of a hub beside its load, by their column in the view.
HUB_NUMBERS = (
    "cpu_ratio",
    "loop_lag_s",
    "loop_lag_s_max",
    "memory_bytes",
    "out_bytes_per_s",
    "publications_per_s",
    "deliveries_per_s",
    "connections",
    "topics",
    "filters",
    "covers",
    "filter_matches_per_s",
    "matching_ratio",
    "kept_off_per_s",
    "plan_version",
)


# Displayed values of a log, by their column in the view.
LOG_NUMBERS = ("log_entries", "log_bytes", "log_lag")


@dataclass
class ClusterFacts:
    """A reader of one controller."""

    controller: Controller
    clock: Callable[[], float]
    series: Series = field(default_factory=lambda: Series(900.0))
    projector: Projector = field(default_factory=Projector)

    @property
    def view(self) -> View | None:
        return self.controller.views.latest

    @property
    def plan_version(self) -> int:
        return self.controller.knowledge.plan.version

    def refresh(self) -> bool:
        """Add the newest view to the charts; return whether there was a new one."""
        view = self.view
        if view is None or not self.series.is_new(view):
            return False
        noted = noted_topics(view, self.controller.knowledge.specs, TOPICS_NOTED)
        return self.series.add(view, self.controller.loads(view), noted)

    def overview(self) -> Json:
        controller, view = self.controller, self.view
        leader = controller.leadership.leader
        latest = self.series.samples[-1] if self.series.samples else None
        return {
            "state": controller.status.state,
            "frozen": controller.status.frozen or None,
            "leader": None if leader is None else leader.name,
            "is_leading": controller.leadership.is_leading,
            "plan_version": self.plan_version,
            "view_age_s": None if view is None else max(0.0, self.clock() - view.time_s),
            "hubs": sum(seen.alive is not None for seen in controller.knowledge.hubs.values()),
            "topics": 0 if view is None else view.topics.count,
            "publications_per_s": None if latest is None else latest.publications_per_s,
            "deliveries_per_s": None if latest is None else latest.deliveries_per_s,
            "out_bytes_per_s": None if latest is None else latest.out_bytes_per_s,
            "latency_ms": (latency_of(view) if latest is None else latest.latency_ms)._asdict(),
            "loop_lag_ms_worst": None if latest is None else latest.loop_lag_ms_worst,
            # Alive, but with unknown bandwidth, by settings and by network: their bandwidth is not checked.
            "hubs_without_bandwidth": [] if view is None else _without_bandwidth(view),
            "provisioner_problem": controller.provisioner_problem or None,
            "store_problem": controller.store_health.problem or None,
            "commits": controller.status.commits,
            "rounds": controller.status.rounds,
        }

    @property
    def address(self) -> str:
        """The address of these pages in the store; empty until it is there."""
        return self.controller.leadership.facts.http

    def curves(self, since_s: float = 0.0) -> Json:
        """Columns for charts, later than `since_s`; a hub's load is null while it did not exist."""
        samples = self.series.since(since_s)
        hubs = sorted({name for sample in samples for name in sample.loads})
        return {
            "at_s": [sample.at_s for sample in samples],
            "publications_per_s": [sample.publications_per_s for sample in samples],
            "deliveries_per_s": [sample.deliveries_per_s for sample in samples],
            "latency_ms_p50": [sample.latency_ms.p50 for sample in samples],
            "latency_ms_p99": [sample.latency_ms.p99 for sample in samples],
            "loop_lag_ms_worst": [sample.loop_lag_ms_worst for sample in samples],
            "loads": {name: [sample.loads.get(name) for sample in samples] for name in hubs},
        }

    def hubs(self) -> list[Json]:
        """All known hubs: alive or not, member or not."""
        knowledge, view = self.controller.knowledge, self.view
        plan = knowledge.plan
        entries = _entries_by_hub(self.controller)
        loads = [] if view is None else self.controller.loads(view)
        rows = []
        for name in sorted({*knowledge.hubs, *plan.by_hub}):
            seen, member = knowledge.hubs.get(name), plan.by_hub.get(name)
            at = None if view is None else view.hub_index.get(name)
            rows.append(
                {
                    "hub": name,
                    "is_alive": seen is not None and seen.alive is not None,
                    "address": None if seen is None else seen.facts.address,
                    "site": seen.facts.site if seen is not None else (member.site if member else ""),
                    "weight": None if member is None else member.weight / WEIGHT_NORMAL,
                    "entries": entries.get(name, 0),
                    **_hub_numbers(view, at, loads),
                    **edge_numbers(view, at),
                }
            )
        return rows

    def durable(self, found: Json) -> Json:
        """Bookies and logs; `found` is their status in the store. Entries and lag are of the newest view."""
        view = self.view
        rows = []
        for row in found["logs"]:
            at = None if view is None else view.topic_index.get(from_id(row["id"]))
            numbers = dict.fromkeys(LOG_NUMBERS)
            if view is not None and at is not None:
                numbers = {name: _known(float(getattr(view.topics, name)[at])) for name in LOG_NUMBERS}
            rows.append(row | numbers)
        return {**found, "logs": rows}

    def specs(self) -> list[Json]:
        """The specs, the most specific first."""
        return [spec_row(spec) for spec in self.controller.knowledge.specs]

    def topics(
        self, *, search: str = "", sort: str = "out_bytes_per_s", offset: int = 0, limit: int = 100
    ) -> Json:
        """A page of the topics in the view."""
        view = self.view
        if view is None:
            return {"total": 0, "topics": []}
        order = self._order(view, search, sort)
        page = order[offset : offset + min(limit, PAGE_MAX)]
        return {"total": len(order), "topics": self._topic_rows(view, page)}

    def topic(self, name: bytes) -> Json:
        """One topic, whether it has load or not."""
        view = self.view
        at = None if view is None else view.topic_index.get(name)
        row = self._placement(name) if view is None or at is None else self._topic_rows(view, [at])[0]
        points = self.series.of_topic(name)
        carried = {} if view is None or at is None else dict(view.topic(name).carried_by)
        return {
            **row,
            "carried_by": carried,
            "content": content_status(self.controller, name, row["homes"]),
            "envelope": envelope_status(self.controller, name, row["homes"]),
            "curve": {
                "at_s": [point[0] for point in points],
                "publications_per_s": [point[1] for point in points],
                "latency_s_p99": [_known(point[2]) for point in points],
                "latency_s_worst": [_known(point[3]) for point in points],
            },
        }

    def map(self, limit: int = TOPICS_NOTED) -> Json:
        """Hubs and topics by their network coordinates; without positions if no hub knows its own."""
        view = self.view
        hubs = {row["hub"]: row for row in self.hubs() if row["is_alive"]}
        noted = [] if view is None else noted_topics(view, self.controller.knowledge.specs, limit)
        picture = None if view is None else self.projector.picture(view, noted)
        if view is None or picture is None:
            return {"is_located": False, "hubs": [], "topics": []}
        rows = dict(zip(noted, self._topic_rows(view, noted), strict=True))
        return {
            "is_located": True,
            "hubs": [
                {"hub": name, "site": hubs[name]["site"], "load": hubs[name]["load"], "x_ms": x, "y_ms": y}
                for name, (x, y) in picture.hubs.items()
                if name in hubs
            ],
            "topics": [{**rows[at], "x_ms": x, "y_ms": y} for at, (x, y) in picture.topics.items()],
        }

    def plans(self, committed: Sequence[Committed], *, topic: bytes | None = None) -> list[Json]:
        """Changes of the plan for display, of one topic if it is given."""
        return [_change_row(one, topic) for one in committed if topic is None or _concerns(one, topic)]

    def _order(self, view: View, search: str, sort: str) -> list[int]:
        names = view.topics.names
        if sort == "name":
            order = sorted(range(len(names)), key=lambda at: names[at])
        else:
            column = np.nan_to_num(getattr(view.topics, sort), nan=-1.0)
            order = np.argsort(-column, kind="stable").tolist()
        if not search:
            return order
        wanted = search.casefold()
        return [at for at in order if wanted in shown(names[at]).casefold()]

    def _topic_rows(self, view: View, page: Sequence[int]) -> list[Json]:
        topics = view.topics
        rows = [self._placement(topics.names[at]) for at in page]
        homes = [row["homes"] for row in rows]
        specs = [self.controller.knowledge.specs.of(topics.names[at]) for at in page]
        stand = standings(view, page, homes, specs)
        for at, row, standing in zip(page, rows, stand, strict=True):
            for column in SORTS[1:]:
                row[column] = _known(float(getattr(topics, column)[at]))
            row |= _latency(standing)
        return rows

    def _placement(self, name: bytes) -> Json:
        knowledge = self.controller.knowledge
        alive = {hub for hub, seen in knowledge.hubs.items() if seen.alive is not None}
        placement, entry = knowledge.plan.home_of(name, alive), knowledge.plan.entries.get(name)
        spec = knowledge.specs.of(name)
        limit_ms, quantile = (None, None) if spec is None else (spec.latency_ms, spec.quantile)
        status = NO_STATUS._replace(limit_ms=limit_ms, quantile=quantile if limit_ms else None)
        return {
            "id": to_id(name),
            "topic": shown(name),
            "homes": list(placement.homes),
            "mode": placement.mode or Mode.SINGLE,
            "has_entry": entry is not None,
            "is_pinned": entry is not None and entry.is_pinned,
            "site": None if spec is None else spec.site,
            "spec": None if spec is None else shown(spec.pattern),
            **dict.fromkeys(SORTS[1:]),
            **_latency(status),
        }


def _latency(standing: LatencyStatus) -> Json:
    return {
        "latency_s_worst": standing.worst_s,
        "latency_s_expected": standing.expected_s,
        "latency_limit_ms": standing.limit_ms,
        "latency_quantile": standing.quantile,
        "latency_s_judged": standing.measured_s,
        "is_held": standing.is_held,
    }


def _known(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _hub_numbers(view: View | None, at: int | None, loads: Sequence[float]) -> Json:
    if view is None or at is None:
        return {"load": None, **dict.fromkeys(HUB_NUMBERS)}
    return {"load": loads[at], **{name: float(getattr(view.hubs, name)[at]) for name in HUB_NUMBERS}}


def _without_bandwidth(view: View) -> list[str]:
    is_unknown = view.hubs.is_alive & (view.hubs.out_bytes_per_s_max <= 0)
    return [view.hubs.names[at] for at in np.flatnonzero(is_unknown).tolist()]


def _entries_by_hub(controller: Controller) -> dict[str, int]:
    counts: dict[str, int] = {}
    for entry in controller.knowledge.plan.entries.values():
        for hub in entry.homes:
            counts[hub] = counts.get(hub, 0) + 1
    return counts


def _concerns(committed: Committed, topic: bytes) -> bool:
    return any(part.topic == topic for part in committed.change.entries)


# A change may move thousands; a page shows the first few and the count.
PARTS_SHOWN = 50


def _change_row(committed: Committed, topic: bytes | None) -> Json:
    change = committed.change
    entries = [part for part in change.entries if topic is None or part.topic == topic]
    return {
        "version": change.version,
        "at_s": committed.at_s,
        "writer": committed.writer,
        "moves": len(change.entries),
        "entries": [
            {
                "id": to_id(part.topic),
                "topic": shown(part.topic),
                "homes": [] if part.entry is None else list(part.entry.homes),
                "mode": None if part.entry is None else part.entry.mode,
                "is_pinned": part.entry is not None and part.entry.is_pinned,
                "reason": part.why.reason,
                "numbers": part.why.numbers,
                "note": part.why.note,
            }
            for part in entries[:PARTS_SHOWN]
        ],
        "members": [
            {
                "hub": part.hub,
                "weight": None if part.member is None else part.member.weight / WEIGHT_NORMAL,
                "reason": part.why.reason,
                "numbers": part.why.numbers,
                "note": part.why.note,
            }
            for part in change.members
        ],
    }


def spec_row(spec: TopicSpec) -> dict[str, Any]:
    """All fields of a spec, for display."""
    durability = spec.durability
    return {
        "pattern": shown(spec.pattern),
        "latency_ms": spec.latency_ms,
        "quantile": spec.quantile,
        "rate_per_s": spec.rate_per_s,
        "burst_messages": None if spec.envelope is None else spec.envelope.burst,
        "wait_ms": None if spec.envelope is None else 1e3 * spec.wait_s,
        "durability": None if durability is None else msgspec.structs.asdict(durability),
        "site": spec.site,
    }
