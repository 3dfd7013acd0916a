"""The timer of rate-limited topics, without a hub: when it fires, and which topics it serves."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from equipoise.hub.cluster.due_topics import DueTopics
from equipoise.hub.data.ports import Shell
from equipoise.hub.data.topic import Topic

MS = 1_000_000


class Call:
    def __init__(self, delay_s: float, call: Callable[[], object]) -> None:
        self.delay_s = delay_s
        self.call = call
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    """The part of a shell that the timer needs. Nothing is called but by the test."""

    def __init__(self) -> None:
        self.now = 0
        self.calls: list[Call] = []

    def call_later(self, delay_s: float, call: Callable[[], object]) -> Call:
        self.calls.append(Call(delay_s, call))
        return self.calls[-1]

    def next(self) -> Call:
        """The only call that has not been cancelled."""
        (found,) = (one for one in self.calls if not one.is_cancelled)
        self.calls.clear()
        return found


class LimitedTopic:
    """A stand-in for the topic and for its limit."""

    def __init__(self) -> None:
        self.limit = self
        self.due_at: int | None = None


def timer() -> tuple[Loop, DueTopics, list[tuple[object, int]], Callable[[int], Topic]]:
    loop = Loop()
    served: list[tuple[object, int]] = []
    due = DueTopics(cast(Shell, loop), lambda: loop.now, lambda topic, at: served.append((topic, at)))

    def add(at: int) -> Topic:
        topic = LimitedTopic()
        topic.due_at = at
        due.add(cast(Topic, topic), at, loop.now)
        return cast(Topic, topic)

    return loop, due, served, add


def test_topics_are_served_in_a_turn_of_their_own_behind_the_timer() -> None:
    loop, _, served, add = timer()
    topic = add(5 * MS)
    ringing = loop.next()
    assert ringing.delay_s >= 5e-3
    loop.now = 6 * MS
    ringing.call()
    assert served == []
    turn = loop.next()
    assert turn.delay_s == 0
    turn.call()
    assert served == [(topic, 5 * MS)]
    assert loop.calls == []


def test_a_topic_that_is_due_earlier_than_all_others_resets_the_timer() -> None:
    loop, _, served, add = timer()
    later, sooner = add(50 * MS), add(5 * MS)
    loop.now = 6 * MS
    loop.next().call()
    loop.next().call()
    assert served == [(sooner, 5 * MS)]
    loop.now = 51 * MS
    loop.next().call()
    loop.next().call()
    assert served[1:] == [(later, 50 * MS)]


def test_a_topic_that_becomes_due_between_the_timer_and_its_turn_is_served_in_it() -> None:
    loop, _, served, add = timer()
    first = add(5 * MS)
    loop.now = 6 * MS
    loop.next().call()
    second = add(6 * MS)
    loop.next().call()
    assert [topic for topic, _ in served] == [first, second]


def test_nothing_is_served_once_it_is_closed() -> None:
    loop, due, served, add = timer()
    add(5 * MS)
    loop.now = 6 * MS
    loop.next().call()
    due.close()
    assert all(one.is_cancelled for one in loop.calls)
    assert served == []
