"""Rate-limited topics in the compiled part: its lent bucket, and that it admits the same messages as Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.hub.cluster.counters import cluster_counters, limit_facts
from equipoise.hub.cluster.stall_watch import StallWatch
from equipoise.hub.cluster.topic_limit import TopicLimit, limit_window
from equipoise.hub.data.topics import Topic
from equipoise.hub.shell import listening
from equipoise.limits import TOKEN, Bucket, Envelope, nanoseconds
from hub.cluster.hubs import Node
from hub.cluster.test_rate_limits import fill, home
from hub.test_wires import WireClient, WireWorld, _Refusing, counts, needs_wires
from hub.world import FakeShell, pipeline
from limits.test_bucket import ExactBucket, arrivals


@needs_wires
@pytest.mark.parametrize("seed", range(40))
def test_a_lent_bucket_admits_exactly_what_the_definition_admits(seed: int) -> None:
    """Lent and taken back at any moment, with a part of a run where there are not enough tokens for all of it."""
    random = Random(seed)
    rate = random.choice([0.001, 0.3, 7.0, 1_000.0, 33_333.333_333, 1e7])
    whole = Envelope(rate, random.choice([1, 2, 10, 10_000, 10**7])).whole
    level = random.randrange(whole.depth + 1)
    bucket = Bucket(whole.rate, whole.depth, 0, level=level)
    exact = ExactBucket(Fraction(whole.rate, 10**6), Fraction(whole.depth, TOKEN), Fraction(level, TOKEN))
    lent, stalls = listening.wires.LentBucket(), StallWatch(FakeShell(1 << 30))
    moments = arrivals(random, rate, 200)
    for i, at in enumerate(moments):
        if not i or random.random() < 0.3:
            if (found := lent.take_back()) is not None:
                bucket.go_on(found[0][0] * TOKEN + found[0][1], found[1])
            now = max(at, bucket._at)
            state = divmod(bucket.level(now), TOKEN), now, divmod(whole.depth, TOKEN), whole.rate
            lent.lend(*state, max(moments) + 1, stalls)
        wanted = random.choice([1, 1, 2, 5, 50])
        taken = lent.take(wanted, at)
        assert exact.take(taken, Fraction(at, 10**9))
        assert taken == wanted or not exact.take(1, Fraction(at, 10**9))


@needs_wires
def test_a_lent_bucket_is_used_until_its_end_time_and_counts_admitted_messages() -> None:
    lent = listening.wires.LentBucket()
    assert lent.take_back() is None
    assert lent.take(1, 0) == 0
    lent.lend((3, 5), 100, (3, 7), 1_000_000, 200, StallWatch(FakeShell(1 << 30)))
    assert lent.take(2, 150) == 2
    assert lent.take(1, 200) == 0
    assert lent.take_back() == ((1, 7), 150, 2, (1, 7))
    assert lent.take(1, 150) == 0


@needs_wires
@pytest.mark.parametrize("seed", range(30))
def test_after_stalls_a_lent_bucket_has_the_tokens_of_the_bucket(seed: int) -> None:
    random, shell = Random(seed), FakeShell(1 << 30)
    watch, lent = StallWatch(shell), listening.wires.LentBucket()
    whole = Envelope(random.choice([50.0, 3_000.0]), random.choice([1, 4, 30])).whole
    now = nanoseconds(shell.fine_now())
    bucket = Bucket(whole.rate, whole.depth, now, level=whole.depth)
    lent.lend(divmod(whole.depth, TOKEN), now, divmod(whole.depth, TOKEN), whole.rate, 1 << 62, watch)
    watch.used()
    for _ in range(200):
        pass_time = random.choice([shell.advance, shell.advance, shell.stall])
        pass_time(random.choice([0.0, 0.001, 0.004, 0.012, 0.03, 0.2]))
        watch.used()
        now = nanoseconds(shell.fine_now())
        wanted = random.choice([1, 2, 30])
        taken = min(wanted, bucket.tokens(now, watch.since(now)))
        assert lent.take(wanted, now) == taken
        assert bucket.take(taken, now, watch.since(now))
    watch.close()


class LimitedWires(WireWorld):
    """A hub of a cluster where the topics x* are limited, with full buckets; its clients are on wires."""

    def __init__(self, rate: float, burst: int) -> None:
        self.hubs, self.node = home(rate=rate, burst=burst)
        self.core, self.shell = self.node.core, self.node.shell
        self.begin()


@contextmanager
def limited_wires(rate: float = 100.0, burst: int = 5) -> Iterator[LimitedWires]:
    world = LimitedWires(rate, burst)
    try:
        yield world
        assert world.problems == []
    finally:
        world.close()


def limit_of(node: Node, name: bytes) -> TopicLimit:
    limit = node.core.index.topics[name].limit
    assert limit is not None
    return limit


publishes = st.builds(
    lambda verb, name, count: [[verb, name, b"x"]] * count,
    st.sampled_from((b"PUBLISH", b"PUBLISH", b"PUBLISH", b"PUBLISH", b"publish")),
    st.sampled_from((b"x1", b"x1", b"x2", b"free")),
    st.integers(1, 4),
)
others = st.sampled_from(
    [
        [[b"PING"]],
        [[b"SUBSCRIBE", b"x1"]],
        [[b"UNSUBSCRIBE"]],
        [[b"MULTI"], [b"PUBLISH", b"x1", b"m"], [b"EXEC"]],
        [[b"EQ.PUBLISH", b"x2", b"one", b"two"]],
        [[b"CLIENT", b"REPLY", b"SKIP"]],
    ]
)
turns = st.tuples(
    st.integers(0, 2),
    st.lists(st.one_of(publishes, publishes, publishes, others), min_size=1, max_size=5),
    st.sampled_from((0.0, 0.0, 0.001, 0.01, 0.05, 0.3)),
    st.sampled_from((0.0, 0.0, 0.0, 0.02)),
)


@needs_wires
@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.lists(turns, min_size=1, max_size=25))
def test_both_ways_admit_alike(sent: list[tuple[int, list[list[list[bytes]]], float, float]]) -> None:
    hubs, reference = home(rate=100.0, burst=5)
    expected = [reference.client() for _ in range(3)]
    with limited_wires() as world:
        clients = [WireClient(world) for _ in range(3)]
        for number, commands, step_s, stall_s in sent:
            chunk = pipeline([command for run in commands for command in run])
            expected[number].send_raw(chunk)
            clients[number].send_raw(chunk)
            for shell in (reference.shell, world.shell):
                shell.advance(step_s)
                shell.stall(stall_s)
            world.turn()
        for client, other in zip(clients, expected, strict=True):
            assert client.read() == bytes(other.wire.sent)
        # Of replies to PUBLISH only those are counted that were gathered with others.
        world.core.stats.reply_bytes = reference.core.stats.reply_bytes = 0
        assert counts(world.core) == counts(reference.core)
        assert _judged(world.node) == _judged(reference)
    hubs.settle()


def _judged(node: Node) -> dict[bytes, object]:
    topics: dict[bytes, Topic] = node.core.index.topics
    return {
        name: (topic.limit.admitted, topic.limit.refused, topic.limit.bucket.level(topic.limit.now()))
        for name, topic in topics.items()
        if topic.limit is not None
    }


@needs_wires
def test_a_topic_with_tokens_takes_the_compiled_way_and_one_without_does_not() -> None:
    with limited_wires(rate=10.0, burst=5) as world:
        subscriber, publisher = WireClient(world), WireClient(world)
        subscriber.send_raw(pipeline([[b"SUBSCRIBE", b"x"]]))
        fill(world.node)
        publisher.send_raw(pipeline([[b"PUBLISH", b"x", b"first"]]))
        reader, publisher.session._reader = publisher.session._reader, _Refusing(publisher.session._reader)
        publisher.send_raw(pipeline([[b"PUBLISH", b"x", b"one"], [b"PUBLISH", b"x", b"two"]]))
        assert publisher.read() == b":1\r\n" * 3
        publisher.session._reader = reader
        publisher.send_raw(pipeline([[b"PUBLISH", b"x", b"three"]] * 4))
        assert publisher.read() == b":1\r\n" * 5
        for _ in range(15):
            world.shell.advance(0.01)
            world.turn()
        assert publisher.read() == b":1\r\n" * 6
        assert subscriber.read().count(b"three") == 3


@needs_wires
def test_messages_admitted_by_the_compiled_way_are_in_every_counter() -> None:
    with limited_wires(burst=5) as world:
        publisher = WireClient(world)
        publisher.send_raw(pipeline([[b"PUBLISH", b"x", b"first"]]))
        fill(world.node)
        for _ in range(2):
            publisher.send_raw(pipeline([[b"PUBLISH", b"x", b"1"]]))
        topic = world.core.index.topics[b"x"]
        assert cluster_counters(world.core.cluster)["limits_admitted"] == 3
        publisher.send_raw(pipeline([[b"PUBLISH", b"x", b"1"]]))
        assert limit_facts([topic])["limit_admitted"] == 4
        publisher.send_raw(pipeline([[b"PUBLISH", b"x", b"1"]]))
        assert limit_window([topic]).drained == 4
        assert topic.is_engaged


@needs_wires
def test_the_compiled_way_admits_under_the_lease_only() -> None:
    with limited_wires(rate=1_000.0, burst=50) as world:
        publisher = WireClient(world)
        fill(world.node)
        publisher.send_raw(pipeline([[b"PUBLISH", b"x", b"1"]] * 2))
        world.core.lease.held_until = lambda: 0.0  # type: ignore[method-assign]  # as if nothing confirmed the hub
        world.shell.advance(0.06)
        publisher.send_raw(pipeline([[b"PUBLISH", b"x", b"1"]] * 2))
        assert limit_of(world.node, b"x").admitted == 2


@needs_wires
def test_events_that_arrive_during_a_stall_are_timed_by_their_arrival_before_any_timer() -> None:
    with limited_wires(rate=1_000.0, burst=3) as world:
        publisher = WireClient(world)
        publisher.send_raw(pipeline([[b"PUBLISH", b"x", b"first"]]))
        world.shell.advance(0.1)
        world.turn()
        fill(world.node)
        before = limit_of(world.node, b"x").admitted
        world.shell.stall(0.018)
        publisher.send_raw(pipeline([[b"PUBLISH", b"x", b"late"]] * 100))
        assert 3 + 17 <= limit_of(world.node, b"x").admitted - before <= 3 + 20


def test_publishes_to_limited_topics_are_gathered_where_all_have_tokens() -> None:
    _, node = home(rate=10.0, burst=4)
    subscribers = {name: node.client() for name in ("x1", "x2", "free")}
    for name, subscriber in subscribers.items():
        subscriber.do("SUBSCRIBE", name)
        node.core.make_topic(name.encode())
    for name in ("x1", "x2"):
        fill(node, name.encode())
    client = node.client()
    batch = [["PUBLISH", name, str(n)] for n in range(3) for name in subscribers]
    client.send_raw(pipeline(batch))
    assert client.read() == [1] * 9
    for subscriber in subscribers.values():
        assert [message[2] for message in subscriber.read()] == [b"0", b"1", b"2"]
    assert {name: limit_of(node, name.encode()).admitted for name in ("x1", "x2")} == {"x1": 3, "x2": 3}
    client.send_raw(pipeline(batch))
    # One token each is left: not gathered, in order, and none is lost or used twice.
    assert client.read() == [1, 1, 1]
    assert {name: limit_of(node, name.encode()).admitted for name in ("x1", "x2")} == {"x1": 4, "x2": 4}
