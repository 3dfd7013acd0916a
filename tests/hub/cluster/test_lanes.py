"""Topics with lanes, hub by hub: which messages subscribers get, in which order, and the announcements."""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.access import Users
from equipoise.hub.cluster.lane_state import lane_key, parse_lane_key
from equipoise.hub.cluster.position_query import ENDS_KEPT_S
from equipoise.hub.cluster.settings import ClusterSettings
from equipoise.model import Mode
from equipoise.stream.submission import NOWHERE
from hub.cluster.hubs import Hubs
from hub.world import FakeClient, users

LANES = Mode.ALL_SUBSCRIBERS
ALL = 'create = ["*"]\npublish = ["*"]\nsubscribe = ["*"]'


def spread(*names: str, users: Users | None = None) -> Hubs:
    """Hubs with the topic t at h1, and a lane of it at h2."""
    hubs = Hubs(*(names or ("h1", "h2", "h3")), users=users)
    hubs.replicate("t", LANES, "h1", "h2")
    return hubs


def subscribed(hubs: Hubs, hub: str, *words: str) -> tuple[FakeClient, list[Any]]:
    """A client that has sent a command, and all that came of it."""
    client = hubs[hub].client(3)
    client.send(*words)
    hubs.settle()
    return client, client.read()


def payloads(pushes: list[Any]) -> list[bytes]:
    """The messages among them, in order."""
    found: list[bytes] = []
    for push in pushes:
        skipped = {b"message": 2, b"eq.message": 4, b"eq.lmessage": 5, b"eq.lpmessage": 6}.get(push[0])
        if skipped is not None:
            found += push[skipped:]
    return found


def words(pushes: list[Any]) -> list[bytes]:
    return [push[0] for push in pushes]


def publish(hubs: Hubs, hub: str, *messages: str) -> None:
    publisher = hubs[hub].client()
    for message in messages:
        publisher.send("PUBLISH", "t", message)
    hubs.settle()


def test_each_home_numbers_the_messages_of_its_own_clients() -> None:
    hubs = spread()
    publish(hubs, "h1", "a", "b")
    publish(hubs, "h2", "c")
    assert hubs["h1"].core.index.topics[b"t"].n == 2
    assert hubs["h2"].core.index.lanes[lane_key("h2", b"t")].n == 1


def test_a_subscriber_at_any_hub_gets_all_streams() -> None:
    hubs = spread()
    clients = [subscribed(hubs, hub, "SUBSCRIBE", "t")[0] for hub in ("h1", "h2", "h3")]
    clients += [subscribed(hubs, "h3", "PSUBSCRIBE", "?")[0]]
    publish(hubs, "h1", "a")
    publish(hubs, "h2", "b")
    publish(hubs, "h3", "c")
    for client in clients:
        assert sorted(push[-1] for push in client.read()) == [b"a", b"b", b"c"]


def test_a_positioned_subscriber_gets_announcements_of_the_begin_and_end_of_each_lane() -> None:
    hubs = spread()
    publish(hubs, "h2", "before")
    client, pushes = subscribed(hubs, "h3", "EQ.SUBSCRIBE", "t")
    assert words(pushes) == [b"eq.subscribe", b"eq.lane"]
    _, topic, lane, epoch, n = pushes[1]
    assert (topic, lane, n) == (b"t", b"h2", 1)
    publish(hubs, "h2", "x", "y")
    assert client.read() == [
        [b"eq.lmessage", b"t", b"h2", epoch, 2, b"x"],
        [b"eq.lmessage", b"t", b"h2", epoch, 3, b"y"],
    ]
    hubs.replicate("t", LANES, "h1", "h2", "h3")
    opened, begun = client.read()
    # No message of the trunk has come yet: its epoch is named again, for subscribers that missed an earlier one.
    assert (opened[:2], opened[3:]) == ([b"eq.opened", b"t"], [0, 0])
    assert begun[:3] == [b"eq.lane", b"t", b"h3"]
    hubs.replicate("t", Mode.SINGLE, "h1")
    ends = client.read()
    assert sorted(ends) == [[b"eq.ended", b"t", b"h2", epoch, 3], [b"eq.ended", b"t", b"h3", begun[3], 0]]


def test_lanes_are_announced_to_subscribers_by_pattern_too() -> None:
    hubs = spread()
    client, _ = subscribed(hubs, "h3", "EQ.PSUBSCRIBE", "t*")
    publish(hubs, "h2", "x")
    (push,) = client.read()
    assert push[:4] == [b"eq.lpmessage", b"t*", b"t", b"h2"]
    assert push[5:] == [1, b"x"]


def test_messages_behind_a_mark_wait_for_the_other_stream() -> None:
    """
    1. A client of h2 publishes to the lane there; the link from h2 to h3 is slow.
    2. The plan ends the lane: the client's next message goes to the trunk at h1, and from there to h3.
    3. The subscriber at h3 gets it only after the first.
    """
    hubs = spread()
    clients = [
        subscribed(hubs, "h3", "SUBSCRIBE", "t")[0],
        subscribed(hubs, "h3", "EQ.SUBSCRIBE", "t")[0],
        subscribed(hubs, "h3", "EQ.PSUBSCRIBE", "*")[0],
    ]
    hubs.held.add(("h2", "h3"))
    publish(hubs, "h2", "first")
    hubs.replicate("t", Mode.SINGLE, "h1")
    publish(hubs, "h2", "second")
    assert [payloads(client.read()) for client in clients] == [[], [], []]
    hubs.release("h2", "h3")
    assert payloads(clients[0].read()) == [b"first", b"second"]
    assert words(clients[1].read()) == [b"eq.lmessage", b"eq.after", b"eq.message", b"eq.ended"]
    assert words(clients[2].read()) == [b"eq.lpmessage", b"eq.pmessage"]


def test_no_stream_waits_for_a_hub_that_is_dead() -> None:
    hubs = spread("h1", "h2", "h3", "h4")
    client, _ = subscribed(hubs, "h3", "EQ.SUBSCRIBE", "t")
    hubs.held.add(("h2", "h3"))
    publish(hubs, "h2", "first")
    hubs.replicate("t", Mode.SINGLE, "h1")
    publish(hubs, "h2", "second")
    assert payloads(client.read()) == []
    hubs.kill("h2")
    pushes = client.read()
    assert [b"eq.ended", b"t", b"h2", 0, 0] in pushes
    assert payloads(pushes) == [b"second"]


def test_a_hub_that_begins_to_follow_receives_the_earlier_marks() -> None:
    """
    1. A client of h2 switches from the lane to the trunk while h3 has no subscriber.
    2. A subscriber comes to h3. The lane's end is slow to get there, what the trunk brings is not.
    """
    hubs = spread()
    publish(hubs, "h2", "first")
    hubs.held.update({("h2", "h1"), ("h2", "h3")})
    hubs.replicate("t", Mode.SINGLE, "h1")
    client, pushes = subscribed(hubs, "h3", "EQ.SUBSCRIBE", "t")
    assert pushes == [], "the lane may still have messages for it"
    hubs.release("h2", "h1")
    publish(hubs, "h2", "second")
    hubs.release("h2", "h3")
    assert b"eq.subscribe" in words(client.read())


def test_own_gives_the_streams_that_the_hub_numbers_and_those_not_received_elsewhere() -> None:
    hubs = spread()
    at_h1, (answer,) = subscribed(hubs, "h1", "EQ.OWN", "t")
    assert answer[:4] == [b"eq.own", b"t", 1, b""]
    at_h2, (answer,) = subscribed(hubs, "h2", "EQ.OWN", "t")
    assert answer[:4] == [b"eq.own", b"t", 1, b"h2"]
    publish(hubs, "h1", "trunk")
    publish(hubs, "h2", "lane")
    assert payloads(at_h1.read()) == [b"trunk"]
    assert payloads(at_h2.read()) == [b"lane"]
    hubs.replicate("t", LANES, "h1", "h2", "h3")
    publish(hubs, "h3", "new")
    for client in (at_h1, at_h2):
        begun, push = client.read()
        assert begun[:3] == [b"eq.lane", b"t", b"h3"]
        assert push[:3] == [b"eq.lmessage", b"t", b"h3"]
    at_h1.send("EQ.OWN", "t", "ELSEWHERE", "h2", "h3")
    publish(hubs, "h3", "newer")
    assert words(at_h1.read()) == [b"eq.own"]
    assert payloads(at_h2.read()) == [b"newer"]


def test_a_trunk_is_opened_though_waiting_subscribers_get_a_marked_lane_elsewhere() -> None:
    """
    1. The trunk comes after a message of the lane at h2, and moves to h3.
    2. A client asks h3 for its own stream, the trunk, and waits until that is opened.
    3. h3 follows no lane for it, so it must not wait for the lane's messages either.
    """
    hubs = spread()
    subscribed(hubs, "h1", "SUBSCRIBE", "t")
    stream, epoch, n, _ = hubs["h2"].client().do("EQ.PUBLISH", "t", "first")
    publisher = hubs["h1"].client()
    publisher.send("EQ.AFTER", "t", stream, str(epoch), str(n))
    hubs.settle()
    assert publisher.read() == [b"OK"]
    publisher.send("EQ.PUBLISH", "t", "second")
    hubs.settle()
    hubs.held.add(("h1", "h3"))
    hubs.replicate("t", LANES, "h3", "h2")
    client = hubs["h3"].client(3)
    client.send("EQ.OWN", "t")
    hubs.settle()
    assert client.read() == []
    hubs.release("h1", "h3")
    assert words(client.read())[:1] == [b"eq.own"]


def test_own_names_the_streams_that_it_leaves_out() -> None:
    hubs = spread()
    for command, left_out in (
        (("EQ.OWN", "t"), [b"h2"]),
        (("EQ.OWN", "t", "ELSEWHERE"), []),
        (("EQ.OWN", "t", "ELSEWHERE", "", "h3"), [b""]),
    ):
        _, (answer, *_) = subscribed(hubs, "h1", *command)
        assert answer[6:] == left_out, "of a lane that does not exist it would give the beginning"


def test_a_subscriber_that_gets_a_lane_elsewhere_is_notified_that_its_hub_is_dead() -> None:
    hubs = spread("h1", "h2", "h3", "h4")
    client, _ = subscribed(hubs, "h1", "EQ.OWN", "t", "ELSEWHERE", "h2")
    hubs.kill("h2")
    assert client.read() == [[b"eq.ended", b"t", b"h2", 0, 0]]


def test_a_stream_that_was_left_out_is_given_when_it_begins_again() -> None:
    hubs = spread()
    client, _ = subscribed(hubs, "h1", "EQ.OWN", "t", "ELSEWHERE", "h2")
    hubs.replicate("t", Mode.SINGLE, "h1")
    hubs.replicate("t", LANES, "h1", "h2")
    publish(hubs, "h2", "again")
    pushes = client.read()
    assert words(pushes) == [b"eq.opened", b"eq.lane", b"eq.lmessage"]


def test_a_trunk_that_moves_away_is_relayed_to_subscribers_of_own_streams() -> None:
    hubs = spread()
    client, (answer,) = subscribed(hubs, "h1", "EQ.OWN", "t")
    epoch, n = answer[4:6]
    hubs.replicate("t", LANES, "h3", "h2")
    publish(hubs, "h3", "there")
    opened, push = client.read()
    assert (opened[0], opened[3:]) == (b"eq.opened", [epoch, n])
    assert push == [b"eq.message", b"t", opened[2], 1, b"there"]


def test_own_is_refused_where_the_hub_numbers_nothing() -> None:
    hubs = spread()
    client = hubs["h3"].client(3)
    assert str(client.do("EQ.OWN", "t")).startswith("NOTHOME")
    assert str(client.do("EQ.OWN", "t", "BUT", "h2")).startswith("ERR syntax")
    assert str(hubs["h1"].client().do("EQ.OWN", "t")).startswith("ERR EQ commands need RESP3")
    client.send("EQ.OWN", "t", "ELSEWHERE")
    hubs.settle()
    answer, trunk, lane = client.read()
    assert (answer[3], trunk[0], lane[:3]) == (None, b"eq.trunk", [b"eq.lane", b"t", b"h2"])
    assert client.do("EQ.NOTOWN", "t") == [b"eq.notown", b"t", 0]


def test_a_hub_alone_numbers_everything_itself() -> None:
    hubs = Hubs("h1")
    client, (answer,) = subscribed(hubs, "h1", "EQ.OWN", "t")
    assert answer[:4] == [b"eq.own", b"t", 1, b""]
    publish(hubs, "h1", "x")
    assert payloads(client.read()) == [b"x"]


def test_a_publisher_names_the_position_that_its_next_message_depends_on() -> None:
    """The link from h2 to h3 is slow; the publisher goes from h2 to h1."""
    hubs = spread()
    client, _ = subscribed(hubs, "h3", "SUBSCRIBE", "t")
    hubs.held.add(("h2", "h3"))
    stream, epoch, n, _ = hubs["h2"].client().do("EQ.PUBLISH", "t", "first")
    assert (stream, n) == (b"h2", 1)
    publisher = hubs["h1"].client()
    publisher.send("EQ.AFTER", "t", stream, str(epoch), str(n))
    hubs.settle()
    assert publisher.read() == [b"OK"]
    assert publisher.do("EQ.PUBLISH", "t", "second")[:1] == [b""]
    hubs.settle()
    assert payloads(client.read()) == []
    hubs.release("h2", "h3")
    assert payloads(client.read()) == [b"first", b"second"]


@pytest.mark.parametrize("is_over", [False, True])
def test_the_next_message_of_a_publisher_that_lost_its_hub_depends_on_all_streams(*, is_over: bool) -> None:
    """The link from h2 to h3 is slow; the publisher goes from h2 to h1, where it knows no position in the lane of h2.

    Nor does it if the lane is over at h1 by then, and not at h3.
    """
    hubs = spread()
    client, _ = subscribed(hubs, "h3", "SUBSCRIBE", "t")
    hubs.held.add(("h2", "h3"))
    publish(hubs, "h2", "first")
    if is_over:
        hubs.replicate("t", Mode.SINGLE, "h1")
        assert not hubs["h1"].core.index.lanes
    publisher = hubs["h1"].client()
    publisher.send("EQ.AFTER", "t")
    hubs.settle()
    assert publisher.read() == [b"OK"]
    publisher.send("EQ.PUBLISH", "t", "second")
    hubs.settle()
    assert payloads(client.read()) == []
    hubs.release("h2", "h3")
    assert payloads(client.read()) == [b"first", b"second"]


def test_a_message_depends_on_all_streams_even_if_its_hub_changes_streams_before_it() -> None:
    """The link from h1 to h3 is slow, and the publisher goes from h1 to h2, which is given a lane."""
    hubs = Hubs("h1", "h2", "h3")
    hubs.replicate("t", Mode.SINGLE, "h1")
    client, _ = subscribed(hubs, "h3", "SUBSCRIBE", "t")
    subscribed(hubs, "h2", "SUBSCRIBE", "t")
    hubs.held.add(("h1", "h3"))
    publish(hubs, "h1", "first")
    publisher = hubs["h2"].client()
    publisher.send("EQ.AFTER", "t")
    hubs.settle()
    hubs.replicate("t", LANES, "h1", "h2")
    assert publisher.read() == [b"OK"]
    publisher.send("EQ.PUBLISH", "t", "second")
    hubs.settle()
    assert publisher.read()[0][0] == b"h2"
    assert payloads(client.read()) == []
    hubs.release("h1", "h3")
    assert payloads(client.read()) == [b"first", b"second"]


def test_a_hub_knows_which_lanes_have_been_over_for_a_while() -> None:
    hubs = spread()
    hubs.replicate("t", Mode.SINGLE, "h1")
    asking = hubs["h1"].cluster.position_queries
    topic = hubs["h1"].core.make_topic(b"t")
    assert topic is not None
    assert asking.streams_of(topic) == [b"", b"h2"]
    hubs["h1"].advance(ENDS_KEPT_S + ClusterSettings().unsubscribe_delay_s)
    hubs["h1"].advance(0.1)
    assert asking.streams_of(topic) == [b""]


def test_at_a_hub_alone_a_message_depends_on_all_streams_of_the_hub() -> None:
    client = Hubs("h1")["h1"].client()
    assert client.do("EQ.AFTER", "t") == b"OK"
    assert str(client.do("EQ.AFTER", "t", "h2")).startswith("ERR syntax error: EQ.AFTER")


@pytest.mark.parametrize("stream", ["h2", "", "nowhere"])
def test_no_stream_waits_for_a_position_that_was_never_given(stream: str) -> None:
    hubs = spread()
    client, _ = subscribed(hubs, "h3", "SUBSCRIBE", "t")
    publisher = hubs["h2" if stream == "" else "h1"].client()
    publisher.send("EQ.AFTER", "t", stream, str(2**62), str(2**62))
    hubs.settle()
    assert publisher.read() == [b"OK"]
    publisher.send("EQ.PUBLISH", "t", "x")
    hubs.settle()
    assert payloads(client.read()) == [b"x"]
    publisher.read()
    assert str(publisher.do("EQ.AFTER", "t", stream, "-1", "x")).startswith("ERR")


def test_lanes_are_in_no_listing_and_have_names_that_no_client_can_use() -> None:
    hubs = spread()
    subscribed(hubs, "h2", "SUBSCRIBE", "t")
    client = hubs["h2"].client()
    key = lane_key("h2", b"t")
    assert client.do("PUBSUB", "CHANNELS") == [b"t"]
    assert client.do("PUBSUB", "CHANNELS", "$*") == []
    assert client.do("PUBSUB", "NUMSUB", "t", key) == [b"t", 1, key, 0]
    assert [row[0] for row in client.do("EQ.TOPICS", "0", "100")[1]] == [b"t"]
    for words_ in (("PUBLISH", key, "x"), ("SUBSCRIBE", key)):
        assert str(client.do(*words_)).startswith("ERR names that begin with $lane/")


def test_access_is_judged_on_the_topic() -> None:
    rules = {"hub": ALL + '\nlink = ["*"]', "ann": ALL, "bob": 'create = ["*"]\npublish = ["*"]'}
    hubs = spread("h1", "h2", "h3", users=users(**rules))
    ann, bob = hubs["h3"].client(3, user="ann"), hubs["h3"].client(3, user="bob")
    ann.send("EQ.SUBSCRIBE", "t")
    hubs.settle()
    assert words(ann.read()) == [b"eq.subscribe", b"eq.lane"]
    for command in ("EQ.SUBSCRIBE", "EQ.OWN", "EQ.PSUBSCRIBE"):
        assert str(bob.do(command, "t")).startswith("NOPERM user 'bob' may not subscribe 't'")
    publisher = hubs["h2"].client(user="bob")
    publisher.send("PUBLISH", "t", "x")
    hubs.settle()
    assert payloads(ann.read()) == [b"x"]
    hubs["h3"].core.reload_users(users(**{**rules, "ann": 'create = ["*"]'}))
    publisher.send("PUBLISH", "t", "y")
    hubs.settle()
    assert words(ann.read()) == [b"eq.unsubscribe"]


def test_activity_of_lanes_counts_for_their_topic() -> None:
    hubs = spread()
    subscribed(hubs, "h2", "SUBSCRIBE", "t")
    publish(hubs, "h2", "x", "y")
    hubs.replicate("t", Mode.SINGLE, "h1")
    topic = hubs["h2"].core.index.topics[b"t"]
    assert not hubs["h2"].core.index.lanes
    assert (topic.published, topic.delivered) == (2, 2)


def test_keys_are_read_as_they_were_spelled() -> None:
    assert parse_lane_key(lane_key("hub-1.x", b"a/b \x00")) == ("hub-1.x", b"a/b \x00")
    assert parse_lane_key(b"$lanes") is None


def test_a_lane_that_begins_again_while_the_end_of_the_last_one_is_pending_is_followed_in_time() -> None:
    """
    1. The link from h1 to h3 is slow, so what the lane at h2 brings waits at h3 for the trunk, and so does its end.
    2. The plan takes the lane away, and gives it back.
    3. Messages in the new lane reach h3, after all others.
    """
    hubs = Hubs("h1", "h2", "h3")
    hubs.replicate("t", Mode.SINGLE, "h1")
    client, _ = subscribed(hubs, "h3", "SUBSCRIBE", "t")
    hubs.held.add(("h1", "h3"))
    publish(hubs, "h2", "0")
    hubs.replicate("t", LANES, "h1", "h2")
    publish(hubs, "h2", "1")
    hubs.replicate("t", Mode.SINGLE, "h1")
    hubs.replicate("t", LANES, "h1", "h2")
    publish(hubs, "h2", "2")
    assert payloads(client.read()) == []
    hubs.release("h1", "h3")
    assert payloads(client.read()) == [b"0", b"1", b"2"]


def test_a_position_that_a_publisher_names_counts_in_the_stream_that_its_hub_changes_to() -> None:
    """
    1. A publisher's message gets its position in the trunk at h1; the link from h1 to h3 is slow.
    2. The publisher continues at h2 and names that position. Messages of h2's clients go to the trunk as well.
    3. Before the publisher's next message h2 gets a lane, and its clients change to that.
    4. The subscriber at h3 gets the next message only after the first.
    """
    hubs = Hubs("h1", "h2", "h3")
    hubs.replicate("t", Mode.SINGLE, "h1")
    hubs.publish_first("h2", "t")
    client, _ = subscribed(hubs, "h3", "SUBSCRIBE", "t")
    hubs.held.add(("h1", "h3"))
    stream, epoch, n, _ = hubs["h1"].client().do("EQ.PUBLISH", "t", "first")
    publisher = hubs["h2"].client()
    assert publisher.do("EQ.AFTER", "t", stream, str(epoch), str(n)) == b"OK"
    hubs.replicate("t", LANES, "h1", "h2")
    publisher.send("EQ.PUBLISH", "t", "second")
    hubs.settle()
    assert publisher.read()[0][:1] == [b"h2"]
    assert payloads(client.read()) == []
    hubs.release("h1", "h3")
    assert payloads(client.read()) == [b"first", b"second"]


def test_a_home_accepts_no_message_that_follows_a_later_epoch_than_its_own() -> None:
    """
    1. h1 numbers t, and does not know that h2 has opened the next epoch: the plan reaches it late.
    2. A publisher that has a position of that epoch continues at h1. Its message belongs behind that position.
    3. h1 replies, and delivers the message, once it knows the later epoch.
    """
    hubs = Hubs("h1", "h2")
    hubs.replicate("t", Mode.SINGLE, "h1")
    client, _ = subscribed(hubs, "h1", "SUBSCRIBE", "t")
    stream, epoch, _, _ = hubs["h1"].client().do("EQ.PUBLISH", "t", "first")
    publisher = hubs["h1"].client()
    publisher.send("EQ.AFTER", "t", stream, str(epoch + 1), "0")
    publisher.send("EQ.PUBLISH", "t", "second")
    hubs.settle_now()
    assert publisher.read() == []
    assert payloads(client.read()) == [b"first"]
    hubs.move(["t"], "h2")
    hubs["h1"].shell.advance(1.0)
    hubs.settle()
    assert publisher.read()[0] == b"OK"
    assert payloads(client.read()) == [b"second"]


@pytest.mark.parametrize("is_home_alive", [True, False])
def test_a_named_position_that_was_never_given_delays_no_change_of_streams(is_home_alive: bool) -> None:
    hubs = Hubs("h1", "h2", "h3", "h4")
    hubs.replicate("t", Mode.SINGLE, "h1")
    hubs.publish_first("h2", "t")
    client, _ = subscribed(hubs, "h3", "SUBSCRIBE", "t")
    publisher = hubs["h2"].client()
    assert publisher.do("EQ.AFTER", "t", "", str(2**62), str(2**62)) == b"OK"
    if not is_home_alive:
        hubs.kill("h1")
    hubs.replicate("t", LANES, "h4", "h2")
    publisher.send("EQ.PUBLISH", "t", "x")
    hubs.settle()
    assert publisher.read()[0][:1] == [b"h2"]
    assert payloads(client.read()) == [b"x"]


def test_a_position_in_a_lane_that_is_over_here_still_counts_where_it_is_not() -> None:
    """
    1. A publisher's message gets its position in the lane at h2; the link from h2 to h3 is slow.
    2. The plan ends the lane, and h1 has taken the end; h3 has not.
    3. The publisher continues at h1 and names the position: the subscriber at h3 gets the next message after the first.
    """
    hubs = spread()
    client, _ = subscribed(hubs, "h3", "SUBSCRIBE", "t")
    subscribed(hubs, "h1", "SUBSCRIBE", "t")
    hubs.held.add(("h2", "h3"))
    stream, epoch, n, _ = hubs["h2"].client().do("EQ.PUBLISH", "t", "first")
    hubs.replicate("t", Mode.SINGLE, "h1")
    assert not hubs["h1"].core.index.lanes
    publisher = hubs["h1"].client()
    publisher.send("EQ.AFTER", "t", stream, str(epoch), str(n))
    hubs.settle()
    publisher.send("EQ.PUBLISH", "t", "second")
    hubs.settle()
    assert [str(answer) for answer in publisher.read()[:1]] == [str(b"OK")]
    assert payloads(client.read()) == []
    hubs.release("h2", "h3")
    assert payloads(client.read()) == [b"first", b"second"]


def test_the_ends_of_lanes_are_removed_after_a_while() -> None:
    hubs = spread()
    hubs["h2"].client().do("EQ.PUBLISH", "t", "first")
    hubs.replicate("t", Mode.SINGLE, "h1")
    asking = hubs["h2"].cluster.position_queries
    assert asking._end(lane_key("h2", b"t"))[1] == 1
    hubs["h2"].advance(ENDS_KEPT_S + ClusterSettings().unsubscribe_delay_s)
    hubs["h2"].advance(0.1)
    assert asking._end(lane_key("h2", b"t")) == NOWHERE


def test_between_a_lane_and_the_next_one_of_its_hub_nothing_is_lost() -> None:
    """
    1. The link from h2 to h3 is slow. A plan ends the lane at h2, and the next plan names it again.
    2. h3 has both plans when the end comes, and then the beginning of the next lane: it counts no loss.
    """
    hubs = spread()
    plain, _ = subscribed(hubs, "h3", "SUBSCRIBE", "t")
    told, _ = subscribed(hubs, "h3", "EQ.SUBSCRIBE", "t")
    hubs.held.add(("h2", "h3"))
    publish(hubs, "h2", "first")
    hubs.replicate("t", Mode.SINGLE, "h1")
    hubs.replicate("t", LANES, "h1", "h2")
    hubs.release("h2", "h3")
    publish(hubs, "h2", "second")
    assert payloads(plain.read()) == [b"first", b"second"]
    assert words(told.read())[-3:] == [b"eq.opened", b"eq.lane", b"eq.lmessage"]
    losses = hubs["h3"].core.losses
    assert (losses.messages, losses.gaps) == (0, 0)


def test_pending_messages_of_an_ended_lane_keep_the_trunk_for_subscribers_by_pattern() -> None:
    """
    1. A client of h2 publishes to the trunk at h1, which is slow to get to h3, and then to its lane.
    2. The plan ends the lane. At h3, where a client has a pattern alone, the lane waits for the trunk, end and all.
    3. However often h3 looks for streams that are not wanted any more, it does not let the trunk go.
    """
    hubs = Hubs("h1", "h2", "h3")
    hubs.move(["t"], "h1")
    client, _ = subscribed(hubs, "h3", "PSUBSCRIBE", "*")
    publish(hubs, "h1", "zero")
    hubs.held.add(("h1", "h3"))
    publish(hubs, "h2", "first")
    hubs.replicate("t", LANES, "h1", "h2")
    publish(hubs, "h2", "second")
    hubs.replicate("t", Mode.SINGLE, "h1")
    for _ in range(3):
        hubs["h3"].advance(ClusterSettings().unsubscribe_delay_s)
    hubs.settle()
    assert [push[-1] for push in client.read()] == [b"zero"]
    hubs.release("h1", "h3")
    assert [push[-1] for push in client.read()] == [b"first", b"second"]
    for _ in range(3):
        hubs["h3"].advance(ClusterSettings().unsubscribe_delay_s)
    stream = hubs["h3"].core.index.topics[b"t"].stream
    assert stream is None or not stream.is_kept


def test_a_lane_that_is_named_again_and_whose_hub_dies_has_ended_at_every_hub() -> None:
    """
    1. h3 has a subscriber that gets the lane of h2 here, and one that gets it at h2. A plan ends the lane, and the next
       one names it again; the link from h2 to h3 is cut.
    2. h2 dies before h3 has taken the end of the lane: both subscribers receive the end.
    """
    hubs = spread("h1", "h2", "h3", "h4")
    told, _ = subscribed(hubs, "h3", "EQ.SUBSCRIBE", "t")
    elsewhere, _ = subscribed(hubs, "h3", "EQ.OWN", "t", "ELSEWHERE", "h2")
    hubs.held.update({("h2", "h3"), ("h2", "h1"), ("h2", "h4")})
    hubs.replicate("t", Mode.SINGLE, "h1")
    hubs.replicate("t", LANES, "h1", "h2")
    hubs.kill("h2")
    ended = [b"eq.ended", b"t", b"h2", 0, 0]
    assert (told.read().count(ended), elsewhere.read().count(ended)) == (1, 1)


def test_a_lane_that_never_began_at_a_hub_ends_there_for_subscribers_that_had_it_elsewhere() -> None:
    """
    1. Subscribers of h3 get the lane of h2 at h2, so h3 does not follow it. A plan ends the lane, the next names it.
    2. h2 dies before h3 follows the lane: the subscribers receive the end from h3.
    """
    hubs = spread("h1", "h2", "h3", "h4")
    client, _ = subscribed(hubs, "h3", "EQ.OWN", "t", "ELSEWHERE", "h2")
    hubs.held.update({("h2", "h3"), ("h2", "h1"), ("h2", "h4")})
    hubs.replicate("t", Mode.SINGLE, "h1")
    hubs.replicate("t", LANES, "h1", "h2")
    hubs.kill("h2")
    assert client.read() == [[b"eq.ended", b"t", b"h2", 0, 0]]


@pytest.mark.parametrize("command", ["SUBSCRIBE", "EQ.SUBSCRIBE"])
def test_a_newcomer_is_confirmed_after_the_positions_that_streams_depend_on(command: str) -> None:
    """
    1. h3 follows t, and has no subscriber any more. The link from h2 to h3 is slow: a message of the lane is on it.
    2. Its publisher continues at h1. The trunk, which depends on that message, is up to date at h3: no stream waits
    there. 3. A newcomer at h3 is answered when the lane has come to the message as well.
    """
    hubs = spread()
    former, _ = subscribed(hubs, "h3", "SUBSCRIBE", "t")
    hubs.held.add(("h2", "h3"))
    stream, epoch, n, _ = hubs["h2"].client().do("EQ.PUBLISH", "t", "first")
    former.send("UNSUBSCRIBE", "t")
    publisher = hubs["h1"].client()
    publisher.send("EQ.AFTER", "t", stream, str(epoch), str(n))
    hubs.settle()
    publisher.send("EQ.PUBLISH", "t", "second")
    hubs.settle()
    client, answer = subscribed(hubs, "h3", command, "t")
    assert answer == []
    publish(hubs, "h1", "third")
    assert payloads(client.read()) == []
    hubs.release("h2", "h3")
    pushes = client.read()
    assert words(pushes)[0] == command.lower().encode()
    publish(hubs, "h1", "fourth")
    assert payloads(client.read()) == [b"fourth"]
    assert b"first" not in payloads(pushes)
