"""The checker of durable subscribers on histories written by hand."""

from __future__ import annotations

from equipoise.lab.simulation.checkers import marks
from equipoise.lab.workload.history import History
from equipoise.lab.workload.log_history import Got, LogTrack, SubscriberTrack


def wrong(*deliveries: tuple[int, int], entries: int = 3) -> list[str]:
    """What the checker says of one process that got these entries, each with the number of its delivery."""
    log = LogTrack("t", final=[(b"%d-0" % number, b"v%d" % number) for number in range(1, entries + 1)])
    story = SubscriberTrack("s")
    story.got += [Got("s", 1, b"%d-0" % number, b"v%d" % number, count) for number, count in deliveries]
    log.subscribers["s"] = story
    return [violation.text for violation in marks.check(History(logs=[log]))]


def test_entries_that_come_again_and_say_so_pass() -> None:
    assert wrong((1, 1), (2, 1), (1, 2), (3, 1)) == []


def test_what_comes_behind_a_wrong_delivery_is_not_missing() -> None:
    (text,) = wrong((1, 1), (1, 1), (2, 1), (3, 1))
    assert "b'v1' came again and was not marked" in text


def test_what_never_came_is_told_beside_a_wrong_delivery() -> None:
    again, missing = wrong((1, 1), (1, 1), (3, 1))
    assert "came again" in again
    assert "1 entries never came, the first is b'v2'" in missing


def shared(*got: tuple[str, int]) -> list[str]:
    """What the checker says of a group whose members got one entry, each with the number of the delivery."""
    story = SubscriberTrack("g", is_shared=True)
    story.got += [Got(member, 1, b"1-0", b"v1", count) for member, count in got]
    log = LogTrack("t", final=[(b"1-0", b"v1")], subscribers={"g": story})
    return [violation.text for violation in marks.check(History(logs=[log]))]


def test_in_a_group_the_first_delivery_may_come_behind_the_second() -> None:
    """It was on its way to a slow member when another member took the entry over."""
    assert shared(("b", 2), ("a", 1)) == []


def test_in_a_group_an_entry_comes_unmarked_once() -> None:
    (text,) = shared(("a", 1), ("b", 1))
    assert "came again and was not marked" in text
