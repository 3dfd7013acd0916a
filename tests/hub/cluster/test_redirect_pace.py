"""The rate of redirects: low at first, doubling, bounded, and low again after a rest."""

from __future__ import annotations

import pytest

from equipoise.hub.cluster.redirect_pace import DOUBLING_S, FIRST_PER_S, LATE_RATIO, REST_S, RedirectPace


def test_it_doubles_up_to_the_setting() -> None:
    pace = RedirectPace(4.5 * FIRST_PER_S)
    rates = [pace.per_s(turn * DOUBLING_S, is_late=False) for turn in range(5)]
    assert rates == pytest.approx([FIRST_PER_S * ratio for ratio in (1, 2, 4, 4.5, 4.5)])


def test_it_never_exceeds_a_low_setting() -> None:
    pace = RedirectPace(FIRST_PER_S / 2)
    assert [pace.per_s(turn * DOUBLING_S, is_late=False) for turn in range(3)] == [FIRST_PER_S / 2] * 3


def test_a_late_turn_uses_a_part_of_it_and_it_still_grows() -> None:
    pace = RedirectPace(1_000.0)
    assert pace.per_s(0.0, is_late=True) == FIRST_PER_S * LATE_RATIO
    assert pace.per_s(DOUBLING_S, is_late=True) == pytest.approx(2 * FIRST_PER_S * LATE_RATIO)


def test_it_begins_again_after_a_rest() -> None:
    pace = RedirectPace(1_000.0)
    pace.per_s(0.0, is_late=False)
    assert pace.per_s(1.0, is_late=False) > FIRST_PER_S
    assert pace.per_s(5.0 + 2 * REST_S, is_late=False) == FIRST_PER_S
