"""EQ.WHERE: a hub tells where it is, and hears where its clients are."""

from __future__ import annotations

import math
import struct

import pytest

from equipoise.coordinates import Coordinate, CoordinateSettings
from equipoise.hub.cluster import Routing
from equipoise.hub.places.place import Place
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
def test_a_hub_on_its_own_is_at_the_origin_and_sure_of_it(proto: int) -> None:
    reply = World().client(proto).do("EQ.WHERE")
    told = Coordinate.from_bytes(reply, SETTINGS)
    assert (told.point_s, told.error) == ((0.0,) * 8, 0.0)


@pytest.mark.parametrize("proto", [2, 3])
def test_a_hub_that_has_heard_nothing_of_its_cluster_yet_does_not_say_where_it_is(proto: int) -> None:
    node = Hubs("h1")["h1"]
    assert isinstance(node.client(proto).do("EQ.WHERE"), bytes), "it is the only member, and alive"
    node.cluster.router.routing = Routing()
    assert node.client(proto).do("EQ.WHERE") is None


@pytest.mark.parametrize("proto", [2, 3])
def test_whoever_tells_is_told(proto: int) -> None:
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


def test_a_subscriber_may_tell_where_it_is_on_its_own_connection_in_resp2() -> None:
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
        ("1", numbers((10, 101.0))),
    ],
)
def test_nonsense_is_refused_and_the_last_place_stays(words: tuple[str | bytes, ...]) -> None:
    world = World()
    client = world.client()
    client.do("EQ.WHERE", "2000", coordinate(5).to_bytes())
    reply = client.do("EQ.WHERE", *words)
    assert isinstance(reply, Error) and reply.startswith("ERR ")
    place = place_of(world, client)
    assert place is not None and (place.coordinate, place.leg_s) == (coordinate(5), 0.001)
    assert client.is_connected()


def test_a_stranger_is_told_nothing() -> None:
    world = World(users(ann='subscribe = ["*"]'))
    assert world.client().do("EQ.WHERE").startswith("NOAUTH")
    assert isinstance(world.client(user="ann").do("EQ.WHERE"), bytes)


def test_places_end_with_their_connections_and_with_reset() -> None:
    world = World()
    gone, cleared = world.client(), world.client()
    for client in (gone, cleared):
        client.do("EQ.WHERE", "1", coordinate().to_bytes())
    assert world.core.places.told == 2
    cleared.do("RESET")
    gone.send("QUIT")
    world.advance()
    assert world.core.places.told == 0


def test_the_hub_records_where_it_is() -> None:
    record = MeteredWorld().hub()
    assert Coordinate.from_bytes(record["coordinate"], SETTINGS).point_s == (0.0,) * 8


def test_info_tells_where_the_hub_is_and_of_how_many_clients_it_knows() -> None:
    world = World()
    client = world.client()
    client.do("EQ.WHERE", "1", coordinate().to_bytes())
    assert world.info("coordinate_known") == "1"
    assert world.info("coordinate_point_ms") == ",".join(["0.000"] * 8)
    assert (world.info("probed_hubs"), world.info("probes_sent"), world.info("clients_told")) == (
        "0",
        "0",
        "1",
    )
