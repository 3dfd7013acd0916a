"""Telemetry and listings of filters: their number, matches, matching time, and messages not sent on links."""

from __future__ import annotations

import itertools

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

from equipoise.model import Mode
from equipoise.telemetry import EDGE_STATES
from hub.cluster.hubs import Hubs
from hub.metered import FakeProcess, MeteredWorld, Reader
from hub.world import Error, World, users


def test_records_have_filters_matches_and_the_time_of_matching() -> None:
    world = MeteredWorld()
    ticks = itertools.count()
    # Each look at the clock is a microsecond later.
    world.core.filtering.fine_now = lambda: next(ticks) / 1e6
    plain, smart, publisher = world.client(), world.client(3), world.client()
    plain.send("PSUBSCRIBE", "$filter t a = 1")
    smart.send("EQ.FSUBSCRIBE", "1", "t", "a > 0")
    smart.send("EQ.FSUBSCRIBE", "2", "t", "a=1")
    for number in (0, 1, 2):
        publisher.send("PUBLISH", "t", f'{{"a": {number}}}')
    records = world.window()
    (record,) = [record for record in records if record["topic"] == b"t"]
    assert (record["filters"], record["filter_matches"], record["deliveries"]) == (2, 4, 4)
    assert (record["subscribers"], record["covers"], record["kept_off_messages"]) == (2, 0, 0)
    assert abs(record["matching_ns"] - 3_000) <= 3
    (hub,) = [record for record in records if record["kind"] == "hub"]
    assert (hub["filters"], hub["filter_matches"]) == (2, 4)
    assert hub["matching_ns"] == record["matching_ns"]
    # Subscribers come and go without another audience.
    smart.send("EQ.FUNSUBSCRIBE")
    publisher.send("PUBLISH", "t", "{}")
    record = world.topics()[b"t"]
    assert (record["filters"], record["filter_matches"], record["subscribers"]) == (1, 0, 1)


def test_records_have_the_filters_requested_between_hubs_and_the_messages_not_sent() -> None:
    hubs = Hubs("h1", "h2")
    hubs.replicate("t", Mode.SINGLE, "h1")
    for node in hubs.nodes.values():
        node.core.metering.start(FakeProcess(), lambda count: b"\x07" * count)
    client = hubs["h2"].client()
    client.send("PSUBSCRIBE", "$filter t a > 5", "$filter t a > 7")
    hubs.settle()
    for node in hubs.nodes.values():
        node.shell.advance(0.1)
    hubs.settle()
    publisher = hubs["h1"].client()
    for number in range(10):
        publisher.send("PUBLISH", "t", f'{{"a": {number}}}')
    hubs.settle()
    assert len(client.read()) == 2 + 4 + 2
    found = {}
    for name, node in hubs.nodes.items():
        for _ in range(60):
            node.advance(0.05)
        records = Reader(node.client(3), node).read_all()
        found[name] = [record for record in records if record["topic"] == b"t"]
    home, relay = found["h1"], found["h2"]
    assert sum(record["kept_off_messages"] for record in home) == 6
    assert max(record["relays"] for record in home) == 1
    assert max(record["filters"] for record in relay) == 2
    assert max(record["covers"] for record in relay) == 1
    assert sum(record["filter_matches"] for record in relay) == 6


def test_filters_are_listed_with_their_subscriptions() -> None:
    world = World()
    client = world.client(3)
    assert client.do("EQ.FILTERS", "t", "10") == [0, 0]
    client.do_all("PSUBSCRIBE", "$filter t a = 1", "$filter t a=1", "$filter t b exists")
    client.do("EQ.FSUBSCRIBE", "1", "t", "a = 1")
    assert client.do("EQ.FILTERS", "t", "10") == [2, 0, [b"a = 1", 3], [b"b exists", 1]]
    assert client.do("EQ.FILTERS", "t", "1") == [2, 0, [b"a = 1", 3]]
    row = client.do("EQ.TOPIC", "t")[0]
    assert (row[3], row[-1]) == (4, 2), "subscribers by filter count as subscribers"
    for count in ("-1", "1001", "x"):
        assert isinstance(client.do("EQ.FILTERS", "t", count), Error)


def test_users_without_observe_see_no_filters_of_a_topic() -> None:
    world = World(users=users(ann='subscribe = ["*"]', bob='observe = ["t"]'))
    assert "NOPERM" in str(world.client(user="ann").do("EQ.FILTERS", "t", "1"))
    assert world.client(user="bob").do("EQ.FILTERS", "t", "1") == [0, 0]
    assert "NOPERM" in str(world.client(user="bob").do("EQ.FILTERS", "u", "1"))


def test_a_hub_without_content_topics_sends_no_columns_of_them() -> None:
    world = World()
    world.core.metering.start(FakeProcess(), lambda count: b"\x07" * count)
    reader = Reader(world.client(3), world)
    reader.read()
    for _ in range(40):
        world.advance(0.05)
    stream = reader.ask(reader.incarnation, reader.next, 1 << 20)[3]
    table = pa.ipc.open_stream(stream).read_all()
    assert table.num_rows and set(table["kind"].to_pylist()) == {"hub"}
    assert not [name for name in table.column_names if name.startswith(("content_", "publishers_", "limit_"))]
    # A column takes 135 bytes in each reading, and there are ninety.
    assert len(stream) < 6_000


def test_records_have_the_measurements_of_an_edge_of_content_topics() -> None:
    hubs = Hubs("h1", "h2", "h3")
    hubs.replicate("t", Mode.CONTENT, "h1", "h2", "h3")
    for node in hubs.nodes.values():
        node.core.metering.start(FakeProcess(), lambda count: b"\x07" * count)
    client = hubs["h2"].client(3)
    client.send("EQ.FSUBSCRIBE", "1", "t", "a > 5")
    hubs.settle()
    hubs["h1"].client().send("PUBLISH", "t", '{"a": 6}')
    hubs.settle()
    found = {}
    for name, node in hubs.nodes.items():
        for _ in range(40):
            node.advance(0.05)
        hubs.settle()
        records = [one for one in Reader(node.client(3), node).read_all() if one["kind"] == "hub"]
        found[name] = records[-1]
    head, edge = found["h1"], found["h2"]
    assert all(value is None for name, value in head.items() if name.startswith("content_"))
    assert EDGE_STATES[edge["content_state"]] == "ok"
    assert edge["content_subscriptions"] == 1 and edge["content_output_ratio"] > 0
    assert (edge["content_sessions"], edge["content_moved"], edge["content_came"]) == (0, 0, 0)
    assert edge["content_estimated_delay_us"] == edge["content_realised_delay_us"] == 0
