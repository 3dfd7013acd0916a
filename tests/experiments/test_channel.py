"""One channel on one server and on three: what a processor can do, by arithmetic, and the search for its limit."""

from __future__ import annotations

import pytest

from equipoise.lab.experiments.channel import ChannelWorld, Point, capacity, measure
from equipoise.lab.simulation.cpu import MEASURED
from equipoise.model import Mode

SPEED = 0.01


def cost_s(publishers: int, subscribers: int) -> float:
    """What one message of each publisher costs a server at speed 1, but for bytes."""
    replies_and_deliveries = (1 + subscribers) * MEASURED.written_chunk_s
    return publishers * (MEASURED.received_chunk_s + replies_and_deliveries)


def point(clients: int, p99: float, delivered: int = 10) -> Point:
    return Point(
        clients=clients,
        response_s_mean=p99,
        response_s_p99=p99,
        expected=10,
        delivered=delivered,
        cpu_ratio_max=0.5,
        missed=0,
    )


def test_every_subscriber_gets_every_message_at_the_computed_processor_load() -> None:
    found = measure(ChannelWorld(publishers=1, subscribers=40, cpu_speed=SPEED, duration_s=4.0))
    assert found.delivered == found.expected == 40 * 40
    assert found.missed == 0
    # Bytes, telemetry and pings come on top of the messages.
    assert found.cpu_ratio_max == pytest.approx(10 * cost_s(1, 40) / SPEED, rel=0.15)


def test_an_overloaded_server_is_late_and_loses_nothing() -> None:
    found = measure(ChannelWorld(publishers=1, subscribers=300, cpu_speed=SPEED, duration_s=2.0))
    assert 10 * cost_s(1, 300) / SPEED > 1
    assert found.delivered == found.expected
    assert found.response_s_p99 > 0.5
    assert not found.is_within(0.3)


@pytest.mark.parametrize(
    ("mode", "publishers", "subscribers"), [(Mode.ALL_PUBLISHERS, 1, 90), (Mode.ALL_SUBSCRIBERS, 60, 1)]
)
def test_three_servers_share_the_work_of_one(mode: Mode, publishers: int, subscribers: int) -> None:
    one = ChannelWorld(publishers=publishers, subscribers=subscribers, cpu_speed=0.05, duration_s=2.0)
    three = ChannelWorld(
        publishers=publishers, subscribers=subscribers, cpu_speed=0.05, duration_s=2.0, servers=3, mode=mode
    )
    alone, shared = measure(one), measure(three)
    assert shared.delivered == shared.expected == alone.expected
    assert shared.missed == 0
    assert shared.cpu_ratio_max < 0.65 * alone.cpu_ratio_max


def test_the_same_seed_gives_the_same_point() -> None:
    channel = ChannelWorld(publishers=2, subscribers=10, duration_s=1.0, servers=3, mode=Mode.ALL_PUBLISHERS)
    assert measure(channel) == measure(channel)


@pytest.mark.parametrize("limit", [1, 57, 99])
def test_the_limit_is_found_to_within_a_step(limit: int) -> None:
    asked: list[int] = []

    def at(clients: int) -> Point:
        asked.append(clients)
        return point(clients, 0.1 if clients <= limit else 0.9)

    found = capacity(at, 0, 100, 0.3, step=2)
    assert found <= limit < found + 2
    assert len(asked) <= 6


def test_a_load_with_missing_deliveries_does_not_count() -> None:
    assert point(5, 0.1).is_within(0.3)
    assert not point(5, 0.1, delivered=9).is_within(0.3)
