"""The numbers people watch, from histories written by hand."""

from __future__ import annotations

from equipoise.demo import percentile, publishing_rate, row_of
from equipoise.workload.history import History, Missed, Received, Track


def history_of_one_stream(began_at: list[float]) -> History:
    history = History()
    for at in began_at:
        history.begin("ann", "news", at)
    return history


def test_a_row_counts_everything_but_times_only_the_window() -> None:
    history = history_of_one_stream([1.0, 9.0, 9.5])
    track = Track("bob/0", ("news",), is_pattern=False, is_smart=True)
    track.events += [
        Received(1.5, "news", "ann", 0),
        Received(9.010, "news", "ann", 1),
        Received(9.530, "news", "ann", 2),
    ]
    row = row_of(track, history, now=10.0, window_s=2.0)
    assert (row.name, row.listens_to, row.received, row.received_per_s) == ("bob", "news", 3, 1.0)
    assert row.latency_ms_p50 is not None and round(row.latency_ms_p50) == 30
    assert row.missed == 0


def test_a_gap_of_unknown_size_counts_as_one_missed() -> None:
    track = Track("bob/0", ("news",), is_pattern=False, is_smart=True)
    track.events += [Missed(1.0, "news", 7), Missed(2.0, "news", None)]
    row = row_of(track, History(), now=2.0, window_s=2.0)
    assert row.missed == 8
    assert row.latency_ms_p50 is None


def test_the_publishing_rate_looks_at_the_window_only() -> None:
    assert publishing_rate(history_of_one_stream([0.0, 8.5, 9.0, 9.9]), now=10.0, window_s=2.0) == 1.5


def test_a_percentile_is_a_value_that_occurred() -> None:
    values = [float(n) for n in range(1, 101)]
    assert percentile(values, 0.50) == 51.0
    assert percentile(values, 0.99) == 100.0
    assert percentile([3.0], 0.99) == 3.0
    assert percentile([], 0.5) is None
