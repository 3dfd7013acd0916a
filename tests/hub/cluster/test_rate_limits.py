"""Rate envelopes among hubs without sockets: which messages wait or are rejected, and what moves with a topic."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from equipoise.hub.cluster.counters import cluster_counters
from equipoise.hub.cluster.handover_engine import HandoverEngine
from equipoise.hub.cluster.ingress import Ingress
from equipoise.hub.cluster.lane_returns import LaneReturns
from equipoise.hub.cluster.link.capability import CAPABILITIES, REMAINDER
from equipoise.hub.cluster.link.frames import Tag
from equipoise.hub.cluster.streams import Stream
from equipoise.hub.cluster.topic_limit import limit_window
from equipoise.hub.data.topics import Topic
from equipoise.hub.settings import Limits
from equipoise.hub.telemetry.metric_table import METRICS
from equipoise.hub.telemetry.prometheus import MetricsReading, samples_of
from equipoise.limits import TOKEN
from equipoise.model import Mode, Specs, TopicSpec
from equipoise.stream.submission import NextHop, Submission, WaitReason
from hub.cluster.hubs import Hubs, Node
from hub.metered import FakeProcess
from hub.world import Error, FakeClient, pipeline

# Longer than a lease: from then on no hub of a former life can number anything.
START_S = 6.0


def limited(
    *names: str, rate: float = 10.0, burst: int = 2, wait_ms: float = 1_000.0, **options: Any
) -> Hubs:
    """Hubs where x, and whatever begins so, is limited, with full buckets."""
    hubs = Hubs(*names, **options)
    set_specs(hubs, TopicSpec(pattern=b"x*", rate_per_s=rate, burst_messages=burst, wait_ms=wait_ms))
    pass_time(hubs, START_S)
    return hubs


def set_specs(hubs: Hubs, *specs: TopicSpec) -> None:
    for node in hubs.nodes.values():
        node.core.specs.follow(Specs(specs), 1)
        node.cluster.limits.specs_changed(lambda: None)
    hubs.settle()


def pass_time(hubs: Hubs, seconds: float) -> None:
    left = seconds
    while left > 1e-9:
        step = min(left, 0.01)
        for name in sorted(hubs.alive):
            hubs[name].shell.advance(step)
        hubs.settle_now()
        left -= step


def level(node: Node, name: bytes = b"x") -> float:
    limit = node.core.index.topics[name].limit
    assert limit is not None
    return limit.bucket.level(limit.now()) / TOKEN


def home(*, rate: float = 10.0, burst: int = 2, wait_ms: float = 1_000.0) -> tuple[Hubs, Node]:
    hubs = limited("h1", rate=rate, burst=burst, wait_ms=wait_ms)
    return hubs, hubs["h1"]


def fill(node: Node, name: bytes = b"x") -> None:
    """As if the topic had not been used for long."""
    topic = node.core.make_topic(name)
    assert topic is not None
    assert topic.limit is not None
    topic.limit.bucket.fill(topic.limit.share.depth)


def published(hubs: Hubs, hub: str, name: bytes = b"x") -> int:
    topic = hubs[hub].core.index.topics.get(name)
    return 0 if topic is None else topic.published


def test_a_burst_is_admitted_at_once_and_the_next_message_is_answered_when_it_is_admitted() -> None:
    hubs, node = home()
    client = node.client()
    assert client.do("PUBLISH", "x", "1") == 0
    assert client.do("PUBLISH", "x", "2") == 0
    client.send("PUBLISH", "x", "3")
    assert client.read() == []
    pass_time(hubs, 0.09)
    assert client.read() == []
    pass_time(hubs, 0.03)
    assert client.read() == [0]
    assert published(hubs, "h1") == 3


def test_a_message_that_cannot_be_admitted_in_time_is_rejected_with_the_time_to_retry() -> None:
    hubs, node = home(rate=1.0, burst=1, wait_ms=1_500.0)
    assert node.client().do("PUBLISH", "x", "1") == 0
    first, second = node.client(), node.client()
    first.send("PUBLISH", "x", "2")
    refusal = second.do("PUBLISH", "x", "3")
    assert isinstance(refusal, Error)
    assert str(refusal) == "LIMITED x admits 1/s in bursts of 1: try again in 2000 ms"
    pass_time(hubs, 1.1)
    assert first.read() == [0]
    assert published(hubs, "h1") == 2


def _turns_of_two(hubs: Hubs, node: Node) -> list[tuple[bool, bool]]:
    """One token per second: one client retries 0.1 s after each token, the other one just before it."""
    late, early = node.client(), node.client()
    admitted: list[bool] = []
    for _ in range(6):
        late.send("PUBLISH", "x", "late")
        # A message just before the token is answered a moment after it.
        pass_time(hubs, 0.5)
        admitted += [early.read() == [0], late.read() == [0]]
        pass_time(hubs, 0.38)
        early.send("PUBLISH", "x", "early")
        pass_time(hubs, 0.2)
    pass_time(hubs, 0.5)
    admitted.append(early.read() == [0])
    return list(zip(admitted[1::2], admitted[2::2], strict=True))


def test_a_client_that_was_rejected_finds_a_token_when_it_retries() -> None:
    """Else it would be refused for ever, by another that comes just ahead of each token (cluster-everything 1904)."""
    hubs, node = home(rate=1.0, burst=1, wait_ms=200.0)
    assert node.client().do("PUBLISH", "x", "0") == 0
    pass_time(hubs, 0.05)
    assert _turns_of_two(hubs, node) == [(False, False), (True, True)] * 3
    limit = node.core.index.topics[b"x"].limit
    assert limit is not None
    assert limit.admitted == 7


@pytest.mark.parametrize("is_relay", [False, True])
@pytest.mark.parametrize("period", [3, 5, 6, 7])
def test_a_client_that_retries_too_early_keeps_its_token(period: int, is_relay: bool) -> None:
    """Else two clients that ignore the time to retry lose it to each other, and one never has a turn."""
    hubs = placed("h1", "h2", rate=1.0, burst=1, wait_ms=100.0)
    node = hubs["h2" if is_relay else "h1"]
    clients, admitted = [node.client(), node.client()], [0, 0]
    for step in range(200):
        for number, client in enumerate(clients):
            if step % period == number:
                client.send("PUBLISH", "x", "again")
        pass_time(hubs, 0.05)
        admitted = [had + client.read().count(0) for had, client in zip(admitted, clients, strict=True)]
    assert min(admitted) >= 3
    assert sum(admitted) >= 8


def test_a_token_is_not_kept_for_a_client_that_has_disconnected() -> None:
    hubs, node = home(rate=1.0, burst=1, wait_ms=100.0)
    assert node.client().do("PUBLISH", "x", "0") == 0
    first, second = node.client(), node.client()
    assert isinstance(first.do("PUBLISH", "x", "1"), Error)
    pass_time(hubs, 1.01)
    assert isinstance(second.do("PUBLISH", "x", "2"), Error)
    node.core.lost(first.session)
    assert second.do("PUBLISH", "x", "3") == 0


def test_a_relay_keeps_a_token_too() -> None:
    hubs = placed("h1", "h2", rate=1.0, burst=1, wait_ms=200.0)
    hubs["h2"].client().send("PUBLISH", "x", "0")
    pass_time(hubs, 0.05)
    assert _turns_of_two(hubs, hubs["h2"]) == [(False, False), (True, True)] * 3


def test_a_pipeline_is_slowed_down_and_answered_message_by_message() -> None:
    hubs, node = home(rate=100.0, burst=3)
    subscriber = node.client()
    subscriber.do("SUBSCRIBE", "x")
    client = node.client()
    client.send_raw(pipeline(["PUBLISH", "x", str(n)] for n in range(20)))
    assert client.read() == [1, 1, 1]
    answered = 3
    for _ in range(17):
        pass_time(hubs, 0.01)
        answered += len(client.read())
        assert answered <= published(hubs, "h1")
    pass_time(hubs, 0.05)
    assert answered + len(client.read()) == 20
    assert [message[2] for message in subscriber.read()] == [b"%d" % n for n in range(20)]


def test_connections_take_turns_one_message_each() -> None:
    hubs, node = home(rate=100.0, burst=1, wait_ms=10_000.0)
    subscriber = node.client()
    subscriber.do("SUBSCRIBE", "x")
    hog, polite = node.client(), node.client()
    hog.send_raw(pipeline(["PUBLISH", "x", f"hog {n}"] for n in range(50)))
    polite.send("PUBLISH", "x", "polite")
    pass_time(hubs, 0.05)
    assert polite.read() == [1]
    heard = [message[2] for message in subscriber.read()]
    assert heard.index(b"polite") <= 2
    assert heard[0] == b"hog 0"


def test_replies_of_a_filtered_topic_count_the_matches_when_messages_are_admitted() -> None:
    hubs, node = home()
    subscriber, client = node.client(), node.client()
    subscriber.do("PSUBSCRIBE", "$filter x a = 1")
    for n in range(4):
        client.send("PUBLISH", "x", f'{{"a": {n % 2}}}')
    pass_time(hubs, 0.25)
    assert [type(reply) for reply in client.read()] == [int] * 4
    assert len(subscriber.read()) == 2


def test_the_dependencies_of_a_message_are_kept_while_it_waits() -> None:
    """
    1. A client's message that names a position is refused: its next one comes after the same position.
    2. That one waits for a token, and has it while no other message is under way.
    """
    hubs, node = home()
    client, named = node.client(), Tag(b"h2", 1 << 60, 7)
    fill(node)
    topic = node.core.index.topics[b"x"]
    assert topic.limit is not None
    topic.limit.bucket.fill(0)
    topic.limit.owed_after[client.session.id] = (named,)
    client.send("PUBLISH", "x", "1")
    pass_time(hubs, 0.12)
    assert client.read() == [0]
    assert named in node.cluster.tags.marks_of(topic)


def test_the_cost_of_a_token_does_not_grow_with_the_number_of_waiting_clients() -> None:
    few, many = (steps_per_token(clients) for clients in (10, 1_000))
    assert many < 1.5 * few


def steps_per_token(clients: int) -> float:
    """Bytecode instructions that serving a topic takes per message, while so many clients wait."""
    _, node = home(rate=100.0, burst=1, wait_ms=60_000.0)
    waiting = [node.client() for _ in range(clients)]
    for client in waiting:
        client.send("PUBLISH", "x", "1")
    topic = node.core.index.topics[b"x"]
    limits, before, steps = node.cluster.limits, topic.published, 0

    def count(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal steps
        frame.f_trace_opcodes = True
        steps += event == "opcode"
        return count

    for _ in range(5):
        node.shell.advance(0.01)
        assert topic.limit is not None
        latest = sys.gettrace()
        sys.settrace(count)
        try:
            limits.serve(topic)
        finally:
            sys.settrace(latest)
    assert topic.published - before >= 4
    return steps / (topic.published - before)


def test_other_commands_of_the_connection_wait_behind_and_other_topics_do_not() -> None:
    hubs, node = home()
    client, other = node.client(), node.client()
    client.send_raw(pipeline([["PUBLISH", "x", "1"], ["PUBLISH", "x", "2"], ["PUBLISH", "x", "3"], ["PING"]]))
    assert client.read() == [0, 0]
    assert other.do("PUBLISH", "free", "1") == 0
    pass_time(hubs, 0.12)
    assert client.read() == [0, b"PONG"]


def test_a_transaction_is_answered_when_its_last_message_is_admitted() -> None:
    hubs, node = home()
    client = node.client()
    for words in (["MULTI"], *(["PUBLISH", "x", str(n)] for n in range(4))):
        client.do(*words)
    client.send("EXEC")
    assert client.read() == []
    pass_time(hubs, 0.25)
    assert client.read() == [[0, 0, 0, 0]]


def test_without_replies_messages_are_also_admitted() -> None:
    hubs, node = home()
    client = node.client()
    client.send("CLIENT", "REPLY", "OFF")
    for n in range(4):
        client.send("PUBLISH", "x", str(n))
    pass_time(hubs, 0.25)
    assert client.read() == []
    assert published(hubs, "h1") == 4


def test_unanswered_messages_of_a_client_that_has_disconnected_are_not_published() -> None:
    hubs, node = home()
    client, other = node.client(), node.client()
    client.send_raw(pipeline(["PUBLISH", "x", str(n)] for n in range(6)))
    assert client.read() == [0, 0]
    node.core.lost(client.session)
    assert node.cluster.limits.clients.budget.used == 0
    pass_time(hubs, 0.5)
    assert published(hubs, "h1") == 2
    assert other.do("PUBLISH", "x", "next") == 0


def test_removing_the_limit_admits_the_waiting_messages() -> None:
    hubs, node = home(wait_ms=60_000.0)
    client = node.client()
    client.send_raw(pipeline(["PUBLISH", "x", str(n)] for n in range(9)))
    client.read()
    set_specs(hubs)
    assert client.read() == [0] * 7
    assert published(hubs, "h1") == 9
    assert node.cluster.limits.clients.budget.used == 0


def test_a_command_of_several_messages_is_rejected_as_a_whole_or_not_at_all() -> None:
    hubs, node = home()
    client = node.client(3)
    stream, _, n, receivers = client.do("EQ.PUBLISH", "x", "1", "2")
    assert (stream, n, receivers) == (b"", 2, 0)
    refusal = client.do("EQ.PUBLISH", "x", *map(str, range(50)))
    assert str(refusal).startswith("LIMITED x admits 10/s in bursts of 2: try again in ")
    assert published(hubs, "h1") == 2
    client.send("EQ.PUBLISH", "x", "3", "4", "5")
    pass_time(hubs, 0.35)
    assert client.read()[0][2] == 5
    assert published(hubs, "h1") == 5


def test_system_topics_and_shard_channels_have_no_limit() -> None:
    hubs = Hubs("h1")
    set_specs(hubs, TopicSpec(pattern=b"*", rate_per_s=1.0), TopicSpec(pattern=b"$*", rate_per_s=1.0))
    pass_time(hubs, START_S)
    client, subscriber = hubs["h1"].client(), hubs["h1"].client()
    subscriber.do("SSUBSCRIBE", "shard")
    for _ in range(5):
        assert client.do("PUBLISH", "$topic", "1") == 0
        assert client.do("SPUBLISH", "shard", "1") == 1


def test_messages_beyond_the_waiting_limit_are_rejected() -> None:
    hubs = limited("h1", wait_ms=60_000.0, limits={"h1": Limits(waiting_bytes_max=2_000)})
    client = hubs["h1"].client()
    client.send_raw(pipeline(["PUBLISH", "x", "y" * 500] for _ in range(10)))
    pass_time(hubs, 0.01)
    assert hubs["h1"].cluster.limits.clients.budget.used <= 2_000
    pass_time(hubs, 2.0)
    replies = client.read()
    refused = [reply for reply in replies if isinstance(reply, Error)]
    assert len(replies) == 10
    assert refused
    assert str(refused[0]).startswith("LIMITED")
    assert published(hubs, "h1") == 10 - len(refused)


# Among hubs.


def placed(*names: str, mode: Mode = Mode.SINGLE, homes: tuple[str, ...] = ("h1",), **options: Any) -> Hubs:
    hubs = limited(*names, **options)
    hubs.replicate("x", mode, *homes)
    pass_time(hubs, START_S)
    return hubs


def test_messages_through_another_hub_are_charged_at_the_home() -> None:
    hubs = placed("h1", "h2", rate=10.0, burst=4)
    client = hubs["h2"].client()
    for _ in range(4):
        client.send("PUBLISH", "x", "1")
    hubs.settle()
    assert client.read() == [0] * 4
    assert published(hubs, "h1") == 4
    own = hubs["h1"].client()
    own.send("PUBLISH", "x", "1")
    assert own.read() == []
    pass_time(hubs, 0.12)
    assert own.read() == [0]


def test_a_relay_sends_no_more_ahead_than_the_envelope_admits() -> None:
    hubs = placed("h1", "h2", rate=10.0, burst=4, wait_ms=60_000.0)
    client = hubs["h2"].client()
    # From the first one on the home would report a loss if this hub died with acknowledged messages.
    client.send("PUBLISH", "x", "first")
    pass_time(hubs, 1.0)
    assert client.read() == [0]
    hubs.held.add(("h1", "h2"))
    client.send_raw(pipeline(["PUBLISH", "x", str(n)] for n in range(40)))
    pass_time(hubs, 1.0)
    # The depth and 0.1 s of the rate.
    assert len(client.read()) == 5
    # A home that does not acknowledge gets no more than it has; one that is slow gets one at a time.
    hubs.release("h1", "h2")
    pass_time(hubs, 4.0)
    assert len(client.read()) == 35
    assert published(hubs, "h1") == 41


def test_the_level_of_a_bucket_moves_with_its_topic_without_subscribers() -> None:
    hubs = placed("h1", "h2", rate=0.1, burst=10)
    fill(hubs["h1"])
    client = hubs["h1"].client()
    for _ in range(10):
        assert client.do("PUBLISH", "x", "1") == 0
    hubs.replicate("x", Mode.SINGLE, "h2")
    pass_time(hubs, 1.0)
    assert level(hubs["h2"]) < 0.3
    assert level(hubs["h1"]) == 0.0
    assert isinstance(hubs["h2"].client().do("PUBLISH", "x", "1"), Error)


def test_after_a_death_the_next_home_waits_for_the_lease_and_begins_empty() -> None:
    hubs = placed("h1", "h2", "h3", rate=1.0, burst=10)
    hubs["h2"].client().send("PUBLISH", "x", "1")
    hubs.settle()
    hubs.kill("h1")
    hubs.replicate("x", Mode.SINGLE, "h2")
    term_s = hubs["h2"].core.lease.term_s
    pass_time(hubs, term_s - 0.5)
    assert level(hubs["h2"]) == 0.0
    pass_time(hubs, 1.5)
    assert 0.5 < level(hubs["h2"]) < 1.5


def test_shares_of_the_homes_sum_up_to_the_envelope_all_the_while() -> None:
    hubs = placed("h1", "h2", "h3", rate=12.0, burst=6)
    hubs["h1"].client().do("PUBLISH", "x", "1")

    def total() -> tuple[int, int]:
        shares = [
            stream.limit.share
            for node in hubs.nodes.values()
            for stream in [*node.core.index.topics.values(), *node.core.index.lanes.values()]
            if stream.limit is not None and stream.is_home
        ]
        return sum(share.rate for share in shares), sum(share.depth for share in shares)

    assert total() == (12_000_000, 6 * TOKEN)
    # h3 does not send DONE, so no share grows; h1 has shrunk.
    hubs.held.add(("h3", "h2"))
    hubs.held.add(("h3", "h1"))
    hubs.replicate("x", Mode.ALL_SUBSCRIBERS, "h1", "h2")
    pass_time(hubs, 1.0)
    assert total() == (6_000_000, 3 * TOKEN)
    hubs.release("h3", "h2")
    hubs.release("h3", "h1")
    pass_time(hubs, 1.0)
    assert total() == (12_000_000, 6 * TOKEN)
    hubs.replicate("x", Mode.SINGLE, "h3")
    pass_time(hubs, 2.0)
    assert total() == (12_000_000, 6 * TOKEN)


def test_a_relay_counts_as_many_as_wait_there() -> None:
    hubs = placed("h1", "h2", rate=10.0, burst=1, wait_ms=60_000.0)
    hog = hubs["h1"].client()
    hog.send_raw(pipeline(["PUBLISH", "x", str(n)] for n in range(200)))
    clients = [hubs["h2"].client() for _ in range(9)]
    for client in clients:
        client.send_raw(pipeline(["PUBLISH", "x", str(n)] for n in range(50)))
    pass_time(hubs, 4.0)
    hog.read()
    for client in clients:
        client.read()
    pass_time(hubs, 10.0)
    # Of a hundred, a tenth each; messages in flight cause small deviations.
    counts = [len(hog.read()), *(len(client.read()) for client in clients)]
    assert counts[0] <= 25, counts
    assert min(counts) >= 6, counts


def test_a_topic_is_not_removed_before_its_bucket_is_full() -> None:
    hubs = limited("h1", rate=0.01, burst=3)
    core = hubs["h1"].core
    fill(hubs["h1"])
    hubs["h1"].client().do("PUBLISH", "x", "1")
    for _ in range(3):
        core.index.sweep(1_000)
    assert b"x" in core.index.topics
    pass_time(hubs, 100.5)
    for _ in range(3):
        core.index.sweep(1_000)
    assert b"x" not in core.index.topics


def test_without_the_lease_nothing_is_numbered() -> None:
    hubs, node = home()
    client = node.client()
    assert client.do("PUBLISH", "x", "1") == 0
    node.core.lease.start(node.cluster)
    node.cluster.is_seen = False
    pass_time(hubs, 0.2)
    client.send("PUBLISH", "x", "2")
    pass_time(hubs, 0.5)
    assert client.read() == []
    pass_time(hubs, 1.0)
    (refusal,) = client.read()
    assert str(refusal).startswith("LIMITED")
    assert published(hubs, "h1") == 1


def test_messages_that_wait_at_a_paused_hub_are_numbered_once_the_hub_is_confirmed() -> None:
    hubs, node = home(burst=1, wait_ms=60_000.0)
    core = node.core
    core.lease.start(node.cluster)
    core.standstill.start()
    client = node.client()
    client.send("PUBLISH", "x", "1")
    client.send("PUBLISH", "x", "2")
    before = published(hubs, "h1")
    assert client.read() == [0] * before
    # Its session may have ended meanwhile, though it knows no other hub that could have the topic.
    node.shell.stall(2 * core.lease.term_s)
    pass_time(hubs, 0.9 * core.lease.term_s)
    assert published(hubs, "h1") == before < 2
    core.lease.store_answered(core.now())
    pass_time(hubs, 0.2)
    assert published(hubs, "h1") == 2


@pytest.mark.parametrize("mode", [Mode.SINGLE, Mode.ALL_PUBLISHERS])
def test_one_home_orders_and_has_the_only_bucket(mode: Mode) -> None:
    homes = ("h1",) if mode is Mode.SINGLE else ("h1", "h2")
    hubs = placed("h1", "h2", mode=mode, homes=homes, rate=10.0, burst=3)
    clients: list[FakeClient] = [hubs[hub].client() for hub in ("h1", "h2")]
    for _ in range(3):
        for client in clients:
            client.send("PUBLISH", "x", "1")
    hubs.settle()
    assert published(hubs, "h1") == 3
    pass_time(hubs, 0.35)
    assert published(hubs, "h1") == 6


def test_a_command_and_metrics_report_the_effects_of_a_limit() -> None:
    hubs, node = home(rate=10.0, burst=2)
    client = node.client()
    client.send_raw(pipeline(["PUBLISH", "x", str(n)] for n in range(4)))
    assert client.read() == [0, 0]
    hubs.settle_now()
    row, missing = node.client().do("EQ.ENVELOPE", "x", "unlimited")
    assert missing is None
    facts = {name.decode(): float(number) for name, number in zip(row[::2], row[1::2], strict=True)}
    assert facts.pop("delay_s") == facts.pop("delay_s_max") == 0.0
    assert facts == {
        "rate_per_s": 10.0,
        "burst": 2.0,
        "wait_s": 1.0,
        "share_rate_per_s": 10.0,
        "share_burst": 2.0,
        "admitted": 2.0,
        "refused": 0.0,
        "waiting": 2.0,
        "delayed": 0.0,
    }
    counters = cluster_counters(node.cluster)
    assert (counters["limits_admitted"], counters["limits_waiting_messages"]) == (2, 2)
    reading = MetricsReading(node.core, 10)
    reading.busiest = [node.core.index.topics[b"x"]]
    given = {sample.name for sample in samples_of(reading)}
    assert {name for name, scope, *_ in METRICS if scope == "limited"} <= given
    pass_time(hubs, 0.25)
    assert cluster_counters(node.cluster)["limits_waiting_bytes"] == 0
    (row,) = node.client().do("EQ.ENVELOPE", "x")
    assert float(row[row.index(b"delay_s") + 1]) > 0.2


def test_a_lane_that_has_to_end_before_it_gets_a_share_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seed 103 of a world with everything, with hubs that take nothing back:

    1. A lane has to end, and messages wait in it; until they are numbered, no share grows.
    2. The next lane opens meanwhile, without a share, and takes a message from another hub.
    3. The plan drops that lane, too. Without a share it could not number the message, nor end.
    """
    monkeypatch.setattr(LaneReturns, "_link", lambda *_: None)
    monkeypatch.setattr(LaneReturns, "_ask", lambda *_: False)
    names = [f"h{n}" for n in range(1, 10)]
    hubs = placed(*names, mode=Mode.ALL_SUBSCRIBERS, homes=("h1", "h2"), rate=4.0, wait_ms=60_000.0)
    early, late = ([hubs[name].client() for name in some] for some in (names[3:6], names[6:]))
    for client in early:
        client.send_raw(pipeline(["PUBLISH", "x", str(n)] for n in range(2)))
    pass_time(hubs, 0.1)
    hubs.replicate("x", Mode.ALL_SUBSCRIBERS, "h1", "h3")
    pass_time(hubs, 0.1)
    for client in late:
        client.send("PUBLISH", "x", "late")
    pass_time(hubs, 0.1)
    lane = next(lane for lane in hubs["h3"].core.index.lanes.values() if lane.is_home)
    assert lane.limit is not None
    assert (lane.limit.share.rate, bool(lane.limit.ring)) == (0, True)
    hubs.replicate("x", Mode.SINGLE, "h1")
    pass_time(hubs, 8.0)
    assert [client.read() for client in late] == [[0]] * len(late)
    assert [client.read() for client in early] == [[0, 0]] * len(early)
    assert level(hubs["h1"]) == 2.0
    assert not hubs["h3"].core.index.lanes


@pytest.mark.parametrize("is_old", [False, True])
def test_tokens_that_a_lane_has_left_go_to_the_trunk(is_old: bool) -> None:
    """
    1. The topic has a full share at each of two hubs: 2 of 4 tokens.
    2. The plan ends the lane. The trunk has all 4 tokens at once, not after 0.2 s of the rate.
    3. A hub of the previous release does not know the frame: the gained depth is empty.
    """
    hubs = placed("h1", "h2", mode=Mode.ALL_SUBSCRIBERS, homes=("h1", "h2"), rate=10.0, burst=4)
    pass_time(hubs, 1.0)
    for node in hubs.nodes.values():
        fill(node)
    lane = next(lane for lane in hubs["h2"].core.index.lanes.values() if lane.is_home)
    assert lane.limit is not None
    lane.limit.bucket.fill(lane.limit.share.depth)
    if is_old:
        hubs["h2"].cluster.out["h1"].capabilities = CAPABILITIES - {REMAINDER}
    hubs.replicate("x", Mode.SINGLE, "h1")
    hubs.settle_now()
    assert int(level(hubs["h1"])) == (2 if is_old else 4)


def shares_at(hubs: Hubs) -> dict[str, tuple[float, float]]:
    """By hub, the messages per second and the tokens that it has of x."""
    return {
        name: (stream.limit.share.rate / 1e6, stream.limit.share.depth / TOKEN)
        for name, node in hubs.nodes.items()
        for stream in [*node.core.index.topics.values(), *node.core.index.lanes.values()]
        if stream.limit is not None and stream.is_home and stream.name == b"x"
    }


def test_rate_and_depth_have_shares_of_their_own() -> None:
    hubs = placed("h1", "h2", rate=10.0, burst=10)
    hubs["h1"].client().do("PUBLISH", "x", "1")
    shares, depths = (800_000, 200_000), (300_000, 700_000)
    hubs.replicate("x", Mode.ALL_SUBSCRIBERS, "h1", "h2", shares=shares, depths=depths)
    pass_time(hubs, 1.0)
    assert shares_at(hubs) == {"h1": (8.0, 3.0), "h2": (2.0, 7.0)}


def test_a_change_of_shares_queries_its_topic_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    hubs = placed("h1", "h2", rate=10.0, burst=10)
    hubs.replicate("x", Mode.ALL_SUBSCRIBERS, "h1", "h2")
    hubs.publish_first("h1", "x", *(f"other-{number}" for number in range(20)))
    pass_time(hubs, 1.0)
    asked: list[bytes] = []
    evaluate = HandoverEngine.evaluate

    def noted(engine: HandoverEngine, topic: Topic) -> None:
        asked.append(topic.name)
        evaluate(engine, topic)

    monkeypatch.setattr(HandoverEngine, "evaluate", noted)
    hubs.replicate("x", Mode.ALL_SUBSCRIBERS, "h1", "h2", shares=(900_000, 100_000))
    pass_time(hubs, 1.0)
    assert set(asked) == {b"x"}
    assert shares_at(hubs) == {"h1": (9.0, 9.0), "h2": (1.0, 1.0)}
    # Any other change queries all topics.
    hubs.replicate("other-1", Mode.SINGLE, "h2")
    assert b"other-2" in asked


def test_telemetry_reports_the_use_of_a_share() -> None:
    hubs, node = home(rate=10.0, burst=5)
    fill(node)
    client = node.client()
    for _ in range(3):
        client.do("PUBLISH", "x", "1")
    found = limit_window([node.core.index.topics[b"x"]])
    assert (found.drained, found.waiting) == (3, 0)
    others = [node.client() for _ in range(5)]
    for other in others:
        other.send("PUBLISH", "x", "2")
    waiting = limit_window([node.core.index.topics[b"x"]])
    assert (waiting.waiting, waiting.drained) == (3, 5 + 3)
    pass_time(hubs, 0.5)
    assert limit_window([node.core.index.topics[b"x"]]).throttle_us >= 300_000
    # Each window starts at zero.
    assert limit_window([node.core.index.topics[b"x"]]).throttle_us == 0


def test_telemetry_reports_admitted_and_rejected_messages_of_a_hubs_clients() -> None:
    """h1 numbers the topic; clients of h2 wait there, and are rejected there."""
    hubs = limited("h1", "h2", rate=1.0, burst=1, wait_ms=2_500.0)
    hubs.replicate("x", Mode.SINGLE, "h1")
    hubs.publish_first("h1", "x")
    home, far = hubs["h1"].core.index.topics[b"x"], hubs["h2"]
    far.core.metering.start(FakeProcess(), bytes)
    hubs.publish_first("h2", "x")
    topic = far.core.index.topics[b"x"]
    pass_time(hubs, 3.0)
    assert topic.meter is None, "nothing was published for a window"
    for _ in range(200):
        far.client().send("PUBLISH", "x", "1")
    refused = limit_window([topic]).refused
    assert refused > 0 and limit_window([topic]).refused == 0
    # Also a window without anything else has a record.
    meter = topic.trunk.meter
    assert meter is not None and meter.is_noted
    found, numbered = limit_window([topic]), limit_window([home])
    assert (found.drained, found.waiting > 0) == (0, True)
    assert (numbered.drained > 0, numbered.refused) == (True, 0)


def test_a_token_that_arrives_while_a_message_is_being_queued_admits_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    1. A message of another hub comes when there is no token, and is held.
    2. The next token comes before the message is queued for it: clocks go on within a turn of the loop.
    3. Nothing held the message then, so it was not queued, and no timer looked at it again. All later messages of
       that hub waited behind it, with a full bucket (seen on a busy machine with two hubs, in minutes).
    """
    hubs = limited("h1", "h2", rate=10.0, burst=1)
    hubs.replicate("x", Mode.SINGLE, "h1")
    for hub in ("h1", "h2"):
        hubs.publish_first(hub, "x")
    pass_time(hubs, 0.5)
    node, waiting_for = hubs["h1"], Ingress.waiting_for

    def late(
        ingress: Ingress, stream: Stream, item: Submission, hop: NextHop | None = None
    ) -> WaitReason | None:
        reason = waiting_for(ingress, stream, item, hop)
        if ingress is node.cluster.ingress and reason is WaitReason.TOKENS:
            node.shell._now += 0.1
        return reason

    monkeypatch.setattr(Ingress, "waiting_for", late)
    before = published(hubs, "h1")
    node.client().send("PUBLISH", "x", "takes the token")
    for client in [hubs["h2"].client() for _ in range(2)]:
        client.send("PUBLISH", "x", "1")
    hubs.settle_now()
    monkeypatch.undo()
    pass_time(hubs, 1.0)
    assert published(hubs, "h1") == before + 3


def test_messages_that_wait_in_a_lane_that_ends_return_to_their_publishers_and_go_to_the_trunk() -> None:
    """
    1. Messages of other hubs' clients wait in a lane that admits one in fifty seconds.
    2. The plan drops the lane. It ends at once: a plan does not wait for tokens.
    3. They wait for the trunk's tokens instead, in order, and each is answered when it is admitted.
    """
    names = [f"h{n}" for n in range(1, 10)]
    hubs = placed(*names, mode=Mode.ALL_SUBSCRIBERS, homes=("h1", "h2"), rate=0.04, burst=4, wait_ms=60_000.0)
    listener = hubs["h1"].client()
    listener.send("SUBSCRIBE", "x")
    hubs.settle()
    assert len(listener.read()) == 1
    senders = {name: hubs[name].client() for name in names[2:]}
    for name, client in senders.items():
        client.send_raw(pipeline(["PUBLISH", "x", f"{name} {n}"] for n in range(2)))
    pass_time(hubs, 0.5)
    lane = next(lane for lane in hubs["h2"].core.index.lanes.values() if lane.is_home)
    assert lane.stream is not None
    held = sum(item.messages for items in lane.stream.admission.waiting.values() for item in items)
    assert held > 0
    hubs.replicate("x", Mode.SINGLE, "h1")
    pass_time(hubs, 0.5)
    assert not hubs["h2"].core.index.lanes
    assert hubs["h2"].cluster.lanes.returns.sent == held
    assert sum(hubs[name].cluster.lanes.returns.taken for name in senders) == held
    set_specs(hubs)
    pass_time(hubs, 1.0)
    came = [message[2].decode().split() for message in listener.read()]
    for name, client in senders.items():
        assert [int(n) for who, n in came if who == name] == [0, 1]
        assert len(client.read()) == 2


def test_severing_a_link_waits_for_messages_that_had_waited_for_tokens() -> None:
    """They count for the connection that they came over, though another has published since."""
    hubs = limited("h1", "h2", rate=10.0, burst=1, wait_ms=5_000.0)
    hubs.replicate("x", Mode.SINGLE, "h2")
    node = hubs["h1"]
    hubs.publish_first("h1", "x")
    leaving, other = node.client(), node.client()
    leaving.session.link = b"leaving"
    node.core.links[b"leaving"] = leaving.session
    leaving.send_raw(pipeline(["PUBLISH", "x", str(n)] for n in range(12)))
    pass_time(hubs, 0.5)
    hubs.held.add(("h2", "h1"))
    for _ in range(10):
        other.send("PUBLISH", "x", "other")
        pass_time(hubs, 0.05)
    ended: list[bool] = []
    node.cluster.severing._sever_here(b"leaving", lambda: ended.append(True))
    assert ended == []
    hubs.release("h2", "h1")
    pass_time(hubs, 1.0)
    assert ended == [True]
