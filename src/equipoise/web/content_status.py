"""The tree of a content topic for pages and API: heads, edges, their load, results of sessions.

State and ratios are those of the newest view. Subscriptions and ratios are a hub's, over all content topics that it
carries: sessions balance hubs, not topics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from equipoise.control.controller import Controller
from equipoise.model import Mode
from equipoise.telemetry import EDGE_STATES
from equipoise.view import View
from equipoise.view.schema import HUB_COLUMNS

__all__ = ["EDGE_NUMBERS", "content_status", "edge_numbers"]

Json = dict[str, Any]

# Displayed values of a hub as an edge of content topics, by their column in the view.
EDGE_NUMBERS = tuple(
    column.name
    for column in HUB_COLUMNS
    if column.name.startswith("content_") and column.name != "content_state"
)


def edge_numbers(view: View | None, at: int | None) -> Json:
    """Of a hub of the view: `content_state` as a word, and the numbers.

    Null if it is not an edge, except for the publishers that a head has moved.
    """
    if view is None or at is None:
        return {"content_state": None, **dict.fromkeys(EDGE_NUMBERS)}
    if not view.hubs.content_state[at]:
        moved = float(view.hubs.content_publishers_moved[at])
        return {"content_state": None, **dict.fromkeys(EDGE_NUMBERS), "content_publishers_moved": moved}
    state = int(view.hubs.content_state[at])
    return {
        "content_state": EDGE_STATES[state] if state < len(EDGE_STATES) else "unknown",
        **{name: float(getattr(view.hubs, name)[at]) for name in EDGE_NUMBERS},
    }


def content_status(controller: Controller, topic: bytes, homes: Sequence[str]) -> list[Json] | None:
    """The tree of a topic: each home with its parent, heads first; None: not a content topic."""
    plan, view = controller.knowledge.plan, controller.views.latest
    placement = plan.home_of(topic, set(homes))
    if placement.mode is not Mode.CONTENT:
        return None
    followed, edges = placement.followed, placement.edges
    rows = [
        {
            "hub": hub,
            "follows": followed.get(hub),
            "is_edge": hub in edges,
            **edge_numbers(view, None if view is None else view.hub_index.get(hub)),
        }
        for hub in placement.homes
    ]
    return sorted(rows, key=lambda row: bool(row["is_edge"]))
