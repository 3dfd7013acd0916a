"""The reference page of metrics, made from the tables that they are served from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["metrics_page"]

_OPENING = """\
Made from the code by `make docs`; do not edit. How to collect and draw them: [watch it](../howto/watch-it.md).

Two kinds of processes have metrics. A **controller** tells of the whole system, from the newest view of the
pipeline, at `http://HOST:6398/metrics` beside its dashboard. A **hub** tells of itself, from its own counters, at the
`--metrics-port` that it was given. No name is used by both.

Topics have labels, and labels cost memory in Prometheus: only the busiest have metrics of their own, at most
`metrics_topics_max` of a controller's and `metrics.topics_max` of each hub's ([settings](settings.md)). A name that is
not UTF-8 is shown with its bytes as `\\xNN`, a backslash in it as two."""

_TITLES = {
    "system": "### The system",
    "hub": "### Each hub\n\nLabel `hub`.",
    "topic": "### Each of the busiest topics\n\nLabel `topic`.",
}
_HUB_TITLES = {
    "hub": "### The hub",
    "cluster": "### Among other hubs\n\nOnly of a hub that has a store.",
    "topic": "### Each of its busiest topics\n\nAnd the label `topic`. The counters begin anew when a topic is "
    "forgotten or moves here.",
}


def metrics_page() -> str:
    """Every metric with its type and meaning."""
    # Here, since the controller's table loads numpy.
    from equipoise.hub.telemetry.prometheus import METRICS as HUB_METRICS
    from equipoise.hub.telemetry.prometheus import kind_of
    from equipoise.web.metrics import METRICS as SYSTEM_METRICS

    parts = ["# Metrics", _OPENING, "## Controller"]
    for of, title in _TITLES.items():
        parts += [title, _table((name, "gauge", why) for name, what, _, why in SYSTEM_METRICS if what == of)]
    parts.append(
        "## Hub\n\nAll have the label `hub`. What ends in `_total` only grows, until the hub restarts."
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
