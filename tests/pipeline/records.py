"""Records as hubs make them, small random worlds of them, and a direct computation of their view."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields
from itertools import chain
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
import pytest

from equipoise.coordinates import Coordinate
from equipoise.pipeline.sliding_window import WindowedView
from equipoise.telemetry import arrow_schema
from equipoise.view.codec import from_tables
from equipoise.view.schema import LimitUse
from equipoise.view.view import View
from pipeline.places import SETTINGS, HubFacts, TopicLocations, random_place, random_sides, read_whereabouts

Record = dict[str, Any]

SECOND_US = 1_000_000
# A whole hour, so that small tests stay within it.
START_US = 1_790_000_000 // 3600 * 3600 * SECOND_US


def topic_record(topic: bytes, at_us: int, **values: Any) -> Record:
    """Of a topic at a hub; the fake hub fills in who and in which order."""
    numbers = dict.fromkeys(
        (
            "publications",
            "deliveries",
            "bytes_in",
            "bytes_out",
            "ingress_messages",
            "ingress_bytes",
            "egress_messages",
            "egress_bytes",
            "publishers",
            "subscribers",
            "relays",
            "backlog_bytes_max",
            "queue_us_max",
            "cuts",
            "drops",
        ),
        0,
    )
    return {
        "kind": "topic",
        "topic": topic,
        "role": "home",
        "time": at_us,
        "window_us": SECOND_US,
        **numbers,
        **values,
    }


def hub_record(at_us: int, **values: Any) -> Record:
    return {
        "kind": "hub",
        "time": at_us,
        "window_us": SECOND_US,
        "publications": 0,
        "deliveries": 0,
        "bytes_in": 0,
        "bytes_out": 0,
        "cpu_ratio": 0.0,
        "loop_lag_us_mean": 0,
        "loop_lag_us_max": 0,
        "memory_bytes": 1,
        "out_bytes_per_s": 0.0,
        "connections": 0,
        "topics_home": 0,
        **values,
    }


def numbered(hub: str, records: Sequence[Record], incarnation: int = 1) -> list[Record]:
    """As one hub's, in their order."""
    return [
        {"hub": hub, "incarnation": incarnation, "sequence": at, **record}
        for at, record in enumerate(records)
    ]


def batch_of(records: Sequence[Record]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(records), schema=arrow_schema())


def random_world(seed: int, *, hubs: int = 3, topics: int = 4, seconds: int = 14) -> dict[str, list[Record]]:
    """Each hub's records: windows that differ in length and phase, topics that come and go, hubs that pause."""
    rng = random.Random(seed)
    found = {}
    for number in range(hubs):
        records: list[Record] = []
        at_us = START_US + rng.randrange(SECOND_US)
        for _ in range(rng.randrange(2, seconds)):
            window_us = rng.choice((SECOND_US, SECOND_US, rng.randrange(900_000, 1_300_000)))
            at_us += window_us + (3 * SECOND_US if rng.random() < 0.1 else 0)
            for topic in range(topics):
                if rng.random() < 0.6:
                    records.append(_random_topic(rng, b"topic-%d" % topic, at_us, window_us))
            records.append(_random_hub(rng, at_us, window_us))
        if rng.random() < 0.5:
            # Of a window whose end the hub has not recorded yet.
            records.append(_random_topic(rng, b"topic-0", at_us + SECOND_US, SECOND_US))
        found[f"h{number}"] = numbered(f"h{number}", records)
    return found


def _random_topic(rng: random.Random, name: bytes, at_us: int, window_us: int) -> Record:
    counts = ("publications", "deliveries", "bytes_in", "bytes_out", "ingress_bytes", "egress_bytes")
    values: Record = {name: rng.randrange(1000) for name in counts}
    values |= {"backlog_bytes_max": rng.randrange(10_000), "queue_us_max": rng.randrange(100_000)}
    # Most topics have no rate limit.
    for column in ("throttle_us_max", "limit_drained", "limit_waiting", "limit_refused"):
        values[column] = rng.choice((None, None, rng.randrange(1000)))
    values |= random_sides(rng)
    # Most clients report coordinates; some hubs have none of their clients.
    for side, most in (("publishers", 5), ("subscribers", 50)):
        is_silent = values.get(f"{side}_at") is None and rng.random() < 0.8
        values[side] = 0 if is_silent else rng.randrange(most)
    return topic_record(name, at_us, **values) | {"window_us": window_us}


def _random_hub(rng: random.Random, at_us: int, window_us: int) -> Record:
    return hub_record(
        at_us,
        publications=rng.randrange(1000),
        deliveries=rng.randrange(1000),
        cpu_ratio=rng.random(),
        loop_lag_us_mean=rng.randrange(5000),
        memory_bytes=rng.choice((None, rng.randrange(1, 1 << 30))),
        memory_bytes_max=(at_us // SECOND_US % 3 << 33) or None,
        out_bytes_per_s=rng.random() * 1e6,
        out_bytes_per_s_max=rng.choice((None, 1e7)),
        deliveries_per_s_max=rng.choice((None, 2e6)),
        connections=rng.randrange(100),
        topics_home=rng.randrange(10),
        plan_version=rng.choice((None, 7)),
        coordinate=random_place(rng).to_bytes() if rng.random() < 0.6 else None,
    ) | {"window_us": window_us}


def view_of(found: WindowedView) -> View:
    return from_tables(found.time_s, found.tables, window_s=found.window_s)


def assert_same_view(one: View, other: View) -> None:
    """Whole numbers and names are equal, all others within 1e-12 of themselves."""
    assert set(one.topics.names) == set(other.topics.names)
    assert set(one.hubs.names) == set(other.hubs.names)
    for topic in one.topic_rows():
        _same_row(topic, other.topic(topic.name))
    for hub in one.hub_rows():
        _same_row(hub, other.hub(hub.name))


def _same_row(one: Any, other: Any) -> None:
    for part in fields(one):
        ours, theirs = getattr(one, part.name), getattr(other, part.name)
        if isinstance(ours, Coordinate):
            ours, theirs = ours.numbers, theirs.numbers
        if part.name == "limited_at":
            assert ours.keys() == theirs.keys()
            ours, theirs = (
                tuple(chain.from_iterable(use[hub] for hub in sorted(use))) for use in (ours, theirs)
            )
        if isinstance(ours, float | tuple | dict):
            assert ours == pytest.approx(theirs, rel=1e-12, abs=0.0, nan_ok=True), (one.name, part.name)
        else:
            assert ours == theirs, (one.name, part.name)


class PlainReading:
    """The view computed from the records one by one, by definition."""

    def __init__(self, records: Sequence[Record], end_us: int, over_us: int = 10 * SECOND_US) -> None:
        self.end_us = end_us
        until = [record for record in records if record["time"] <= end_us]
        newest: dict[str, int] = {}
        for record in until:
            if record["kind"] == "hub":
                newest[record["hub"]] = max(newest.get(record["hub"], 0), record["time"])
        # Each hub's own window; of a hub that has been silent for a whole one, nothing.
        present = {hub: us for hub, us in newest.items() if us > end_us - over_us}
        within = [r for r in until if r["hub"] in present and r["time"] > present[r["hub"]] - over_us]
        self.hub_records: dict[str, list[Record]] = defaultdict(list)
        for record in within:
            if record["kind"] == "hub":
                self.hub_records[record["hub"]].append(record)
        self.topic_records: dict[bytes, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
        for record in within:
            own = self.hub_records.get(record["hub"])
            if record["kind"] == "topic" and own and record["time"] <= max(each["time"] for each in own):
                self.topic_records[record["topic"]][record["hub"]].append(record)

    def covered_s(self, hub: str) -> float:
        return float(sum(record["window_us"] for record in self.hub_records[hub])) / SECOND_US

    def topic(self, name: bytes) -> dict[str, float]:
        hubs = self.topic_records[name]
        every = [record for records in hubs.values() for record in records]
        newest = max(record["time"] for record in every)
        present = [records[-1] for records in hubs.values() if records[-1]["time"] > newest - 2 * SECOND_US]
        return {
            "publications_per_s": self._rate(hubs, lambda record: record["publications"]),
            "deliveries_per_s": self._rate(hubs, lambda record: record["deliveries"]),
            "in_bytes_per_s": self._rate(hubs, lambda record: record["bytes_in"]),
            "out_bytes_per_s": self._rate(hubs, _sent),
            "publications_per_s_max": sum(
                max(_per_s(record, record["publications"]) for record in records) for records in hubs.values()
            ),
            "out_bytes_per_s_max": sum(
                max(_per_s(record, _sent(record)) for record in records) for records in hubs.values()
            ),
            "publishers": sum(record["publishers"] for record in present),
            "subscribers": sum(record["subscribers"] for record in present),
            "backlog_bytes_max": max(record["backlog_bytes_max"] for record in every),
            "queue_delay_s": max(record["queue_us_max"] for record in every) / SECOND_US,
            "throttle_delay_s": max(record["throttle_us_max"] or 0 for record in every) / SECOND_US,
            "limit_refused_per_s": self._rate(hubs, lambda record: record["limit_refused"] or 0),
            "limit_drained": max(record["limit_drained"] or 0 for record in every),
            "limit_waiting": sum(record["limit_waiting"] or 0 for record in present),
            "out_bytes_trend": sum(self._trend(hub, records) for hub, records in hubs.items()),
        }

    def whereabouts(self, name: bytes) -> TopicLocations:
        last = {hub: records[-1] for hub, records in self.topic_records[name].items()}
        newest = max(record["time"] for record in last.values())
        present = {hub: record for hub, record in last.items() if record["time"] > newest - 2 * SECOND_US}
        facts = {
            hub: HubFacts(
                self.coordinate(hub),
                self.hub(hub)["loop_lag_s"],
                max(record["queue_us_max"] for record in self.topic_records[name][hub]) / SECOND_US,
            )
            for hub in present
        }
        return read_whereabouts(present, facts)

    def coordinate(self, hub: str) -> Coordinate | None:
        told = [record["coordinate"] for record in self.hub_records[hub] if record.get("coordinate")]
        return Coordinate.from_bytes(told[-1], SETTINGS) if told else None

    def through(self, name: bytes) -> dict[str, float]:
        """What each hub carries of the topic, in bytes per second."""
        return {hub: self._rate({hub: records}, _sent) for hub, records in self.topic_records[name].items()}

    def limited_at(self, name: bytes) -> dict[str, LimitUse]:
        """What each hub did with its share of the topic's envelope, of those where a message needed a token."""
        found = {
            hub: LimitUse(
                self._rate({hub: records}, lambda record: record["publications"]),
                max(record["limit_drained"] or 0 for record in records),
                records[-1]["limit_waiting"] or 0,
                self._rate({hub: records}, lambda record: record["limit_refused"] or 0),
                max(record["throttle_us_max"] or 0 for record in records) / SECOND_US,
            )
            for hub, records in self.topic_records[name].items()
        }
        return {hub: use for hub, use in found.items() if any(use[1:])}

    def hub(self, name: str) -> dict[str, float]:
        records = self.hub_records[name]
        last, covered_s = records[-1], self.covered_s(name)
        times = [(record["time"] - self.end_us) / SECOND_US for record in records]

        def mean(column: str) -> float:
            return float(sum(r[column] * r["window_us"] for r in records)) / SECOND_US / covered_s

        return {
            "cpu_ratio": mean("cpu_ratio"),
            "loop_lag_s": mean("loop_lag_us_mean") / SECOND_US,
            "memory_bytes": last["memory_bytes"] or 0,
            "memory_bytes_max": last.get("memory_bytes_max") or 0,
            "out_bytes_per_s": mean("out_bytes_per_s"),
            "out_bytes_per_s_max": last.get("out_bytes_per_s_max") or 0.0,
            "deliveries_per_s_max": last.get("deliveries_per_s_max") or 0.0,
            "publications_per_s": sum(record["publications"] for record in records) / covered_s,
            "deliveries_per_s": sum(record["deliveries"] for record in records) / covered_s,
            "connections": last["connections"],
            "topics": last["topics_home"],
            "plan_version": last.get("plan_version") or 0,
            "incarnation": last["incarnation"],
            "out_bytes_trend": _slope(times, [record["out_bytes_per_s"] for record in records]),
            "cpu_trend": _slope(times, [record["cpu_ratio"] for record in records]),
            "is_alive": self.end_us - last["time"] <= 5 * SECOND_US,
        }

    def _rate(self, hubs: dict[str, list[Record]], value: Any) -> float:
        return float(sum(sum(map(value, records)) / self.covered_s(hub) for hub, records in hubs.items()))

    def _trend(self, hub: str, records: list[Record]) -> float:
        """Seconds of the hub without a record of the topic are seconds in which it sent nothing."""
        sent = {record["time"]: _per_s(record, _sent(record)) for record in records}
        times = [record["time"] for record in self.hub_records[hub]]
        seconds = [(time - self.end_us) / SECOND_US for time in times]
        return _slope(seconds, [sent.get(time, 0.0) for time in times])


def _sent(record: Record) -> int:
    return int(record["bytes_out"] + record["egress_bytes"] + record["ingress_bytes"])


def _per_s(record: Record, value: float) -> float:
    return value / (int(record["window_us"]) / SECOND_US)


def _slope(times: Sequence[float], values: Sequence[float]) -> float:
    if len(times) < 3:
        return 0.0
    middle = sum(times) / len(times)
    spread = sum((time - middle) ** 2 for time in times)
    return sum((time - middle) * value for time, value in zip(times, values, strict=True)) / spread
