"""What a hub tells Prometheus of itself, and of its busiest topics.

Nothing is kept for it: counters are those that the hub has anyway, and who is busiest is told by the telemetry of the
last window. Reading a hub of 100,000 topics takes a while, so it is done in steps that each take a moment.

Always true: no more topics are shown than allowed. One that was shown at the last reading stays as long as it is among
twice as many, so that two that take turns do not make Prometheus begin a series each time.

Serving it belongs to scraping.py; a system's sums belong to the controller, under other names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from heapq import nlargest
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from equipoise.hub.data.topics import Totals
from equipoise.telemetry import Block, Kind
from equipoise.telemetry.block import is_each

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.topics import Topic

__all__ = ["METRICS", "Reading", "Sample", "kind_of", "label_of", "render", "samples_of"]

# name, what it is of, the fact it shows, meaning. What ends in `_total` only grows, until the hub restarts.
METRICS = (
    ("equipoise_hub_up_seconds", "hub", "up_s", "Time since it started."),
    ("equipoise_hub_publications_total", "hub", "published", "Messages that got their positions here."),
    ("equipoise_hub_deliveries_total", "hub", "delivered", "Messages written to subscribers."),
    ("equipoise_hub_delivered_bytes_total", "hub", "delivered_bytes", "Bytes of them."),
    ("equipoise_hub_input_bytes_total", "hub", "input_bytes", "Bytes that clients and hubs have sent."),
    ("equipoise_hub_commands_total", "hub", "commands", "Commands of clients."),
    ("equipoise_hub_error_replies_total", "hub", "errors", "Commands answered with an error."),
    (
        "equipoise_hub_protocol_errors_total",
        "hub",
        "protocol_errors",
        "Connections ended for what they sent.",
    ),
    ("equipoise_hub_denied_total", "hub", "denied", "Commands that access rules forbade."),
    ("equipoise_hub_logins_failed_total", "hub", "logins_failed", "Logins with a wrong name or secret."),
    ("equipoise_hub_connections_total", "hub", "connections", "Connections accepted."),
    (
        "equipoise_hub_connections_refused_total",
        "hub",
        "connections_refused",
        "Connections beyond a limit, sent away.",
    ),
    ("equipoise_hub_connections_open", "hub", "connections_open", "Connections at present."),
    ("equipoise_hub_clients_lagging", "hub", "clients_lagging", "Clients with a backlog."),
    ("equipoise_hub_unsent_bytes", "hub", "unsent_bytes", "All backlogs together."),
    ("equipoise_hub_cuts_total", "hub", "cuts", "Clients cut for being slow."),
    ("equipoise_hub_drops_total", "hub", "drops", "Messages that will not reach a client."),
    ("equipoise_hub_topics_known", "hub", "topics", "Topics in memory."),
    ("equipoise_hub_topics_subscribed", "hub", "topics_subscribed", "Topics with subscribers by name."),
    ("equipoise_hub_topics_busy", "hub", "topics_active", "Topics used in the last window."),
    ("equipoise_hub_patterns", "hub", "patterns", "Patterns that clients subscribe to."),
    ("equipoise_hub_process_cpu_ratio", "hub", "cpu_ratio", "Of one core, in the last window."),
    ("equipoise_hub_process_resident_bytes", "hub", "resident_bytes", "Memory of the process."),
    ("equipoise_hub_timer_lag_seconds_mean", "hub", "lag_s_mean", "How late timers ran in the last window."),
    ("equipoise_hub_timer_lag_seconds_max", "hub", "lag_s_max", "How late timers ran at worst."),
    ("equipoise_hub_telemetry_bytes", "hub", "telemetry_bytes", "Records kept for the pipeline."),
    ("equipoise_hub_coordinate_error_ratio", "hub", "coordinate_error", "How far off its distances are."),
    (
        "equipoise_hub_coordinate_resets_total",
        "hub",
        "coordinate_resets",
        "Times it began anew from nowhere.",
    ),
    ("equipoise_hub_probed_hubs", "hub", "probed_hubs", "Live hubs that have answered a probe."),
    ("equipoise_hub_probes_total", "hub", "probes_sent", "Probes of other hubs."),
    ("equipoise_hub_probes_answered_total", "hub", "probes_answered", "Probes of which it has learnt."),
    ("equipoise_hub_probes_outliers_total", "hub", "probes_outliers", "Answers too strange to be believed."),
    ("equipoise_hub_clients_told", "hub", "clients_told", "Clients that say where they are."),
    (
        "equipoise_hub_clients_doubted",
        "hub",
        "clients_doubted",
        "Those of them that say they are farther than they can be, and are not believed.",
    ),
    ("equipoise_hub_plan_version", "cluster", "plan_version", "The plan that it goes by."),
    ("equipoise_hub_is_settled", "cluster", "is_settled", "1 if every live hub has acted on that plan."),
    ("equipoise_hub_links", "cluster", "links", "Other hubs that it sends to."),
    ("equipoise_hub_links_up", "cluster", "links_up", "Links that are connected."),
    ("equipoise_hub_links_unsent_bytes", "cluster", "links_unsent_bytes", "Kept until other hubs have it."),
    ("equipoise_hub_links_overflowed_total", "cluster", "links_overflowed", "Links that gave up frames."),
    ("equipoise_hub_moves_begun_total", "cluster", "moves_begun", "Topics that began to leave."),
    ("equipoise_hub_moves_finished_total", "cluster", "moves_finished", "Topics that have left."),
    ("equipoise_hub_moves_retried_total", "cluster", "moves_retried", "Offers of topics made again."),
    ("equipoise_hub_moves_under_way", "cluster", "moves_under_way", "Topics on their way from here."),
    ("equipoise_hub_held_bytes", "cluster", "held_bytes", "Messages that wait for their topic's home."),
    ("equipoise_hub_messages_lost_total", "cluster", "lost", "Given up because a hub died."),
    ("equipoise_hub_messages_dropped_total", "cluster", "dropped", "Given up for want of room."),
    ("equipoise_hub_topic_publications_total", "topic", "published", "Of the busiest topics here."),
    ("equipoise_hub_topic_deliveries_total", "topic", "delivered", "Of the busiest topics here."),
    ("equipoise_hub_topic_in_bytes_total", "topic", "bytes_in", "Of the busiest topics here."),
    ("equipoise_hub_topic_out_bytes_total", "topic", "bytes_out", "Of the busiest topics here."),
    ("equipoise_hub_topic_cuts_total", "topic", "cuts", "Of the busiest topics here."),
    ("equipoise_hub_topic_drops_total", "topic", "drops", "Of the busiest topics here."),
    ("equipoise_hub_topic_subscribers", "topic", "subscribers", "By name, of the busiest topics here."),
)


_COUNTED = ("published", "delivered", "bytes_in", "bytes_out", "cuts", "drops")
_MEANINGS = {name: meaning for name, _, _, meaning in METRICS}


class Sample(NamedTuple):
    """A number of a metric; `topic` is None for those of the hub."""

    name: str
    topic: bytes | None
    number: float


class Reading:
    """One hub's numbers, read again and again. `steps` first, to its end; then the rest holds."""

    def __init__(self, core: HubCore, topics_max: int) -> None:
        self._core = core
        self._topics_max = topics_max
        self.totals = Totals()
        # Those to show, the busiest first.
        self.busiest: list[Topic] = []

    def steps(self) -> Iterator[None]:
        """Each takes a millisecond at most; what happens between two of them is counted or not."""
        core, ranked, wanted = self._core, list[tuple[int, bytes]](), 2 * self._topics_max
        for block in _last_window(core.metering.ring.backwards()) if wanted else ():
            ranked = nlargest(wanted, [*ranked, *_weighed(block)])
            yield
        found = [topic for _, name in ranked if (topic := core.index.topics.get(name)) is not None]
        shown = set(self.busiest)
        # False sorts first: those that were shown, then the others, each in their order.
        found.sort(key=lambda topic: topic not in shown)
        self.busiest = found[: self._topics_max]
        for sums in core.index.totals():
            self.totals = sums
            yield

    def hub_facts(self) -> dict[str, float | None]:
        core, stats, totals = self._core, self._core.stats, self.totals
        own = _own_record(core.metering.ring.backwards())
        mean_us, max_us = own.get("loop_lag_us_mean"), own.get("loop_lag_us_max")
        return {
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
            "clients_lagging": len(core.backlogs.lagging),
            "unsent_bytes": core.backlogs.bytes,
            "cuts": core.backlogs.cuts,
            "drops": core.backlogs.drops,
            "topics": len(core.index.topics),
            "topics_subscribed": core.index.heard,
            "topics_active": core.metering.topics_active if core.metering.is_on else None,
            "patterns": len(core.index.patterns),
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
            "clients_told": places.told,
            "clients_doubted": places.doubted,
        }

    def cluster_facts(self) -> dict[str, int]:
        """Empty for a hub on its own."""
        return self._core.cluster.counters()

    def topic_facts(self, topic: Topic) -> dict[str, int]:
        """What its lanes have done counts for it, though it is written down elsewhere until the window ends."""
        streams: list[Topic] = [topic, *(() if topic.beside is None else topic.beside.lanes.values())]
        facts = {name: sum(getattr(stream, name) for stream in streams) for name in _COUNTED}
        return facts | {"subscribers": len(topic.members)}


def samples_of(reading: Reading) -> Iterator[Sample]:
    """Every number there is, metric by metric in the order of the table; what is not known is left out."""
    once: dict[str, Mapping[str, float | None]] = {
        "hub": reading.hub_facts(),
        "cluster": reading.cluster_facts(),
    }
    topics = [(topic.name, reading.topic_facts(topic)) for topic in reading.busiest]
    for name, of, fact, _ in METRICS:
        if of == "topic":
            yield from (Sample(name, topic, facts[fact]) for topic, facts in topics)
        elif (number := once[of].get(fact)) is not None:
            yield Sample(name, None, number)


def render(samples: Iterable[Sample], hub: str) -> bytes:
    """Prometheus's text format. Written here: the library for it takes more memory than a small hub."""
    lines = []
    for name, numbers in groupby(samples, key=lambda sample: sample.name):
        lines += [f"# HELP {name} {_MEANINGS[name]}", f"# TYPE {name} {kind_of(name)}"]
        for _, topic, number in numbers:
            label = "" if topic is None else f',topic="{_escaped(label_of(topic))}"'
            lines.append(f'{name}{{hub="{hub}"{label}}} {number:.15g}')
    return "\n".join([*lines, ""]).encode()


def kind_of(name: str) -> str:
    """What Prometheus calls a metric's type."""
    return "counter" if name.endswith("_total") else "gauge"


def label_of(topic: bytes) -> str:
    """A topic's name as text. Different names stay different: Prometheus refuses two series with the same labels."""
    return topic.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _last_window(backwards: Iterable[Block]) -> list[Block]:
    """The blocks of topics that belong to the newest record of the hub, which is the last of its window."""
    found: list[Block] = []
    own: Block | None = None
    for block in backwards:
        if block.kind is Kind.HUB:
            if own is not None:
                break
            own = block
        elif own is not None and block.kind is Kind.TOPIC:
            found.append(block)
    return found


def _weighed(block: Block) -> Iterable[tuple[int, bytes]]:
    """The bytes that each topic of the block sent in its window."""
    sent = block.part(0, block.count).values["bytes_out"]
    names = block.topics() or []
    if is_each(sent):
        return zip(sent, names, strict=True)
    assert isinstance(sent, int), "bytes are counted"
    return ((sent, name) for name in names)


def _own_record(backwards: Iterable[Block]) -> dict[str, float]:
    """The numbers of the hub's newest record; empty before the first."""
    for block in backwards:
        if block.kind is Kind.HUB:
            values = block.part(0, 1).values
            return {name: value for name, value in values.items() if isinstance(value, int | float)}
    return {}
