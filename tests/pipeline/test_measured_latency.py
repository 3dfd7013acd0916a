"""Measured latency in views: what hubs measured of connections, links, loops and backlogs, added up."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from equipoise.pipeline.measured_latency import MeasuredRows, measured_latency
from equipoise.pipeline.samples import (
    DELAYS,
    HOME_DELAY,
    MEASURED,
    SIDE_NUMBERS,
    SIDES,
    WHERE_NUMBERS,
)
from equipoise.view.schema import MEASURED_QUANTILES
from pipeline.places import random_place, side_told
from pipeline.records import Record
from pipeline.test_gathering import hub_words, place, view_of_records

LEVELS = ("p50", "p90", "p99", "max")


def side(name: str, count: int, *delays_us: int) -> Record:
    told = side_told(name, [place(0.05)] * count, max(delays_us))
    delays = {f"{name}_delay_us_{level}": delay for level, delay in zip(LEVELS, delays_us, strict=True)}
    return {name: count, **told, f"{name}_measured": count, **delays}


PUBLISHER = side("publishers", 1, 1_000, 1_000, 1_000, 1_000)
CROWD = side("subscribers", 200, 2_000, 5_000, 20_000, 90_000)


def quantiles_ms(*records: Record) -> list[float]:
    topic = view_of_records(*records).topic(b"t")
    found = (topic.latency_s_p50, topic.latency_s_p90, topic.latency_s_p99, topic.latency_s_max)
    return [1e3 * value for value in found]


def test_both_sides_add_up_quantile_by_quantile() -> None:
    home = hub_words("home", place(0.02), {"role": "home", **PUBLISHER, **CROWD})
    assert quantiles_ms(*home) == pytest.approx([3.0, 6.0, 21.0, 91.0])


def test_the_latency_between_hubs_is_the_measured_one_and_not_that_of_coordinates() -> None:
    # By their coordinates the hubs are 100 ms apart; the links between them take 2 ms there and back.
    home = hub_words("home", place(0.0), {"role": "home", **PUBLISHER})
    relay = hub_words("relay", place(0.1), {"role": "relay", **CROWD, "home_delay_us": 1_000})
    assert quantiles_ms(*home, *relay) == pytest.approx([4.0, 7.0, 22.0, 92.0])
    assert view_of_records(*home, *relay).topic(b"t").latency_s_worst > 0.05


def test_a_message_waits_for_the_homes_loop_at_its_quantiles() -> None:
    records = hub_words("home", place(0.0), {"role": "home", **PUBLISHER, **CROWD})
    lags = {
        "loop_lag_us_p50": 400,
        "loop_lag_us_p90": 2_000,
        "loop_lag_us_p99": 20_000,
        "loop_lag_us_max": 50_000,
    }
    records[-1] |= lags
    assert quantiles_ms(*records) == pytest.approx([3.4, 8.0, 41.0, 141.0])


@pytest.mark.parametrize(
    ("queued", "expected"),
    [
        (1, [3.0, 6.0, 21.0, 2_091.0]),
        (3, [3.0, 6.0, 2_021.0, 2_091.0]),
        (30, [3.0, 2_006.0, 2_021.0, 2_091.0]),
        (150, [2_003.0, 2_006.0, 2_021.0, 2_091.0]),
    ],
)
def test_queueing_counts_for_as_many_as_lag(queued: int, expected: list[float]) -> None:
    topic = {"role": "home", **PUBLISHER, **CROWD, "queue_us_max": 2_000_000, "subscribers_queued": queued}
    assert quantiles_ms(*hub_words("home", place(0.0), topic)) == pytest.approx(expected)


@pytest.mark.parametrize(
    "records",
    [
        hub_words("home", place(0.0), {"role": "home", **PUBLISHER}),
        hub_words("relay", place(0.0), {"role": "relay", **PUBLISHER, **CROWD, "home_delay_us": 5}),
        # A link that no probe has crossed yet.
        [
            *hub_words("home", place(0.0), {"role": "home", **PUBLISHER}),
            *hub_words("relay", place(0.1), {"role": "relay", **CROWD}),
        ],
        # An older hub with subscribers of its own.
        [
            *hub_words("home", place(0.0), {"role": "home", **PUBLISHER, **CROWD}),
            *hub_words("older", place(0.1), {"role": "relay", "subscribers": 3}),
        ],
        # Clients that report a coordinate and no round trip.
        hub_words("home", place(0.0), {"role": "home", **PUBLISHER, **CROWD, "subscribers_measured": 0}),
    ],
)
def test_latencies_without_measurements_are_unknown(records: list[Record]) -> None:
    assert all(math.isnan(value) for value in quantiles_ms(*records))


@pytest.mark.parametrize("seed", range(30))
def test_over_several_hubs_no_quantile_is_below_that_of_the_clients_themselves(seed: int) -> None:
    rng = random.Random(seed)
    hubs, topics = rng.randrange(1, 5), rng.randrange(1, 4)
    legs: dict[tuple[int, str], list[float]] = {}
    rows: list[tuple[int, bool, np.ndarray[Any, Any]]] = []
    homes = np.full(topics, -1)
    for topic in range(topics):
        for hub in range(hubs):
            where = np.full(WHERE_NUMBERS, np.nan)
            hop = 0.0 if hub == 0 else rng.uniform(0, 0.05)
            where[HOME_DELAY] = hop
            for at, name in enumerate(SIDES):
                delays = sorted(rng.expovariate(50) for _ in range(rng.choice((0, 1, 3, 40, 250))))
                own = where[at * SIDE_NUMBERS : (at + 1) * SIDE_NUMBERS]
                own[MEASURED] = len(delays)
                if delays:
                    own[DELAYS] = [delays[math.ceil(q * len(delays)) - 1] for q in MEASURED_QUANTILES]
                legs.setdefault((topic, name), []).extend(delay + hop for delay in delays)
            if hub == 0:
                homes[topic] = len(rows)
            rows.append((topic, hub == 0, where))
    count = len(rows)
    zeros = np.zeros(count)
    found = measured_latency(
        MeasuredRows(
            topic=np.array([row[0] for row in rows]),
            is_numbering=np.array([row[1] for row in rows]),
            where=np.array([row[2] for row in rows]),
            clients=np.zeros((count, 2)),
            lag_s=np.zeros((count, len(MEASURED_QUANTILES))),
            queue_s=zeros,
            queued=zeros,
            throttle_s=zeros,
        ),
        homes,
        topics,
    )
    for topic in range(topics):
        sides = [sorted(legs[topic, name]) for name in SIDES]
        for level, quantile in enumerate(MEASURED_QUANTILES):
            if not all(sides):
                assert math.isnan(found[topic, level])
                continue
            exact = sum(one[math.ceil(quantile * len(one)) - 1] for one in sides)
            most = sum(one[-1] for one in sides)
            assert exact - 1e-9 <= found[topic, level] <= most + 1e-9
            if quantile == 1.0 or hubs == 1:
                assert found[topic, level] == pytest.approx(exact)


def test_impossible_numbers_are_rejected() -> None:
    rng = random.Random(1)
    told = side_told("publishers", [random_place(rng)], 5)
    for name in ("publishers_measured", "publishers_delay_us_max", "home_delay_us"):
        with pytest.raises(AssertionError):
            view_of_records(*hub_words("home", place(0.0), {"role": "home", **told, name: 1 << 40}))
