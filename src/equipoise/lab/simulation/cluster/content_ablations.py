"""The safeguards of subscribers by filter, at hubs among hubs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from equipoise.content.groups import Found
from equipoise.content.index import FilterIndex
from equipoise.hub.cluster.subscription_barrier import Listening
from equipoise.hub.content.topic_filters import TopicFilter
from equipoise.hub.data.topic import Topic
from equipoise.lab.simulation.ablation import Ablation, replaced
from equipoise.lab.simulation.checkers import once, progress

__all__ = ["CONTENT_ABLATIONS"]


def _match_all(index: FilterIndex[TopicFilter], attributes: dict[str, Any]) -> Found[TopicFilter]:
    nodes: Sequence[TopicFilter] = list(index)
    return [(nodes, 0, len(nodes))]


def _match_half(index: FilterIndex[TopicFilter], attributes: dict[str, Any]) -> Found[TopicFilter]:
    """As if the filters of every other message were not found."""
    return [] if int(attributes.get("number", 0)) % 2 else _match(index, attributes)


_match = FilterIndex.match


def _stand_nowhere(
    listening: Listening, session: object, name: bytes, left_out: object, wait: object
) -> None:
    """The subscription is answered whether or not this hub follows the topic."""


CONTENT_ABLATIONS = (
    Ablation(
        "filter-match",
        "a subscriber by filter gets only what its filter matches",
        once.NAME,
        "content-moves",
        lambda: replaced(FilterIndex, "match", _match_all),
    ),
    Ablation(
        "filter-complete",
        "a subscriber by filter gets all that its filter matches",
        once.NAME,
        "content-moves",
        lambda: replaced(FilterIndex, "match", _match_half),
    ),
    Ablation(
        "filter-barrier",
        "a subscription by filter is answered once the hub follows the topic",
        once.NAME,
        "content-relays",
        lambda: replaced(Listening, "_stand_by_name", _stand_nowhere),
    ),
    Ablation(
        "filter-heard",
        "a hub follows a topic as long as a client there has a filter on it",
        progress.NAME,
        "content-alone",
        lambda: replaced(Topic, "is_heard", property(lambda topic: bool(topic.members))),
    ),
)
