"""Filters with positions among hubs: spans have no holes while the topic moves, and none contains a loss."""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.hub.content import spans
from equipoise.model import Mode
from hub.cluster.hubs import Hubs
from hub.world import FakeClient

EVEN = "even = true"


def subscribed(hubs: Hubs, hub: str, where: str = EVEN) -> tuple[FakeClient, tuple[int, int]]:
    client = hubs[hub].client(3)
    client.send("EQ.FSUBSCRIBE", "1", "t", where)
    hubs.settle()
    pushes = client.read()
    assert pushes[0][:3] == [b"eq.fsubscribe", b"1", 1]
    return client, (pushes[0][3], pushes[0][4])


def publish(hubs: Hubs, hub: str, *numbers: int) -> None:
    publisher = hubs[hub].client()
    for number in numbers:
        payload = f'{{"even": {"false" if number % 2 else "true"}, "number": {number}}}'
        publisher.send("PUBLISH", "t", payload)
    hubs.settle()


class Reader:
    """Takes pushes as a client does: notes messages, and every position that no span accounts for."""

    def __init__(self, client: FakeClient, at: tuple[int, int]) -> None:
        self._client = client
        self.epoch, self.n = at
        self.heard: list[int] = []
        self.holes: list[tuple[int, int]] = []

    def read(self) -> None:
        for push in self._client.read():
            if push[0] == b"eq.opened":
                epoch, after_epoch, after_n = push[2:5]
                if epoch > self.epoch:
                    if (after_epoch, after_n) != (self.epoch, self.n):
                        self.holes.append((after_epoch, after_n))
                    self.epoch, self.n = epoch, 0
            elif push[0] == b"eq.fmessage":
                self._take(push[2:])

    def _take(self, words: list[Any]) -> None:
        epoch, first, count = words[:3]
        if epoch > self.epoch:
            self.holes.append((epoch, 0))
            self.epoch, self.n = epoch, 0
        if epoch < self.epoch:
            return
        self.holes += [(epoch, n) for n in range(self.n + 1, first)]
        for position, payload in zip(words[3::2], words[4::2], strict=True):
            if position > self.n:
                self.heard.append(int(payload.rpartition(b" ")[2].rstrip(b"}")))
        self.n = max(self.n, first + count - 1)


def test_spans_have_no_holes_while_the_topic_moves() -> None:
    hubs = Hubs("h1", "h2", "h3")
    hubs.replicate("t", Mode.SINGLE, "h1")
    readers = {hub: Reader(*subscribed(hubs, hub)) for hub in ("h1", "h2", "h3")}
    number = 0
    for home in ("h2", "h3", "h1", "h2"):
        publish(hubs, "h1", *range(number, number + 4))
        number += 4
        hubs.replicate("t", Mode.SINGLE, home)
    publish(hubs, "h3", number + 1)
    for reader in readers.values():
        reader.read()
        assert reader.heard == list(range(0, number, 2))
        assert reader.holes == []


def test_a_client_that_asks_gets_the_position_of_a_relay() -> None:
    hubs = Hubs("h1", "h2")
    hubs.replicate("t", Mode.SINGLE, "h1")
    client, at = subscribed(hubs, "h2")
    publish(hubs, "h1", 1, 3, 5)
    for node in hubs.nodes.values():
        node.shell.advance(0.5)
    hubs.settle()
    reader = Reader(client, at)
    reader.read()
    assert reader.n == 0, "nothing has matched, and nothing was asked"
    client.send("EQ.COVER", "1")
    hubs.settle()
    assert client.read() == [[b"eq.fmessage", b"1", at[0], 1, 3], b"OK"]


def test_positions_that_never_arrived_are_in_no_span() -> None:
    hubs = Hubs("h1", "h2")
    hubs.replicate("t", Mode.SINGLE, "h1")
    reader = Reader(*subscribed(hubs, "h2"))
    publish(hubs, "h1", 1)
    topic = hubs["h2"].core.index.topics[b"t"]
    for node in hubs.nodes.values():
        node.shell.advance(0.5)
    hubs.settle()
    assert topic.n == 1
    # As when a link has lost the frames in flight.
    topic.jump(topic.epoch, 4)
    hubs["h1"].core.index.topics[b"t"].n = 4
    for link in hubs["h1"].core.index.topics[b"t"].relays or ():
        hubs["h1"].core.index.topics[b"t"].hub_filters.links[link].n = 4  # type: ignore[union-attr]  # it has filters
    publish(hubs, "h1", 3, 2)
    reader.read()
    assert reader.heard == [2]
    assert reader.holes == [(topic.epoch, 2), (topic.epoch, 3), (topic.epoch, 4)]


def test_lanes_are_filtered_too_each_with_its_positions() -> None:
    hubs = Hubs("h1", "h2", "h3")
    hubs.replicate("t", Mode.ALL_SUBSCRIBERS, "h1", "h2", "h3")
    client = hubs["h3"].client(3)
    client.send("EQ.FSUBSCRIBE", "1", "t", EVEN)
    hubs.settle()
    lanes = {push[2] for push in client.read() if push[0] == b"eq.lane"}
    assert len(lanes) >= 1
    for hub in ("h1", "h2", "h3"):
        publish(hubs, hub, 1, 2, 3, 4)
    spans = [push for push in client.read() if push[0] in (b"eq.fmessage", b"eq.lfmessage")]
    heard = [payload for push in spans for payload in push[6 if push[0] == b"eq.lfmessage" else 5 :][1::2]]
    assert len(heard) == 6
    assert {push[2] for push in spans if push[0] == b"eq.lfmessage"} <= lanes


def test_messages_that_a_home_numbers_as_lost_are_in_no_span() -> None:
    hubs = Hubs("h1", "h2")
    hubs.replicate("t", Mode.SINGLE, "h1")
    readers = [Reader(*subscribed(hubs, hub)) for hub in ("h1", "h2")]
    publish(hubs, "h1", 1, 2, 3)
    cluster, topic = hubs["h1"].cluster, hubs["h1"].core.index.topics[b"t"]
    # As when another hub has given up messages that it had acknowledged.
    (topic.stream or cluster.handover.new_stream(topic)).admission.loss += 2
    publish(hubs, "h1", 5, 6)
    for reader in readers:
        reader.read()
        assert reader.heard == [2, 6]
        assert reader.holes == [(topic.epoch, 4), (topic.epoch, 5)]


def test_many_subscribers_are_notified_of_a_move_in_slices_each_before_its_next_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spans, "SLICE", 2)
    hubs = Hubs("h1", "h2")
    hubs.replicate("t", Mode.SINGLE, "h1")
    found = [
        subscribed(hubs, "h1", where) for where in (EVEN, "even exists", "number > 2", "number = 9", EVEN)
    ]
    publish(hubs, "h1", 1, 2, 3)
    clients = [client for client, _ in found]
    before = [client.read() for client in clients]
    topic = hubs["h1"].core.index.topics[b"t"]
    content = topic.content
    assert content is not None and content.spans is not None
    content.spans.announce([topic], b"+first\r\n")
    content.spans.announce([topic], b"+second\r\n")
    assert [client.read() for client in clients] == [[]] * 5, (
        "no client is notified in the turn of the announcement"
    )
    # Filters that match are ahead of their turn; the announcement still comes first.
    hubs["h1"].core.publish(topic, [b'{"even": true, "number": 4}'])
    matched = [client.read() for client in clients]
    for words, is_hit in zip(matched, (True, True, True, False, True), strict=True):
        texts = [word for word in words if isinstance(word, bytes)]
        assert texts == ([b"first", b"second"] if is_hit else [])
        assert not is_hit or words[-1][0] == b"eq.fmessage"
    hubs.settle()
    late = clients[3].read()
    assert [word for word in late if isinstance(word, bytes)] == [b"first", b"second"]
    for (client, at), *parts in zip(found, before, matched, strict=True):
        reader = Reader(client, at)
        for push in [push for part in parts for push in part if isinstance(push, list)]:
            reader._take(push[2:])
        assert reader.holes == []
