"""The checkers of order, memory, access and progress on handwritten histories."""

from __future__ import annotations

import json

import pytest

from equipoise.lab.scenarios import Grants
from equipoise.lab.simulation.checkers import authorised, memory, order, progress
from equipoise.lab.workload.history import (
    Away,
    History,
    Live,
    Marker,
    Missed,
    PublishOutcome,
    Sent,
    Track,
)
from equipoise.lab.workload.payload import attributes_of_message
from simulation.checkers.histories import ACK, FAIL, LIVE, got, history

P = ("p", "t")


def test_messages_in_publish_order_pass_with_and_without_gaps() -> None:
    assert order.check(history({P: [ACK] * 5}, LIVE, got(0), got(2), Missed(1.0, "t", 1), got(4))) == []


def test_order_is_checked_per_publisher_and_topic() -> None:
    outcomes = {P: [ACK] * 3, ("q", "t"): [ACK] * 3, ("p", "u"): [ACK] * 3}
    events = [got(2), got(0, publisher="q"), got(0, topic="u")]
    assert order.check(history(outcomes, LIVE, *events)) == []


def test_a_message_after_a_later_one_is_a_violation() -> None:
    (violation,) = order.check(history({P: [ACK] * 3}, LIVE, got(0), got(2), got(1)))
    assert violation.property == "order"
    assert "t p 1" in violation.text and "after 2" in violation.text


def test_the_order_checker_ignores_duplicates() -> None:
    assert order.check(history({P: [ACK] * 2}, LIVE, got(0), got(1), got(1))) == []


def test_a_peak_at_its_bound_passes_and_one_above_does_not() -> None:
    made = History()
    made.sample("hub", "bytes", 5, 10)
    made.sample("hub", "bytes", 10, 10)
    made.sample("hub", "bytes", 3, 10)
    assert memory.check(made) == []
    made.sample("hub", "bytes", 11, 10)
    made.sample("hub", "bytes", 2, 10)
    (violation,) = memory.check(made)
    assert violation.text == "hub held 11 of bytes, which is limited to 10"


MAY = (Grants(user="reader", subscribe=("t",)), Grants(user="writer", publish=("t",)))
MAY_NOT_READ = (Grants(user="reader"), Grants(user="writer", publish=("t",)))
MAY_NOT_WRITE = (Grants(user="reader", subscribe=("*",)), Grants(user="writer", publish=("u",)))


def guarded(*rules: tuple[float, tuple[Grants, ...]], sent_at: float, received_at: float) -> History:
    made = history({P: []}, LIVE, got(0, at=received_at))
    made.sent[P] = [Sent(sent_at)]
    made.tracks[0].user = "reader"
    made.users["p"] = "writer"
    made.rules = {"hub": list(rules)} if rules else {}
    return made


@pytest.mark.parametrize(
    ("rules", "sent_at", "received_at"),
    [
        ([(0.0, MAY)], 1.0, 2.0),
        ([(0.0, MAY), (1.5, MAY_NOT_READ)], 1.0, 9.0),
        ([(0.0, MAY_NOT_READ), (1.5, MAY)], 1.0, 2.0),
        ([(0.0, MAY), (1.5, MAY_NOT_WRITE)], 1.0, 2.0),
    ],
)
def test_a_message_allowed_at_some_time_in_flight_passes(
    rules: list[tuple[float, tuple[Grants, ...]]], sent_at: float, received_at: float
) -> None:
    assert authorised.check(guarded(*rules, sent_at=sent_at, received_at=received_at)) == []


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ([(0.0, MAY_NOT_READ)], "without permission at any time"),
        ([(0.0, MAY), (0.9, MAY_NOT_READ)], "without permission at any time"),
        ([(0.0, MAY_NOT_READ), (2.1, MAY)], "without permission at any time"),
        ([(0.0, MAY_NOT_WRITE)], "had no permission to publish"),
        ([(0.0, ())], "had no permission to publish"),
    ],
)
def test_a_message_never_allowed_in_flight_is_a_violation(
    rules: list[tuple[float, tuple[Grants, ...]]], text: str
) -> None:
    violations = authorised.check(guarded(*rules, sent_at=1.0, received_at=2.0))
    assert any(text in violation.text for violation in violations), violations


def test_without_rules_every_client_may_do_everything() -> None:
    assert authorised.check(guarded(sent_at=1.0, received_at=2.0)) == []


def marked(*, received: int | None, at: float, marker: int | None) -> History:
    events = [] if received is None else [got(received, at=at)]
    made = history({P: [ACK] * 5}, LIVE, *events)
    made.markers = [Marker(P, marker)]
    made.healed_at = 50.0
    return made


def test_a_marker_or_a_later_message_after_healing_is_progress() -> None:
    assert progress.check(marked(received=3, at=51.0, marker=3)) == []
    assert progress.check(marked(received=4, at=51.0, marker=3)) == []


@pytest.mark.parametrize(
    ("received", "at", "marker", "text"),
    [
        (2, 51.0, 3, "received no message of p on t after healing"),
        (None, 0.0, 3, "its latest is -1"),
        (3, 51.0, None, "could not publish to t after healing"),
    ],
)
def test_a_marker_that_did_not_arrive_is_a_violation(
    received: int | None, at: float, marker: int | None, text: str
) -> None:
    (violation,) = progress.check(marked(received=received, at=at, marker=marker))
    assert text in violation.text


@pytest.mark.parametrize(
    ("matching", "confirmed_at", "outcome", "is_owed"),
    [
        (3, 0.5, ACK, True),
        # The message was sent before the subscriber had come back.
        (3, 4.5, ACK, False),
        # The limit of the topic rejected it.
        (3, 0.5, FAIL, False),
        # It precedes the marker.
        (2, 0.5, ACK, False),
    ],
)
def test_a_filter_subscriber_must_receive_messages_acknowledged_after_its_confirmation(
    matching: int, confirmed_at: float, outcome: PublishOutcome, is_owed: bool
) -> None:
    made = marked(received=None, at=0.0, marker=3)
    made.sent[P][matching].outcome = outcome
    attributes = attributes_of_message("p", matching)
    where = " and ".join(f"{name} = {json.dumps(value)}" for name, value in attributes.items())
    track = made.tracks[0] = Track("ann/0", ("t",), is_pattern=False, is_smart=True, where=where)
    track.events.append(Live(confirmed_at))
    assert [track.is_match("p", sequence) for sequence in range(5)].count(True) == 1
    assert bool(progress.check(made)) is is_owed


def test_a_filter_subscription_that_is_never_confirmed_again_is_a_violation() -> None:
    made = marked(received=None, at=0.0, marker=3)
    where = "number >= 0"
    track = made.tracks[0] = Track("ann/0", ("t",), is_pattern=False, is_smart=False, where=where)
    track.events += [Live(9.0), Away(10.0)]
    (violation,) = progress.check(made)
    assert "received no message of p on t after healing" in violation.text


def test_a_client_that_hangs_is_named() -> None:
    made = History(unfinished=["ann is still waiting to publish"])
    (violation,) = progress.check(made)
    assert violation.text == "ann is still waiting to publish"
