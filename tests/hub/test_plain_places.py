"""Locations of plain clients: the distance by the kernel's round trip, without a direction."""

from __future__ import annotations

import math

import pytest

from equipoise.coordinates import Coordinate, CoordinateSettings
from equipoise.hub.data.ports import NO_WIRE
from equipoise.hub.locations.client_location import behind
from equipoise.hub.locations.settings import CoordinatesSettings, TcpRttFor
from equipoise.hub.locations.topic_locations import PLAIN_REFRESH_S, STEP
from equipoise.hub.shell.tcp_info import round_trip_s
from equipoise.model import Specs, TopicSpec
from hub.live import Peer, live_hub, on_both_loops
from hub.metered import MeteredWorld
from hub.world import FakeClient

SETTINGS = CoordinateSettings()
HUB = Coordinate((0.01, *[0.0] * 7), 0.2, 0.003, 0.001)
OTHER = Coordinate((-0.02, *[0.0] * 7), 0.2, 0.002, -0.0005)


def plain(world: MeteredWorld, rtt_s: float | None) -> FakeClient:
    client = world.client()
    client.wire.rtt_s = rtt_s
    return client


@pytest.mark.parametrize("rtt_ms", [0.05, 5, 300])
def test_the_distance_of_a_client_without_direction_to_any_hub_goes_through_its_own_hub(
    rtt_ms: float,
) -> None:
    place = behind(HUB, rtt_ms / 1e3, SETTINGS)
    assert place.coordinate.distance_s(OTHER) == pytest.approx(rtt_ms / 1e3 + HUB.distance_s(OTHER))
    assert place.leg_s == rtt_ms / 2e3
    assert place.coordinate.error == SETTINGS.error_max


def test_plain_clients_are_recorded_at_the_kernels_distance() -> None:
    world = MeteredWorld()
    plain(world, 0.020).do("SUBSCRIBE", "t")
    plain(world, 0.030).do("SUBSCRIBE", "t")
    plain(world, None).do("SUBSCRIBE", "t")
    plain(world, 0.007).do("PUBLISH", "t", "x")
    record = world.topics()[b"t"]
    assert (record["subscribers_located"], record["subscribers"]) == (2, 3)
    assert record["subscribers_leg_us_max"] == 15_000
    # Their mean is at 25 ms. Drawn four times towards the farther one, the point reported is at 29 ms: 1 ms of
    # round trip below it. Bounds are rounded up.
    assert record["subscribers_deviation_us"] == pytest.approx(500, abs=1)
    assert (record["publishers_located"], record["publishers_leg_us_max"]) == (1, 3_500)
    at = Coordinate.from_bytes(record["publishers_at"], SETTINGS)
    assert at.height_s == pytest.approx(0.007 + SETTINGS.height_s_min)


def test_the_report_of_a_client_takes_precedence_over_the_kernel() -> None:
    world = MeteredWorld()
    client = plain(world, 0.020)
    client.do("SUBSCRIBE", "t")
    assert world.topics()[b"t"]["subscribers_leg_us_max"] == 10_000
    client.do("EQ.WHERE", "4000", OTHER.to_bytes())
    other = world.client()
    for _ in range(math.ceil(PLAIN_REFRESH_S) + 1):
        other.do("PUBLISH", "t", "x")
        record = world.topics()[b"t"]
    assert record["subscribers_leg_us_max"] == 2_000
    assert world.core.places.located == 1


def test_a_longer_round_trip_is_noticed_after_a_while() -> None:
    world = MeteredWorld()
    client = plain(world, 0.020)
    client.do("SUBSCRIBE", "t")
    other = plain(world, None)
    other.do("PUBLISH", "t", "x")
    world.end_window()
    client.wire.rtt_s = 0.080
    legs_us = []
    for _ in range(math.ceil(PLAIN_REFRESH_S) + 2):
        other.do("PUBLISH", "t", "x")
        legs_us.append(world.topics()[b"t"]["subscribers_leg_us_max"])
    assert legs_us[0] == 10_000
    assert legs_us[-1] == 40_000


def test_the_kernel_is_queried_periodically_however_many_topics_there_are() -> None:
    world = MeteredWorld()
    asked = []
    ask = world.shell.round_trip_s
    world.shell.round_trip_s = lambda wire: asked.append(wire) or ask(wire)  # type: ignore[method-assign,func-returns-value]  # count, then ask
    client = plain(world, 0.020)
    client.do_all("SUBSCRIBE", *[f"t{i}" for i in range(50)])
    other = plain(world, 0.010)
    for _ in range(4):
        for i in range(50):
            other.do("PUBLISH", f"t{i}", "x")
        world.end_window()
    assert len(asked) == 2
    assert world.core.places.read == 2


def test_the_kernel_is_not_queried_for_clients_that_use_no_topic() -> None:
    world = MeteredWorld()
    plain(world, 0.020).do("PING")
    world.end_window()
    assert world.core.places.read == 0


def test_a_setting_turns_it_off() -> None:
    world = MeteredWorld(coordinates=CoordinatesSettings(tcp_rtt_for=TcpRttFor.NONE))
    plain(world, 0.020).do("SUBSCRIBE", "t")
    assert world.topics()[b"t"]["subscribers_located"] is None
    assert world.core.places.read == 0


def test_by_default_the_kernel_is_queried_for_topics_with_a_latency_limit_only() -> None:
    world = MeteredWorld(coordinates=CoordinatesSettings())
    client = plain(world, 0.020)
    client.do_all("SUBSCRIBE", "game/1", "chat")
    assert world.topics()[b"game/1"]["subscribers_located"] is None
    assert world.core.places.read == 0
    world.core.places.follow(
        Specs([TopicSpec(pattern=b"game/*", latency_ms=40), TopicSpec(pattern=b"chat", site="paris")])
    )
    other = world.client()
    found = {}
    for _ in range(math.ceil(PLAIN_REFRESH_S) + 1):
        other.do("PUBLISH", "game/1", "x")
        other.do("PUBLISH", "chat", "x")
        found = world.topics()
    assert found[b"game/1"]["subscribers_located"] == 1
    assert found[b"chat"]["subscribers_located"] is None
    world.core.places.follow(Specs())
    other.do("PUBLISH", "game/1", "x")
    assert world.topics()[b"game/1"]["subscribers_located"] is None


def test_readings_end_with_their_connections() -> None:
    world = MeteredWorld()
    client = plain(world, 0.020)
    client.do("SUBSCRIBE", "t")
    world.end_window()
    assert world.core.places.read == 1
    client.send("QUIT")
    world.advance()
    assert world.core.places.read == 0


def test_a_client_that_leaves_during_the_scan_of_a_large_topic_leaves_no_state() -> None:
    world = MeteredWorld()
    clients = [plain(world, 0.020) for _ in range(2 * STEP + 100)]
    for client in clients:
        client.do("SUBSCRIBE", "t")
    topic = world.core.index.topics[b"t"]
    hub = world.core.places.own
    assert hub is not None and topic.meter is not None
    looking = world.core.places.renewing.renew([topic])
    # The topics are gone through, and the first clients looked at.
    next(looking)
    next(looking)
    for client in clients[-100:]:
        client.send("QUIT")
    world.advance()
    for _ in looking:
        pass
    assert len(world.core.places._readings) == len(clients) - 100


def test_without_the_kernel_disconnected_clients_are_not_recorded() -> None:
    world = MeteredWorld(coordinates=CoordinatesSettings(tcp_rtt_for=TcpRttFor.NONE))
    teller, silent = world.client(), world.client()
    teller.do("EQ.WHERE", "1000", Coordinate((0.01,) * 8, 0.1, 0.001).to_bytes())
    teller.do("SUBSCRIBE", "t")
    silent.do("SUBSCRIBE", "t")
    assert world.topics()[b"t"]["subscribers_located"] == 1
    teller.send("QUIT")
    world.advance()
    silent.do("PUBLISH", "t", "x")
    assert world.topics()[b"t"]["subscribers_located"] is None


def test_a_client_cannot_report_a_shorter_distance_than_the_kernels() -> None:
    world = MeteredWorld()
    probing = world.core.places.probing
    probing.estimator.coordinate = Coordinate((0.01,) * 8, 0.1, 0.015)
    liar = plain(world, 0.080)
    liar.do("EQ.WHERE", "1", Coordinate((0.01,) * 8, 0.1, 0.001).to_bytes())
    assert not probing.is_flat
    neighbour = plain(world, 0.002)
    neighbour.do("EQ.WHERE", "2000", Coordinate((0.01,) * 8, 0.1, 0.001).to_bytes())
    assert probing.is_flat


def test_the_round_trip_is_unknown_without_a_connection() -> None:
    assert round_trip_s(NO_WIRE) is None


@on_both_loops
async def test_on_loopback_the_kernels_round_trip_is_above_0_and_below_50_ms() -> None:
    async with live_hub() as hub, Peer.connected(hub) as listener, Peer.connected(hub) as talker:
        await listener.do("SUBSCRIBE", "t")
        for _ in range(10):
            await talker.do("PUBLISH", "t", "x")
            await listener.read()
        for session in hub.core.sessions.values():
            rtt_s = round_trip_s(session.wire)
            assert rtt_s is not None and 0 < rtt_s < 0.050
            own = hub.core.places.own
            assert own is not None and hub.core.places.of(session, own, hub.core.now()) is not None
