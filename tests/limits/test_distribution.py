"""Quotas against brute force, deals by property: who gets how much of a limited topic, and who sits where."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.limits.distribution import (
    HubRoom,
    Publisher,
    SplitPolicy,
    deal,
    distribute,
    even_loads,
    fewest_hubs,
    largest_minimum,
)
from equipoise.limits.fitting import best_fit, measured_fit

ROOMS = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), min_size=1, max_size=5)


def _hubs(rooms: list[tuple[int, int]]) -> list[HubRoom]:
    return [HubRoom(f"h{i}", float(capacity), float(load)) for i, (capacity, load) in enumerate(rooms)]


def _keep(ordered: list[Publisher]) -> None:
    """The order of a test is its own."""


@given(ROOMS, st.integers(1, 300))
def test_the_fewest_hubs_are_the_smallest_subset_with_room(rooms: list[tuple[int, int]], rate: int) -> None:
    hubs = _hubs(rooms)
    enough = [
        count
        for count in range(1, len(hubs) + 1)
        for chosen in itertools.combinations(hubs, count)
        if sum(hub.room_per_s for hub in chosen) >= rate
    ]
    assert fewest_hubs(rate, hubs) == min(enough, default=len(hubs))


@given(ROOMS, st.integers(1, 300))
def test_max_min_quotas_fill_what_there_is_and_cannot_be_raised(
    rooms: list[tuple[int, int]], rate: int
) -> None:
    hubs = _hubs(rooms)
    quotas = largest_minimum(float(rate), hubs)
    room = sum(hub.room_per_s for hub in hubs)
    assert sum(quotas.values()) == pytest.approx(min(rate, room))
    for hub in hubs:
        assert quotas[hub.hub] <= hub.room_per_s + 1e-9
    # A hub below the largest quota has no room left: nothing can be given to it.
    most = max(quotas.values())
    for hub in hubs:
        assert quotas[hub.hub] >= min(most, hub.room_per_s) - 1e-9


@given(ROOMS, st.integers(1, 300))
def test_even_loads_are_equal_where_something_was_given(rooms: list[tuple[int, int]], rate: int) -> None:
    hubs = _hubs(rooms)
    quotas = even_loads(float(rate), hubs)
    assert sum(quotas.values()) == pytest.approx(rate)
    totals = {hub.hub: hub.load_per_s + quotas[hub.hub] for hub in hubs}
    level = max(totals[name] for name, quota in quotas.items() if quota > 1e-9)
    for hub in hubs:
        if quotas[hub.hub] > 1e-9:
            assert totals[hub.hub] == pytest.approx(level)
        else:
            assert totals[hub.hub] >= level - 1e-6


@given(st.lists(st.integers(1, 50), min_size=1, max_size=5), st.integers(1, 120), st.data())
def test_every_run_of_neighbours_is_shared_in_proportion(
    quotas: list[int], count: int, data: st.DataObject
) -> None:
    ordered = [Publisher(f"p{i:03}", 1.0) for i in range(count)]
    seats = deal(ordered, {f"h{i}": float(quota) for i, quota in enumerate(quotas)})
    assert set(seats) == {publisher.name for publisher in ordered}
    first = data.draw(st.integers(0, count - 1))
    last = data.draw(st.integers(first, count - 1))
    dealt = Counter(seats[publisher.name] for publisher in ordered[first : last + 1])
    for i, quota in enumerate(quotas):
        assert abs(dealt[f"h{i}"] - (last - first + 1) * quota / sum(quotas)) < 2.5


def test_publishers_of_one_group_sit_at_different_hubs() -> None:
    publishers = [Publisher(f"p{i}", 10.0, group=str(i % 4)) for i in range(24)]
    hubs = [HubRoom(name, 100.0) for name in "abc"]
    found = distribute(SplitPolicy.CORRELATION, publishers, hubs, shuffle=_keep)
    for group in "0123":
        seats = Counter(found.seats[one.name] for one in publishers if one.group == group)
        assert seats == {"a": 2, "b": 2, "c": 2}


def test_the_policies_of_the_paper_at_busy_hubs() -> None:
    """Figure 6 with 8,000 publishers of 10 messages a second: 50/20/10 by equal loads, 46/22/12 by max-min."""
    publishers = [Publisher(f"p{i}", 10.0) for i in range(8_000)]
    hubs = [HubRoom(str(i), 62_000.0, load * 1e3) for i, load in enumerate((10, 40, 50, 60, 70, 80))]

    def quotas(policy: SplitPolicy) -> list[int]:
        found = distribute(policy, publishers, hubs, shuffle=_keep)
        return [round(found.quotas_per_s.get(str(i), 0.0) / 1e3) for i in range(6)]

    assert quotas(SplitPolicy.CONCENTRATION) == [50, 20, 10, 0, 0, 0]
    assert quotas(SplitPolicy.MAX_MIN) == [46, 22, 12, 0, 0, 0]
    assert quotas(SplitPolicy.LOAD_BALANCING) == [50, 20, 10, 0, 0, 0]


def test_what_no_hub_has_room_for_is_said() -> None:
    found = distribute(SplitPolicy.MAX_MIN, [Publisher("p", 100.0)], [HubRoom("h", 60.0)], shuffle=_keep)
    assert found.unplaced_per_s == 40.0
    assert found.seats == {"p": "h"}


def test_a_fit_is_the_fewest_hubs_within_the_margin_else_the_best() -> None:
    assert best_fit({1: 0.9, 2: 0.7, 3: 0.2}, 1.0).hubs == 2
    best = best_fit({1: 3.0, 2: 1.5, 3: 2.0}, 1.0)
    assert (best.hubs, best.is_within) == (2, False)
    close = best_fit({1: 0.95, 2: 0.97}, 1.0)
    assert (close.hubs, close.is_within) == (1, True)


def test_measuring_fills_hub_after_hub() -> None:
    """A hub's latency grows with its publishers: 40 of them are at the limit."""
    asked: list[tuple[int, int, int]] = []

    def measure_s(hub: int, first: int, count: int) -> float:
        asked.append((hub, first, count))
        return count / 40

    found = measured_fit(100, 4, measure_s, 1.0)
    assert sum(found.publishers) == 100
    assert found.unplaced == 0
    assert all(32 <= count <= 40 for count in found.publishers[:-1])
    assert found.rounds_total == len(asked)
    # Each hub is measured with the publishers that those before it did not keep.
    starts = {hub: first for hub, first, _ in asked}
    assert starts == {hub: sum(found.publishers[:hub]) for hub in starts}


def test_measuring_says_for_how_many_there_is_no_hub() -> None:
    found = measured_fit(10, 2, lambda hub, first, count: 0.5 if count <= 3 else 2.0, 1.0)
    assert found.publishers == (3, 3)
    assert found.unplaced == 4
