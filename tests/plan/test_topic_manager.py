"""ePulsar's manager as published, and the baseline that knows every client."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from equipoise.coordinates import Coordinate
from equipoise.model import Specs, TopicSpec
from equipoise.plan import AllPairs, TopicManager
from equipoise.plan.policies.topic_manager import excess_rates, topics_to_shed
from equipoise.view import HubView, View
from plan.near import at, hub, near
from plan.small import decide, moved, topic

HUBS = (hub("a", 10), hub("b", 40), hub("c", 80))
LIMIT = Specs([TopicSpec(pattern=b"near*", latency_ms=30)])


@pytest.mark.parametrize(
    "rates, excess, shed",
    [
        ([10.0, 50.0, 30.0], 0.0, []),
        ([10.0, 50.0, 30.0], 1.0, [1]),
        ([10.0, 50.0, 30.0], 50.0, [1]),
        ([10.0, 50.0, 30.0], 51.0, [1, 2]),
        ([10.0, 50.0, 30.0], 500.0, [1, 2, 0]),
        ([], 5.0, []),
    ],
)
def test_the_topics_with_the_most_messages_go_until_it_is_enough(
    rates: list[float], excess: float, shed: list[int]
) -> None:
    assert topics_to_shed(np.array(rates), excess).tolist() == shed


@pytest.mark.parametrize(
    "known, excess",
    [
        ({"cpu_ratio": 0.80}, 0.0),
        ({"cpu_ratio": 1.0}, 0.15 * 1000),
        ({"memory_bytes": 95.0, "memory_bytes_max": 100.0}, (1 - 0.85 / 0.95) * 1000),
        ({"out_bytes_per_s": 90.0, "out_bytes_per_s_max": 100.0}, (1 - 0.85 / 0.90) * 1000),
        ({"out_bytes_per_s": 90.0}, 0.0),
    ],
)
def test_a_broker_is_overloaded_above_85_percent_of_any_resource(
    known: dict[str, float], excess: float
) -> None:
    busy = replace(HubView(name="a", publications_per_s=100, deliveries_per_s=900), **known)  # type: ignore[arg-type]
    assert excess_rates(View.of(1.0, hubs=[busy]), 0.85, 1e9).tolist() == [pytest.approx(excess)]


def test_a_broker_is_overloaded_above_its_rate_of_messages() -> None:
    busy = HubView(name="a", deliveries_per_s=900)
    assert excess_rates(View.of(1.0, hubs=[busy]), 0.85, 700).tolist() == [200]


def test_a_topic_above_its_limit_is_moved_at_the_first_view() -> None:
    rows = [near("near/1", 0.1, "c", [at(0)], [at(0)], HUBS)]
    assert moved(decide(rows, HUBS, policy=TopicManager(), specs=LIMIT)) == {"near/1": ("a",)}


def test_a_shed_topic_goes_to_the_nearest_broker_that_stays_below_85_percent() -> None:
    rows = [
        near("heavy", 0.5, "a", [at(0)], [at(0)], HUBS),
        near("light", 0.4, "a", [at(0)], [at(0)], HUBS),
        topic("other", 0.6, "b"),
    ]
    hubs = [replace(one, publications_per_s=20, deliveries_per_s=200) for one in HUBS]
    assert moved(decide(rows, hubs, policy=TopicManager(), specs=LIMIT)) == {"heavy": ("c",)}


def test_knowing_every_client_finds_a_hub_where_centroids_find_none() -> None:
    """Clients on both sides of a hub: the centroid is at the hub, and the added distance counts twice."""
    hubs = (hub("far", 200), hub("left", -20), hub("middle", 0))
    publishers, subscribers = [at(-30), at(30)], [at(-30), at(30), at(0, 40)]
    rows = [near("near/1", 0.1, "far", publishers, subscribers, hubs)]
    limit = Specs([TopicSpec(pattern=b"near*", latency_ms=36)])
    clients: dict[bytes, tuple[list[Coordinate], list[Coordinate]]] = {b"near/1": (publishers, subscribers)}
    by_centroid = decide(rows, hubs, policy=TopicManager(), specs=limit)
    by_pairs = decide(rows, hubs, policy=AllPairs(clients), specs=limit)
    assert moved(by_pairs) == {"near/1": ("middle",)}
    # Its choices are all hubs then, the nearest first: the same one.
    assert moved(by_centroid) == {"near/1": ("middle",)}
    choices = [outcome.change.entries[0].why.numbers["choices"] for outcome in (by_pairs, by_centroid)]
    assert choices == [1, 3]
