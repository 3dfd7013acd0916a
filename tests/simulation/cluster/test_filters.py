"""Subscribers by filter among many hubs, by seed: what matches comes once and in order, and nothing else comes."""

from __future__ import annotations

import pytest

from equipoise.lab.simulation.checkers import once
from equipoise.lab.workload.history import History, Live, PublishOutcome, Received, Sent, Track

from .worlds import check_seeds

CASES = ["moves", "skew", "lanes", "relays", "alone", "crashes"]


@pytest.mark.parametrize("name", CASES)
def test_subscribers_by_filter_get_what_matches_and_nothing_else(name: str) -> None:
    check_seeds(f"content-{name}", range(5))


def _history(*received: int) -> History:
    history = History()
    history.sent["ann", "a"] = [Sent(1.0, PublishOutcome.ACKNOWLEDGED) for _ in range(6)]
    track = Track("cat/0", ("a",), is_pattern=False, is_smart=False, where="third = 1")
    track.events = [Live(0.5), *(Received(2.0, "a", "ann", sequence) for sequence in received)]
    history.tracks = [track]
    return history


def test_the_checker_knows_filters() -> None:
    assert once.check(_history(1, 4)) == []
    (violation,) = once.check(_history(1, 3, 4))
    assert "which its filter does not match" in violation.text
    (violation,) = once.check(_history(4))
    assert "acknowledged ann 1 was not received" in violation.text
