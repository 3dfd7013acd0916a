"""Marks in logs: the entries of a batch, and the missing ones."""

from __future__ import annotations

import pytest

from equipoise.errors import SettingsError
from equipoise.pipeline.topic_settings import TopicReadSettings, read_options
from equipoise.pipeline.topics.positions import (
    LogMark,
    LogRange,
    LogSteps,
    begun,
    decode,
    divided,
    encode,
    first_mark,
    mark_behind,
    missing,
)


def test_marks_survive_the_checkpoint() -> None:
    marks = {"t": LogMark((17, 3), 5, 1, 2), "u": LogMark((0, 0), 0, 0)}
    assert decode(encode(marks)) == marks


def test_a_mark_moves_by_as_many_entries_as_were_granted() -> None:
    first = first_mark(LogSteps(10, (10, 0), 7))
    assert first == LogMark((0, 0), 3, 3)
    assert mark_behind(first, LogSteps(10, (10, 0), 7), 0) == first
    assert mark_behind(first, LogSteps(10, (10, 0), 7, ((5, 0),)), 2) == LogMark((5, 0), 5, 3)
    assert mark_behind(first, LogSteps(10, (10, 0), 7), 7) == LogMark((10, 0), 10, 3)


def test_missing_entries_are_counted() -> None:
    mark = LogMark((5, 0), 5, 0)
    assert missing(mark, LogSteps(10, (10, 0), 5)) == 0
    assert missing(mark, LogSteps(10, (10, 0), 3)) == 2
    assert missing(mark, LogSteps(4, (10, 0), 4)) is None
    assert missing(mark, LogSteps(9, (4, 0), 0)) is None
    assert missing(mark, LogSteps(7, (10, 0), 7)) is None


def test_a_new_or_recreated_log_is_read_from_its_first_entry() -> None:
    end = LogMark((9, 0), 9, 2, 1)
    assert begun(None, end) == LogMark((0, 0), 2, 2, 1)
    assert begun(LogMark((5, 0), 5, 2, 0), end) == LogMark((0, 0), 2, 2, 1)
    assert begun(LogMark((5, 0), 5, 2, 1), end) == LogMark((5, 0), 5, 2, 1)


def test_a_range_is_divided_and_each_part_knows_how_many_entries_it_has() -> None:
    start, end = LogMark((0, 0), 0, 0), LogMark((9, 0), 9, 0)
    assert divided("t", start, end, 9, ()) == [LogRange("t", (0, 0), (9, 0), 9)]
    assert divided("t", start, end, 4, ((4, 0), (8, 0))) == [
        LogRange("t", (0, 0), (4, 0), 4),
        LogRange("t", (4, 0), (8, 0), 4),
        LogRange("t", (8, 0), (9, 0), 1),
    ]


def test_options_are_read_in_any_case_and_unknown_ones_are_rejected() -> None:
    options = {"hubs": "h:1", "maxrecordspertrigger": "5", "failOnDataLoss": "false", "tls_ca": "x"}
    found = read_options(TopicReadSettings, options)
    assert (found.max_records_per_trigger, found.fail_on_data_loss, found.tls_ca) == (5, False, "x")
    with pytest.raises(SettingsError, match="no option 'topics'"):
        read_options(TopicReadSettings, {"hubs": "h:1", "topics": "x"})
    with pytest.raises(SettingsError, match="max_records_per_trigger"):
        read_options(TopicReadSettings, {"hubs": "h:1", "maxRecordsPerTrigger": "0"})
    with pytest.raises(SettingsError, match="either the option"):
        read_options(TopicReadSettings, {"hubs": "h:1"}).check()
