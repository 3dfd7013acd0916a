"""Swarms over a small city: the world matches its description, topics follow their swarms, faults lose no message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np
import pytest

from equipoise.lab.experiments.epulsar_limits import Compared
from equipoise.lab.experiments.epulsar_patrol import EXPERIMENT_8
from equipoise.lab.experiments.epulsar_swarms import (
    STAMP,
    Change,
    Mission,
    Patrol,
    fly,
    limit_s,
    topics_of,
    unheard,
)
from equipoise.lab.experiments.epulsar_worlds import City, Flight, air, site
from equipoise.lab.experiments.meter import Latencies, Meter

SMALL = City(zones=2, side_m=4_000.0)


def test_a_zone_is_near_its_own_site_and_as_far_from_all_others() -> None:
    network = City().network()
    assert network.link(air(0), site(0)).latency_s == pytest.approx(0.0025, abs=0.0003)
    assert network.link(site(0), site(1)).latency_s == pytest.approx(0.015, abs=0.0003)
    assert network.link(air(0), site(1)).latency_s == pytest.approx(0.0175, abs=0.0003)
    assert network.link("cloud", air(2)).latency_s == pytest.approx(0.0425, abs=0.0003)


def test_a_swarm_flies_at_its_speed_and_stays_in_the_city() -> None:
    city = City()
    flight, centres_m = Flight(city, Random(1).random), city.centres_m
    before = flight.at
    for _ in range(500):
        zone = flight.advance(1.0)
        at = flight.at
        assert np.hypot(at[0] - before[0], at[1] - before[1]) <= city.speed_m_per_s + 1e-6
        assert min(at) >= 0
        assert max(at) <= city.side_m
        assert zone == int(((centres_m - np.array(at)) ** 2).sum(axis=1).argmin())
        before = at


def patrol(worst_ms: Sequence[float], *changes: Change) -> Patrol:
    latencies = Latencies(len(worst_ms), 0.0)
    for second, latency_ms in enumerate(worst_ms):
        latencies.note(topics_of(0)[0], second + 0.5, latency_ms / 1_000)
    mission = Mission(city=SMALL, swarms=1, seconds=len(worst_ms))
    return Patrol(mission=mission, latencies=latencies, meter=Meter(), changes=changes, moves=())


def test_a_swarm_is_back_once_it_stays_under_the_limit() -> None:
    seen = patrol([5] * 4 + [35, 35, 5, 35, 35] + [5] * 20, Change(4.0, 0, 1))
    assert list(seen.recoveries_s().values()) == [5.0]


def test_a_swarm_that_never_recovers_is_reported_unless_the_run_ends() -> None:
    never = patrol([35] * 40, Change(4.0, 0, 1))
    assert list(never.recoveries_s().values()) == [float("inf")]
    assert not EXPERIMENT_8.judge(Compared(never, never)).claims[0].holds
    brief = patrol([35] * 40, Change(4.0, 0, 1), Change(10.0, 0, 0), Change(30.0, 0, 1))
    assert list(brief.recoveries_s()) == [Change(10.0, 0, 0)]


@pytest.fixture(scope="module")
def flown() -> Patrol:
    return fly(
        Mission(city=SMALL, swarms=2, drones=3, messages_per_s=5.0, seconds=80, settle_s=40.0, begin_s=25.0)
    )


def test_topics_follow_their_swarms(flown: Patrol) -> None:
    recoveries = flown.recoveries_s()
    assert len(recoveries) >= 2
    assert max(recoveries.values()) <= 15.0
    assert flown.moves
    assert flown.latencies.share_above(limit_s()) < 0.25


def test_nothing_is_lost_on_the_way(flown: Patrol) -> None:
    assert flown.meter.deliveries > 1_000
    assert flown.meter.lost == 0


def test_with_hashing_topics_stay_where_the_ring_puts_them() -> None:
    hashed = fly(
        Mission(
            city=SMALL, swarms=2, drones=2, messages_per_s=5.0, seconds=20, settle_s=5.0, is_planned=False
        )
    )
    assert hashed.moves == ()
    assert hashed.meter.lost == 0


@dataclass
class FakePlayer:
    said: bytes = b""
    heard: dict[bytes, bytes] = field(default_factory=dict)


def test_a_last_message_counts_for_every_client_that_missed_it() -> None:
    speaker = FakePlayer(STAMP % (12.5, 7))
    current, behind, deaf = FakePlayer(), FakePlayer(), FakePlayer()
    current.heard[b"0007"] = speaker.said
    behind.heard[b"0007"] = STAMP % (12.4, 7)
    assert unheard(speaker, [current, behind, deaf]) == 2
