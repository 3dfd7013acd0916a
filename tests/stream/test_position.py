"""Positions: ordered within a topic."""

from __future__ import annotations

from equipoise.stream.position import Position


def test_a_later_position_compares_greater_and_a_later_epoch_more_so() -> None:
    assert Position(1, 5) < Position(1, 6) < Position(2, 0)
