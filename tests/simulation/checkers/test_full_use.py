"""The full use checker on handwritten admissions."""

from __future__ import annotations

from equipoise.lab.simulation.checkers import full_use
from equipoise.lab.workload.history import Admitted, History


def _history(*admitted: tuple[float, int, str], rate: float = 10.0, end: float = 101.0) -> History:
    made = History()
    made.envelopes = {"t": (rate, 5)}
    made.admissions = {"t": [Admitted(*one) for one in admitted]}
    made.healed_at = end
    return made


def _steady(hub: str, since: int, until: int, messages: int = 10) -> list[tuple[float, int, str]]:
    return [(float(at), messages, hub) for at in range(since, until)]


def test_a_topic_that_gets_its_rate_passes_whatever_the_burst_at_its_start() -> None:
    assert full_use.check(_history((0.0, 5, "h1"), *_steady("h1", 1, 101))) == []


def test_a_topic_may_miss_one_second_in_a_hundred_and_not_two() -> None:
    lacking = _steady("h1", 0, 40) + _steady("h1", 41, 101)
    assert full_use.check(_history(*lacking)) == []
    (violation,) = full_use.check(_history(*_steady("h1", 0, 40), *_steady("h1", 42, 101)))
    assert violation.text == "t got 98.10 % of the positions that its envelope allows"


def test_each_hub_may_hold_a_part_of_a_token_at_the_end() -> None:
    """Two hubs, each with half the rate; 1 % of the positions of the first 50 s is five."""
    split = _steady("h1", 0, 51, 5) + _steady("h2", 0, 51, 5)
    assert full_use.used_part(_history(*split, end=51.0), "t") == (500 + 2) / 500
    moved = _steady("h1", 0, 25) + _steady("h2", 25, 51)
    assert full_use.used_part(_history(*moved, end=51.0), "t") == (500 + 1) / 500
