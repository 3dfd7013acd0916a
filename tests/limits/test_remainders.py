"""Tokens of ended lanes: the trunk takes each once, of one plan, and never more than the depth that it gains."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from equipoise.limits import Remainders


def test_a_trunk_takes_what_all_lanes_had_left() -> None:
    remainders = Remainders()
    remainders.keep(7, "h1", 300)
    remainders.keep(7, "h2", 500)
    assert remainders.take(7, 2_000) == 800
    assert remainders.take(7, 2_000) == 0


def test_a_trunk_takes_at_most_the_depth_that_it_gains() -> None:
    remainders = Remainders()
    remainders.keep(7, "h1", 300)
    assert remainders.take(7, 200) == 200
    assert remainders.take(7, 200) == 0


def test_a_report_that_comes_twice_counts_once() -> None:
    remainders = Remainders()
    remainders.keep(7, "h1", 300)
    remainders.keep(7, "h1", 300)
    assert remainders.take(7, 2_000) == 300
    remainders.keep(7, "h1", 300)
    assert remainders.take(7, 2_000) == 0


def test_lanes_of_an_earlier_plan_leave_nothing() -> None:
    remainders = Remainders()
    remainders.keep(7, "h1", 300)
    remainders.keep(8, "h2", 20)
    remainders.keep(7, "h3", 300)
    assert remainders.take(8, 2_000) == 20


def test_a_trunk_that_grows_by_another_plan_takes_nothing() -> None:
    remainders = Remainders()
    remainders.keep(7, "h1", 300)
    assert remainders.take(8, 2_000) == 0


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from("abc"), st.integers(0, 9)), max_size=12))
def test_no_token_is_made(ends: list[tuple[int, str, int]]) -> None:
    """Each plan ends a lane once: whatever reports come, in whatever order and number, their sum is not exceeded."""
    remainders, left = Remainders(), {(version, hub): level for version, hub, level in reversed(ends)}
    taken = 0
    for version, hub, level in ends:
        remainders.keep(version, hub, level)
        taken += remainders.take(version, 6)
    assert taken <= sum(left.values())
