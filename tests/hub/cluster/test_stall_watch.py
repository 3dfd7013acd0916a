"""Stalls of the loop are detected while limited topics are used, and credit at most 20 ms of the rate."""

from __future__ import annotations

from equipoise.hub.cluster.stall_watch import CREDIT_NS, StallWatch
from equipoise.limits import nanoseconds
from hub.cluster.test_rate_limits import fill, home, pass_time, published
from hub.world import FakeShell, pipeline


def now(shell: FakeShell) -> int:
    return nanoseconds(shell.fine_now())


def stand_still(shell: FakeShell, seconds: float) -> None:
    """Nothing runs meanwhile; then due timers run, before all events that have arrived."""
    shell.stall(seconds)
    shell.advance()


def test_a_late_timer_shows_since_when_the_loop_has_been_blocked() -> None:
    shell = FakeShell(1 << 30)
    watch = StallWatch(shell)
    watch.used()
    shell.advance(0.01)
    assert watch.since(now(shell)) == 0
    looked_at = now(shell)
    stand_still(shell, 0.015)
    assert watch.since(now(shell)) == looked_at
    shell.advance(0.01)
    assert watch.since(now(shell)) == 0


def test_a_long_stall_credits_no_more_than_a_short_one() -> None:
    shell = FakeShell(1 << 30)
    watch = StallWatch(shell)
    watch.used()
    stand_still(shell, 3.0)
    assert now(shell) - watch.since(now(shell)) == CREDIT_NS


def test_a_topic_at_rest_costs_no_timers() -> None:
    shell = FakeShell(1 << 30)
    watch = StallWatch(shell)
    watch.used()
    for _ in range(500):
        shell.advance(0.01)
    at_rest = shell.timers_pending
    watch.used()
    assert (at_rest, shell.timers_pending) == (0, 1)


def burst_after(stall_s: float) -> int:
    """Messages out of 100 that a topic of 1,000/s in bursts of 3 admits at once after a stall."""
    hubs, node = home(rate=1_000.0, burst=3)
    client = node.client()
    client.do("PUBLISH", "x", "first")
    pass_time(hubs, 0.1)
    fill(node)
    before = published(hubs, "h1")
    stand_still(node.shell, stall_s)
    client.send_raw(pipeline(["PUBLISH", "x", "late"] for _ in range(100)))
    return published(hubs, "h1") - before


def test_events_that_arrive_during_a_stall_are_timed_by_their_arrival() -> None:
    assert burst_after(0.001) == 3
    assert 3 + 19 <= burst_after(0.02) <= 3 + 20
    assert 3 + 19 <= burst_after(0.1) <= 3 + 20


def admitted_beside(stalls: int, stall_s: float) -> int:
    """Messages of a flood that a topic of 200/s in bursts of 1 admits while the loop is blocked most of the time."""
    hubs, node = home(rate=200.0, burst=1)
    node.client().send_raw(pipeline(["PUBLISH", "x", "1"] for _ in range(500)))
    before = published(hubs, "h1")
    for _ in range(stalls):
        stand_still(node.shell, stall_s)
        hubs.settle_now()
    return published(hubs, "h1") - before


def test_tokens_due_while_the_hub_is_late_go_to_waiting_messages() -> None:
    """A bucket of one token is full at once: all that a timer is late would be lost."""
    assert 62 <= admitted_beside(40, 0.008) <= 65


def test_a_hub_that_is_very_late_admits_no_more_than_the_envelope() -> None:
    tokens_of_20_ms = 4
    assert 1 <= admitted_beside(1, 3.0) <= 1 + tokens_of_20_ms
