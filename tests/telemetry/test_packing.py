"""Numbers in a row as one long integer: the same as one by one."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.telemetry.ring import counting, grown, packed, widened

COUNTERS = st.integers(0, 2**62)
GROWTHS = st.one_of(st.integers(0, 300), st.integers(0, 2**40), st.integers(0, 2**62))


@given(pairs=st.lists(st.tuples(COUNTERS, GROWTHS), min_size=1, max_size=50))
def test_what_has_grown_is_told_number_by_number(pairs: list[tuple[int, int]]) -> None:
    before, growth = zip(*pairs, strict=True)
    after = [old + more for old, more in pairs]
    found = grown(packed(after), packed(before), len(pairs))
    assert list(found) == list(growth)
    assert list(array("Q", widened(found))) == list(growth)


@pytest.mark.parametrize(("greatest", "width"), [(0, 1), (255, 1), (256, 2), (65_536, 4), (1 << 32, 8)])
def test_growth_takes_the_bytes_that_the_greatest_needs(greatest: int, width: int) -> None:
    found = grown(packed([7 + greatest, 10**12]), packed([7, 10**12]), 2)
    assert (list(found), found.itemsize) == ([greatest, 0], width)


@pytest.mark.parametrize("after", [[5, 3, 5], [3, 5, 5], [5, 5, 3]])
def test_a_counter_that_has_become_less_is_a_mistake_and_not_its_neighbours_growth(after: list[int]) -> None:
    with pytest.raises(AssertionError, match="less"):
        grown(packed(after), packed([4, 4, 4]), 3)


@given(first=st.integers(0, 2**62), count=st.integers(1, 40))
def test_counting_goes_on_from_anywhere(first: int, count: int) -> None:
    assert list(array("Q", counting(first, count))) == list(range(first, first + count))
