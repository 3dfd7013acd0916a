"""Latencies from several hubs' records of a topic's clients, by cases and by property."""

from __future__ import annotations

import math
import random
from collections import Counter

import numpy as np
import pytest

from equipoise.coordinates import Coordinate
from equipoise.coordinates.centroid import ClientGroup, centroid_of
from equipoise.pipeline.samples import packed, sampled, unpacked_rows, where_rows
from equipoise.pipeline.settings import Plausible
from equipoise.pipeline.sliding_window import SlidingWindow
from equipoise.pipeline.validation import judged
from equipoise.view.view import View
from pipeline.places import SETTINGS, random_place, random_sides, side_told
from pipeline.records import (
    SECOND_US,
    START_US,
    Record,
    batch_of,
    hub_record,
    numbered,
    topic_record,
    view_of,
)


def place(east_s: float, height_s: float = 0.0) -> Coordinate:
    """On a line, as a round trip in seconds."""
    return Coordinate.of([east_s, *[0.0] * (SETTINGS.dimensions - 1), 0.1, height_s, 0.0], SETTINGS)


def view_of_records(*records: Record) -> View:
    batch = judged(batch_of(records), now_us=START_US + SECOND_US * 60, plausible=Plausible())
    assert batch.column("rejected").null_count == len(records)
    window = SlidingWindow()
    window.add(sampled([batch], Counter()))
    found = window.view()
    assert found is not None
    return view_of(found)


def hub_words(
    name: str, at: Coordinate | None, topic: Record | None = None, *, lag_us: int = 0, second: int = 0
) -> list[Record]:
    """One second of a hub with records of one topic."""
    at_us = START_US + second * SECOND_US
    own = hub_record(at_us, loop_lag_us_mean=lag_us, coordinate=None if at is None else at.to_bytes())
    topics = [] if topic is None else [topic_record(b"t", at_us, **topic)]
    return [record | {"sequence": 2 * second + n} for n, record in enumerate(numbered(name, [*topics, own]))]


PUBLISHERS = side_told("publishers", [place(0.00)], 5_000)
SUBSCRIBERS = side_told("subscribers", [place(0.08)], 7_000)


def test_the_worst_latency_is_the_longest_path_through_each_hub_and_the_home() -> None:
    home = hub_words("home", place(0.02), {"role": "home", **PUBLISHERS}, lag_us=300)
    relay = hub_words("relay", place(0.06, 0.002), {"role": "relay", **SUBSCRIBERS}, lag_us=90_000)
    topic = view_of_records(*home, *relay).topic(b"t")
    # 5 ms to the home, 0.3 ms in it, half of 42 ms to the relay, 7 ms from there.
    assert topic.latency_s_worst == pytest.approx(0.005 + 0.0003 + 0.021 + 0.007)
    assert topic.publishers_at == place(0.00)
    assert topic.subscribers_at == place(0.08)
    assert (topic.publishers_located, topic.subscribers_located) == (1, 1)
    assert topic.deviation_s == 0.0


def test_the_worst_latency_has_the_longest_wait_in_a_backlog() -> None:
    home = hub_words(
        "home", place(0.02), {"role": "home", **PUBLISHERS, **SUBSCRIBERS, "queue_us_max": 1_000}
    )
    queued = {"role": "relay", **SUBSCRIBERS, "queue_us_max": 50_000}
    relay = hub_words("relay", place(0.06), queued)
    assert view_of_records(*home).topic(b"t").latency_s_worst == pytest.approx(0.005 + 0.007 + 0.001)
    assert view_of_records(*home, *relay).topic(b"t").latency_s_worst == pytest.approx(
        0.005 + 0.02 + 0.007 + 0.05
    )


def test_a_hub_has_distance_0_from_itself_whatever_its_height() -> None:
    home = hub_words("home", place(0.02, height_s=0.5), {"role": "home", **PUBLISHERS, **SUBSCRIBERS})
    assert view_of_records(*home).topic(b"t").latency_s_worst == pytest.approx(0.012)


def test_a_home_without_a_coordinate_still_has_the_distances_of_its_own_clients() -> None:
    home = hub_words("home", None, {"role": "home", **PUBLISHERS, **SUBSCRIBERS})
    view = view_of_records(*home)
    assert view.topic(b"t").latency_s_worst == pytest.approx(0.012)
    assert view.hub("home").coordinate is None


@pytest.mark.parametrize(
    "records",
    [
        # A side without coordinates.
        hub_words("home", place(0.02), {"role": "home", **PUBLISHERS}),
        # A hub on the way that does not know where it is.
        [
            *hub_words("home", place(0.02), {"role": "home", **PUBLISHERS}),
            *hub_words("relay", None, {"role": "relay", **SUBSCRIBERS}),
        ],
        # No hub reports that it is the home.
        hub_words("relay", place(0.02), {"role": "relay", **PUBLISHERS, **SUBSCRIBERS}),
        # Another hub that has clients and reports nothing about them: an older one.
        [
            *hub_words("home", place(0.02), {"role": "home", **PUBLISHERS, **SUBSCRIBERS}),
            *hub_words("older", place(0.06), {"role": "relay", "subscribers": 3}),
        ],
        [
            *hub_words("home", place(0.02), {"role": "home", **PUBLISHERS, **SUBSCRIBERS}),
            *hub_words("relay", place(0.06), {"role": "relay", "publishers": 1, **SUBSCRIBERS}),
        ],
        # Or that there are none of whom it knows.
        [
            *hub_words("home", place(0.02), {"role": "home", **PUBLISHERS, **SUBSCRIBERS}),
            *hub_words("relay", place(0.06), {"role": "relay", "subscribers": 3, "subscribers_located": 0}),
        ],
        # A round trip that was not measured.
        hub_words(
            "home", place(0.02), {"role": "home", **PUBLISHERS, **SUBSCRIBERS, "subscribers_leg_us_max": None}
        ),
    ],
)
def test_a_latency_with_an_unknown_part_is_unknown(records: list[Record]) -> None:
    topic = view_of_records(*records).topic(b"t")
    assert math.isnan(topic.latency_s_worst)
    assert topic.publishers_at is not None


def test_new_clients_at_a_hub_with_located_clients_keep_the_latency_known() -> None:
    told = {"role": "home", "publishers": 4, "subscribers": 70, **PUBLISHERS, **SUBSCRIBERS}
    assert view_of_records(*hub_words("home", place(0.02), told)).topic(
        b"t"
    ).latency_s_worst == pytest.approx(0.012)


def test_a_forwarding_hub_without_clients_needs_no_coordinate() -> None:
    records = [
        *hub_words("home", place(0.02), {"role": "home", **PUBLISHERS, **SUBSCRIBERS}),
        *hub_words("relay", None, {"role": "relay"}),
    ]
    assert view_of_records(*records).topic(b"t").latency_s_worst == pytest.approx(0.012)


def test_the_home_is_the_last_hub_that_reported_it() -> None:
    records = [
        *hub_words("old", place(0.02), {"role": "home", **PUBLISHERS}, second=1),
        *hub_words("new", place(0.06), {"role": "home", **SUBSCRIBERS}, second=2),
    ]
    # The old one passes its publishers' messages on.
    expected_s = 0.005 + 0.020 + 0.007
    assert view_of_records(*records).topic(b"t").latency_s_worst == pytest.approx(expected_s)


def test_messages_in_a_lane_do_not_pass_the_trunks_home() -> None:
    records = [
        *hub_words("trunk", place(0.02), {"role": "home", **SUBSCRIBERS}),
        *hub_words("lane", place(0.06), {"role": "lane", **PUBLISHERS}),
    ]
    assert view_of_records(*records).topic(b"t").latency_s_worst == pytest.approx(0.012)


def test_records_of_clients_that_have_left_do_not_count() -> None:
    records = [
        *hub_words("old", place(0.9), {"role": "home", **PUBLISHERS, **SUBSCRIBERS}, second=0),
        *hub_words("old", place(0.9), second=4),
        *hub_words("new", place(0.06), {"role": "home", **PUBLISHERS, **SUBSCRIBERS}, second=4),
    ]
    topic = view_of_records(*records).topic(b"t")
    assert topic.publishers_located == 1
    assert topic.latency_s_worst == pytest.approx(0.012)


def test_a_topic_whose_last_record_has_no_clients_has_none() -> None:
    records = [
        *hub_words("home", place(0.02), {"role": "home", **PUBLISHERS, **SUBSCRIBERS}, second=0),
        *hub_words("home", place(0.02), {"role": "home"}, second=1),
    ]
    topic = view_of_records(*records).topic(b"t")
    assert (topic.publishers_at, topic.publishers_located) == (None, 0)
    assert math.isnan(topic.deviation_s)


def test_a_hub_is_at_its_last_coordinate() -> None:
    records = [*hub_words("h", place(0.01), second=0), *hub_words("h", place(0.02), second=1)]
    assert view_of_records(*records).hub("h").coordinate == place(0.02)
    records += hub_words("h", None, second=2)
    assert view_of_records(*records).hub("h").coordinate == place(0.02)


def test_a_view_has_no_coordinates_without_reports() -> None:
    view = view_of_records(*hub_words("h", None, {"role": "home"}))
    assert view.topics.publishers_at.shape == (1, 0)
    assert view.hubs.coordinate.shape == (1, 0)


@pytest.mark.parametrize("seed", range(50))
def test_no_client_of_any_hub_is_farther_than_the_merged_deviation_says(seed: int) -> None:
    rng = random.Random(seed)
    crowds = [[random_place(rng) for _ in range(rng.randrange(1, 6))] for _ in range(rng.randrange(1, 5))]
    records = [
        record
        for at, clients in enumerate(crowds)
        for record in hub_words(f"h{at}", None, {"role": "relay", **side_told("publishers", clients, 0)})
    ]
    topic = view_of_records(*records).topic(b"t")
    groups = [group for clients in crowds if (group := ClientGroup.of(clients)) is not None]
    weighed = centroid_of([group.centroid for group in groups for _ in range(group.count)])
    assert topic.publishers_at is not None
    assert topic.publishers_at.numbers == pytest.approx(weighed.numbers)
    for _ in range(20):
        hub = random_place(rng)
        farthest_s = max(_leg_s(client, hub) for clients in crowds for client in clients)
        assert farthest_s <= _leg_s(topic.publishers_at, hub) + topic.deviation_s + 2e-6


def _leg_s(client: Coordinate, hub: Coordinate) -> float:
    """As it is before a distance that would be negative is mended."""
    return (client.raw_distance_s(hub) + client.adjustment_s + hub.adjustment_s) / 2


def test_packed_columns_are_unpacked_wherever_they_are_cut() -> None:
    rng = random.Random(3)
    records = batch_of([topic_record(b"t", START_US, **random_sides(rng)) for _ in range(100)])
    rows, column = where_rows(records), packed(records)
    assert np.array_equal(unpacked_rows(column), rows, equal_nan=True)
    assert np.array_equal(unpacked_rows(column.slice(17, 40)), rows[17:57], equal_nan=True)
    assert np.array_equal(where_rows(records.slice(5, 20)), rows[5:25], equal_nan=True)
    cut = packed(records.slice(31, 50))
    assert np.array_equal(unpacked_rows(cut), rows[31:81], equal_nan=True)
