"""Checkpoints, and the records between two of them."""

from __future__ import annotations

import json
import random

import pytest

from equipoise.pipeline.source.hub_connection import Piece
from equipoise.pipeline.source.offsets import (
    MARKS_MAX,
    Mark,
    Offsets,
    Range,
    advanced,
    decode,
    encode,
    ranges,
)


def head(end: int, *, incarnation: int = 1, first: int = 0) -> Piece:
    return Piece(incarnation, first, first, b"", end)


def test_a_new_hub_begins_with_its_oldest_record() -> None:
    end = advanced({}, {"h1": head(100, first=40)}, known={"h1"}, rows_max=None)
    assert end == {"h1": Mark(1, 100, 40, 0)}
    assert ranges({}, end) == [Range(hub="h1", incarnation=1, start=40, end=100, unanswered=0)]


def test_a_known_hub_is_read_from_its_last_position() -> None:
    start = {"h1": Mark(1, 100, 40, 0)}
    end = advanced(start, {"h1": head(130, first=90)}, known={"h1"}, rows_max=None)
    assert ranges(start, end) == [Range(hub="h1", incarnation=1, start=100, end=130, unanswered=0)]


def test_a_restarted_hub_is_read_from_its_first_record_and_its_former_incarnation_is_over() -> None:
    start = {"h1": Mark(1, 100, 40, 0)}
    end = advanced(start, {"h1": head(7, incarnation=2)}, known={"h1"}, rows_max=None)
    assert ranges(start, end) == [Range(hub="h1", incarnation=2, start=0, end=7, unanswered=0)]


def test_a_hub_that_does_not_reply_keeps_its_position_and_is_counted() -> None:
    start = {"h1": Mark(1, 100, 40, 2), "h2": Mark(1, 5, 0, 0)}
    end = advanced(start, {"h1": None, "h2": head(9), "h3": None}, known={"h1", "h2", "h3"}, rows_max=None)
    assert ranges(start, end) == [
        Range(hub="h1", incarnation=1, start=100, end=100, unanswered=1),
        Range(hub="h2", incarnation=1, start=5, end=9, unanswered=0),
        Range(hub="h3", incarnation=0, start=0, end=0, unanswered=1),
    ]


def test_a_missing_hub_keeps_its_position_until_there_are_too_many() -> None:
    start = {f"h{number}": Mark(1, 100, 40, 0) for number in range(MARKS_MAX)}
    assert advanced(start, {}, known=set(), rows_max=None) == start
    start["new"] = Mark(1, 5, 0, 0)
    assert advanced(start, {}, known={"new", "h7"}, rows_max=None) == {"h7": start["h7"], "new": start["new"]}


@pytest.mark.parametrize(
    ("wanted", "rows_max", "granted"),
    [
        ({"a": 10, "b": 10}, None, {"a": 10, "b": 10}),
        ({"a": 10, "b": 10}, 8, {"a": 4, "b": 4}),
        ({"a": 1, "b": 10}, 8, {"a": 1, "b": 7}),
        ({"a": 0, "b": 10, "c": 10}, 5, {"a": 0, "b": 2, "c": 3}),
        ({"a": 10}, 0, {"a": 0}),
    ],
)
def test_a_batch_is_bounded_and_no_hub_starves(
    wanted: dict[str, int], rows_max: int | None, granted: dict[str, int]
) -> None:
    heads = {hub: head(end) for hub, end in wanted.items()}
    end = advanced({}, heads, known=set(heads), rows_max=rows_max)
    assert {hub: mark.next for hub, mark in end.items()} == granted


def test_states_survive_encoding() -> None:
    state = {"h1": Mark(1 << 40, 7, 3, 2), "h2": Mark()}
    assert decode(json.loads(json.dumps(encode(state)))) == state


@pytest.mark.parametrize("seed", range(30))
def test_over_any_events_each_record_is_in_one_range(seed: int) -> None:
    rng = random.Random(seed)
    hubs = {f"h{number}": [1, 0] for number in range(3)}
    state: Offsets = {}
    given: dict[tuple[str, int], list[int]] = {}
    for _ in range(60):
        for life in hubs.values():
            life[1] += rng.randrange(5)
            if rng.random() < 0.05:
                life[:] = [life[0] + 1, 0]
        heads = {
            hub: None if rng.random() < 0.2 else head(life[1], incarnation=life[0])
            for hub, life in hubs.items()
            if rng.random() < 0.8
        }
        end = advanced(state, heads, known=set(hubs), rows_max=rng.choice((None, 4, 20)))
        for span in ranges(state, end):
            given.setdefault((span.hub, span.incarnation), []).extend(range(span.start, span.end))
        # A batch that is run again asks for the same.
        assert ranges(decode(encode(state)), decode(encode(end))) == ranges(state, end)
        state = end
    for numbers in given.values():
        assert numbers == list(range(numbers[0], numbers[-1] + 1)) if numbers else True
        assert not numbers or numbers[0] == 0
