"""The `once` checker on handwritten histories, with and without violations."""

from __future__ import annotations

import pytest

from equipoise.lab.simulation.checkers import once
from equipoise.lab.workload.history import Away, Event, Live, Missed, PublishOutcome, SubscriptionEnded
from simulation.checkers.histories import ACK, FAIL, LIVE, LOST, got, history

P = ("p", "t")
Q = ("q", "t")


def gap(missed: int | None, topic: str | None = "t") -> Missed:
    return Missed(100.0, topic, missed)


FAIR: dict[str, tuple[dict[tuple[str, str], list[PublishOutcome]], list[Event]]] = {
    "everything in order": ({P: [ACK] * 3}, [LIVE, got(0), got(1), got(2)]),
    "nothing sent": ({P: []}, [LIVE]),
    "a gap of the right size": ({P: [ACK] * 5}, [LIVE, got(0), gap(3), got(4)]),
    "a gap that two publishers fill": (
        {P: [ACK] * 4, Q: [ACK] * 3},
        [LIVE, got(0), got(0, publisher="q"), gap(3), got(3), got(2, publisher="q")],
    ),
    "an uncertain one is missing without a gap": ({P: [ACK, LOST, ACK]}, [LIVE, got(0), got(2)]),
    "an uncertain one counts in a gap": ({P: [ACK, LOST, ACK]}, [LIVE, got(0), gap(1), got(2)]),
    "an uncertain one is received": ({P: [ACK, LOST, ACK]}, [LIVE, got(0), got(1), got(2)]),
    "a failed one is missing": ({P: [ACK, FAIL, ACK]}, [LIVE, got(0), got(2)]),
    "a gap of unknown size takes any": ({P: [ACK] * 9}, [LIVE, got(0), gap(None), got(8)]),
    "a gap of unknown size takes none": ({P: [ACK] * 2}, [LIVE, got(0), gap(None), got(1)]),
    "a gap of any topic": ({P: [ACK] * 9}, [LIVE, got(0), gap(None, topic=None), got(8)]),
    "a plain client lost its connection": ({P: [ACK] * 4}, [LIVE, got(0), Away(5.0), Live(6.0), got(3)]),
    "a subscription was ended": (
        {P: [ACK] * 4},
        [LIVE, got(0), SubscriptionEnded(5.0, "denied"), Live(6.0), got(3)],
    ),
    "what was sent before the subscription stood": ({P: [ACK] * 4}, [Live(3.5), got(3)]),
    "the last ones are still on their way": ({P: [ACK] * 4}, [LIVE, got(0)]),
    "two gaps in a row share the loss": (
        {P: [ACK] * 5, Q: [ACK] * 3},
        # q's loss may belong to either gap, p's to the second alone.
        [LIVE, got(0), got(0, publisher="q"), gap(1), got(1), gap(2), got(4), got(2, publisher="q")],
    ),
}

FOUL: dict[str, tuple[dict[tuple[str, str], list[PublishOutcome]], list[Event], str]] = {
    "a duplicate": ({P: [ACK] * 2}, [LIVE, got(0), got(1), got(1)], "twice"),
    "a duplicate after a gap": ({P: [ACK] * 2}, [LIVE, got(0), got(1), gap(None), got(0)], "twice"),
    "a duplicate of a late one": ({P: [ACK] * 3}, [LIVE, got(0), got(2), got(1), got(1)], "twice"),
    "a silent loss": ({P: [ACK] * 3}, [LIVE, got(0), got(2)], "no gap was received"),
    "a silent loss at the beginning": ({P: [ACK] * 3}, [LIVE, got(2)], "no gap was received"),
    "a loss after the gap": (
        {P: [ACK] * 4},
        [LIVE, got(0), gap(None), got(1), got(3)],
        "no gap was received",
    ),
    "a gap of another topic": (
        {P: [ACK] * 3, ("p", "u"): []},
        [LIVE, got(0), gap(1, topic="u"), got(2)],
        "no gap was received",
    ),
    "a gap too small": ({P: [ACK] * 5}, [LIVE, got(0), gap(2), got(4)], "was not received"),
    "a gap too large": ({P: [ACK] * 5}, [LIVE, got(0), gap(4), got(4)], "more than can be missing"),
    "a gap where nothing is missing": ({P: [ACK] * 2}, [LIVE, got(0), gap(1), got(1)], "more than can be"),
    "a failed one in a gap": ({P: [ACK, FAIL, ACK]}, [LIVE, got(0), gap(1), got(2)], "more than can be"),
    "a failed one received": ({P: [FAIL]}, [LIVE, got(0)], "whose publish was rejected"),
    "one that no publisher sent": ({P: [ACK]}, [LIVE, got(0), got(7)], "no publisher sent"),
    "two gaps that cannot share the loss": (
        {P: [ACK] * 4, Q: [ACK] * 3},
        # Both losses of p lie before its second message, so only the first gap can hold them.
        [LIVE, got(0), got(0, publisher="q"), gap(1), got(3), gap(2), got(2, publisher="q")],
        "was not received",
    ),
}


@pytest.mark.parametrize("name", FAIR)
def test_a_correct_history_passes(name: str) -> None:
    outcomes, events = FAIR[name]
    assert once.check(history(outcomes, *events)) == []


@pytest.mark.parametrize("name", FOUL)
def test_the_checker_reports_and_names_each_violation(name: str) -> None:
    outcomes, events, text = FOUL[name]
    violations = once.check(history(outcomes, *events))
    assert violations
    assert all(violation.property == "once" for violation in violations)
    assert any(text in violation.text for violation in violations), violations


def test_a_pattern_subscription_is_checked_per_topic() -> None:
    outcomes = {("p", "t"): [ACK] * 2, ("p", "u"): [ACK] * 3}
    events: list[Event] = [LIVE, got(0), got(0, topic="u"), got(1), got(2, topic="u")]
    (violation,) = once.check(history(outcomes, *events, is_pattern=True))
    assert "on u: acknowledged p 1" in violation.text
