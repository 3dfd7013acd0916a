"""Filters of plain clients: deliveries, counters, and rejected filters."""

from __future__ import annotations

import json

import pytest

from equipoise.access import parse_users
from equipoise.content.attributes import AttributeSource
from equipoise.hub.data.departures import AT_ONCE
from equipoise.hub.settings import Limits
from equipoise.model import Specs, TopicSpec
from hub.test_access import denied
from hub.world import SECRET, Error, FakeClient, World, pipeline, users

YHOO = "$filter stocks symbol = 'YHOO' and volume > 150"
FILTERS = 'subscribe = ["*"]\nfilter = ["*"]\ncreate = ["*"]\npublish = ["*"]'


def quote(symbol: str, volume: float) -> bytes:
    return json.dumps({"symbol": symbol, "volume": volume}).encode()


def subscribed(world: World, *texts: str, proto: int = 2) -> FakeClient:
    client = world.client(proto)
    assert [answer[:2] for answer in client.do_all("PSUBSCRIBE", *texts)] == [
        [b"psubscribe", text.encode()] for text in texts
    ]
    return client


@pytest.mark.parametrize("proto", [2, 3])
def test_a_subscriber_gets_matching_messages_with_the_filter_text_that_it_sent(proto: int) -> None:
    world = World()
    client, publisher = world.client(proto), world.client()
    assert client.do("PSUBSCRIBE", YHOO) == [b"psubscribe", YHOO.encode(), 1]
    assert publisher.do("PUBLISH", "stocks", quote("YHOO", 200)) == 1
    assert publisher.do("PUBLISH", "stocks", quote("YHOO", 150)) == 0
    assert publisher.do("PUBLISH", "stocks", quote("IBM", 200)) == 0
    assert publisher.do("PUBLISH", "stocks", b"not json") == 0
    assert client.read() == [[b"pmessage", YHOO.encode(), b"stocks", quote("YHOO", 200)]]
    assert client.do("PUNSUBSCRIBE", YHOO) == [b"punsubscribe", YHOO.encode(), 0]
    assert publisher.do("PUBLISH", "stocks", quote("YHOO", 200)) == 0


def test_filter_in_capitals_is_an_ordinary_pattern() -> None:
    world = World()
    client, publisher = world.client(), world.client()
    text = YHOO.replace("$filter", "$FILTER")
    assert client.do("PSUBSCRIBE", text) == [b"psubscribe", text.encode(), 1]
    assert publisher.do("PUBLISH", "stocks", quote("YHOO", 200)) == 0
    assert client.read() == []


@pytest.mark.parametrize("is_new_life", [False, True])
def test_many_filters_of_a_closed_connection_are_removed_in_turns(is_new_life: bool) -> None:
    world = World()
    texts = [f"$filter stocks volume > {number}" for number in range(3 * AT_ONCE)]
    client = subscribed(world, *texts)
    client.do("SUBSCRIBE", "other")
    stays = subscribed(world, YHOO)
    before = world.core.filtering.subscriptions
    world.core.lost(client.session)
    assert 0 < before - world.core.filtering.subscriptions < 2 * AT_ONCE
    assert not world.core.index.topics[b"other"].members
    publisher = world.client()
    assert publisher.do("PUBLISH", "stocks", quote("YHOO", 200)) >= 1
    if is_new_life:
        world.core.begin_anew()
    else:
        world.advance(1.0)
        assert stays.read() == [[b"pmessage", YHOO.encode(), b"stocks", quote("YHOO", 200)]]
        assert publisher.do("PUBLISH", "stocks", quote("YHOO", 200)) == 1
    assert world.core.filtering.subscriptions == (0 if is_new_life else 1)


def test_each_message_of_a_pipeline_has_its_own_count() -> None:
    world = World()
    subscribed(world, YHOO)
    by_name = world.client()
    by_name.send("SUBSCRIBE", "stocks")
    subscribed(world, "$filter stocks volume > 100")
    publisher = world.client()
    volumes = [50, 120, 500, 10]
    publisher.send_raw(pipeline(["PUBLISH", "stocks", quote("YHOO", volume)] for volume in volumes))
    assert publisher.read() == [1, 2, 3, 1]
    mixed: list[list[str | bytes]] = [
        ["PUBLISH", "stocks", quote("YHOO", 500)],
        ["PUBLISH", "other", b"x"],
    ] * 3
    publisher.send_raw(pipeline(mixed))
    assert publisher.read() == [3, 0] * 3
    assert len(by_name.read()) == 1 + 4 + 3


def test_two_spellings_of_one_filter_are_two_subscriptions_and_one_filter() -> None:
    world = World()
    other = "$filter stocks volume>150 AND symbol='YHOO'"
    client = subscribed(world, YHOO, other)
    assert world.core.filtering.filters == 1
    assert world.client().do("PUBLISH", "stocks", quote("YHOO", 200)) == 2
    assert [message[1] for message in client.read()] == [YHOO.encode(), other.encode()]
    client.do("PUNSUBSCRIBE", other)
    assert world.client().do("PUBLISH", "stocks", quote("YHOO", 200)) == 1
    assert [answer[1] for answer in client.do_all("PUNSUBSCRIBE")[1:]] == [YHOO.encode()]
    assert world.core.filtering.filters == world.core.filtering.subscriptions == 0


def test_one_command_may_contain_patterns_and_filters() -> None:
    world = World()
    client = subscribed(world, "sto*", YHOO)
    assert world.client().do("PUBSUB", "NUMPAT") == 2
    assert world.client().do("PUBLISH", "stocks", quote("YHOO", 200)) == 2
    assert world.client().do("PUBLISH", "stocks", quote("IBM", 200)) == 1
    assert {message[1] for message in client.read()} == {b"sto*", YHOO.encode()}
    assert len(client.do_all("PUNSUBSCRIBE")) == 2


def test_a_topic_with_filters_only_is_listed_and_not_removed() -> None:
    world = World()
    client = subscribed(world, YHOO)
    assert world.client().do("PUBSUB", "NUMSUB", "stocks") == [b"stocks", 1]
    assert world.client().do("PUBSUB", "CHANNELS") == [b"stocks"]
    topic = world.core.index.topics[b"stocks"]
    world.advance(1_000)
    world.advance(1_000)
    assert world.core.index.topics[b"stocks"] is topic
    client.do("PUNSUBSCRIBE", YHOO)
    assert topic.content is None
    assert world.client().do("PUBSUB", "CHANNELS") == []
    world.advance(1_000)
    world.advance(1_000)
    assert b"stocks" not in world.core.index.topics


def test_the_filters_of_a_client_that_disconnects_are_removed() -> None:
    world = World()
    client = subscribed(world, YHOO, "$filter stocks a exists", "$filter other a exists")
    assert world.core.filtering.filters == 3
    client.do("RESET")
    assert world.core.filtering.filters == 0
    client = subscribed(world, YHOO)
    client.wire.abort()
    world.advance()
    assert world.core.filtering.filters == world.core.filtering.subscriptions == 0
    assert world.core.index.topics[b"stocks"].content is None


def test_a_subscriber_that_is_cut_during_a_write_does_not_affect_others() -> None:
    world = World(limits=Limits(output_bytes_max=64 * 1024, output_soft_bytes=64 * 1024))
    slow = subscribed(world, "$filter t a = 1", "$filter t a > 0", "$filter t a exists")
    fast = subscribed(world, "$filter t a = 1", "$filter t a > 0", "$filter t a exists")
    slow.wire.is_stuck = True
    payload = json.dumps({"a": 1, "padding": "x" * 50_000}).encode()
    for _ in range(4):
        world.client().do("PUBLISH", "t", payload)
    assert world.core.backlogs.cuts == 1
    assert len(fast.read()) == 12


def test_a_change_of_protocol_changes_the_frames() -> None:
    world = World()
    client = subscribed(world, YHOO, proto=3)
    client.send("HELLO", "2")
    client.read()
    client.wire.sent.clear()
    world.client().do("PUBLISH", "stocks", quote("YHOO", 200))
    assert bytes(client.wire.sent).startswith(b"*4\r\n$8\r\npmessage")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("$filter", "ERR filter, byte 7: expected a space, the name of a topic"),
        ("$filterstocks a = 1", "ERR filter, byte 7: expected a space, the name of a topic"),
        ("$filter st*cks a = 1", "ERR filter, byte 10: expected the name of one topic, not a pattern"),
        ("$filter stocks", "ERR filter, byte 14: expected a space, and a filter such as volume > 150"),
        (
            "$filter stocks symbol",
            "ERR filter, byte 21: expected one of = != < <= > >= in prefix suffix contains exists",
        ),
        ("$filter stocks a = 1 or b = 2", "ERR filter, byte 21: expected `and`, or the end"),
        ("$filter stocks a = 1 and a = 2", "ERR filter, byte 25: expected a predicate that can hold"),
        ("$filter stocks a = '" + "x" * 5_000 + "'", "ERR filter, byte 4111: expected the end"),
        ("$filter " + "t" * 5_000 + " a = 1", "ERR topic name longer than 4096 bytes (topic_bytes_max)"),
    ],
)
def test_an_invalid_filter_is_rejected_with_the_byte_offset(text: str, error: str) -> None:
    world = World()
    answer = world.client().do("PSUBSCRIBE", text)
    assert isinstance(answer, Error)
    assert answer.startswith(error)
    assert world.core.filtering.filters == 0


def test_names_with_special_characters_are_quoted() -> None:
    world = World()
    client = subscribed(world, '$filter "two words" a = 1')
    assert world.client().do("PUBLISH", "two words", b'{"a": 1}') == 1
    assert client.read()[0][2] == b"two words"
    starred = subscribed(world, '$filter "st*cks" a = 1')
    assert world.client().do("PUBLISH", "st*cks", b'{"a": 1}') == 1
    assert starred.read()[0][2] == b"st*cks"


def test_errors_name_the_limit() -> None:
    world = World(limits=Limits(filters_max=2))
    client = world.client()
    answer = client.do("PSUBSCRIBE", *(f"$filter t a = {i}" for i in range(3)))
    assert answer == Error("ERR this hub has 2 different filters in use already (filters_max)")
    subscribed(world, "$filter t a = 0", "$filter t a = 1")
    assert client.do("PSUBSCRIBE", "$filter t a = 2") == answer
    assert client.do("PSUBSCRIBE", "$filter t a=1")[0] == b"psubscribe"
    world = World(limits=Limits(subscriptions_max=2))
    answer = world.client().do("PSUBSCRIBE", *(f"$filter t a = {i}" for i in range(3)))
    assert "(subscriptions_max)" in answer


def test_a_user_is_limited_to_its_share_of_filters() -> None:
    world = World(users(alice=FILTERS, bob=FILTERS), limits=Limits(filters_max=4, user_share=0.5))
    alice, bob = world.client(user="alice"), world.client(user="bob")
    alice.do_all("PSUBSCRIBE", "$filter t a = 0", "$filter t a = 1")
    answer = alice.do("PSUBSCRIBE", "$filter t a = 2")
    assert answer == Error(
        "ERR user 'alice' may hold 2 different filters on this hub (user_share of filters_max)"
    )
    assert bob.do("PSUBSCRIBE", "$filter t a = 2")[0] == b"psubscribe"


def test_a_user_is_limited_to_its_share_of_unindexed_filters_and_shapes_of_a_topic() -> None:
    world = World(users(alice=FILTERS, bob=FILTERS), limits=Limits(user_share=0.01))
    alice, bob = world.client(user="alice"), world.client(user="bob")
    for what, noun in (
        ("name contains '{}'", "filters that no index helps with (contains, suffix, != without an equality)"),
        ("a{} > 0", "shapes of filters"),
    ):
        texts = ["$filter t " + what.format(i) for i in range(20)]
        refused = Error(f"ERR user 'alice' may hold 10 {noun} of this topic (user_share)")
        answers = alice.do_all("PSUBSCRIBE", *texts)
        # The shape of the first kind counts among shapes.
        assert [answer[0] for answer in answers[:9]] == [b"psubscribe"] * 9
        assert answers[-1] == refused
        assert alice.do("PSUBSCRIBE", texts[-1]) == refused
        assert alice.do("PSUBSCRIBE", texts[0])[0] == b"psubscribe"
        assert bob.do("PSUBSCRIBE", texts[-1])[0] == b"psubscribe"


def test_one_command_cannot_exceed_the_filter_limit_of_a_topic() -> None:
    world = World()
    answers = world.client().do_all("PSUBSCRIBE", *(f"$filter t a contains '{i}'" for i in range(1_001)))
    assert len(answers) == 1_001 and answers[-2][0] == b"psubscribe"
    assert "1000 filters that no index helps with" in str(answers[-1])


def test_filters_need_two_grants_on_the_topic_and_none_on_the_system() -> None:
    world = World(
        users(
            alice='subscribe = ["stocks"]\nfilter = ["stocks"]\ncreate = ["stocks"]',
            bob='subscribe = ["stocks"]',
            carol='filter = ["stocks"]',
        )
    )
    assert world.client(user="alice").do("PSUBSCRIBE", YHOO)[0] == b"psubscribe"
    assert world.client(user="alice").do("PSUBSCRIBE", "$filter other a = 1") == denied(
        "alice", "subscribe", "other"
    )
    assert world.client(user="bob").do("PSUBSCRIBE", YHOO) == denied("bob", "filter", "stocks")
    assert world.client(user="carol").do("PSUBSCRIBE", YHOO) == denied("carol", "subscribe", "stocks")
    assert world.client(user="bob").do("EQ.FILTER", "stocks", "a = 1") == denied("bob", "filter", "stocks")


@pytest.mark.parametrize("left", ['subscribe = ["*"]', 'filter = ["*"]'])
def test_a_revoked_grant_ends_the_filter_at_once(left: str) -> None:
    world = World(users(alice=FILTERS, bob=FILTERS))
    client = world.client(user="alice")
    client.do("PSUBSCRIBE", YHOO)
    lines = f'[users.alice]\nsecret = "{SECRET}"\n{left}\n[users.bob]\nsecret = "{SECRET}"\n{FILTERS}\n'
    world.core.reload_users(parse_users(lines))
    assert client.read() == [[b"punsubscribe", YHOO.encode(), 0]]
    assert world.client(user="bob").do("PUBLISH", "stocks", quote("YHOO", 200)) == 0
    assert client.read() == []


def test_a_filter_is_explained_without_subscribing() -> None:
    world = World()
    answer = world.client().do(
        "EQ.FILTER", "stocks", "volume>150 and symbol in ('YHOO')", quote("YHOO", 200), quote("YHOO", 1), b"x"
    )
    assert answer == [b'symbol = "YHOO" and volume > 150', 1, 0, 0]
    assert "byte 2" in world.client().do("EQ.FILTER", "stocks", "a ? 1")


def test_a_spec_may_place_attributes_in_the_first_line() -> None:
    world = World()
    world.core.specs.follow(
        Specs([TopicSpec(pattern=b"stocks", attributes=AttributeSource.FIRST_LINE)]), version=1
    )
    client = subscribed(world, YHOO)
    payload = quote("YHOO", 200) + b"\n\x00\xff binary"
    assert world.client().do("PUBLISH", "stocks", payload) == 1
    assert client.read()[0][3] == payload
    assert world.client().do("EQ.FILTER", "stocks", "symbol exists", payload)[1:] == [1]


def test_matching_is_counted() -> None:
    world = World()
    subscribed(world, YHOO)
    for volume in (100, 200, 300):
        world.client().do("PUBLISH", "stocks", quote("YHOO", volume))
    assert world.info("eq_filters") == "1"
    assert world.info("eq_filtered_messages") == "3"
    assert world.info("eq_filter_matches") == "2"


def test_a_long_run_to_a_topic_with_filters_yields_to_other_clients() -> None:
    world = World()
    subscribed(world, YHOO)
    world.shell.tick_s = 0.004
    publisher = world.client()
    publisher.send_raw(pipeline(["PUBLISH", "stocks", quote("YHOO", 200)] for _ in range(1_000)))
    assert 0 < len(publisher.read()) < 1_000
    for _ in range(100):
        world.advance()
    assert world.core.filtering.matches == 1_000
