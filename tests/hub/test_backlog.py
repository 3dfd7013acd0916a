"""Slow subscribers: their buffered output, when they are disconnected, and what is counted."""

from __future__ import annotations

import pytest

from equipoise.hub.core import HubCore
from equipoise.hub.settings import Limits
from hub.world import FakeClient, World, pipeline

KIB = 1024
TIGHT = Limits(output_bytes_max=256 * KIB, output_soft_bytes=128 * KIB, output_soft_s=10)


def stuck_subscriber(world: World, *names: str, proto: int = 2) -> FakeClient:
    client = world.client(proto)
    client.send("SUBSCRIBE", *names)
    client.read()
    client.wire.is_stuck = True
    return client


def publish(world: World, topic: str, count: int, size: int = KIB) -> None:
    publisher = world.client()
    for i in range(count):
        assert publisher.do("PUBLISH", topic, b"%06d" % i + b"x" * (size - 6)) is not None


def numbers(client: FakeClient) -> list[int]:
    return [int(delivery[2][:6]) for delivery in client.read()]


def assert_accounts_agree(core: HubCore) -> None:
    """The hub's total equals the sum over its backlogs."""
    held = sum(sum(len(piece[0]) for piece in b.pieces) for b in core.backlogs.lagging.values())
    in_transports = sum(b.in_transport_bytes for b in core.backlogs.lagging.values())
    assert sum(b.bytes for b in core.backlogs.lagging.values()) == held
    assert core.backlogs.bytes == held + in_transports


def test_buffered_output_of_a_slow_subscriber_arrives_in_order_and_complete() -> None:
    world = World()
    slow, healthy = stuck_subscriber(world, "t"), world.client()
    healthy.send("SUBSCRIBE", "t")
    healthy.read()
    publish(world, "t", 200)
    assert numbers(healthy) == list(range(200))
    assert_accounts_agree(world.core)
    assert world.info("clients_lagging") == "1"
    slow.wire.drain()
    assert numbers(slow) == list(range(200))
    assert world.core.backlogs.lagging == {}
    assert world.core.backlogs.bytes == 0
    publish(world, "t", 3)
    assert numbers(slow) == [0, 1, 2]


def test_a_subscriber_that_reads_little_at_a_time_gets_everything_in_order() -> None:
    world = World()
    slow = stuck_subscriber(world, "t")
    for _ in range(5):
        publish(world, "t", 100)
        for _ in range(7):
            slow.wire.drain(10 * KIB)
            assert_accounts_agree(world.core)
    slow.wire.drain()
    assert numbers(slow) == list(range(100)) * 5


def test_replies_and_messages_keep_their_order_while_buffered() -> None:
    world = World()
    client = stuck_subscriber(world, "t", proto=3)
    publish(world, "t", 70)
    client.send("ECHO", "first")
    publish(world, "t", 1)
    client.send("ECHO", "second")
    client.wire.drain()
    tail = client.read()[-3:]
    assert tail[0] == b"first"
    assert tail[1][0] == b"message"
    assert tail[2] == b"second"


def test_unsent_output_above_the_hard_limit_ends_the_client_at_once() -> None:
    world = World(limits=TIGHT)
    slow = stuck_subscriber(world, "t")
    publish(world, "t", 240)
    assert slow.is_connected()
    publish(world, "t", 20)
    assert slow.wire.is_gone()
    world.advance()
    assert not slow.is_connected()
    assert world.core.backlogs.bytes == 0
    assert world.client().do("PUBLISH", "t", "x") == 0


def test_what_a_client_holds_never_exceeds_the_hard_limit_and_one_piece() -> None:
    world = World(limits=TIGHT)
    slow = stuck_subscriber(world, "t")
    piece = 20 * KIB
    for _ in range(20):
        publish(world, "t", 1, piece)
        backlog = world.core.backlogs.lagging.get(slow.session)
        unsent = len(slow.wire.buffer) + (backlog.bytes if backlog else 0)
        assert unsent <= TIGHT.output_bytes_max + piece + HEADROOM
    assert slow.wire.is_gone()


# Frame headers, and what the transport held when it filled up.
HEADROOM = 1 * KIB


def test_unsent_output_above_the_soft_limit_ends_the_client_after_a_while() -> None:
    world = World(limits=TIGHT)
    slow = stuck_subscriber(world, "t")
    publish(world, "t", 150)
    world.advance(9.9)
    assert slow.is_connected()
    world.advance(0.2)
    assert not slow.is_connected()


def test_a_client_that_returns_below_the_soft_limit_in_time_stays() -> None:
    world = World(limits=TIGHT)
    slow = stuck_subscriber(world, "t")
    publish(world, "t", 150)
    world.advance(9)
    slow.wire.drain()
    slow.wire.is_stuck = True
    publish(world, "t", 100)
    world.advance(60)
    assert slow.is_connected()


def test_the_time_above_the_soft_limit_restarts_after_each_recovery() -> None:
    world = World(limits=TIGHT)
    slow = stuck_subscriber(world, "t")
    for _ in range(5):
        publish(world, "t", 150)
        world.advance(6)
        slow.wire.drain()
        slow.wire.is_stuck = True
    assert slow.is_connected()
    publish(world, "t", 150)
    world.advance(10.1)
    assert not slow.is_connected()


def test_one_large_write_that_the_client_is_reading_does_not_count_as_lag_for_ever() -> None:
    """
    1. One run larger than the soft limit goes to the transport in one piece.
    2. The client reads most of it, but not so much that the transport asks for more.
    3. When the soft limit's time is over, only unsent bytes count.
    """
    world = World(limits=TIGHT)
    slow = stuck_subscriber(world, "t")
    world.client().send_raw(pipeline(["PUBLISH", "t", b"x" * KIB] for _ in range(150)))
    slow.wire.drain(100 * KIB)
    world.advance(10.1)
    assert slow.is_connected()


def test_the_client_with_the_most_unsent_output_is_cut_first_when_all_together_exceed_the_limit() -> None:
    world = World(memory_bytes=4 * 1024 * KIB, limits=Limits(output_total_share=0.25))
    slow = {name: stuck_subscriber(world, name) for name in "abc"}
    for name, count in (("a", 200), ("b", 300), ("c", 400)):
        publish(world, name, count)
    assert world.core.backlogs.bytes < 1024 * KIB
    publish(world, "a", 150)
    assert [name for name, client in slow.items() if not client.wire.is_gone()] == ["a", "b"]
    assert_accounts_agree(world.core)


def test_the_total_counts_what_the_transports_hold() -> None:
    """A hundred stuck clients with 70 KiB each in their transports, and nothing in their backlogs."""
    world = World(memory_bytes=4 * 1024 * KIB, limits=Limits(output_total_share=0.25))
    slow = [stuck_subscriber(world, "t") for _ in range(100)]
    publish(world, "t", 1, 70 * KIB)
    held = sum(len(client.wire.buffer) for client in slow)
    assert held <= 1024 * KIB + 70 * KIB + HEADROOM


def test_cuts_and_drops_are_counted_by_topic_and_shown() -> None:
    world = World(limits=TIGHT)
    slow = stuck_subscriber(world, "a", "b")
    publish(world, "a", 65)
    publish(world, "b", 100)
    publish(world, "a", 100)
    assert slow.wire.is_gone()
    a, b = world.core.index.topics[b"a"], world.core.index.topics[b"b"]
    assert (a.cuts, b.cuts) == (1, 1)
    assert b.drops == 100
    # The transport held some of the first, which to the hub counts as read; all else was dropped.
    assert 0 < a.drops <= 165
    assert world.info("slow_disconnects") == "1"
    assert world.info("deliveries_dropped") == str(a.drops + b.drops)
    lines = world.client().text("INFO", "equipoise").splitlines()
    assert "topic:'b':slow_disconnects=1,deliveries_dropped=100,published=100,delivered=100" in lines


def test_a_cut_is_counted_though_one_single_piece_was_too_much() -> None:
    world = World(limits=TIGHT)
    slow = stuck_subscriber(world, "t")
    world.client().send_raw(pipeline(["PUBLISH", "t", b"x" * KIB] for _ in range(300)))
    assert slow.wire.is_gone()
    assert world.core.index.topics[b"t"].cuts == 1
    assert world.info("slow_disconnects") == "1"


def test_cuts_on_shard_channels_are_shown_too() -> None:
    world = World(limits=TIGHT)
    slow = world.client()
    slow.send("SSUBSCRIBE", "s")
    slow.wire.is_stuck = True
    publisher = world.client()
    for _ in range(300):
        publisher.do("SPUBLISH", "s", b"x" * KIB)
    assert slow.wire.is_gone()
    lines = world.client().text("INFO", "equipoise").splitlines()
    assert any(line.startswith("topic:'s':slow_disconnects=1,") for line in lines)


def test_a_client_that_leaves_by_itself_is_not_counted_as_cut() -> None:
    world = World()
    slow = stuck_subscriber(world, "t")
    publish(world, "t", 100)
    slow.wire.abort()
    world.advance()
    assert world.info("slow_disconnects") == "0"
    assert world.core.backlogs.bytes == 0


@pytest.mark.parametrize("proto", [2, 3])
def test_quit_sends_buffered_output_before_it_closes(proto: int) -> None:
    world = World()
    client = stuck_subscriber(world, "t", proto=proto)
    publish(world, "t", 200)
    client.send("QUIT")
    assert not client.is_connected()
    assert not client.wire.is_gone()
    client.wire.drain()
    assert client.wire.is_gone()
    *messages, last = client.read()
    assert [int(message[2][:6]) for message in messages] == list(range(200))
    assert last == b"OK"


def test_a_client_that_quits_without_reading_is_ended_after_a_while() -> None:
    world = World()
    client = stuck_subscriber(world, "t")
    publish(world, "t", 200)
    client.send("QUIT")
    world.advance(4.9)
    assert not client.wire.is_gone()
    world.advance(0.2)
    assert client.wire.is_gone()


def test_clients_that_quit_without_reading_count_toward_the_total() -> None:
    """
    1. A client lets much be held for it, sends QUIT and does not read.
    2. Others do the same: each is gone from the list, but its bytes are not.
    3. All together they hold no more than may be held.
    """
    world = World(memory_bytes=4 * 1024 * KIB, limits=Limits(output_total_share=0.25))
    wires = []
    for _ in range(20):
        client = stuck_subscriber(world, "t")
        publish(world, "t", 200)
        client.send("QUIT")
        wires.append(client.wire)
        assert sum(len(wire.buffer) for wire in wires) <= 1024 * KIB + 2 * KIB
    for wire in wires:
        wire.drain()
    world.advance()
    assert world.core.backlogs.bytes == 0


def test_a_client_that_never_reads_its_replies_is_cut_too() -> None:
    world = World(limits=TIGHT)
    client = world.client()
    client.wire.is_stuck = True
    for _ in range(300):
        client.send("ECHO", b"x" * KIB)
    assert client.wire.is_gone()


def test_replies_of_one_pipeline_do_not_pile_up_beyond_the_limit() -> None:
    """A short request may have a long reply; thousands of them in one chunk must not be gathered first."""
    world = World(limits=TIGHT)
    client = world.client()
    client.wire.is_stuck = True
    client.send_raw(b"COMMAND\r\n" * 2_000)
    world.advance()
    assert client.wire.is_gone()
    assert len(client.wire.buffer) + world.core.backlogs.bytes == 0
    assert world.core.stats.commands < 200


def test_many_patterns_of_one_client_do_not_multiply_a_message_beyond_the_limit() -> None:
    """
    1. One client subscribes to the same topic by a thousand patterns.
    2. A pipeline of messages for it would be tens of megabytes, in one piece.
    3. The client is cut as soon as it holds more than it may; the rest is never made.
    """
    world = World(limits=TIGHT)
    client = world.client()
    client.send("PSUBSCRIBE", *(f"[t{i:03}]*" for i in range(1_000)))
    assert len(client.read()) == 1_000
    client.wire.is_stuck = True
    most = 0

    def watched(data: bytes) -> None:
        nonlocal most
        most = max(most, len(data))
        client.wire.write(data)

    client.session.write = watched
    world.client().send_raw(pipeline(["PUBLISH", "t", "x" * 100] for _ in range(500)))
    assert client.wire.is_gone()
    assert most < 1024 * KIB
