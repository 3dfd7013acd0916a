"""The reference page of metrics, made from the tables that serve them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["metrics_page"]

_OPENING = """\
Generated from the code by `make docs`; do not edit. How to collect and draw them: [monitoring](../howto/watch-it.md).

Controllers and hubs serve metrics. A **controller** serves those of the whole cluster, from the newest view, at
`http://HOST:6398/metrics`. A **hub** serves its own counters at `--metrics-port`. No name is used by both.

Labels cost memory in Prometheus: only the busiest topics have metrics, at most `metrics_topics_max` at a controller and
`metrics.topics_max` at each hub ([settings](settings.md)). A topic name that is not UTF-8 is shown with its bytes as
`\\xNN`, a backslash as two."""

_TITLES = {
    "system": "### Cluster",
    "hub": "### Hub\n\nLabel `hub`.",
    "topic": "### Busiest topics\n\nLabel `topic`.",
    "durable": "### Ledgers\n\nAs of a few seconds ago; at most 10,000 ledgers.",
    "bookie": "### Bookies\n\nLabel `bookie`.",
}
_HUB_TITLES = {
    "hub": "### Every hub",
    "cluster": "### Hub in a cluster\n\nOnly if the hub has a store.",
    "topic": "### Busiest topics of the hub\n\nWith the label `topic`. The counters start at 0 when a topic is "
    "removed from memory or moves here.",
    "limited": "### Rate limits of these topics\n\nOnly of those that have one: "
    "[envelopes](../concepts/envelopes.md).",
}


def metrics_page() -> str:
    """Every metric with its type and meaning."""
    # Imported here, since the controller's table loads numpy.
    from equipoise.hub.telemetry.metric_table import METRICS as HUB_METRICS
    from equipoise.hub.telemetry.prometheus import kind_of
    from equipoise.web.metrics import METRICS as SYSTEM_METRICS

    parts = ["# Metrics", _OPENING, "## Controller"]
    for of, title in _TITLES.items():
        parts += [title, _table((name, "gauge", why) for name, what, _, why in SYSTEM_METRICS if what == of)]
    parts.append(
        "## Hub\n\nAll have the label `hub`. Counters end in `_total` and start at 0 when the hub starts."
    )
    for of, title in _HUB_TITLES.items():
        parts += [
            title,
            _table((name, kind_of(name), why) for name, what, _, why in HUB_METRICS if what == of),
        ]
    return "\n\n".join(parts) + "\n"


def _table(rows: Iterable[tuple[Any, ...]]) -> str:
    lines = [f"| `{name}` | {kind} | {why} |" for name, kind, why in rows]
    return "\n".join(["| metric | type | meaning |", "|---|---|---|", *lines])
