"""The controller's Prometheus metrics: for the cluster, per hub, and per topic for the busiest topics.

Computed from the newest view for each scrape, so removed topics keep no state. Metrics served by hubs
(`hub/telemetry/prometheus.py`) have other names, so that a sum counts nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from equipoise.hub.telemetry.prometheus import label_of
from equipoise.model.names import from_id
from equipoise.web.facts import ClusterFacts

__all__ = ["METRICS", "render"]

Row = dict[str, Any]


def _is_frozen(row: Row) -> bool:
    return row["frozen"] is not None


def _seconds(of: str, key: str) -> Callable[[Row], float | None]:
    def read(row: Row) -> float | None:
        found = row[of][key] if key else row[of]
        return None if found is None else found / 1_000

    return read


# (name, scope, key or function, meaning).
METRICS: tuple[tuple[str, str, str | Callable[[Row], float | None], str], ...] = (
    ("equipoise_plan_version", "system", "plan_version", "Version of the plan in force."),
    (
        "equipoise_plan_is_frozen",
        "system",
        _is_frozen,
        "1 if no plan is made: there is no recent view, or the policy fails.",
    ),
    (
        "equipoise_controller_has_store_problem",
        "system",
        lambda row: row["store_problem"] is not None,
        "1 if the controller cannot read or write the store; it plans by the last state.",
    ),
    ("equipoise_controller_is_leading", "system", "is_leading", "1 if this controller leads."),
    ("equipoise_controller_commits", "system", "commits", "Plans committed by this controller."),
    ("equipoise_controller_rounds", "system", "rounds", "Planning rounds of this controller."),
    ("equipoise_view_age_seconds", "system", "view_age_s", "Age of the newest view: the pipeline's lag."),
    ("equipoise_hubs_alive", "system", "hubs", "Hubs that are alive."),
    ("equipoise_topics_active", "system", "topics", "Topics with load."),
    (
        "equipoise_publications_per_second",
        "system",
        "publications_per_s",
        "Messages published per second, all topics.",
    ),
    (
        "equipoise_deliveries_per_second",
        "system",
        "deliveries_per_s",
        "Messages delivered per second, all topics.",
    ),
    ("equipoise_out_bytes_per_second", "system", "out_bytes_per_s", "Bytes sent per second, all topics."),
    (
        "equipoise_latency_seconds_p50",
        "system",
        _seconds("latency_ms", "p50"),
        "Median of the measured latency, weighted by deliveries.",
    ),
    (
        "equipoise_latency_seconds_p99",
        "system",
        _seconds("latency_ms", "p99"),
        "99th percentile of the measured latency, weighted by deliveries.",
    ),
    ("equipoise_hub_is_alive", "hub", "is_alive", "1 if the hub is alive."),
    (
        "equipoise_hub_weight",
        "hub",
        "weight",
        "Weight in multiples of an ordinary hub; 0 if the hub is drained.",
    ),
    ("equipoise_hub_entries", "hub", "entries", "Plan entries that name the hub."),
    (
        "equipoise_hub_load_ratio",
        "hub",
        "load",
        "Largest of CPU, bandwidth, deliveries and loop lag, each over its maximum.",
    ),
    ("equipoise_hub_cpu_ratio", "hub", "cpu_ratio", "CPU use of one core."),
    ("equipoise_hub_loop_lag_seconds", "hub", "loop_lag_s", "Event loop lag."),
    ("equipoise_hub_memory_bytes", "hub", "memory_bytes", "Resident memory."),
    ("equipoise_hub_out_bytes_per_second", "hub", "out_bytes_per_s", "Bytes sent to clients and other hubs."),
    ("equipoise_hub_publications_per_second", "hub", "publications_per_s", "Messages numbered at the hub."),
    ("equipoise_hub_deliveries_per_second", "hub", "deliveries_per_s", "Messages sent to clients."),
    ("equipoise_hub_connections", "hub", "connections", "Open connections."),
    (
        "equipoise_topic_publications_per_second",
        "topic",
        "publications_per_s",
        "Messages published per second.",
    ),
    ("equipoise_topic_deliveries_per_second", "topic", "deliveries_per_s", "Messages delivered per second."),
    ("equipoise_topic_out_bytes_per_second", "topic", "out_bytes_per_s", "Bytes sent per second."),
    ("equipoise_topic_publishers", "topic", "publishers", "Publishers."),
    ("equipoise_topic_subscribers", "topic", "subscribers", "Subscribers."),
    ("equipoise_topic_filters", "topic", "filters", "Different filters of subscribers."),
    ("equipoise_topic_filter_matches_per_second", "topic", "filter_matches_per_s", "Deliveries by filter."),
    (
        "equipoise_topic_matching_ratio",
        "topic",
        "matching_ratio",
        "Time taken to match filters, of one core.",
    ),
    (
        "equipoise_topic_kept_off_links_per_second",
        "topic",
        "kept_off_per_s",
        "Messages not sent between hubs, because no filter there matches.",
    ),
    (
        "equipoise_topic_latency_seconds_p50",
        "topic",
        "latency_s_p50",
        "Measured latency of half of the pairs of publisher and subscriber, if known.",
    ),
    (
        "equipoise_topic_latency_seconds_p99",
        "topic",
        "latency_s_p99",
        "Measured latency of 99 in 100 pairs of publisher and subscriber, if known.",
    ),
    (
        "equipoise_topic_latency_seconds_max",
        "topic",
        "latency_s_max",
        "Measured latency of the slowest pair of publisher and subscriber, if known.",
    ),
    (
        "equipoise_topic_queue_delay_seconds",
        "topic",
        "queue_delay_s",
        "Longest time that a message waited for a slow subscriber.",
    ),
    (
        "equipoise_topic_latency_seconds_worst",
        "topic",
        "latency_s_worst",
        "Worst latency between a publisher and a subscriber as estimated by coordinates, if known.",
    ),
    (
        "equipoise_topic_latency_limit_seconds",
        "topic",
        _seconds("latency_limit_ms", ""),
        "Latency limit of the spec, if there is one.",
    ),
    ("equipoise_topic_latency_limit_is_met", "topic", "is_held", "1 if the latency limit is met."),
    ("equipoise_ledgers", "durable", "ledgers", "Ledgers of logs."),
    (
        "equipoise_ledgers_under_replicated",
        "durable",
        "ledgers_under_replicated",
        "Ledgers with a lost bookie: `equipoise bookies drain` copies them.",
    ),
    ("equipoise_bookie_is_alive", "bookie", "is_alive", "1 if the bookie is registered."),
    ("equipoise_bookie_is_writable", "bookie", "is_writable", "1 if the bookie is writable."),
    ("equipoise_bookie_free_bytes", "bookie", "free_bytes", "Free disk space of the bookie."),
    ("equipoise_bookie_disk_bytes", "bookie", "total_bytes", "Disk size of the bookie."),
    (
        "equipoise_bookie_sync_seconds_p99",
        "bookie",
        "sync_s_p99",
        "99th percentile of its last syncs.",
    ),
    ("equipoise_bookie_ledgers", "bookie", "ledgers", "Ledgers that the bookie has entries of."),
)


class _FactsCollector(Collector):
    def __init__(self, facts: ClusterFacts, topics_max: int, durable: Row | None) -> None:
        self._facts = facts
        self._topics_max = topics_max
        self._durable = durable

    def collect(self) -> Iterator[Metric]:
        rows: dict[str, list[tuple[list[str], Row]]] = {
            "system": [([], self._facts.overview())],
            "hub": [([str(row["hub"])], row) for row in self._facts.hubs()],
            "topic": [([label_of(from_id(row["id"]))], row) for row in self._busiest()],
            "durable": [] if self._durable is None else [([], self._durable)],
            "bookie": [([row["bookie"]], row) for row in (self._durable or {}).get("bookies", ())],
        }
        for name, of, fact, meaning in METRICS:
            family = GaugeMetricFamily(name, meaning, labels=[] if of in ("system", "durable") else [of])
            for labels, row in rows[of]:
                number = fact(row) if callable(fact) else row.get(fact)
                if number is not None:
                    family.add_metric(labels, float(number))
            yield family

    def _busiest(self) -> list[Row]:
        if not self._topics_max:
            return []
        found: list[Row] = self._facts.topics(limit=self._topics_max)["topics"]
        return found


def render(facts: ClusterFacts, topics_max: int, durable: Row | None = None) -> bytes:
    """`durable`: bookies and ledgers in the store; None: unknown."""
    registry = CollectorRegistry()
    registry.register(_FactsCollector(facts, topics_max, durable))
    return generate_latest(registry)
