"""Where the window is summed follows the rate, slowly, and with a window in which both are fed."""

from __future__ import annotations

from equipoise.pipeline.sums_choice import RATE_BATCHES, SumsAt, SumsChoice


def choice(wanted: SumsAt = SumsAt.AUTO) -> SumsChoice:
    return SumsChoice(wanted, records_per_s=1000.0, over_s=10.0)


def test_a_setting_is_kept_whatever_the_rate() -> None:
    for wanted in (SumsAt.DRIVER, SumsAt.EXECUTORS):
        found = choice(wanted)
        for _ in range(100):
            found.observe(5000, 1.0)
        assert found.at is wanted
        assert (found.has_samples, found.has_state) == (wanted is SumsAt.DRIVER, wanted is SumsAt.EXECUTORS)


def test_executors_take_over_beyond_the_rate_once_they_have_a_window() -> None:
    found = choice()
    for _ in range(RATE_BATCHES - 1):
        found.observe(5000, 1.0)
    found.observe(10, 1.0)
    for _ in range(RATE_BATCHES):
        assert (found.has_samples, found.has_state) == (True, False)
        found.observe(5000, 1.0)
    for _ in range(11):
        assert found.at is SumsAt.DRIVER
        assert (found.has_samples, found.has_state) == (True, True)
        found.observe(5000, 1.0)
    assert found.at is SumsAt.EXECUTORS
    assert (found.has_samples, found.has_state) == (False, True)


def test_the_way_back_needs_half_the_rate() -> None:
    found = choice()
    for _ in range(2 * RATE_BATCHES + 1):
        found.observe(5000, 1.0)
    for _ in range(50):
        found.observe(600, 1.0)
    assert (found.has_samples, found.has_state) == (False, True)
    for _ in range(2 * RATE_BATCHES + 1):
        found.observe(400, 1.0)
    assert (found.has_samples, found.has_state) == (True, False)


def test_a_batch_that_catches_up_is_rated_by_the_time_its_records_are_of() -> None:
    found = choice()
    for _ in range(50):
        found.observe(50_000, 100.0)
        found.observe(0, 0.0)
    assert found.at is SumsAt.DRIVER and not found.has_state
