"""The Prometheus metrics of a hub and of its busiest topics.

No state is kept for them: the hub has the counters anyway, and the telemetry of the last window has the busiest topics.
Reading a hub of 100,000 topics takes long, so it is done in steps of a millisecond.

Always true: at most `topics_max` topics are shown. A topic of the last reading stays while it is among the busiest
2 x `topics_max`, so that two alternating topics do not start a new time series each time.

`prometheus_endpoint` serves the metrics over HTTP; the controller serves sums over the cluster, under other names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from heapq import nlargest
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from equipoise.hub.cluster.counters import cluster_counters, limit_facts
from equipoise.hub.data.topics import Totals
from equipoise.hub.telemetry.metric_table import METRICS
from equipoise.telemetry import Block, RecordKind
from equipoise.telemetry.ring import is_each

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.topics import Topic

__all__ = ["MetricsReading", "Sample", "kind_of", "label_of", "render", "samples_of"]

_COUNTED = ("published", "delivered", "bytes_in", "bytes_out", "cuts", "drops")
_MEANINGS = {name: meaning for name, _, _, meaning in METRICS}


class Sample(NamedTuple):
    """A value of a metric; `topic` is None for metrics of the hub."""

    name: str
    topic: bytes | None
    number: float


_LOG_PREFIXES = ("equipoise_hub_log_", "equipoise_hub_logs_")
# Facts that are 0 at a hub without storage for logs.
_LOG_FACTS = tuple(fact for name, _, fact, _ in METRICS if name.startswith(_LOG_PREFIXES))


class MetricsReading:
    """Reads one hub's metrics repeatedly. Run `steps` to its end; then the other methods return the values."""

    def __init__(self, core: HubCore, topics_max: int) -> None:
        self._core = core
        self._topics_max = topics_max
        self.totals = Totals()
        # Topics to show, the busiest first.
        self.busiest: list[Topic] = []

    def steps(self) -> Iterator[None]:
        """Read in steps of at most a millisecond; activity between two steps may or may not be included."""
        core, ranked, wanted = self._core, list[tuple[int, bytes]](), 2 * self._topics_max
        for block in _last_window(core.metering.ring.backwards()) if wanted else ():
            ranked = nlargest(wanted, [*ranked, *_weighed(block)])
            yield
        found = [topic for _, name in ranked if (topic := core.index.topics.get(name)) is not None]
        shown = set(self.busiest)
        # False sorts first: topics shown before, then the others, each in their order.
        found.sort(key=lambda topic: topic not in shown)
        self.busiest = found[: self._topics_max]
        for sums in core.index.totals():
            self.totals = sums
            yield

    def hub_facts(self) -> dict[str, float | None]:
        core, stats, totals = self._core, self._core.stats, self.totals
        own = _own_record(core.metering.ring.backwards())
        mean_us, max_us = own.get("loop_lag_us_mean"), own.get("loop_lag_us_max")
        logs = {} if core.logs is None else core.logs.facts()
        return {
            **dict.fromkeys(_LOG_FACTS, 0),
            **logs,
            "up_s": core.now() - core.started_at,
            "published": totals.published,
            "delivered": totals.delivered,
            "delivered_bytes": totals.bytes_out,
            "input_bytes": stats.input_bytes,
            "commands": stats.commands,
            "errors": stats.errors,
            "protocol_errors": stats.protocol_errors,
            "denied": stats.denied,
            "logins_failed": stats.logins_failed,
            "connections": stats.connections,
            "connections_refused": stats.connections_refused,
            "connections_open": len(core.sessions),
            "gc_pauses": stats.gc_pauses,
            "gc_pauses_long": stats.gc_pauses_long,
            "gc_pauses_long_cpu": stats.gc_pauses_long_cpu,
            "gc_pause_s": stats.gc_pause_s,
            "gc_pause_s_max": stats.gc_pause_s_max,
            "gc_full": stats.gc_full,
            "problems": len(core.health.problems),
            "clients_lagging": len(core.backlogs.lagging),
            "unsent_bytes": core.backlogs.bytes,
            "cuts": core.backlogs.cuts,
            **core.losses.facts(),
            "drops": core.backlogs.drops,
            "topics": len(core.index.topics),
            "topics_subscribed": core.index.heard,
            "topics_active": core.metering.topics_active if core.metering.is_on else None,
            "patterns": len(core.index.patterns),
            **core.filtering.facts(),
            **core.cluster.edge.facts._asdict(),
            "cpu_ratio": own.get("cpu_ratio"),
            "resident_bytes": core.shell.resident_bytes() or None,
            "lag_s_mean": None if mean_us is None else mean_us / 1e6,
            "lag_s_max": None if max_us is None else max_us / 1e6,
            "telemetry_bytes": core.metering.ring.bytes,
            **self._place_facts(),
        }

    def _place_facts(self) -> dict[str, float]:
        places, probing = self._core.places, self._core.places.probing
        return {
            "coordinate_error": (places.own or probing.estimator.coordinate).error,
            "coordinate_resets": probing.estimator.resets,
            "probed_hubs": probing.peers,
            "probes_sent": probing.sent,
            "probes_answered": probing.answered,
            "probes_outliers": probing.estimator.outliers,
            "clients_with_coordinate": places.located,
            "clients_with_implausible_coordinate": places.doubted,
        }

    def cluster_facts(self) -> dict[str, int]:
        """Cluster counters; empty for a hub without a cluster."""
        return cluster_counters(self._core.cluster)

    def topic_facts(self, topic: Topic) -> dict[str, float]:
        """Counters of a topic, plus those of its lanes, which are added to the topic only at the end of a window."""
        streams: list[Topic] = [topic, *(() if topic.beside is None else topic.beside.lanes.values())]
        facts: dict[str, float] = {
            name: sum(getattr(stream, name) for stream in streams) for name in _COUNTED
        }
        facts |= {"subscribers": len(topic.members), **self._core.losses.facts(topic.name)}
        return facts | limit_facts(streams)


def samples_of(reading: MetricsReading) -> Iterator[Sample]:
    """All values, in the order of the table of metrics; unknown ones are omitted."""
    once: dict[str, Mapping[str, float | None]] = {
        "hub": reading.hub_facts(),
        "cluster": reading.cluster_facts(),
    }
    topics = [(topic.name, reading.topic_facts(topic)) for topic in reading.busiest]
    for name, of, fact, _ in METRICS:
        if of in ("topic", "limited"):
            yield from (Sample(name, topic, facts[fact]) for topic, facts in topics if fact in facts)
        elif (number := once[of].get(fact)) is not None:
            yield Sample(name, None, number)


def render(samples: Iterable[Sample], hub: str) -> bytes:
    """The samples in Prometheus's text format. Not by its library, which takes more memory than a small hub."""
    lines = []
    for name, numbers in groupby(samples, key=lambda sample: sample.name):
        lines += [f"# HELP {name} {_MEANINGS[name]}", f"# TYPE {name} {kind_of(name)}"]
        for _, topic, number in numbers:
            label = "" if topic is None else f',topic="{_escaped(label_of(topic))}"'
            lines.append(f'{name}{{hub="{hub}"{label}}} {number:.15g}')
    return "\n".join([*lines, ""]).encode()


def kind_of(name: str) -> str:
    """The metric's type in Prometheus."""
    return "counter" if name.endswith("_total") else "gauge"


def label_of(topic: bytes) -> str:
    """A topic's name as text. Different names stay different, as Prometheus rejects two series with the same labels."""
    return topic.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _last_window(backwards: Iterable[Block]) -> list[Block]:
    """The blocks of topics of the latest window, which ends with the hub's own record."""
    found: list[Block] = []
    own: Block | None = None
    for block in backwards:
        if block.kind is RecordKind.HUB:
            if own is not None:
                break
            own = block
        elif own is not None and block.kind is RecordKind.TOPIC:
            found.append(block)
    return found


def _weighed(block: Block) -> Iterable[tuple[int, bytes]]:
    """The bytes out of each topic of the block, with the topic's name."""
    sent = block.part(0, block.count).values["bytes_out"]
    names = block.topics() or []
    if is_each(sent):
        return zip(sent, names, strict=True)
    assert isinstance(sent, int), "bytes are counted"
    return ((sent, name) for name in names)


def _own_record(backwards: Iterable[Block]) -> dict[str, float]:
    """The values of the hub's latest own record; empty before the first."""
    for block in backwards:
        if block.kind is RecordKind.HUB:
            values = block.part(0, 1).values
            return {name: value for name, value in values.items() if isinstance(value, int | float)}
    return {}
