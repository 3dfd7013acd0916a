"""Hubs that join get their share within seconds, in a world of a few hundred topics."""

from __future__ import annotations

from equipoise.lab.experiments.experiment import silent
from equipoise.lab.experiments.pulsar_scale_up import GOAL_S, Growth, TalkingCrowd, grow

CROWD = TalkingCrowd(600, 12)


def test_five_hubs_that_join_five_carry_their_share_and_nothing_is_lost() -> None:
    growth = grow(CROWD, 1, silent)
    assert len(growth.sent[0]) == 5
    assert len(growth.sent[-1]) == 10
    assert growth.imbalance(int(growth.joined_at_s)) > 0.5
    # So few topics wobble more than they differ.
    assert all(
        growth.imbalance(second) < 0.5 for second in range(int(growth.joined_at_s + GOAL_S), len(growth.sent))
    )
    assert growth.lost == 0 < growth.deliveries


def test_balanced_is_what_stays_so() -> None:
    even, uneven = {"a": 10.0, "b": 10.0}, {"a": 18.0, "b": 2.0}

    def after_s(*sent: dict[str, float]) -> float | None:
        growth = Growth(crowd=CROWD, sent=list(sent), joined_at_s=0.0, plans_at_s=(), lost=0, deliveries=1)
        return growth.balanced_after_s

    assert after_s(*[even] * 9) == 1.0
    assert after_s(*[uneven] * 9) is None
    assert after_s(even, even, uneven, *[even] * 9) == 6.0
