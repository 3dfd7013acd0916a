"""Positions: ordered within a topic, and exact about what lies between two of them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.model import Position


@pytest.mark.parametrize(
    ("held", "following", "missed"),
    [
        (Position(1, 0), Position(1, 1), 0),
        (Position(1, 5), Position(1, 6), 0),
        (Position(1, 5), Position(1, 7), 1),
        (Position(1, 5), Position(1, 105), 99),
        (Position(1, 5), Position(1, 5), 0),
        (Position(1, 5), Position(1, 3), 0),
        (Position(1, 5), Position(2, 1), None),
        (Position(2, 5), Position(1, 6), None),
    ],
)
def test_what_lies_between_two_positions_is_known_within_an_epoch_only(
    held: Position, following: Position, missed: int | None
) -> None:
    assert held.missed_before(following) == missed


@given(st.integers(0, 2**63 - 1), st.lists(st.integers(1, 1000), unique=True, min_size=2))
def test_what_was_missed_and_what_was_received_add_up_to_what_was_sent(
    epoch: int, received: list[int]
) -> None:
    positions = [Position(epoch, n) for n in sorted(received)]
    missed = sum(earlier.missed_before(later) or 0 for earlier, later in pairwise(positions))
    assert missed + len(received) == max(received) - min(received) + 1


def test_a_later_position_compares_greater_and_a_later_epoch_more_so() -> None:
    assert Position(1, 5) < Position(1, 6) < Position(2, 0)
