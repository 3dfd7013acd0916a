"""What a hub records of its topics and of itself, window by window."""

from __future__ import annotations

import pytest

from equipoise.hub.settings import HubSettings, Limits
from equipoise.hub.telemetry.settings import TelemetrySettings
from equipoise.hub.telemetry.window import SLICE
from equipoise.telemetry import Block
from hub.metered import MeteredWorld
from hub.world import World, pipeline


@pytest.fixture
def world() -> MeteredWorld:
    return MeteredWorld()


def test_a_window_counts_what_was_published_and_delivered_in_it(world: MeteredWorld) -> None:
    for _ in range(3):
        world.client().send("SUBSCRIBE", "t")
    publisher = world.client()
    world.window()
    for payload in ("a", "bb", "ccc"):
        publisher.send("PUBLISH", "t", payload)
    record = world.topics()[b"t"]
    assert (record["publications"], record["deliveries"]) == (3, 9)
    frame = len("*3\r\n$7\r\nmessage\r\n$1\r\nt\r\n$1\r\na\r\n")
    assert (record["bytes_in"], record["bytes_out"]) == (6, 3 * (3 * frame + 3))
    assert (record["publishers"], record["subscribers"], record["relays"], record["role"]) == (
        1,
        3,
        0,
        "home",
    )
    assert (record["window_us"], record["cuts"], record["drops"]) == (1_000_000, 0, 0)


def test_sums_over_windows_equal_the_events(world: MeteredWorld) -> None:
    world.client().send("SUBSCRIBE", "t")
    publisher = world.client()
    for count in (1, 0, 4, 2, 0, 0, 3):
        for _ in range(count):
            publisher.send("PUBLISH", "t", "x")
        world.end_window()
    records = [record for record in world.records() if record["topic"] == b"t"]
    # The subscription alone made the topic active; windows without anything have no record.
    assert [record["publications"] for record in records] == [1, 4, 2, 3]


def test_a_topic_without_traffic_has_no_records_and_is_recorded_again_at_once(world: MeteredWorld) -> None:
    world.client().send("SUBSCRIBE", "t")
    publisher = world.client()
    assert b"t" in world.topics()
    assert world.topics() == {} and world.topics() == {}
    publisher.send("PUBLISH", "t", "x")
    assert world.topics()[b"t"]["publications"] == 1


def test_messages_published_while_the_window_is_recorded_are_counted_once(
    world: MeteredWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    1. More topics than a slice holds are active.
    2. The window ends, the first slice is recorded, and a client publishes to all of them before the second.
    3. Topics of the first slice count that message in the next window, the others in this one.
    """
    names = [b"t%d" % i for i in range(2 * SLICE)]
    burst = pipeline((b"PUBLISH", name, b"x") for name in names)
    publisher = world.client()
    publisher.send_raw(burst)
    ring = world.core.metering.ring
    append = ring.append

    def append_then_publish(block: Block) -> None:
        append(block)
        if ring.end == SLICE:
            world.shell.call_later(0, publisher.send_raw, burst)

    monkeypatch.setattr(ring, "append", append_then_publish)
    world.advance(5.0)
    found = [record for record in world.records() if record["kind"] == "topic"]
    assert [record["publications"] for record in found] == [1] * SLICE + [2] * SLICE + [1] * SLICE
    assert [record["topic"] for record in found] == [*names, *names[:SLICE]]


def test_every_active_topic_is_recorded_however_many_slices_that_takes(world: MeteredWorld) -> None:
    names = {b"t%d" % i for i in range(3 * SLICE + 1)}
    publisher = world.client()
    publisher.send_raw(pipeline((b"PUBLISH", name, b"x") for name in names))
    world.advance()
    assert world.topics().keys() == names
    assert world.core.metering.slices >= 4


def test_publishers_are_counted_each_once_per_window(world: MeteredWorld) -> None:
    first, second = world.client(), world.client(3)
    for _ in range(5):
        first.send("PUBLISH", "t", "x")
        second.send("PUBLISH", "t", "x")
    assert world.topics()[b"t"]["publishers"] == 2
    second.send("PUBLISH", "t", "x")
    assert world.topics()[b"t"]["publishers"] == 1


def test_a_subscriber_that_publishes_is_a_publisher(world: MeteredWorld) -> None:
    client = world.client(3)
    client.send("SUBSCRIBE", "t")
    client.send("PUBLISH", "t", "x")
    record = world.topics()[b"t"]
    assert (record["publishers"], record["subscribers"]) == (1, 1)


def test_the_number_of_publishers_has_a_bound(world: MeteredWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equipoise.hub.telemetry.meter.PUBLISHERS_MAX", 3)
    for _ in range(6):
        world.client().send("PUBLISH", "t", "x")
    assert world.topics()[b"t"]["publishers"] == 3


def test_subscribers_are_clients_by_whatever_subscriptions(world: MeteredWorld) -> None:
    both, pattern = world.client(), world.client()
    both.send("SUBSCRIBE", "t")
    both.send("PSUBSCRIBE", "t*")
    pattern.send("PSUBSCRIBE", "?")
    world.client().send("PUBLISH", "t", "x")
    record = world.topics()[b"t"]
    assert (record["subscribers"], record["deliveries"]) == (2, 3)


def test_a_change_of_subscribers_is_recorded_without_any_message(world: MeteredWorld) -> None:
    clients = [world.client() for _ in range(3)]
    for client in clients:
        client.send("SUBSCRIBE", "t")
    assert world.topics()[b"t"]["subscribers"] == 3
    clients[0].send("UNSUBSCRIBE", "t")
    assert world.topics()[b"t"]["subscribers"] == 2
    clients[1].send("QUIT")
    assert world.topics()[b"t"]["subscribers"] == 1


def test_subscribers_by_pattern_count_also_right_after_a_subscription(world: MeteredWorld) -> None:
    world.client().send("PSUBSCRIBE", "t*")
    world.client().send("SUBSCRIBE", "t")
    assert world.topics()[b"t"]["subscribers"] == 2


def test_a_backlog_is_recorded_with_the_waiting_time_of_its_messages(world: MeteredWorld) -> None:
    client, publisher = world.client(), world.client()
    client.send("SUBSCRIBE", "t")
    world.window()
    client.wire.is_stuck = True
    publisher.send("PUBLISH", "t", "x" * 100_000)
    assert world.topics()[b"t"]["backlog_bytes_max"] == 0, "the transport took it"
    publisher.send("PUBLISH", "t", "x" * 1_000)
    publisher.send("PUBLISH", "t", "x" * 1_000)
    record = world.topics()[b"t"]
    assert 2_000 < record["backlog_bytes_max"] < 2_200
    assert record["subscribers_queued"] == 1
    waiting_us = record["queue_us_max"]
    assert 900_000 <= waiting_us <= 1_000_000, "they were published in this window, and still wait"
    client.wire.drain()
    publisher.send("PUBLISH", "t", "x")
    record = world.topics()[b"t"]
    assert (record["backlog_bytes_max"], record["subscribers_queued"]) == (0, 0)
    assert record["queue_us_max"] >= waiting_us, "written in this window, after all that time"
    publisher.send("PUBLISH", "t", "x")
    assert world.topics()[b"t"]["queue_us_max"] == 0


def test_cuts_and_drops_of_an_idle_topic_are_recorded() -> None:
    world = MeteredWorld(limits=Limits(output_soft_bytes=100_000, output_soft_s=30.0))
    client, publisher = world.client(), world.client()
    client.send("SUBSCRIBE", "t")
    client.wire.is_stuck = True
    for _ in range(4):
        publisher.send("PUBLISH", "t", "x" * 70_000)
    world.advance(25.0)
    assert world.core.index.topics[b"t"].meter is None
    world.advance(10.0)
    hurt = [record for record in world.records() if record["topic"] == b"t" and record["cuts"]]
    assert [(record["cuts"], record["drops"]) for record in hurt] == [(1, 3)]


def test_system_topics_and_shard_channels_count_for_the_hub_alone(world: MeteredWorld) -> None:
    client = world.client()
    client.send("SUBSCRIBE", "$sys", "t")
    client.send("SSUBSCRIBE", "shard")
    publisher = world.client()
    world.window()
    for _ in range(2):
        publisher.send("PUBLISH", "$sys", "x")
        publisher.send("SPUBLISH", "shard", "x")
        publisher.send("PUBLISH", "t", "x")
    records = world.window()
    assert [record["topic"] for record in records if record["kind"] == "topic"] == [b"t"]
    (hub,) = [record for record in records if record["kind"] == "hub"]
    assert (hub["publications"], hub["deliveries"], hub["topics_active"]) == (6, 6, 1)


def test_the_hub_records_itself_every_window(world: MeteredWorld) -> None:
    world.client().send("SUBSCRIBE", "t")
    world.window()
    world.process.used_s += 0.4
    world.client().send("PUBLISH", "t", "x" * 100)
    hub = world.hub()
    assert hub["cpu_ratio"] == pytest.approx(0.4, rel=0.01)
    assert (hub["memory_bytes"], hub["topics_home"], hub["topics_active"]) == (40_000_000, 1, 1)
    assert hub["connections"] == 2
    assert hub["loop_lag_us_mean"] == hub["loop_lag_us_max"] == 0
    assert hub["plan_version"] is None and hub["out_bytes_per_s_max"] is None


def test_outgoing_bandwidth_is_deliveries_and_replies() -> None:
    world = MeteredWorld(telemetry=TelemetrySettings(out_bytes_per_s_max=1e6))
    client = world.client()
    client.send("SUBSCRIBE", "t")
    world.end_window()
    before = len(client.wire.sent)
    publisher = world.client()
    publisher.send("PUBLISH", "t", "x" * 100)
    publisher.send("PING")
    hub = world.hub()
    sent = len(client.wire.sent) - before + len(publisher.wire.sent)
    # What answers a PING counts as what answers a PUBLISH, too: four bytes.
    assert hub["out_bytes_per_s"] == pytest.approx(sent + 4, rel=0.001)
    assert hub["out_bytes_per_s_max"] == 1e6


def test_a_stalled_loop_shows_as_lag(world: MeteredWorld) -> None:
    world.advance(0.45)
    # Nothing runs for 300 ms: the timer of 0.5 s is 250 ms late.
    world.shell.stall(0.3)
    hub = world.hub()
    assert hub["loop_lag_us_max"] == pytest.approx(250_000, rel=0.02)
    assert 0 < hub["loop_lag_us_mean"] < hub["loop_lag_us_max"]
    assert hub["loop_lag_us_p50"] < hub["loop_lag_us_p99"] == hub["loop_lag_us_max"]


def test_a_window_in_which_the_hub_was_stopped_is_as_long_as_it_was(world: MeteredWorld) -> None:
    world.advance(0.5)
    world.client().send("PUBLISH", "t", "x")
    world.shell.stall(7.0)
    records = world.window()
    assert records[0]["window_us"] == pytest.approx(7_500_000, rel=0.02)


def test_the_age_of_records_in_the_ring_is_bounded() -> None:
    world = MeteredWorld(telemetry=TelemetrySettings(retention_s=10.0))
    world.advance(60.0)
    assert 10 <= len(world.core.metering.ring) <= 12


def test_a_hub_with_recording_off_has_no_timer_and_no_meters() -> None:
    world = MeteredWorld(telemetry=TelemetrySettings(enabled=False))
    assert world.shell.timers_pending == 0
    client = world.client()
    client.send("SUBSCRIBE", "t")
    client = world.client()
    client.send("PUBLISH", "t", "x")
    assert world.core.index.topics[b"t"].meter is None


def test_a_closed_hub_has_no_timer_left(world: MeteredWorld) -> None:
    world.client().send("PUBLISH", "t", "x")
    world.core.close()
    world.advance(10.0)
    assert world.shell.timers_pending == 0


def test_a_hub_that_restarts_numbers_its_records_from_the_beginning(world: MeteredWorld) -> None:
    world.client().send("PUBLISH", "t", "x")
    world.window()
    former = world.core.metering.ring.incarnation
    world.core.begin_anew()
    world.client().send("PUBLISH", "u", "x")
    records = world.window()
    assert {record["incarnation"] for record in records} == {world.core.incarnation} != {former}
    assert [record["sequence"] for record in records] == list(range(len(records)))
    assert {record["topic"] for record in records if record["kind"] == "topic"} == {b"u"}


def test_a_topic_that_is_removed_while_active_is_recorded_to_the_end() -> None:
    world = MeteredWorld(limits=Limits(topics_max=10))
    publisher = world.client()
    for i in range(40):
        publisher.send("PUBLISH", f"t{i}", "x")
    assert len(world.core.index.topics) <= 10
    assert sum(record["publications"] for record in world.topics().values()) == 40


def test_info_shows_the_ring(world: MeteredWorld) -> None:
    world.client().send("PUBLISH", "t", "x")
    world.end_window()
    assert world.info("telemetry_recorded") == "1"
    assert world.info("telemetry_records") == world.info("telemetry_end") == "2"
    assert world.info("telemetry_topics_active") == "1"
    assert 0 < int(world.info("telemetry_bytes")) < 10_000
    assert World().info("telemetry_recorded") == "0"


def test_the_totals_of_info_count_as_telemetry_does(world: MeteredWorld) -> None:
    world.client().send("SUBSCRIBE", "t")
    for _ in range(3):
        world.client().send("PUBLISH", "t", "x")
    assert world.info("published") == world.info("delivered") == "3"


def test_a_hub_records_by_default() -> None:
    assert HubSettings().telemetry.enabled


def test_windows_of_hubs_end_at_the_same_clock_times_whenever_the_hubs_started() -> None:
    ends = []
    for start_s in (0.0, 0.31, 0.75, 0.93):
        world = MeteredWorld()
        world.advance(start_s)
        world.core.metering.stop()
        world.core.metering.start(world.process, lambda count: b"\x07" * count)
        records = [record for _ in range(5) for record in world.window() if record["kind"] == "hub"]
        assert all(record["window_us"] >= 500_000 for record in records)
        ends += [record["time"].microsecond for record in records]
    assert all(700_000 <= end <= 900_000 for end in ends), ends
