"""Delays between attempts: growing, bounded, spread, replayable."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from equipoise.client.wire.dial import Backoff


@given(st.integers())
def test_delays_double_up_to_the_longest_and_stay_in_their_upper_half(seed: int) -> None:
    backoff = Backoff(0.1, 1.0, random.Random(seed))
    for full_s in [0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0]:
        assert full_s / 2 <= backoff.next_s() <= full_s


def test_a_reset_starts_again_from_the_first_delay() -> None:
    backoff = Backoff(0.1, 1.0, random.Random(1))
    for _ in range(5):
        backoff.next_s()
    backoff.reset()
    assert backoff.next_s() <= 0.1


def test_equal_random_numbers_give_equal_delays_and_different_ones_different_delays() -> None:
    def delays(seed: int) -> list[float]:
        backoff = Backoff(0.1, 1.0, random.Random(seed))
        return [backoff.next_s() for _ in range(8)]

    assert delays(1) == delays(1)
    assert delays(1) != delays(2)
