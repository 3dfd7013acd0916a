"""The window of the live view, compared with a direct computation on the same records."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from equipoise.pipeline.hub_state import HubState
from equipoise.pipeline.hub_sums import hub_sums
from equipoise.pipeline.samples import Sampled, sampled
from equipoise.pipeline.settings import Plausible
from equipoise.pipeline.sliding_window import JoinedWindow, SlidingWindow, timely
from equipoise.pipeline.source.hub_directory import HubEntry
from equipoise.pipeline.validation import judged
from equipoise.view.view import View
from pipeline.places import same_places
from pipeline.records import (
    SECOND_US,
    START_US,
    PlainReading,
    Record,
    assert_same_view,
    batch_of,
    hub_record,
    numbered,
    random_world,
    topic_record,
    view_of,
)

NOW_US = START_US + 3600 * SECOND_US


def samples_of(records: list[Record]) -> Sampled:
    batch = judged(batch_of(records), now_us=NOW_US, plausible=Plausible())
    return sampled([batch], Counter())


def view_after(*batches: list[Record], entries: dict[str, HubEntry] | None = None) -> View:
    window = SlidingWindow()
    for batch in batches:
        window.add(samples_of(batch))
    found = window.view(entries)
    assert found is not None
    return view_of(found)


def agrees(ours: Any, theirs: dict[str, float]) -> None:
    for name, value in theirs.items():
        assert getattr(ours, name) == pytest.approx(value, rel=1e-6, abs=1e-6), name


@pytest.mark.parametrize("seed", range(40))
def test_a_view_agrees_with_a_direct_computation(seed: int) -> None:
    world = random_world(seed)
    rng = random.Random(seed)
    window = SlidingWindow()
    # In batches as they might come: each hub in its own order, cut anywhere.
    waiting = {hub: list(records) for hub, records in world.items()}
    while any(waiting.values()):
        batch: list[Record] = []
        for records in waiting.values():
            count = rng.randrange(1, 12)
            batch += records[:count]
            del records[:count]
        window.add(samples_of(batch))
    found = window.view()
    assert found is not None
    view, everything = view_of(found), [record for records in world.values() for record in records]
    reading = PlainReading(everything, window.end_us)
    assert window.end_us == max(record["time"] for record in everything if record["kind"] == "hub")
    assert set(view.topics.names) == set(reading.topic_records)
    assert set(view.hubs.names) == set(reading.hub_records)
    for row in view.topic_rows():
        agrees(row, reading.topic(row.name))
        same_places(row, reading.whereabouts(row.name))
        through = reading.through(row.name)
        shares = (
            {hub: sent / row.out_bytes_per_s for hub, sent in through.items()} if row.out_bytes_per_s else {}
        )
        for hub, share in shares.items():
            assert row.carried_by[hub] == pytest.approx(max(share, 1e-12), rel=1e-6)
        uses = reading.limited_at(row.name)
        assert row.limited_at.keys() == uses.keys()
        for hub, use in uses.items():
            assert row.limited_at[hub] == pytest.approx(use)
    for hub_row in view.hub_rows():
        agrees(hub_row, reading.hub(hub_row.name))
        assert hub_row.coordinate == reading.coordinate(hub_row.name)


@pytest.mark.parametrize("seed", range(20))
def test_sums_of_tasks_over_their_own_hubs_join_to_the_same_view(seed: int, tmp_path: Path) -> None:
    world, rng = random_world(seed, seconds=30), random.Random(seed)
    live, joined = SlidingWindow(), JoinedWindow()
    waiting = {hub: list(records) for hub, records in world.items()}
    batch = 0
    while any(waiting.values()):
        tasks: list[list[Record]] = [[], []]
        for records in waiting.values():
            count = rng.randrange(12)
            rng.choice(tasks).extend(records[:count])
            del records[:count]
        sums, late = [], Counter[str]()
        since_us = max(0, joined.start_us)
        for task in tasks:
            kept, own_late = timely(samples_of(task), since_us)
            window = HubState(tmp_path, batch, joined.over_us).updated(kept)
            late += own_late
            sums.append(hub_sums(window.topics, window.hubs, over_us=joined.over_us))
        joined.add(sums)
        assert live.add(samples_of([record for task in tasks for record in task])) == late
        assert joined.end_us == live.end_us
        one, other = live.view(), joined.view()
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert_same_view(view_of(one), view_of(other))
        batch += 1


def test_state_from_before_a_hubs_window_is_deleted(tmp_path: Path) -> None:
    for at in range(30):
        found = samples_of(numbered("h1", [hub_record(START_US + at * SECOND_US)]))
        window = HubState(tmp_path, at, 10 * SECOND_US).updated(found)
    assert len(window.hubs) == len(list((tmp_path / "h1").iterdir())) == 10


def test_a_batch_that_is_run_again_sums_its_records_once(tmp_path: Path) -> None:
    found = samples_of(numbered("h1", [topic_record(b"t", START_US, publications=10), hub_record(START_US)]))
    state = HubState(tmp_path, 7, 10 * SECOND_US)
    assert len(state.updated(found).topics) == 1
    assert len(state.updated(found).topics) == 1
    assert len(state._replace(batch=8).updated(found).topics) == 2


def test_state_that_cannot_be_read_costs_its_records_only(tmp_path: Path) -> None:
    state = HubState(tmp_path, 1, 10 * SECOND_US)
    first, second = (
        samples_of(
            numbered("h/1", [topic_record(b"t", START_US + at, publications=10), hub_record(START_US + at)])
        )
        for at in (0, SECOND_US)
    )
    state.updated(first)
    next(tmp_path.rglob("*.arrow")).write_bytes(b"torn")
    window = state._replace(batch=2).updated(second)
    assert window.topics.column("time_us").to_pylist() == [START_US + SECOND_US]


def test_a_new_hub_is_rated_over_the_time_of_its_records() -> None:
    records = [topic_record(b"t", START_US, publications=100), hub_record(START_US)]
    view = view_after(numbered("h1", records))
    assert view.topic(b"t").publications_per_s == 100.0


def test_records_of_a_window_that_the_hub_has_not_closed_wait_for_its_end() -> None:
    first = [topic_record(b"t", START_US, publications=10), hub_record(START_US)]
    second = [topic_record(b"t", START_US + SECOND_US, publications=30), hub_record(START_US + SECOND_US)]
    records = numbered("h1", first + second)
    assert view_after(records[:3]).topic(b"t").publications_per_s == 10.0
    assert view_after(records[:3], records[3:]).topic(b"t").publications_per_s == 20.0


def test_clients_of_a_topic_that_has_moved_are_counted_at_its_new_home() -> None:
    seconds = range(6)
    left = [
        record
        for at in seconds
        for record in (
            *([topic_record(b"t", START_US + at * SECOND_US, subscribers=100)] if at < 2 else []),
            hub_record(START_US + at * SECOND_US),
        )
    ]
    taken = [
        record
        for at in seconds
        for record in (
            *([topic_record(b"t", START_US + at * SECOND_US, subscribers=90)] if at >= 2 else []),
            hub_record(START_US + at * SECOND_US),
        )
    ]
    assert view_after(numbered("h1", left) + numbered("h2", taken)).topic(b"t").subscribers == 90.0


def test_records_after_their_window_are_counted_as_late_and_left_out() -> None:
    window = SlidingWindow()
    window.add(samples_of(numbered("h1", [hub_record(START_US + 60 * SECOND_US)])))
    late = [topic_record(b"old", START_US), hub_record(START_US + 50 * SECOND_US)]
    assert window.add(samples_of(numbered("h2", late))) == Counter({"h2": 2})
    found = window.view()
    assert found is not None
    assert view_of(found).hubs.names == ["h1"]


def test_the_window_drops_older_records() -> None:
    window = SlidingWindow()
    for at in range(30):
        records = [
            topic_record(b"topic-%d" % at, START_US + at * SECOND_US),
            hub_record(START_US + at * SECOND_US),
        ]
        window.add(samples_of(numbered("h1", records)))
    found = window.view()
    assert found is not None
    assert sorted(view_of(found).topics.names) == sorted(b"topic-%d" % at for at in range(20, 30))
    assert len(window._topics) == 10


def test_the_store_defines_addresses_of_hubs_and_which_are_dead() -> None:
    records = numbered("h1", [hub_record(START_US)]) + numbered("h2", [hub_record(START_US)])
    entries = {
        "h1": HubEntry("h1", "127.0.0.1", 1, site="paris", rack="r1"),
        "h2": HubEntry("h2", "127.0.0.1", 2, is_alive=False),
    }
    view = view_after(records, entries=entries)
    assert (view.hub("h1").site, view.hub("h1").rack, view.hub("h1").is_alive) == ("paris", "r1", True)
    assert not view.hub("h2").is_alive


def test_there_is_no_view_before_a_hub_has_recorded_telemetry() -> None:
    assert SlidingWindow().view() is None
