"""Merging a stream by position: duplicates vanish, holes are counted, epochs are told apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.stream.cursor import IN_ORDER, Cursor, PatternCursor, Verdict


def cursor_at(epoch: int, last_n: int) -> Cursor:
    cursor = Cursor()
    assert cursor.resume(epoch, last_n) == 0
    return cursor


@pytest.mark.parametrize(
    ("epoch", "n", "count", "verdict", "next_position"),
    [
        (7, 11, 1, IN_ORDER, (7, 12)),
        (7, 11, 5, IN_ORDER, (7, 16)),
        (7, 14, 2, Verdict(0, 3), (7, 16)),
        (7, 10, 1, Verdict(1, 0), (7, 11)),
        (7, 1, 4, Verdict(4, 0), (7, 11)),
        (7, 9, 5, Verdict(2, 0), (7, 14)),
        (8, 1, 1, Verdict(0, None), (8, 2)),
        (8, 5, 2, Verdict(0, None), (8, 7)),
        (6, 99, 3, Verdict(3, 0), (7, 11)),
    ],
)
def test_a_batch_is_handled_by_its_position(
    epoch: int, n: int, count: int, verdict: Verdict, next_position: tuple[int, int]
) -> None:
    cursor = cursor_at(7, 10)
    assert cursor.accept(epoch, n, count) == verdict
    assert (cursor.epoch, cursor.next_n) == next_position


@pytest.mark.parametrize(
    ("epoch", "last_n", "missed"),
    [(7, 10, 0), (7, 13, 3), (7, 4, None), (8, 0, None), (8, 10, None), (6, 99, None)],
)
def test_a_new_subscription_shows_missed_messages(epoch: int, last_n: int, missed: int | None) -> None:
    cursor = cursor_at(7, 10)
    assert cursor.resume(epoch, last_n) == missed
    assert cursor.accept(epoch, last_n + 1, 1) == IN_ORDER


links = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 6)), max_size=40)


@given(links)
def test_for_any_arrivals_each_position_is_delivered_once_or_counted_missing(
    batches: list[tuple[int, int]],
) -> None:
    cursor = cursor_at(3, 0)
    taken: list[int] = []
    missed_total = 0
    for n, count in batches:
        skip, missed = cursor.accept(3, n, count)
        assert missed is not None
        missed_total += missed
        taken.extend(range(n + skip, n + count))
    assert taken == sorted(set(taken)), "in order, no duplicate"
    assert len(taken) + missed_total == cursor.next_n - 1, "every position is accounted for"


def test_a_pattern_starts_a_topic_at_its_first_message() -> None:
    cursor = PatternCursor(10)
    assert cursor.accept((b"a", b""), 5, 100, 2) == IN_ORDER
    assert cursor.accept((b"b", b""), 5, 7, 1) == IN_ORDER
    assert cursor.accept((b"a", b""), 5, 102, 1) == IN_ORDER
    assert cursor.accept((b"a", b""), 5, 105, 1) == Verdict(0, 2)
    assert cursor.accept((b"a", b""), 5, 105, 1) == Verdict(1, 0)


def test_a_topic_removed_while_idle_and_created_again_is_no_gap_for_a_pattern() -> None:
    cursor = PatternCursor(10)
    cursor.accept((b"a", b""), 5, 100, 1)
    assert cursor.accept((b"a", b""), 6, 1, 3) == IN_ORDER
    assert cursor.accept((b"a", b""), 6, 4, 1) == IN_ORDER
    assert cursor.accept((b"a", b""), 7, 2, 1) == Verdict(0, None), "but one that is joined midway is"


def test_a_pattern_remembers_a_bounded_number_of_topics() -> None:
    cursor = PatternCursor(2)
    for topic in (b"a", b"b", b"c"):
        cursor.accept((topic, b""), 1, 1, 1)
    assert cursor.accept((b"c", b""), 1, 5, 1) == Verdict(0, 3)
    assert cursor.accept((b"a", b""), 1, 5, 1) == IN_ORDER, "forgotten, so met for the first time"


def test_a_pattern_that_was_disconnected_starts_again() -> None:
    cursor = PatternCursor(10)
    cursor.accept((b"a", b""), 1, 1, 1)
    cursor.forget()
    assert cursor.accept((b"a", b""), 1, 50, 1) == IN_ORDER


def test_a_stream_whose_hub_restarted_with_an_earlier_clock_is_not_behind() -> None:
    cursor = Cursor()
    cursor.resume(9, 0, may_lag=True)
    assert cursor.resume(7, 0, may_lag=True) is None
    assert cursor.accept(7, 1, 2) == IN_ORDER


@pytest.mark.parametrize("opens", [True, False])
def test_an_epoch_of_which_messages_have_arrived_is_behind_one_without_any(*, opens: bool) -> None:
    """A relay that lags sends the last messages of the former epoch again."""
    cursor = Cursor()
    cursor.resume(5, 0)
    cursor.accept(5, 1, 50)
    if opens:
        cursor.open(9, 5, 50)
    else:
        cursor.resume(9, 0)
    assert cursor.resume(5, 40, may_lag=True) == 0
    assert cursor.accept(5, 41, 10) == Verdict(10, 0)
    assert cursor.position == (9, 0)
