"""Coordinates of a topic's clients in records."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.coordinates import ClientGroup, Coordinate, CoordinateSettings
from equipoise.hub.locations import location_tracker
from equipoise.hub.locations.client_location import HOLDS_S
from equipoise.hub.locations.topic_locations import LATELY_S, PER_CLIENT_S, REFRESH_S, STEP
from equipoise.telemetry import RecordKind
from hub.metered import MeteredWorld, Record
from hub.world import FakeClient

SETTINGS = CoordinateSettings()
SIDES = ("publishers", "subscribers")
NUMBERS = ("at", "located", "deviation_us", "leg_us_max")


def at(x_ms: float, height_ms: float = 1.0) -> Coordinate:
    return Coordinate((x_ms / 1e3, *[0.0] * 7), 0.1, height_ms / 1e3)


def tell(client: FakeClient, place: Coordinate, rtt_us: int = 0) -> None:
    """The hub's own coordinate follows the messages delivered meanwhile."""
    assert isinstance(client.do_all("EQ.WHERE", str(rtt_us), place.to_bytes())[-1], bytes)


def publisher(world: MeteredWorld, place: Coordinate, rtt_us: int = 0) -> FakeClient:
    client = world.client()
    tell(client, place, rtt_us)
    return client


def subscriber(world: MeteredWorld, place: Coordinate, rtt_us: int = 0, topic: str = "t") -> FakeClient:
    client = publisher(world, place, rtt_us)
    client.do("SUBSCRIBE", topic)
    return client


def side(record: Record, name: str) -> tuple[Any, ...]:
    return tuple(record[f"{name}_{key}"] for key in NUMBERS)


UNKNOWN = (None, None, None, None)


def place_of(record: Record, name: str) -> Coordinate:
    return Coordinate.from_bytes(record[f"{name}_at"], SETTINGS)


@pytest.fixture
def world() -> MeteredWorld:
    return MeteredWorld()


def test_a_topic_without_client_reports_has_no_coordinates(world: MeteredWorld) -> None:
    world.client().do("SUBSCRIBE", "t")
    world.client().do("PUBLISH", "t", "x")
    record = world.topics()[b"t"]
    assert [side(record, name) for name in SIDES] == [UNKNOWN, UNKNOWN]


def test_a_single_client_is_at_its_reported_coordinate_with_deviation_0(world: MeteredWorld) -> None:
    subscriber(world, at(10), 12_000)
    publisher(world, at(-4), 3_001).do("PUBLISH", "t", "x")
    record = world.topics()[b"t"]
    assert side(record, "publishers") == (at(-4).to_bytes(), 1, 0, 1_501)
    assert side(record, "subscribers") == (at(10).to_bytes(), 1, 0, 6_000)


def test_measured_delays_are_recorded_at_quantiles_of_the_clients(world: MeteredWorld) -> None:
    for number in range(20):
        subscriber(world, at(10), 2_000 * (number + 1))
    # A client that has reported no round trip counts as located and not as measured.
    subscriber(world, at(10))
    publisher(world, at(-4), 3_001).do("PUBLISH", "t", "x")
    record = world.topics()[b"t"]
    delays = [record[f"subscribers_delay_us_{level}"] for level in ("p50", "p90", "p99", "max")]
    assert (record["subscribers_located"], record["subscribers_measured"]) == (21, 20)
    assert delays == [10_000, 18_000, 20_000, 20_000]
    assert (record["publishers_measured"], record["publishers_delay_us_p50"]) == (1, 1_501)
    assert record["home_delay_us"] is None


def test_a_leg_that_was_not_measured_is_half_the_distance_of_the_coordinates(world: MeteredWorld) -> None:
    subscriber(world, at(10, height_ms=2))
    record = world.topics()[b"t"]
    assert record["subscribers_leg_us_max"] == math.ceil((10_000 + 2_000 + 10) / 2)


def test_an_unknown_side_is_null_and_a_known_side_is_recorded(world: MeteredWorld) -> None:
    subscriber(world, at(10), topic="a")
    world.client().do("SUBSCRIBE", "b")
    plain = world.client()
    for topic in "ab":
        plain.do("PUBLISH", topic, "x")
    records = world.topics()
    assert records[b"a"]["subscribers_located"] == 1
    assert side(records[b"a"], "publishers") == side(records[b"b"], "subscribers") == UNKNOWN


def test_clients_without_reports_are_left_out_of_the_mean(world: MeteredWorld) -> None:
    subscriber(world, at(10))
    world.client().do("SUBSCRIBE", "t")
    record = world.topics()[b"t"]
    assert (record["subscribers"], record["subscribers_located"]) == (2, 1)
    assert place_of(record, "subscribers") == at(10)


def test_subscribers_by_pattern_are_subscribers(world: MeteredWorld) -> None:
    by_pattern = publisher(world, at(20))
    by_pattern.do("PSUBSCRIBE", "t*")
    subscriber(world, at(10))
    world.client().do("PUBLISH", "t", "x")
    record = world.topics()[b"t"]
    assert record["subscribers_located"] == 2
    assert place_of(record, "subscribers").point_s[0] == pytest.approx(0.015)


def test_clients_that_subscribe_or_leave_show_in_the_next_record(world: MeteredWorld) -> None:
    first = subscriber(world, at(10))
    assert world.topics()[b"t"]["subscribers_located"] == 1
    subscriber(world, at(30))
    assert place_of(world.topics()[b"t"], "subscribers").point_s[0] == pytest.approx(0.02)
    first.send("QUIT")
    world.client().do("PUBLISH", "t", "x")
    assert place_of(world.topics()[b"t"], "subscribers") == at(30)


def records_of(world: MeteredWorld, count: int, *clients: FakeClient) -> list[Record]:
    """Let windows pass in each of which these publish once."""
    found = []
    for _ in range(count):
        for client in clients:
            client.do("PUBLISH", "t", "x")
        found.append(world.topics()[b"t"])
    return found


def test_a_new_coordinate_of_a_subscriber_is_in_the_next_record(world: MeteredWorld) -> None:
    moving = subscriber(world, at(10))
    steady = world.client()
    records_of(world, 2, steady)
    tell(moving, at(40))
    (record,) = records_of(world, 1, steady)
    assert place_of(record, "subscribers") == at(40)


def test_a_new_coordinate_of_a_publisher_is_in_the_next_record(world: MeteredWorld) -> None:
    world.client().do("SUBSCRIBE", "t")
    moving = publisher(world, at(10))
    records_of(world, 2, moving)
    tell(moving, at(40))
    (record,) = records_of(world, 1, moving)
    assert place_of(record, "publishers") == at(40)


def test_a_new_coordinate_of_a_recent_publisher_is_recorded_though_another_publishes(
    world: MeteredWorld,
) -> None:
    moving, steady = publisher(world, at(10)), publisher(world, at(0))
    records_of(world, 1, moving, steady)
    records_of(world, 2, steady)
    tell(moving, at(40))
    (record,) = records_of(world, 1, steady)
    assert place_of(record, "publishers").point_s[0] == pytest.approx(0.020)


def test_a_new_coordinate_of_a_subscriber_by_pattern_is_in_the_next_record(world: MeteredWorld) -> None:
    moving, steady = publisher(world, at(10)), world.client()
    moving.do("PSUBSCRIBE", "t*")
    records_of(world, 2, steady)
    tell(moving, at(40))
    (record,) = records_of(world, 1, steady)
    assert place_of(record, "subscribers") == at(40)


def test_all_names_are_refreshed_even_if_they_exceed_the_pattern_budget(
    world: MeteredWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(location_tracker, "MATCHES_MAX", 0)
    moving, steady = publisher(world, at(10)), world.client()
    moving.do("PSUBSCRIBE", "t*")
    records_of(world, 2, steady)
    tell(moving, at(40))
    found = records_of(world, math.ceil(REFRESH_S) + 1, steady)
    assert place_of(found[0], "subscribers") == at(10)
    assert place_of(found[-1], "subscribers") == at(40)


def test_a_new_coordinate_refreshes_only_the_topics_of_its_client(world: MeteredWorld) -> None:
    moving, other, listener = publisher(world, at(10)), publisher(world, at(0)), world.client()
    listener.do_all("SUBSCRIBE", "mine", "theirs")
    for _ in range(3):
        moving.do("PUBLISH", "mine", "x")
        other.do("PUBLISH", "theirs", "x")
        world.end_window()
    theirs = world.core.index.topics[b"theirs"].where
    assert theirs is not None
    looked_at = theirs.renewed_at
    tell(moving, at(40))
    other.do("PUBLISH", "theirs", "x")
    world.end_window()
    assert theirs.renewed_at == looked_at


def test_a_client_that_moves_and_disconnects_leaves_no_state(world: MeteredWorld) -> None:
    moving = subscriber(world, at(10))
    tell(moving, at(40))
    moving.send("QUIT")
    world.advance()
    assert not world.core.places.renewing._moved


def test_a_coordinate_that_is_not_repeated_expires_after_some_reports(world: MeteredWorld) -> None:
    silent, steady = subscriber(world, at(10)), world.client()
    found = records_of(world, math.floor(HOLDS_S), steady)
    assert {record["subscribers_located"] for record in found} == {1}
    found = records_of(world, math.ceil(REFRESH_S) + 1, steady)
    assert found[-1]["subscribers_located"] is None
    tell(silent, at(20))
    (record,) = records_of(world, 1, steady)
    assert place_of(record, "subscribers") == at(20)


@pytest.mark.parametrize("interval_s", [5, 40])
def test_a_repeated_coordinate_stays_valid_however_rare_the_reports(
    world: MeteredWorld, interval_s: int
) -> None:
    teller, steady = subscriber(world, at(10)), world.client()
    records_of(world, interval_s, steady)
    for _ in range(2):
        tell(teller, at(10))
        found = records_of(world, interval_s, steady)
        assert {record["subscribers_located"] for record in found} == {1}


def test_a_publisher_that_publishes_every_few_seconds_does_not_flicker(world: MeteredWorld) -> None:
    often, seldom = publisher(world, at(0)), publisher(world, at(10))
    found = []
    for i in range(12):
        if i % 4 == 0:
            seldom.do("PUBLISH", "t", "x")
        found += records_of(world, 1, often)
    assert [record["publishers_located"] for record in found] == [2] * 12
    assert {record["publishers"] for record in found} == {1, 2}


def test_a_publisher_that_has_stopped_is_removed_after_a_while(world: MeteredWorld) -> None:
    often, stopped = publisher(world, at(0)), publisher(world, at(10))
    found = records_of(world, 1, stopped, often)
    assert found[-1]["publishers_located"] == 2
    found = records_of(world, math.ceil(LATELY_S + REFRESH_S) + 1, often)
    assert place_of(found[-1], "publishers") == at(0)


def test_a_single_publisher_that_has_stopped_is_removed_though_other_clients_change(
    world: MeteredWorld,
) -> None:
    publisher(world, at(0)).do("PUBLISH", "t", "x")
    found = []
    for _ in range(math.ceil(LATELY_S + 2 * REFRESH_S) + 1):
        world.client().do("SUBSCRIBE", "t")
        found.append(world.topics()[b"t"]["publishers_located"])
    assert found[0] == 1
    assert found[-1] is None


def test_a_publisher_that_has_disconnected_is_removed_at_the_next_refresh(world: MeteredWorld) -> None:
    often, gone = publisher(world, at(0)), publisher(world, at(10))
    records_of(world, 1, gone, often)
    gone.send("QUIT")
    found = records_of(world, math.ceil(REFRESH_S) + 1, often)
    assert found[-1]["publishers_located"] == 1


NUMBER = st.floats(-0.2, 0.2)
HEIGHT = st.floats(0, 0.05)
PLACES = st.builds(
    lambda point, height, adjustment: Coordinate(tuple(point), 0.5, height, adjustment),
    st.lists(NUMBER, min_size=8, max_size=8),
    HEIGHT,
    st.floats(-0.01, 0.01),
)
# The reported round trip is long enough for any of these coordinates to be plausible.
CLIENTS = st.lists(st.tuples(PLACES, st.one_of(st.just(0), st.integers(150_000, 400_000))), max_size=6)


@settings(max_examples=60, deadline=None)
@given(publishers=CLIENTS, subscribers=CLIENTS, plain=st.integers(0, 2))
def test_records_agree_with_a_scan_of_every_client(
    publishers: list[tuple[Coordinate, int]], subscribers: list[tuple[Coordinate, int]], plain: int
) -> None:
    world = MeteredWorld()
    for place, rtt_us in subscribers:
        subscriber(world, place, rtt_us)
    for _ in range(plain):
        world.client().do("SUBSCRIBE", "t")
    for place, rtt_us in publishers:
        publisher(world, place, rtt_us).do("PUBLISH", "t", "x")
    world.client().do("PUBLISH", "t", "x")
    record = world.topics()[b"t"]
    hub = Coordinate.from_bytes(world.hub()["coordinate"], SETTINGS)
    for name, clients in (("publishers", publishers), ("subscribers", subscribers)):
        crowd = ClientGroup.of(place for place, _ in clients)
        if crowd is None:
            assert side(record, name) == UNKNOWN
            continue
        assert record[f"{name}_located"] == crowd.count
        told = place_of(record, name)
        assert told.numbers == pytest.approx(crowd.centroid.numbers, abs=1e-12)
        assert record[f"{name}_deviation_us"] == pytest.approx(1e6 * crowd.deviation_s, abs=1.001)
        legs_s = [rtt_us / 2e6 if rtt_us else place.distance_s(hub) / 2 for place, rtt_us in clients]
        assert record[f"{name}_leg_us_max"] == pytest.approx(1e6 * max(legs_s), abs=1.001)
        assert record[f"{name}_leg_us_max"] >= 1e6 * max(legs_s) - 1e-3


def crowd(world: MeteredWorld, count: int) -> None:
    for i in range(count):
        subscriber(world, at(i * 100 / count))


def test_a_large_audience_is_scanned_in_steps_with_the_same_result(world: MeteredWorld) -> None:
    count = 3 * STEP + 7
    crowd(world, count)
    record = world.topics()[b"t"]
    places_told = [at(i * 100 / count) for i in range(count)]
    expected = ClientGroup.of(places_told)
    assert expected is not None and record["subscribers_located"] == count
    assert place_of(record, "subscribers").numbers == pytest.approx(expected.centroid.numbers)
    assert record["subscribers_deviation_us"] == pytest.approx(1e6 * expected.deviation_s, abs=1)
    topic = world.core.index.topics[b"t"]
    assert topic.where is not None
    assert sum(1 for _ in world.core.places.renewing.renew([topic])) == 1, "nothing is due"
    world.advance(2 * REFRESH_S)
    world.core.metering.subscribed(topic)
    assert sum(1 for _ in world.core.places.renewing.renew([topic])) >= 9, "three walks of four steps"


def test_a_large_audience_that_changes_all_the_time_is_scanned_periodically(world: MeteredWorld) -> None:
    crowd(world, 2_000)
    world.end_window()
    topic = world.core.index.topics[b"t"]
    assert topic.where is not None
    looks = set()
    for _ in range(6):
        subscriber(world, at(0))
        world.end_window()
        looks.add(topic.where.renewed_at)
    assert len(looks) <= 6 * 1.0 / (2_000 * PER_CLIENT_S)
    assert topic.where.size > 2_000


def test_topics_that_do_not_fit_into_a_window_are_refreshed_in_a_later_one(
    world: MeteredWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(location_tracker, "CLIENTS_MAX", 12)
    one = publisher(world, at(5))
    names = [f"t{i}" for i in range(20)]
    one.do_all("SUBSCRIBE", *names)
    other = world.client()
    located = []
    for _ in range(7):
        for name in names:
            other.do("PUBLISH", name, "x")
        records = world.topics()
        located.append(sum(record["subscribers_located"] is not None for record in records.values()))
    assert located[0] == 3 and located[-1] == 20
    assert located == sorted(located)


def test_unchanged_coordinates_are_not_computed_again(world: MeteredWorld) -> None:
    """A client's place is one object as long as it stays, and so are the columns of a slice of topics."""
    listener, talker = subscriber(world, at(10), 12_000), publisher(world, at(0), 4_000)
    for _ in range(math.ceil(REFRESH_S) + 3):
        tell(listener, at(10), 12_100)
        talker.do("PUBLISH", "t", "x")
        world.end_window()
    blocks = [block for block, _ in world.core.metering.ring.read(0) if block.kind is RecordKind.TOPIC]
    legs = [block.part(0, 1).values["subscribers_leg_us_max"] for block in blocks]
    assert len(legs) > REFRESH_S
    assert all(column is legs[0] for column in legs)
    tell(listener, at(10), 20_000)
    found = records_of(world, math.ceil(REFRESH_S) + 2, talker)
    assert found[-1]["subscribers_leg_us_max"] == 10_000


def test_a_topic_that_was_idle_records_its_clients_at_once(world: MeteredWorld) -> None:
    subscriber(world, at(10))
    talker = publisher(world, at(0))
    records_of(world, 2, talker)
    for _ in range(math.ceil(2 * REFRESH_S)):
        world.end_window()
    talker.do("PUBLISH", "t", "x")
    record = world.topics()[b"t"]
    assert (record["publishers_located"], record["subscribers_located"]) == (1, 1)
    moved = at(25)
    tell(talker, moved)
    found = records_of(world, math.ceil(REFRESH_S) + 2, talker)
    assert place_of(found[-1], "publishers") == moved


def test_a_topic_is_queued_once_or_twice_however_often_it_changes(
    world: MeteredWorld,
) -> None:
    one, other = publisher(world, at(0)), publisher(world, at(10))
    for _ in range(30):
        subscriber(world, at(5))
        records_of(world, 1, one, other)
    waiting = world.core.places.renewing._later
    assert sum(map(len, waiting.values())) <= 2 * math.ceil(REFRESH_S)
    assert all(second >= world.shell.now() - 1 for second in waiting)


def test_a_new_incarnation_of_the_hub_starts_without_coordinates(world: MeteredWorld) -> None:
    subscriber(world, at(10))
    world.end_window()
    world.core.begin_anew()
    assert not world.core.places.renewing._later
    assert world.core.places.located == 0
    subscriber(world, at(20))
    assert place_of(world.topics()[b"t"], "subscribers") == at(20)


ACTIONS = st.lists(
    st.tuples(st.sampled_from(["come", "go", "tell", "talk", "wait"]), st.integers(0, 3), st.integers(0, 50)),
    max_size=25,
)


@settings(max_examples=40, deadline=None)
@given(actions=ACTIONS)
def test_after_any_events_the_last_record_has_the_final_coordinates(
    actions: list[tuple[str, int, int]],
) -> None:
    world = MeteredWorld()
    listeners: list[tuple[FakeClient, Coordinate]] = []
    talkers = [world.client() for _ in range(4)]
    for what, who, x_ms in actions:
        if what == "come":
            listeners.append((subscriber(world, at(x_ms)), at(x_ms)))
        elif what == "go" and listeners:
            listeners.pop(who % len(listeners))[0].send("QUIT")
        elif what == "tell" and listeners:
            client, _ = listeners[who % len(listeners)]
            tell(client, at(x_ms))
            listeners[who % len(listeners)] = (client, at(x_ms))
        elif what == "talk":
            talkers[who].do("PUBLISH", "t", "x")
        else:
            world.end_window()
    for _ in range(math.ceil(REFRESH_S) + 2):
        talkers[0].do("PUBLISH", "t", "x")
        record = world.topics()[b"t"]
    crowd = ClientGroup.of(place for _, place in listeners)
    assert record["subscribers_located"] == (crowd and crowd.count)
    if crowd is not None:
        assert place_of(record, "subscribers").numbers == pytest.approx(crowd.centroid.numbers, abs=1e-12)
        assert record["subscribers_deviation_us"] == pytest.approx(1e6 * crowd.deviation_s, abs=1.001)
