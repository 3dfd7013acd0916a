"""Filter subscribers in clusters, by seed: matching messages arrive once and in order, and no others arrive."""

from __future__ import annotations

import pytest

from equipoise.lab.simulation.checkers import needless_gap, once
from equipoise.lab.workload.history import Away, History, Live, Missed, PublishOutcome, Received, Sent, Track

from .worlds import case, check_seeds, run

CASES = [
    "moves",
    "skew",
    "lanes",
    "relays",
    "alone",
    "links",
    "covers",
    "older",
    "crashes",
    "routed",
    "routed-alone",
    "routed-lanes",
    "routed-comers",
    "routed-crashes",
    "narrow",
    "trees",
    "trees-crashes",
    "trees-routed",
    "trees-wanderers",
]


@pytest.mark.parametrize("name", CASES)
def test_filter_subscribers_receive_only_matching_messages(name: str) -> None:
    check_seeds(f"content-{name}", range(3))


SESSION_CASES = [
    "shares",
    "steady",
    "sessions",
    "full",
    "overloaded",
    "drained",
    "misheard",
    "clusters",
    "clusters-deaths",
    "publishers",
    "planned",
]


@pytest.mark.parametrize("name", SESSION_CASES)
def test_hubs_balance_subscribers_without_a_controller(name: str) -> None:
    check_seeds(f"content-{name}", range(1))


def test_hubs_of_a_tree_that_have_lost_their_parents_do_not_wait_for_each_other() -> None:
    """Seed 113: of three hubs each waited for the next, which followed no hub, to be sent what came before."""
    check_seeds("content-trees-crashes", range(113, 114))


def test_a_filter_does_not_restore_lanes_of_another_link() -> None:
    """A client with a filter, and everything, over one link took a lane there that it left out: a gap (seed 89)."""
    check_seeds("content-routed-lanes", range(89, 90))


def test_some_seeds_of_everything_have_filter_subscribers() -> None:
    with_filters = [seed for seed in range(12) if run(seed, case("cluster-everything")).world.filtered]
    assert with_filters == [6, 7, 8]
    assert not run(6, case("cluster-narrow")).world.filtered


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


def test_the_checker_detects_when_a_plain_subscriber_is_subscribed_again() -> None:
    history = _history(1)
    (track,) = history.tracks
    history.sent["ann", "a"][4] = Sent(4.0, PublishOutcome.ACKNOWLEDGED)
    track.events += [Away(3.0), Live(5.0)]
    assert once.check(history) == []
    history.sent["ann", "a"][4] = Sent(6.0, PublishOutcome.ACKNOWLEDGED)
    history.sent["ann", "a"] += [Sent(7.0, PublishOutcome.ACKNOWLEDGED) for _ in range(3)]
    track.events.append(Received(8.0, "a", "ann", 7))
    (violation,) = once.check(history)
    assert "acknowledged ann 4 was not received and no gap was received" in violation.text


def test_a_loss_that_a_hub_counted_for_a_plain_subscriber_is_a_gap() -> None:
    history = _history(1, 4)
    (track,) = history.tracks
    history.losses[track.via] = [Missed(2.0, "b", 1)]
    assert needless_gap.check(history) == []
    history.losses[track.via].append(Missed(2.0, "a", None))
    assert len(needless_gap.check(history)) == 1
