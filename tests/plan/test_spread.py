"""Spreading load if no further server is available: only if all are full on average, with large differences."""

from __future__ import annotations

import pytest

from equipoise.model import Reason
from equipoise.plan import PlannerSettings
from equipoise.view import TopicView
from plan.small import decide, topic

HUBS = ["a", "b", "c"]


def load(*ratios: float) -> list[TopicView]:
    """Each hub has ten topics that make up its ratio."""
    return [
        topic(f"{hub}{at}", ratio / 10, hub)
        for hub, ratio in zip(HUBS, ratios, strict=True)
        for at in range(10)
    ]


@pytest.mark.parametrize(
    "ratios, servers_max, is_shared",
    [
        ((0.78, 0.75, 0.45), 3, True),
        # Another server could be had.
        ((0.78, 0.75, 0.45), 4, False),
        # There is room.
        ((0.78, 0.50, 0.45), 3, False),
        # They are about as full as each other.
        ((0.72, 0.70, 0.55), 3, False),
    ],
)
def test_the_room_of_the_emptiest_server_is_used_when_all_servers_are_full(
    ratios: tuple[float, ...], servers_max: int, is_shared: bool
) -> None:
    settings = PlannerSettings(servers_max=servers_max)
    decision = decide(load(*ratios), HUBS, settings=settings)
    reasons = {part.why.reason for part in decision.change.entries} - {Reason.AS_RING}
    assert reasons == ({Reason.SHARED_OUT} if is_shared else set())
    moved = [part for part in decision.change.entries if part.why.reason is Reason.SHARED_OUT]
    assert all(part.why.numbers["receiver_ratio_after"] <= 0.72 for part in moved)
