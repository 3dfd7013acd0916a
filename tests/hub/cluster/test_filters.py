"""Filters at hubs that are not the topic's home: matching messages arrive once, in order, while the topic moves."""

from __future__ import annotations

import json
from typing import Any

import pytest

from equipoise.content.filter import Filter
from equipoise.content.index import FilterIndex
from equipoise.content.interest import InterestSet
from equipoise.hub.cluster import interests
from equipoise.hub.cluster.counters import cluster_counters
from equipoise.hub.cluster.link.frames import EgressFrame, FilteredFrame, Frame, FromFrame, SpanFrame
from equipoise.hub.cluster.settings import ClusterSettings
from equipoise.hub.cluster.stream_interest import StreamInterest
from equipoise.hub.content import hub_filters
from equipoise.hub.data.reply import REPLY_S
from equipoise.model import Mode
from hub.cluster.hubs import Hubs
from hub.world import FakeClient, pipeline

EVEN = "$filter t even = true"


def subscribed(hubs: Hubs, hub: str, text: str = EVEN) -> FakeClient:
    client = hubs[hub].client()
    client.send("PSUBSCRIBE", text)
    hubs.settle()
    assert client.read() == [[b"psubscribe", text.encode(), 1]]
    return client


def publish(hubs: Hubs, hub: str, *numbers: int) -> None:
    publisher = hubs[hub].client()
    for number in numbers:
        payload = f'{{"even": {"false" if number % 2 else "true"}, "number": {number}}}'
        publisher.send("PUBLISH", "t", payload)
    hubs.settle()


def heard(client: FakeClient) -> list[int]:
    return [int(message[3].rpartition(b" ")[2].rstrip(b"}")) for message in client.read()]


@pytest.mark.parametrize("legacy", [(), ("h1",), ("h2",)], ids=["new", "old home", "old relay"])
def test_a_filter_is_served_at_every_hub(legacy: tuple[str, ...]) -> None:
    hubs = Hubs("h1", "h2", "h3", legacy=legacy)
    hubs.replicate("t", Mode.SINGLE, "h1")
    clients = [subscribed(hubs, hub) for hub in ("h1", "h2", "h3")]
    for hub in ("h1", "h2", "h3"):
        publish(hubs, hub, 1, 2, 3, 4)
    assert [heard(client) for client in clients] == [[2, 4] * 3] * 3


@pytest.mark.parametrize("hub", ["h1", "h2"])
def test_publish_counts_the_filters_that_match_at_its_hub(hub: str) -> None:
    """Also where the topic lives elsewhere, and each message of a pipeline by itself."""
    hubs = Hubs("h1", "h2")
    hubs.replicate("t", Mode.SINGLE, "h1")
    plain, smart = hubs[hub].client(), hubs[hub].client(3)
    plain.send("PSUBSCRIBE", EVEN, "$filter t number > 2")
    smart.send("EQ.FSUBSCRIBE", "7", "t", "number > 3")
    hubs.settle()
    assert len(plain.read()) == 2
    publisher = hubs[hub].client()
    payloads = [
        f'{{"even": {"false" if number % 2 else "true"}, "number": {number}}}' for number in range(1, 5)
    ]
    publisher.send_raw(pipeline(["PUBLISH", "t", payload] for payload in payloads))
    hubs.settle()
    assert publisher.read() == [0, 1, 1, 3]


def test_publish_does_not_count_filters_at_other_hubs() -> None:
    hubs = Hubs("h1", "h2")
    hubs.replicate("t", Mode.SINGLE, "h1")
    client = subscribed(hubs, "h2")
    publisher = hubs["h1"].client()
    publisher.send("PUBLISH", "t", '{"even": true, "number": 2}')
    hubs.settle()
    assert publisher.read() == [0]
    assert heard(client) == [2]


def test_many_filters_are_read_in_turns() -> None:
    """Reading a filter takes up to 11 ms: other clients are served meanwhile, and the confirmations come in order."""
    hubs = Hubs("h1", "h2")
    hubs.replicate("t", Mode.SINGLE, "h1")
    client, other = hubs["h2"].client(3), hubs["h2"].client()
    texts = [f"$filter t number = {i}" for i in range(20)]
    hubs["h2"].shell.tick_s = 0.001
    client.send("PSUBSCRIBE", *texts)
    client.send("ECHO", "after")
    other.send("ECHO", "meanwhile")
    assert other.read() == [b"meanwhile"]
    assert client.read() == []
    hubs["h2"].shell.tick_s = 0.0
    hubs.settle()
    *confirmed, after = client.read()
    assert [text for _, text, _ in confirmed] == [text.encode() for text in texts]
    assert after == b"after"


def test_a_client_that_disconnects_while_its_filters_wait_for_the_home_leaves_no_state() -> None:
    hubs = Hubs("h1", "h2")
    hubs.replicate("t", Mode.SINGLE, "h1")
    client = hubs["h2"].client()
    hubs["h2"].shell.tick_s = 0.001
    client.send("PSUBSCRIBE", *(f"$filter t number = {i}" for i in range(20)))
    hubs["h2"].shell.tick_s = 0.0
    # All are read; the home has not confirmed that it sends the matching messages.
    hubs["h2"].advance(0)
    assert client.session.is_busy
    client.wire.abort()
    hubs.settle()
    assert hubs["h2"].core.filtering.filters == 0


def test_filters_time_out_if_the_home_does_not_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    hubs = Hubs("h1", "h2")
    hubs.replicate("t", Mode.SINGLE, "h1")
    client = hubs["h2"].client()
    monkeypatch.setattr(hubs["h2"].core.cluster.subscriptions, "_is_ready", lambda *_: False)
    hubs["h2"].shell.tick_s = 0.001
    client.send("PSUBSCRIBE", *(f"$filter t number = {i}" for i in range(20)))
    hubs["h2"].shell.tick_s = 0.0
    hubs.settle()
    assert client.read() == []
    hubs["h2"].advance(REPLY_S)
    hubs.settle()
    assert [str(answer)[:8] for answer in client.read()] == ["TRYAGAIN"]


def test_a_filter_stays_while_the_topic_moves() -> None:
    hubs = Hubs("h1", "h2", "h3")
    hubs.replicate("t", Mode.SINGLE, "h1")
    client = subscribed(hubs, "h3")
    publish(hubs, "h1", 1, 2)
    hubs.replicate("t", Mode.SINGLE, "h2")
    publish(hubs, "h1", 3, 4)
    hubs.replicate("t", Mode.SINGLE, "h3")
    publish(hubs, "h2", 5, 6)
    hubs.replicate("t", Mode.SINGLE, "h1")
    publish(hubs, "h3", 7, 8)
    assert heard(client) == [2, 4, 6, 8]


def test_the_stream_is_followed_as_long_as_there_is_a_filter() -> None:
    hubs = Hubs("h1", "h2")
    hubs.replicate("t", Mode.SINGLE, "h1")
    client = subscribed(hubs, "h2")
    assert hubs["h1"].core.index.topics[b"t"].relays
    client.send("PUNSUBSCRIBE", EVEN)
    hubs.settle()
    for node in hubs.nodes.values():
        node.shell.advance(1_000)
    hubs.settle()
    for node in hubs.nodes.values():
        node.shell.advance(1_000)
    hubs.settle()
    # Without relays and messages it is soon removed.
    assert b"t" not in hubs["h1"].core.index.topics


def test_a_filter_receives_all_lanes_of_a_topic() -> None:
    hubs = Hubs("h1", "h2", "h3")
    hubs.replicate("t", Mode.ALL_SUBSCRIBERS, "h1", "h2")
    clients = [subscribed(hubs, hub) for hub in ("h1", "h2", "h3")]
    publish(hubs, "h1", 1, 2)
    publish(hubs, "h2", 3, 4)
    publish(hubs, "h3", 5, 6)
    assert [sorted(heard(client)) for client in clients] == [[2, 4, 6]] * 3


def test_a_pattern_and_a_filter_in_one_command_wait_for_both() -> None:
    hubs = Hubs("h1", "h2")
    hubs.replicate("t", Mode.SINGLE, "h1")
    client = hubs["h2"].client()
    client.send("PSUBSCRIBE", "u*", EVEN)
    hubs.settle()
    assert [answer[1] for answer in client.read()] == [b"u*", EVEN.encode()]
    publish(hubs, "h1", 1, 2)
    hubs["h1"].client().send("PUBLISH", "u1", "hello")
    hubs.settle()
    assert [message[1] for message in client.read()] == [EVEN.encode(), b"u*"]


# What hubs send each other.


def taken(hubs: Hubs, hub: str) -> list[Frame]:
    """All frames that a hub executes from now on."""
    frames: list[Frame] = []
    dispatch = hubs[hub].cluster.frames
    execute = dispatch.execute

    def note(peer: str, frame: Frame) -> None:
        frames.append(frame)
        execute(peer, frame)

    dispatch.execute = note  # type: ignore[method-assign]  # the test looks on
    return frames


def wait(hubs: Hubs, seconds: float) -> None:
    for _ in range(round(seconds * 20)):
        for node in hubs.nodes.values():
            node.shell.advance(0.05)
        hubs.settle()


def at(hubs: Hubs, hub: str) -> tuple[int, int]:
    topic = hubs[hub].core.index.topics[b"t"]
    return topic.epoch, topic.n


def narrow_to(hubs: Hubs, *hub_names: str, text: str = EVEN) -> list[FakeClient]:
    """Subscribers by filter at these hubs, none of which is the home; the hubs get what matches alone."""
    hubs.replicate("t", Mode.SINGLE, "h1")
    clients = [subscribed(hubs, hub, text) for hub in hub_names]
    wait(hubs, 0.2)
    for hub in hub_names:
        assert hubs[hub].cluster.interests.narrow_topics()
    return clients


def test_a_hub_receives_matching_messages_and_the_positions_of_the_rest() -> None:
    hubs = Hubs("h1", "h2", "h3")
    (client,) = narrow_to(hubs, "h2")
    frames = taken(hubs, "h2")
    publish(hubs, "h3", 1, 2, 3, 5, 6, 7)
    assert heard(client) == [2, 6]
    wait(hubs, 0.25)
    assert at(hubs, "h2") == at(hubs, "h1")
    messages = [frame for frame in frames if isinstance(frame, EgressFrame | FilteredFrame)]
    assert sum(len(frame.payloads) for frame in messages) == 2
    assert all(isinstance(frame, FilteredFrame) for frame in messages)
    assert cluster_counters(hubs["h1"].cluster)["messages_kept_off_links"] == 4
    assert cluster_counters(hubs["h1"].cluster)["filters_asked"] == 1
    assert cluster_counters(hubs["h2"].cluster)["filter_covers"] == 1
    assert hubs["h1"].core.filtering.messages == 0
    assert hubs["h2"].core.losses.messages == 0


def test_one_message_in_ten_that_matches_is_one_in_ten_on_the_link() -> None:
    hubs = Hubs("h1", "h2")
    (client,) = narrow_to(hubs, "h2", text="$filter t number in (5, 15, 25)")
    frames = taken(hubs, "h2")
    publish(hubs, "h1", *[number % 30 for number in range(900)])
    wait(hubs, 0.3)
    assert len(heard(client)) == 90
    assert at(hubs, "h2") == at(hubs, "h1")
    about = [frame for frame in frames if isinstance(frame, EgressFrame | FilteredFrame | SpanFrame)]
    assert len(about) <= 99


def test_a_filter_with_a_canonical_text_longer_than_the_limit_is_requested() -> None:
    """A control character has six bytes there."""
    hubs = Hubs("h1", "h2")
    hubs.replicate("t", Mode.SINGLE, "h1")
    subscribed(hubs, "h2", f"$filter t a = '{chr(1) * 4_000}'")
    wait(hubs, 0.2)
    publish(hubs, "h1", 1, 2)
    assert hubs["h1"].cluster.asked.kept_off == 2


def test_a_subscriber_without_a_filter_is_confirmed_once_the_hub_receives_everything() -> None:
    hubs = Hubs("h1", "h2")
    (client,) = narrow_to(hubs, "h2")
    hubs.held.add(("h1", "h2"))
    plain = hubs["h2"].client()
    plain.send("SUBSCRIBE", "t")
    wait(hubs, 0.1)
    assert plain.read() == []
    hubs.release("h1", "h2")
    assert plain.read() == [[b"subscribe", b"t", 1]]
    publish(hubs, "h1", 1, 2, 3)
    assert len(plain.read()) == 3
    assert heard(client) == [2]


def test_a_filter_without_a_cover_is_confirmed_once_the_home_has_it() -> None:
    hubs = Hubs("h1", "h2")
    (client,) = narrow_to(hubs, "h2")
    hubs.held.add(("h1", "h2"))
    other, odd = hubs["h2"].client(), "$filter t even = false"
    other.send("PSUBSCRIBE", odd)
    covered, narrower = hubs["h2"].client(), "$filter t even = true and number > 2"
    covered.send("PSUBSCRIBE", narrower)
    wait(hubs, 0.1)
    assert other.read() == []
    assert covered.read() == [[b"psubscribe", narrower.encode(), 1]]
    hubs.release("h1", "h2")
    assert other.read() == [[b"psubscribe", odd.encode(), 1]]
    publish(hubs, "h1", 1, 2, 3, 4)
    assert [heard(other), heard(covered), heard(client)] == [[1, 3], [4], [2, 4]]


def test_a_pattern_is_confirmed_once_the_hub_receives_everything() -> None:
    hubs = Hubs("h1", "h2")
    narrow_to(hubs, "h2")
    pattern = hubs["h2"].client()
    pattern.send("PSUBSCRIBE", "t*")
    hubs.settle()
    assert pattern.read() == [[b"psubscribe", b"t*", 1]]
    publish(hubs, "h1", 1, 2, 3)
    assert len(pattern.read()) == 3


def test_filters_are_withdrawn_when_their_subscribers_have_left() -> None:
    hubs = Hubs("h1", "h2")
    (client,) = narrow_to(hubs, "h2")
    other = subscribed(hubs, "h2", "$filter t even = false")
    wait(hubs, 0.2)
    held = hubs["h1"].core.index.topics[b"t"].hub_filters
    assert held is not None
    assert len(held.index) == 2
    other.send("PUNSUBSCRIBE", "$filter t even = false")
    wait(hubs, 0.2)
    assert len(held.index) == 1
    assert cluster_counters(hubs["h1"].cluster)["filters_asked"] == 1
    frames = taken(hubs, "h2")
    publish(hubs, "h1", 1, 3, 4)
    assert heard(client) == [4]
    assert sum(len(frame.payloads) for frame in frames if isinstance(frame, FilteredFrame)) == 1


def test_a_removed_cover_stays_requested_until_others_replace_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interests, "STEPS", 1)
    hubs = Hubs("h1", "h2")
    hubs.replicate("t", Mode.SINGLE, "h1")
    texts = [f"$filter t number = {number}" for number in range(12)]
    wide = subscribed(hubs, "h2", "$filter t number >= 0")
    clients = [subscribed(hubs, "h2", text) for text in texts]
    wait(hubs, 1.0)
    held = hubs["h1"].core.index.topics[b"t"].hub_filters
    assert held is not None
    assert len(held.index) == 1
    wide.send("PUNSUBSCRIBE")
    for number in range(12):
        publish(hubs, "h1", number)
        wait(hubs, 0.05)
    assert [heard(client) for client in clients] == [[number] for number in range(12)]
    wait(hubs, 1.0)
    assert len(held.index) == 12


def test_a_former_home_requests_the_filters_that_other_hubs_requested_from_it() -> None:
    hubs = Hubs("h1", "h2", "h3")
    (client,) = narrow_to(hubs, "h2")
    publish(hubs, "h1", 1, 2)
    hubs.held.update({("h3", "h2"), ("h2", "h3")})
    hubs.replicate("t", Mode.SINGLE, "h3")
    wait(hubs, 0.2)
    # No frame of the new home has reached h2: the old one forwards matching messages.
    frames = taken(hubs, "h1")
    publish(hubs, "h3", 3, 4, 5)
    assert heard(client) == [2, 4]
    assert sum(len(frame.payloads) for frame in frames if isinstance(frame, FilteredFrame)) == 1
    hubs.held.clear()
    wait(hubs, 0.5)
    publish(hubs, "h3", 6, 7, 8)
    wait(hubs, 0.3)
    assert heard(client) == [6, 8]
    assert at(hubs, "h2") == at(hubs, "h3")
    assert hubs["h2"].core.losses.messages == 0
    assert hubs["h2"].core.losses.gaps == 0


def test_costly_filters_are_settled_a_few_per_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step takes up to a few milliseconds: a go ends by the clock, and others follow until all are settled."""
    hubs = Hubs("h1", "h2")
    hubs.replicate("t", Mode.SINGLE, "h1")
    wide = subscribed(hubs, "h2", "$filter t number >= 0")
    client = hubs["h2"].client()
    client.send("PSUBSCRIBE", *(f"$filter t number = {number}" for number in range(50)))
    hubs.settle()
    assert len(client.read()) == 50
    goes: list[int] = []
    spent_s = 0.0
    settle, go = InterestSet.settle, interests.Interests._settle

    def costly(interest: InterestSet, steps: int) -> None:
        nonlocal spent_s
        spent_s += 0.002 * steps
        goes[-1] += steps
        settle(interest, steps)

    def counted(self: interests.Interests, interest: StreamInterest) -> None:
        goes.append(0)
        go(self, interest)

    monkeypatch.setattr(hubs["h2"].shell, "fine_now", lambda: spent_s)
    monkeypatch.setattr(InterestSet, "settle", costly)
    monkeypatch.setattr(interests.Interests, "_settle", counted)
    # The 50 filters that it covered have to be looked at.
    wide.send("PUNSUBSCRIBE")
    wait(hubs, 1.0)
    held = hubs["h1"].core.index.topics[b"t"].hub_filters
    assert held is not None and len(held.index) == 50
    assert max(goes) == interests.STEPS_AT_ONCE
    assert sum(goes) >= 50


def test_a_hub_that_sends_whole_topics_gets_no_filter_requests() -> None:
    hubs = Hubs("h1", "h2", cluster=ClusterSettings(filtered_links=False))
    hubs.replicate("t", Mode.SINGLE, "h1")
    client = subscribed(hubs, "h2")
    wait(hubs, 0.3)
    assert not hubs["h2"].cluster.interests.narrow_topics()
    publish(hubs, "h1", 1, 2)
    assert heard(client) == [2]


def test_requests_are_repeated_when_a_link_restarts() -> None:
    for voided in (("h1", "h2"), ("h2", "h1")):
        hubs = Hubs("h1", "h2")
        (client,) = narrow_to(hubs, "h2")
        hubs.links[voided].fall()
        wait(hubs, 0.3)
        frames = taken(hubs, "h2")
        publish(hubs, "h1", 1, 2, 3, 4)
        assert heard(client) == [2, 4]
        assert sum(len(frame.payloads) for frame in frames if isinstance(frame, FilteredFrame)) == 2


def test_a_home_that_has_no_room_for_the_filters_sends_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    class SmallIndex(FilterIndex[Any]):
        def objection(self, filter: Filter) -> str | None:
            return "2 filters" if len(self) >= 2 else None

    monkeypatch.setattr(hub_filters, "FilterIndex", SmallIndex)
    hubs = Hubs("h1", "h2", "h3")
    hubs.replicate("t", Mode.SINGLE, "h1")
    texts = [f"$filter t even = true and number != {number}" for number in range(4)]
    clients = [hubs["h2"].client() for _ in texts]
    for client, text in zip(clients, texts, strict=True):
        client.send("PSUBSCRIBE", text)
    wait(hubs, 0.3)
    assert [len(client.read()) for client in clients] == [1] * 4
    frames = taken(hubs, "h2")
    publish(hubs, "h1", 5, 6)
    wait(hubs, 0.3)
    assert [heard(client) for client in clients] == [[6]] * 4
    assert sum(len(frame.payloads) for frame in frames if isinstance(frame, FilteredFrame)) == 2
    # All of it goes away in order, also at a hub that asks another for it.
    hubs.replicate("t", Mode.SINGLE, "h3")
    wait(hubs, 0.3)
    for client, text in zip(clients, texts, strict=True):
        client.send("PUNSUBSCRIBE", text)
    wait(hubs, 0.3)
    publish(hubs, "h1", 7, 8)
    assert cluster_counters(hubs["h2"].cluster)["links_overflowed"] == 0
    assert cluster_counters(hubs["h1"].cluster)["links_overflowed"] == 0


# When homes die.


def numbers(client: FakeClient) -> list[int]:
    """Of messages of a subscriber by name."""
    return [json.loads(message[2])["number"] for message in client.read() if message[0] == b"message"]


def test_filtered_out_messages_do_not_count_as_seen_when_the_home_dies() -> None:
    """
    1. h3 follows t by a filter at h2, which numbers two messages of h1: h3 gets the first of them;
    2. h2 dies before it acknowledges either: the first one must not be resent, because h3 has seen it;
    3. the second one goes to the next home. (If h3 reported it as seen, too, it would be lost.)
    """
    hubs = Hubs("h1", "h2", "h3")
    hubs.replicate("t", Mode.SINGLE, "h2")
    hubs.publish_first("h1", "t")
    whole = hubs["h1"].client()
    whole.send("SUBSCRIBE", "t")
    client = subscribed(hubs, "h3")
    wait(hubs, 0.2)
    assert hubs["h3"].cluster.interests.narrow_topics()
    numbers(whole)
    hubs.held.add(("h2", "h1"))
    publish(hubs, "h1", 2, 3)
    hubs.kill("h2")
    publish(hubs, "h1", 4)
    assert heard(client) == [2, 4]
    assert numbers(whole) == [3, 4]


def test_a_hub_receives_the_origin_of_messages_with_the_messages() -> None:
    hubs = Hubs("h1", "h2", "h3")
    narrow_to(hubs, "h2")
    frames = taken(hubs, "h2")
    publish(hubs, "h3", *range(1, 100, 2))
    publish(hubs, "h3", 2)
    assert len([frame for frame in frames if isinstance(frame, FromFrame)]) == 1
