"""Positions: ordered within a topic."""

from __future__ import annotations

import pytest

from equipoise.errors import ProtocolError
from equipoise.stream.position import CLOCK_SKEW_S_MAX, Epochs, Position


def test_a_later_position_compares_greater_and_a_later_epoch_more_so() -> None:
    assert Position(1, 5) < Position(1, 6) < Position(2, 0)


def test_epochs_are_above_all_created_or_received_ones() -> None:
    clock = [100.0]
    epochs = Epochs(lambda: clock[0])
    assert epochs.new() == 100_000_001
    epochs.note(150_000_000)
    assert epochs.new() == 150_000_001
    assert epochs.new(above=160_000_000) == 160_000_001
    # A clock that goes back does not take epochs with it.
    clock[0] = 1.0
    assert epochs.new() == 160_000_002


def test_an_epoch_that_no_clock_can_have_created_is_rejected() -> None:
    epochs = Epochs(lambda: 100.0)
    with pytest.raises(ProtocolError, match="clocks"):
        epochs.note(int((100.0 + CLOCK_SKEW_S_MAX + 1) * 1_000_000))
    assert epochs.last == 100_000_000
