"""The facts as Prometheus metrics: per hub, for the system, and per topic for the busiest few.

Made anew for each scrape from the newest view, so nothing is kept for topics that are gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from equipoise.web.facts import Facts

__all__ = ["METRICS", "render"]

Row = dict[str, Any]

# name, what it is of, the fact it shows, meaning.
METRICS = (
    ("equipoise_plan_version", "system", "plan_version", "Version of the plan in force."),
    ("equipoise_controller_is_leading", "system", "is_leading", "1 if this controller leads."),
    ("equipoise_controller_commits", "system", "commits", "Plans that this controller has made."),
    ("equipoise_controller_rounds", "system", "rounds", "Rounds that it has decided."),
    ("equipoise_view_age_seconds", "system", "view_age_s", "Age of the newest view."),
    ("equipoise_hubs_alive", "system", "hubs", "Hubs that are alive."),
    ("equipoise_topics_active", "system", "topics", "Topics that have load."),
    ("equipoise_publications_per_second", "system", "publications_per_s", "Over all topics."),
    ("equipoise_deliveries_per_second", "system", "deliveries_per_s", "Over all topics."),
    ("equipoise_hub_load_ratio", "hub", "load", "The larger of CPU and bandwidth use."),
    ("equipoise_hub_cpu_ratio", "hub", "cpu_ratio", "CPU use, of one core."),
    ("equipoise_hub_loop_lag_seconds", "hub", "loop_lag_s", "How late its event loop is."),
    ("equipoise_hub_memory_bytes", "hub", "memory_bytes", "Resident memory."),
    ("equipoise_hub_out_bytes_per_second", "hub", "out_bytes_per_s", "Sent to clients and other hubs."),
    ("equipoise_hub_deliveries_per_second", "hub", "deliveries_per_s", "Messages sent to clients."),
    ("equipoise_hub_connections", "hub", "connections", "Connections."),
    ("equipoise_topic_publications_per_second", "topic", "publications_per_s", "Of the busiest topics."),
    ("equipoise_topic_deliveries_per_second", "topic", "deliveries_per_s", "Of the busiest topics."),
    ("equipoise_topic_subscribers", "topic", "subscribers", "Of the busiest topics."),
    ("equipoise_topic_latency_seconds_worst", "topic", "latency_s_worst", "Where it is known."),
)


class _FactsCollector(Collector):
    def __init__(self, facts: Facts, topics_max: int) -> None:
        self._facts = facts
        self._topics_max = topics_max

    def collect(self) -> Iterator[Metric]:
        rows: dict[str, list[Row]] = {
            "system": [self._facts.overview()],
            "hub": self._facts.hubs(),
            "topic": self._facts.topics(limit=self._topics_max)["topics"] if self._topics_max else [],
        }
        for name, of, fact, meaning in METRICS:
            family = GaugeMetricFamily(name, meaning, labels=[] if of == "system" else [of])
            for row in rows[of]:
                if row.get(fact) is not None:
                    family.add_metric([] if of == "system" else [str(row[of])], float(row[fact]))
            yield family


def render(facts: Facts, topics_max: int) -> bytes:
    registry = CollectorRegistry()
    registry.register(_FactsCollector(facts, topics_max))
    return generate_latest(registry)
