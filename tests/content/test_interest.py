"""The filters that a hub requests always cover its added filters, and are sent as changes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from content.filters import texts
from content.test_filter import parsed
from equipoise.content.covering import covers
from equipoise.content.filter import Filter
from equipoise.content.interest import COVER_BYTES_MAX, InterestSet
from equipoise.content.parsing import parse_filter

# Add the filter; remove the one so far down the list; settle so many steps and take the changes.
steps = st.lists(st.one_of(texts, st.integers(0, 30), st.tuples(st.integers(0, 9))), min_size=1, max_size=60)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(steps, st.booleans())
def test_requested_filters_cover_added_ones(changes: list[str | int | tuple[int]], is_loaded: bool) -> None:
    wanted, added, told = InterestSet(), list[Filter](), set[Filter]()
    for change in changes:
        if isinstance(change, str):
            filter = parsed(change)
            if filter is not None:
                (wanted.load([filter]) if is_loaded else wanted.add(filter))
                added.append(filter)
        elif isinstance(change, int):
            if change < len(added):
                wanted.remove(added.pop(change))
        else:
            wanted.settle(*change)
            _take(wanted, told)
            if wanted.is_loaded:
                _check(wanted, added, told)
    for filter in added:
        wanted.remove(filter)
    while not wanted.is_settled:
        wanted.settle(10)
    _take(wanted, told)
    assert not told
    assert not len(wanted)
    assert wanted.text_bytes == 0


def _take(wanted: InterestSet, told: set[Filter]) -> None:
    new, gone = wanted.take_changes()
    assert not told.intersection(new)
    assert told.issuperset(gone)
    told.update(new)
    told.difference_update(gone)
    assert told == set(wanted.asked)


def _check(wanted: InterestSet, added: list[Filter], told: set[Filter]) -> None:
    for filter in added:
        assert any(other == filter or covers(other, filter) for other in told)
        assert wanted.cover_of(filter) in told


def test_a_filter_that_is_added_again_while_it_covers_others_keeps_them() -> None:
    """1. A cover goes, and stays for its children's sake. 2. It is asked for again, and goes again."""
    wide = parse_filter(b"a > 0")
    wanted = InterestSet()
    for number in range(1, 50):
        wanted.add(parse_filter(b"a = %d" % number))
    wanted.add(wide)
    wanted.settle(10_000)
    wanted.take_changes()
    wanted.remove(wide)
    wanted.add(wide)
    wanted.take_changes()
    wanted.remove(wide)
    assert wanted.take_changes().removed == []
    assert wide in wanted.asked
    while not wanted.is_settled:
        wanted.settle(5)
        wanted.take_changes()
    assert len(wanted.asked) == 49


def test_with_too_much_text_the_whole_topic_is_requested() -> None:
    wanted = InterestSet()
    for number in range(300):
        wanted.add(parse_filter(b"a = '%s'" % (b"%d" % number).rjust(4_000, b"x")))
    wanted.take_changes()
    assert wanted.text_bytes > COVER_BYTES_MAX
    assert wanted.is_too_large
