"""EQ.WHERE: a hub replies with its coordinate, and receives those of its clients."""

from __future__ import annotations

import math
import struct

import pytest

from equipoise.coordinates import Coordinate, CoordinateSettings
from equipoise.hub.cluster import Routing
from equipoise.hub.locations.client_location import Place
from equipoise.hub.locations.settings import CoordinatesSettings, TcpRttFor
from hub.cluster.hubs import Hubs
from hub.metered import MeteredWorld
from hub.world import Error, FakeClient, World, users

SETTINGS = CoordinateSettings()


def coordinate(x_ms: float = 0.0, height_ms: float = 1.0) -> Coordinate:
    return Coordinate((x_ms / 1e3, *[0.0] * 7), 0.1, height_ms / 1e3)


def place_of(world: World, client: FakeClient) -> Place | None:
    hub = world.core.places.own
    assert hub is not None
    return world.core.places.of(client.session, hub, world.shell.now())


@pytest.mark.parametrize("proto", [2, 3])
def test_a_hub_alone_is_at_the_origin_with_full_confidence(proto: int) -> None:
    reply = World().client(proto).do("EQ.WHERE")
    told = Coordinate.from_bytes(reply, SETTINGS)
    assert (told.point_s, told.error) == ((0.0,) * 8, 0.0)


@pytest.mark.parametrize("proto", [2, 3])
def test_a_hub_without_information_about_its_cluster_reports_no_coordinate(proto: int) -> None:
    node = Hubs("h1")["h1"]
    assert isinstance(node.client(proto).do("EQ.WHERE"), bytes), "it is the only member, and alive"
    node.cluster.router.routing = Routing()
    assert node.client(proto).do("EQ.WHERE") is None


@pytest.mark.parametrize("proto", [2, 3])
def test_a_client_that_reports_its_coordinate_gets_the_hubs(proto: int) -> None:
    world = World()
    client = world.client(proto)
    reply = client.do("EQ.WHERE", "2500", coordinate(7).to_bytes())
    assert reply == client.do("EQ.WHERE")
    place = place_of(world, client)
    assert place is not None and (place.coordinate, place.leg_s) == (coordinate(7), 0.00125)


def test_a_round_trip_that_was_not_measured_is_zero() -> None:
    world = World()
    client = world.client()
    client.do("EQ.WHERE", "0", coordinate(7).to_bytes())
    place = place_of(world, client)
    assert place is not None and place.leg_s is None


def test_a_subscriber_may_report_its_coordinate_on_its_own_connection_in_resp2() -> None:
    client = World().client(2)
    client.do("SUBSCRIBE", "t")
    assert isinstance(client.do("EQ.WHERE", "1", coordinate().to_bytes()), bytes)


def numbers(*changed: tuple[int, float]) -> bytes:
    values = list(coordinate().numbers)
    for index, value in changed:
        values[index] = value
    return struct.pack("<11d", *values)


@pytest.mark.parametrize(
    "words",
    [
        ("1",),
        ("1", b"x", "2"),
        ("-1", numbers()),
        ("1_0", numbers()),
        ("1.5", numbers()),
        ("x", numbers()),
        ("", numbers()),
        ("²", numbers()),
        ("9" * 4_000, numbers()),
        ("10000001", numbers()),
        ("1", b""),
        ("1", numbers()[:-1]),
        ("1", numbers() + b"\0" * 8),
        ("1", numbers((0, math.nan))),
        ("1", numbers((3, math.inf))),
        ("1", numbers((3, -1e300))),
        ("1", numbers((8, -0.1))),
        ("1", numbers((9, -0.1))),
        ("1", numbers((10, 20.1))),
    ],
)
def test_an_invalid_report_is_rejected_and_the_last_coordinate_stays(words: tuple[str | bytes, ...]) -> None:
    world = World()
    client = world.client()
    client.do("EQ.WHERE", "2000", coordinate(5).to_bytes())
    reply = client.do("EQ.WHERE", *words)
    assert isinstance(reply, Error) and reply.startswith("ERR ")
    place = place_of(world, client)
    assert place is not None and (place.coordinate, place.leg_s) == (coordinate(5), 0.001)
    assert client.is_connected()


def told(world: World, client: FakeClient, rtt_ms: float, place: Coordinate) -> Place:
    """The hub's result for a client's report."""
    assert isinstance(client.do("EQ.WHERE", str(round(1e3 * rtt_ms)), place.to_bytes()), bytes)
    found = place_of(world, client)
    assert found is not None
    return found


# The kernel's round trip, the reported one, the distance of the coordinate; and whether the report is accepted.
SAYINGS = [
    (5, 5, 6, True),
    (5, 0, 6, True),
    # Connections end at a load balancer, or the client has just changed its gateway.
    (0.1, 240, 240, True),
    (5, 5, 269, True),
    (100, 100, 600, True),
    # The client is nearer than the kernel's round trip: packets waited in between.
    (80, 5, 5, True),
    (5, 5, 271, False),
    (5, 271, 6, False),
    (5, 0, 9_000, False),
    (100, 100, 651, False),
    # Only the client has measured; or neither has.
    (None, 100, 600, True),
    (None, 5, 300, False),
    (None, 0, 9_000, True),
]


@pytest.mark.parametrize(("kernel_ms", "told_ms", "far_ms", "is_believed"), SAYINGS)
def test_a_report_is_accepted_if_its_distance_is_possible(
    kernel_ms: float | None, told_ms: float, far_ms: float, is_believed: bool
) -> None:
    world = World()
    client = world.client()
    client.wire.rtt_s = None if kernel_ms is None else kernel_ms / 1e3
    where = coordinate(far_ms - 1)
    place = told(world, client, told_ms, where)
    assert world.info("clients_with_implausible_coordinate") == str(int(not is_believed))
    if is_believed:
        assert place.coordinate == where
        return
    rtt_ms = told_ms if kernel_ms is None else kernel_ms
    assert place.leg_s == pytest.approx(rtt_ms / 2e3)
    assert place.coordinate.point_s == (0.0,) * 8
    assert place.coordinate.height_s == pytest.approx(rtt_ms / 1e3, abs=1e-4)


def test_a_rejected_client_is_accepted_again_and_removed_when_it_disconnects() -> None:
    world = World()
    client = world.client()
    client.wire.rtt_s = 0.005
    told(world, client, 5, coordinate(2_000))
    assert (world.core.places.located, world.core.places.doubted) == (1, 1)
    assert told(world, client, 5, coordinate(6)).coordinate == coordinate(6)
    assert world.core.places.doubted == 0
    told(world, client, 5, coordinate(2_000))
    client.send("QUIT")
    world.advance()
    assert world.core.places.doubted == 0


def test_without_kernel_queries_reports_are_not_compared_with_the_kernel() -> None:
    world = MeteredWorld(coordinates=CoordinatesSettings(tcp_rtt_for=TcpRttFor.NONE))
    client = world.client()
    client.wire.rtt_s = 0.000_1
    assert told(world, client, 400, coordinate(400)).coordinate == coordinate(400)


def test_the_accepted_deviation_is_a_setting() -> None:
    world = MeteredWorld(coordinates=CoordinatesSettings(distance_slack_s=0.01))
    client = world.client()
    client.wire.rtt_s = 0.005
    assert told(world, client, 5, coordinate(25)).coordinate == coordinate(25)
    assert told(world, client, 5, coordinate(35)).coordinate != coordinate(35)


def test_an_unauthenticated_client_gets_no_coordinate() -> None:
    world = World(users(ann='subscribe = ["*"]'))
    assert world.client().do("EQ.WHERE").startswith("NOAUTH")
    assert isinstance(world.client(user="ann").do("EQ.WHERE"), bytes)


def test_coordinates_end_with_their_connections_and_with_reset() -> None:
    world = World()
    gone, cleared = world.client(), world.client()
    for client in (gone, cleared):
        client.do("EQ.WHERE", "1", coordinate().to_bytes())
    assert world.core.places.located == 2
    cleared.do("RESET")
    gone.send("QUIT")
    world.advance()
    assert world.core.places.located == 0


def test_the_hub_records_its_coordinate() -> None:
    record = MeteredWorld().hub()
    assert Coordinate.from_bytes(record["coordinate"], SETTINGS).point_s == (0.0,) * 8


def test_info_shows_the_coordinate_of_the_hub_and_the_number_of_located_clients() -> None:
    world = World()
    client = world.client()
    client.do("EQ.WHERE", "1", coordinate().to_bytes())
    assert world.info("coordinate_known") == "1"
    assert world.info("coordinate_point_ms") == ",".join(["0.000"] * 8)
    assert (world.info("probed_hubs"), world.info("probes_sent"), world.info("clients_with_coordinate")) == (
        "0",
        "0",
        "1",
    )
