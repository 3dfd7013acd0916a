"""Seats of publishers: groups apart, shares kept, and nothing that moves without need."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.limits.seating import SLACK, Group, Seating

SHARES = {"a": 0.5, "b": 0.3, "c": 0.2}


def seated(shares: dict[str, float], publishers: int, group: int) -> Seating:
    made = Seating(shares)
    for number in range(publishers):
        made.deal(b"%d" % number, b"group %d" % (number // group))
    return made


def settle(seating: Seating) -> int:
    moves = 0
    while (publisher := seating.surplus() or seating.crowded(99) or seating.crowded(99)) is not None:
        seating.deal(publisher, seating.seats[publisher].group)
        moves += 1
        assert moves < 1_000, "it flaps"
    return moves


def by_group(seating: Seating) -> dict[Group, Counter[str]]:
    found: dict[Group, Counter[str]] = {}
    for seat in seating.seats.values():
        found.setdefault(seat.group, Counter())[seat.home] += 1
    return found


@pytest.mark.parametrize("group", [1, 5, 20, 100])
def test_every_home_has_its_share_of_all_and_of_each_group(group: int) -> None:
    seating = seated(SHARES, 100, group)
    for counts in (Counter(seat.home for seat in seating.seats.values()), *by_group(seating).values()):
        for home, share in SHARES.items():
            assert abs(counts[home] - share * counts.total()) <= 1.0 + 1e-9
    assert seating.surplus() is None


def test_other_shares_move_as_few_as_they_must() -> None:
    seating = seated(SHARES, 100, 20)
    seating.shares = {"a": 0.3, "b": 0.3, "c": 0.4}
    assert settle(seating) == pytest.approx(20, abs=3)
    for counts in by_group(seating).values():
        assert max(abs(counts[home] - share * 20) for home, share in seating.shares.items()) <= 2.0


def test_who_sits_at_a_hub_that_is_no_home_any_more_moves() -> None:
    seating = seated(SHARES, 30, 10)
    seating.shares = {"a": 0.5, "d": 0.5}
    settle(seating)
    assert {seat.home for seat in seating.seats.values()} == {"a", "d"}


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3), st.sampled_from("adgt")), max_size=80),
    st.lists(st.floats(0.05, 1.0), min_size=1, max_size=5),
)
def test_whatever_comes_and_goes_a_deal_settles(
    events: list[tuple[int, int, str]], weights: list[float]
) -> None:
    shares = {f"h{at}": weight / sum(weights) for at, weight in enumerate(weights)}
    seating = Seating(shares)
    for number, group, kind in events:
        publisher, name = b"%d" % number, b"g%d" % group
        if kind == "g":
            seating.leave(publisher)
        elif kind == "t":
            seating.take(publisher, name, f"h{number % 6}")
        else:
            seating.deal(publisher, name)
    settle(seating)
    counts = Counter(seat.home for seat in seating.seats.values())
    assert counts.keys() <= shares.keys()
    assert all(counts[home] - share * counts.total() <= SLACK + 0.1 for home, share in shares.items())


def test_groups_that_are_found_later_are_spread_by_few_moves() -> None:
    seating = Seating({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3})
    for number in range(120):
        seating.deal(b"%d" % number, b"")
    # As blind a deal as can be: whole groups of 20 at one home.
    for number in range(120):
        seating.take(b"%d" % number, b"", "abc"[number // 20 % 3])
    for number in range(120):
        publisher = b"%d" % number
        # Three neighbours each, as there are homes.
        seating.take(publisher, number // 3, seating.seats[publisher].home)
    assert settle(seating) <= 90, "each moves once at most, and a third stays"
    for first in range(0, 120, 20):
        counts = Counter(seating.seats[b"%d" % number].home for number in range(first, first + 20))
        assert max(abs(counts[home] - 20 / 3) for home in "abc") <= 2
    assert all(count == 40 for count in Counter(seat.home for seat in seating.seats.values()).values())


def test_looking_at_groups_costs_nothing_while_nothing_changes() -> None:
    seating = seated(SHARES, 60, 20)
    assert seating.crowded(1_000) is None
    assert not seating._due
    assert seating.crowded(1_000) is None
    assert not seating._due
    seating.shares = {"a": 0.2, "b": 0.3, "c": 0.5}
    assert seating.crowded(1) is not None
