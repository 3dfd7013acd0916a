"""The checkers of logs on handwritten histories."""

from __future__ import annotations

import pytest

from equipoise.lab.simulation.checkers import kept, log_views
from equipoise.lab.workload.history import History
from equipoise.lab.workload.log_history import LogTrack


def wrong(*values: bytes, heard: list[bytes], resent: set[str] | None = None) -> list[str]:
    """What the checkers say of a log with these values and of a subscriber that got `heard`."""
    final = [(b"%d-0" % number, value) for number, value in enumerate(values, 1)]
    log = LogTrack("t", final=final, heard={"s": [heard]}, resent=resent or set())
    history = History(logs=[log])
    return [violation.text for violation in [*kept.check(history), *log_views.check_prefixes(history)]]


@pytest.mark.parametrize("heard", [[], [b"c.0", b"c.1", b"c.2"], [b"c.1"], [b"c.1", b"c.2"]])
def test_a_part_of_the_log_without_a_hole_passes(heard: list[bytes]) -> None:
    assert wrong(b"c.0", b"c.1", b"c.2", heard=heard) == []


def test_the_checker_reports_holes_wrong_order_and_unknown_messages() -> None:
    assert "missed b'c.1'" in wrong(b"c.0", b"c.1", b"c.2", heard=[b"c.0", b"c.2"])[0]
    assert "not in its order" in wrong(b"c.0", b"c.1", heard=[b"c.1", b"c.0"])[0]
    assert "not in the log" in wrong(b"c.0", heard=[b"c.9"])[0]


def test_only_messages_resent_by_a_hub_without_logs_may_be_in_a_log_twice() -> None:
    twice = (b"o1.0", b"c.0", b"o1.0")
    assert "an entry is in the log twice" in wrong(*twice, heard=list(twice))[0]
    assert wrong(*twice, heard=list(twice), resent={"o1"}) == []
