"""One stream at a hub that does not number it: when a part is due, and which hub is followed."""

from __future__ import annotations

import pytest

from equipoise.stream.parts import Dependency, Ended, Messages, Opened
from equipoise.stream.position import Position
from equipoise.stream.relay import Arrival, Switch

from .engines import RelayEngine


def messages(epoch: int, n: int, count: int = 1) -> Messages:
    return Messages(epoch, n, [b"x"] * count)


@pytest.mark.parametrize(
    ("source", "origin", "epoch", "n", "is_due"),
    [
        (None, "h1", 9, 9, True),
        ("h1", "h1", 9, 9, True),
        ("h1", "h2", 5, 11, True),
        ("h1", "h2", 5, 3, True),
        ("h1", "h2", 4, 99, True),
        ("h1", "h2", 5, 12, False),
        ("h1", "h2", 6, 1, False),
    ],
)
def test_messages_of_another_hub_than_the_source_are_due_if_they_continue_or_repeat(
    source: str | None, origin: str, epoch: int, n: int, is_due: bool
) -> None:
    relay = RelayEngine(Position(5, 10))
    relay.source = source
    assert relay.is_due(relay, Arrival(origin, epoch, messages(epoch, n))) is is_due


@pytest.mark.parametrize(
    ("source", "origin", "opened", "is_due", "flushed"),
    [
        pytest.param(None, "h2", Opened(5, 4, 9, "h1"), True, [], id="an epoch that has been passed"),
        pytest.param(None, "h2", Opened(6, 5, 10, "h1"), True, [], id="the end it follows is reached"),
        pytest.param(None, "h2", Opened(6, 5, 12, "h1"), False, [("h1", 5)], id="messages are missing"),
        pytest.param(None, "h3", Opened(8, 7, 2, "h2"), False, [("h2", 7)], id="an epoch is missing"),
        pytest.param(None, "h2", Opened(6, 5, 12, "dead"), True, [], id="who has them is dead"),
        pytest.param(None, "h2", Opened(6, 0, 0), True, [], id="the end before it is unknown"),
        pytest.param("h1", "h1", Opened(6, 5, 12, "h1"), True, [], id="the source says so"),
        pytest.param(
            "h1", "h2", Opened(6, 5, 12, "h1"), False, [], id="the source will bring what is missing"
        ),
    ],
)
def test_an_epoch_opens_when_no_earlier_message_will_arrive(
    source: str | None, origin: str, opened: Opened, is_due: bool, flushed: list[tuple[str, int]]
) -> None:
    relay = RelayEngine(Position(5, 10))
    relay.source = source
    relay.dead.add("dead")
    assert relay.may_open(relay, origin, opened) is is_due
    assert relay.flush_requests == flushed


def test_a_hub_is_queried_once_and_its_reply_or_death_lets_the_epoch_open() -> None:
    for is_dead in (False, True):
        relay = RelayEngine(Position(5, 10))
        opened = Opened(6, 5, 12, "h1")
        assert not relay.may_open(relay, "h2", opened)
        assert not relay.may_open(relay, "h2", opened)
        assert relay.flush_requests == [("h1", 5)]
        if is_dead:
            relay.lost("h1", is_gone=True)
        else:
            assert not relay.flushed("h1", 4), "that was not asked for"
            assert relay.flushed("h1", 5)
        assert relay.may_open(relay, "h2", opened)


def test_a_hub_that_has_not_received_the_query_is_queried_again() -> None:
    relay = RelayEngine(Position(5, 10))
    relay.receive("h2", Opened(6, 5, 12, "h1"))
    relay.lost("h1", is_gone=False)
    relay.advance()
    assert relay.flush_requests == [("h1", 5), ("h1", 5)]


def test_a_part_behind_a_dependency_waits_for_the_other_stream() -> None:
    relay = RelayEngine(Position(5, 10))
    relay.source = "h1"
    relay.receive("h1", Dependency(b"lane", 3, 7))
    relay.receive("h1", messages(5, 11))
    assert relay.taken == []
    relay.others[b"lane"] = (3, 7)
    relay.advance()
    assert relay.taken == [Position(5, 11)]


def test_the_old_source_is_left_when_it_has_reached_the_first_position_of_the_new_one() -> None:
    relay = RelayEngine(Position(5, 10))
    relay.source = "h1"
    assert relay.follow("h2") == (None, True)
    assert relay.follow("h2") == (None, False), "it has been asked"
    assert not relay.attached("h2", 5, 12)
    assert relay.switch(is_behind=False) is None
    relay.receive("h2", messages(5, 13))
    relay.receive("h1", messages(5, 11, 2))
    assert relay.taken == [Position(5, 11), Position(5, 12), Position(5, 13)]
    assert (relay.source, relay.joining) == ("h2", None)


def test_without_an_old_source_no_message_before_the_new_one_will_arrive() -> None:
    relay = RelayEngine(Position(5, 10))
    relay.follow("h2")
    relay.attached("h2", 5, 12)
    assert relay.switch(is_behind=True) is None, "subscribers by pattern wait for something"
    assert relay.switch(is_behind=False) == Switch(None, (5, 12))


def test_following_another_home_while_joining_one_leaves_that_one() -> None:
    relay = RelayEngine(Position(5, 10))
    relay.source = "h1"
    relay.follow("h2")
    assert relay.follow("h3") == ("h2", True)
    assert relay.unfollow() == ["h1", "h3"]
    assert relay.sources == set()


@pytest.mark.parametrize("is_late", [False, True])
def test_messages_of_a_parent_that_was_left_early_are_not_delivered_first(is_late: bool) -> None:
    """It came before the parent was left, or after."""
    relay = RelayEngine(Position(5, 10))
    relay.source = "h1"
    relay.follow("h4")
    relay.joins_parent = True
    relay.attached("h4", 5, 12)
    if not is_late:
        relay.receive("h4", messages(5, 13, 2))
    relay.unfollow()
    if is_late:
        relay.receive("h4", messages(5, 13, 2))
    relay.receive("h1", messages(5, 11))
    # That of the parent that continues is not sent twice.
    relay.receive("h4", messages(5, 12))
    relay.receive("h1", messages(5, 13))
    assert relay.taken == [Position(5, n) for n in (11, 12, 13)]
    assert not relay.pending


def test_a_home_that_was_left_before_it_was_followed_still_sends_for_patterns() -> None:
    relay = RelayEngine(Position(5, 10))
    relay.source = "h1"
    relay.follow("h2")
    relay.receive("h2", messages(5, 13, 2))
    relay.unfollow()
    relay.advance()
    assert relay.taken == [Position(5, 13), Position(5, 14)]


def test_a_parent_that_has_replied_as_often_as_it_was_left_is_accepted_again() -> None:
    relay = RelayEngine(Position(5, 10))
    relay.source = "h1"
    relay.joins_parent = True
    for _ in range(2):
        relay.follow("h4")
        relay.follow("h1")
        relay.strays["h4"] += 1
    relay.unfollow()
    relay.confirmed_left("h4")
    relay.receive("h4", messages(5, 12))
    relay.confirmed_left("h4")
    relay.receive("h4", messages(5, 13))
    assert relay.taken == [Position(5, 13)]


def test_a_dependency_of_the_next_home_follows_the_current_epoch_and_precedes_its_messages() -> None:
    """The next home names it when it is attached to. Messages of the present epoch must not wait behind it."""
    relay = RelayEngine(Position(5, 10))
    relay.source = "h1"
    relay.follow("h2")
    relay.receive("h2", Dependency(b"lane", 3, 7), epoch=6)
    relay.receive("h2", Opened(6, 5, 12, "h1"))
    relay.receive("h2", messages(6, 1))
    assert len(relay.pending) == 3, "not even the dependency is taken, although its lane is over here"
    relay.others[b"lane"] = (3, 6)
    relay.receive("h1", messages(5, 11, 2))
    assert relay.taken == [Position(5, 11), Position(5, 12)]
    assert relay.position == (6, 0), "the epoch is open, and its messages wait for the lane"
    relay.others[b"lane"] = (3, 7)
    relay.advance()
    assert relay.taken[2:] == [Position(6, 1)]
    assert not relay.pending


@pytest.mark.parametrize(
    ("source", "parts", "will_end"),
    [
        ("h1", [Dependency(b"", 3, 7), messages(5, 11)], True),
        # The hub has left the lane, and receives no end of it.
        (None, [Dependency(b"", 3, 7), messages(5, 11)], False),
        (None, [Dependency(b"", 3, 7), messages(5, 11), Ended(5, 11)], True),
        ("h1", [], False),
    ],
)
def test_an_end_is_awaited_behind_waiting_parts_from_a_hub_that_sends_it(
    source: str | None, parts: list[Dependency | Messages | Ended], will_end: bool
) -> None:
    relay = RelayEngine(Position(5, 10))
    relay.source = source
    for part in parts:
        relay.receive("h1", part)
    assert relay.will_end is will_end
