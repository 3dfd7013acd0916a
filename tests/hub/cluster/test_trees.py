"""Content topics are followed along a tree: the parent of each hub, by plan, and the confirmation of subscribers."""

from __future__ import annotations

import pytest

from equipoise.hub.cluster.link.capability import TREES
from equipoise.hub.cluster.streams import Stream
from equipoise.model import Mode
from hub.cluster.hubs import Hubs
from hub.world import FakeClient

CHAIN = (0, 0, 1, 2)


def tree(hubs: Hubs, *homes: str, parents: tuple[int, ...] = (), only: tuple[str, ...] = ()) -> None:
    hubs.replicate("t", Mode.CONTENT, *homes, parents=parents, only=only)


def stream(hubs: Hubs, hub: str) -> Stream:
    found = hubs[hub].core.index.topics[b"t"].stream
    assert found is not None
    return found


def sources(hubs: Hubs, *names: str) -> list[str | None]:
    return [stream(hubs, name).source for name in names]


def subscribed(hubs: Hubs, hub: str, *words: str) -> FakeClient:
    client = hubs[hub].client()
    client.send(*(words or ("SUBSCRIBE", "t")))
    hubs.settle()
    assert len(client.read()) == 1
    return client


def publish(hubs: Hubs, hub: str, *numbers: int) -> None:
    publisher = hubs[hub].client()
    for number in numbers:
        publisher.send("PUBLISH", "t", f'{{"number": {number}, "even": {number % 2 ^ 1}}}')
    hubs.settle()


def heard(client: FakeClient) -> list[int]:
    return [int(message[-1].partition(b": ")[2].partition(b",")[0]) for message in client.read()]


def test_a_message_reaches_each_home_from_its_parent() -> None:
    hubs = Hubs("h1", "h2", "h3", "h4", "h5")
    tree(hubs, "h1", "h2", "h3", "h4", parents=CHAIN)
    clients = [subscribed(hubs, hub) for hub in ("h2", "h3", "h4", "h5")]
    assert sources(hubs, "h2", "h3", "h4") == ["h1", "h2", "h3"]
    # A hub that is no home follows the first.
    assert sources(hubs, "h5") == ["h1"]
    for hub in ("h1", "h4", "h5"):
        publish(hubs, hub, 1, 2)
    assert [heard(client) for client in clients] == [[1, 2] * 3] * 4
    relays = hubs["h1"].core.index.topics[b"t"].relays
    assert {link.hub for link in relays or ()} == {"h2", "h5"}


def test_children_of_a_dead_parent_follow_its_parent() -> None:
    hubs = Hubs("h1", "h2", "h3", "h4")
    tree(hubs, "h1", "h2", "h3", "h4", parents=CHAIN)
    client = subscribed(hubs, "h4")
    publish(hubs, "h1", 1)
    hubs.kill("h2")
    assert sources(hubs, "h3", "h4") == ["h1", "h3"]
    publish(hubs, "h1", 2)
    hubs.kill("h1")
    assert sources(hubs, "h4") == ["h3"]
    publish(hubs, "h4", 3)
    assert heard(client) == [1, 2, 3]


def test_a_hub_that_could_not_be_requested_along_a_tree_is_requested_once_the_topic_has_no_tree() -> None:
    """
    1. h2 has restarted and needs a topic of a tree; h1, its home, has not announced yet that it supports trees;
    2. by the next plan the topic is in no tree: h2 asks h1 as any hub does.
    """
    hubs = Hubs("h1", "h2")
    hubs.links["h2", "h1"].capabilities -= {TREES}
    tree(hubs, "h1", "h2")
    publish(hubs, "h1", 0)
    client = hubs["h2"].client()
    client.send("SUBSCRIBE", "t")
    hubs.settle()
    assert client.read() == []
    hubs.move(["t"], "h1")
    assert len(client.read()) == 1
    publish(hubs, "h1", 1)
    assert heard(client) == [1]


def test_two_hubs_that_change_places_do_not_follow_each_other() -> None:
    """
    1. h2 follows h1, h3 follows h2;
    2. by the next plan h3 follows h1, h2 follows h3; h2 applies it first, and sends its request to h3;
    3. h3 still follows h2: it does not answer before it follows h1.
    """
    hubs = Hubs("h1", "h2", "h3")
    tree(hubs, "h1", "h2", "h3", parents=(0, 0, 1))
    clients = [subscribed(hubs, hub) for hub in ("h2", "h3")]
    publish(hubs, "h1", 1)
    tree(hubs, "h1", "h3", "h2", parents=(0, 0, 1), only=("h2",))
    assert (sources(hubs, "h2", "h3"), stream(hubs, "h2").joining) == (["h1", "h2"], "h3")
    publish(hubs, "h1", 2)
    hubs.tell("h3")
    # h1 does not know the plan yet.
    assert (sources(hubs, "h2", "h3"), stream(hubs, "h3").joining) == (["h1", "h2"], "h1")
    publish(hubs, "h1", 3)
    hubs.tell("h1")
    assert sources(hubs, "h2", "h3") == ["h3", "h1"]
    publish(hubs, "h1", 4)
    assert [heard(client) for client in clients] == [[1, 2, 3, 4]] * 2


def test_a_request_to_a_parent_is_repeated_under_each_plan() -> None:
    """
    1. the chain is h1, h2, h3, h4, then for a while h1, h4, h2, h3, then as at first;
    2. h3 does not receive the second plan: its parent is h2 in every plan that it receives;
    3. h2 goes by the second plan, and follows h4; h4 goes by the third, and asks h3;
    4. if h3 answered, h4, h3 and h2 would follow each other, and none of them the home.
    """
    hubs = Hubs("h1", "h2", "h3", "h4")
    tree(hubs, "h1", "h2", "h3", "h4", parents=CHAIN)
    clients = [subscribed(hubs, hub) for hub in ("h2", "h3", "h4")]
    tree(hubs, "h1", "h4", "h2", "h3", parents=CHAIN, only=("h1", "h2", "h4"))
    assert sources(hubs, "h2", "h3", "h4") == ["h4", "h2", "h1"]
    tree(hubs, "h1", "h2", "h3", "h4", parents=CHAIN, only=("h1", "h3", "h4"))
    assert (sources(hubs, "h2", "h3", "h4"), stream(hubs, "h4").joining) == (["h4", "h2", "h1"], "h3")
    publish(hubs, "h1", 1, 2)
    hubs.tell("h2")
    assert sources(hubs, "h2", "h3", "h4") == ["h1", "h2", "h3"]
    publish(hubs, "h1", 3)
    assert [heard(client) for client in clients] == [[1, 2, 3]] * 3


def test_an_edge_confirms_a_subscriber_once_it_has_reached_the_position_of_the_home() -> None:
    hubs = Hubs("h1", "h2", "h3")
    tree(hubs, "h1", "h2", "h3", parents=(0, 0, 1))
    first = subscribed(hubs, "h3")
    hubs.held.add(("h2", "h3"))
    publish(hubs, "h1", 1, 2)
    comer = hubs["h3"].client()
    comer.send("SUBSCRIBE", "t")
    hubs.settle()
    assert comer.read() == []
    hubs.release("h2", "h3")
    publish(hubs, "h1", 3)
    assert [message[0] for message in comer.read()] == [b"subscribe", b"message"]
    assert heard(first) == [1, 2, 3]


def test_requests_of_children_are_passed_to_the_parent() -> None:
    hubs = Hubs("h1", "h2", "h3")
    tree(hubs, "h1", "h2", "h3", parents=(0, 0, 1))
    client = subscribed(hubs, "h3", "PSUBSCRIBE", "$filter t even = 1")
    asked = hubs["h1"].core.index.topics[b"t"].hub_filters
    assert asked is not None
    assert {link.hub: [str(one) for one in of.filters] for link, of in asked.links.items()} == {
        "h2": ["even = 1"]
    }
    before = hubs["h1"].cluster.asked.kept_off
    publish(hubs, "h1", 1, 2, 3, 4)
    assert heard(client) == [2, 4]
    assert hubs["h1"].cluster.asked.kept_off > before


def test_a_hub_that_receives_by_filters_confirms_a_child_once_it_receives_all_that_it_requested() -> None:
    hubs = Hubs("h1", "h2", "h3")
    tree(hubs, "h1", "h2")
    filtered = subscribed(hubs, "h2", "PSUBSCRIBE", "$filter t even = 1")
    whole = subscribed(hubs, "h3")
    publish(hubs, "h1", 1, 2)
    # h2 requests everything, but not at once.
    tree(hubs, "h1", "h2", "h3", parents=(0, 0, 1))
    publish(hubs, "h1", 3, 4)
    assert (sources(hubs, "h3"), stream(hubs, "h3").joining) == (["h1"], "h2")
    hubs.settle(0.1)
    assert sources(hubs, "h3") == ["h2"]
    publish(hubs, "h1", 5, 6)
    assert (heard(whole), heard(filtered)) == ([1, 2, 3, 4, 5, 6], [2, 4, 6])


def test_messages_that_the_home_sends_for_a_pattern_are_not_lost_when_a_parent_is_followed() -> None:
    """Seed 254 of content-trees:

    1. h3 has a client with a pattern, and follows the home, h1; messages are in flight there;
    2. h3 becomes a home of the topic, and follows h2, which has those messages already.
    """
    hubs = Hubs("h1", "h2", "h3")
    tree(hubs, "h1", "h2")
    client = subscribed(hubs, "h3", "PSUBSCRIBE", "t*")
    publish(hubs, "h1", 1)
    hubs.held.add(("h1", "h3"))
    publish(hubs, "h1", 2, 3)
    tree(hubs, "h1", "h2", "h3", parents=(0, 0, 1))
    # It goes by the home first.
    assert (sources(hubs, "h3"), stream(hubs, "h3").joining) == ([None], "h1")
    hubs.release("h1", "h3")
    assert sources(hubs, "h3") == ["h2"]
    publish(hubs, "h1", 4)
    assert heard(client) == [1, 2, 3, 4]


@pytest.mark.parametrize("is_late", [False, True])
def test_no_message_of_a_parent_that_is_left_early_is_delivered_before_those_of_the_home(
    is_late: bool,
) -> None:
    """Seed 774 of content-trees:

    1. h3 has a client with a pattern and follows h1, the home; messages are on their way from there;
    2. h3 joins h2 in the tree, which has those messages and sends later ones; h3 holds them back;
    3. by the next plan h3 is no home and no client there has subscribed to the topic by name: it leaves h2 and h1;
    4. h1 keeps sending for the pattern: messages that h2 has sent, and still sends, are not delivered before those.
    """
    hubs = Hubs("h1", "h2", "h3")
    tree(hubs, "h1", "h2")
    client = subscribed(hubs, "h3", "PSUBSCRIBE", "t*")
    by_name = subscribed(hubs, "h3")
    publish(hubs, "h1", 1)
    assert sources(hubs, "h3") == ["h1"]
    hubs.held.add(("h1", "h3"))
    publish(hubs, "h1", 2, 3)
    tree(hubs, "h1", "h2", "h3", parents=(0, 0, 1))
    assert (sources(hubs, "h3"), stream(hubs, "h3").joining) == (["h1"], "h2")
    hubs.held.add(("h2", "h3"))
    publish(hubs, "h1", 4)
    if not is_late:
        hubs.release("h2", "h3")
        assert len(stream(hubs, "h3").pending) == 1
    by_name.send("UNSUBSCRIBE", "t")
    tree(hubs, "h1", "h2")
    hubs.settle(hubs["h3"].core.settings.cluster.unsubscribe_delay_s)
    assert (sources(hubs, "h3"), stream(hubs, "h3").joining) == ([None], None)
    hubs.release("h2", "h3")
    hubs.release("h1", "h3")
    publish(hubs, "h1", 5)
    assert heard(client) == [1, 2, 3, 4, 5]
    assert hubs["h3"].core.losses.messages == 0
    assert not stream(hubs, "h3").strays


def test_the_next_home_opens_though_the_hubs_above_it_wait_for_it() -> None:
    """Seed 972 of content-trees-crashes:

    1. the chain is h1, h2, h3, h4, h5; a message is lost with h2, which was to pass it on;
    2. by the next plan h5 is the home: h3, which has lost its source, wants to follow it;
    3. h1 closes the epoch behind the lost message. h5 follows h4, which follows h3: it never comes from there.
    """
    hubs = Hubs("h1", "h2", "h3", "h4", "h5")
    tree(hubs, "h1", "h2", "h3", "h4", "h5", parents=(0, 0, 1, 2, 3))
    clients = [subscribed(hubs, hub) for hub in ("h3", "h4", "h5")]
    publish(hubs, "h1", 1)
    hubs.held.add(("h2", "h3"))
    publish(hubs, "h1", 2)
    hubs.move(["t"], "h5")
    hubs.kill("h2")
    publish(hubs, "h1", 3)
    assert [heard(client) for client in clients] == [[1, 3]] * 3
    assert stream(hubs, "h1").peer == "h5"
    # A subscriber by name at each of them lacks one message.
    assert [hubs[hub].core.losses.messages for hub in ("h3", "h4", "h5")] == [1, 1, 1]


def test_the_next_home_waits_for_the_end_of_the_epoch_while_the_hubs_above_it_have_sources() -> None:
    hubs = Hubs("h1", "h2", "h3", "h4")
    tree(hubs, "h1", "h2", "h3", "h4", parents=CHAIN)
    client = subscribed(hubs, "h4")
    hubs.held.add(("h2", "h3"))
    publish(hubs, "h1", 1)
    hubs.move(["t"], "h4")
    publish(hubs, "h1", 2)
    assert client.read() == []
    hubs.release("h2", "h3")
    assert heard(client) == [1, 2]
    assert hubs["h4"].core.losses.messages == 0


def test_a_hub_that_no_longer_needs_everything_does_not_wait_for_it() -> None:
    """Seeds 619 and 910 of content-trees-wanderers:

    1. h3 follows h2 by a filter, and asks it for everything; h2 asks h1, which is slow to answer;
    2. the subscriber without a filter leaves: h3 requests its filter again, and then withdraws the rest;
    3. h2 does not get everything any more: it must not wait for that before it answers.
    """
    hubs = Hubs("h1", "h2", "h3")
    tree(hubs, "h1", "h2", "h3", parents=(0, 0, 1))
    first = subscribed(hubs, "h3", "PSUBSCRIBE", "$filter t even = 1")
    hubs.settle(0.1)
    hubs.held.add(("h1", "h2"))
    whole = hubs["h3"].client()
    whole.send("SUBSCRIBE", "t")
    hubs.settle(0.1)
    whole.wire.abort()
    hubs.settle(hubs["h3"].core.settings.cluster.unsubscribe_delay_s)
    hubs.settle(0.1)
    hubs.release("h1", "h2")
    hubs.settle(0.1)
    assert hubs["h2"].cluster.interests.has_narrow
    second = subscribed(hubs, "h3", "PSUBSCRIBE", "$filter t even = 1")
    publish(hubs, "h1", 1, 2)
    assert [heard(client) for client in (first, second)] == [[2], [2]]
    interest = stream(hubs, "h2").interest
    assert interest is not None
    assert not interest.waiters


def test_a_reply_to_a_later_request_does_not_answer_the_earlier_one() -> None:
    """
    1. h3 follows h2 by filters; it asks for one that h2 has yet to ask h1 for, then for one that h2 has already;
    2. h2 replies to the second request: that does not answer the first.
    """
    hubs = Hubs("h1", "h2", "h3")
    tree(hubs, "h1", "h2", "h3", parents=(0, 0, 1))
    subscribed(hubs, "h2", "PSUBSCRIBE", "$filter t number = 5")
    subscribed(hubs, "h3", "PSUBSCRIBE", "$filter t number = 6")
    hubs.settle(0.1)
    hubs.held.add(("h2", "h1"))
    new, known = hubs["h3"].client(), hubs["h3"].client()
    new.send("PSUBSCRIBE", "$filter t number = 7")
    hubs.settle(0.1)
    known.send("PSUBSCRIBE", "$filter t number = 5")
    hubs.settle(0.1)
    assert (new.read(), len(known.read())) == ([], 1)
    hubs.release("h2", "h1")
    hubs.settle(0.1)
    assert len(new.read()) == 1
    publish(hubs, "h1", 5, 6, 7)
    assert (heard(new), heard(known)) == ([7], [5])
