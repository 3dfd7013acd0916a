"""The checker of durable subscribers on handwritten histories."""

from __future__ import annotations

from equipoise.lab.simulation.checkers import marks
from equipoise.lab.workload.history import History
from equipoise.lab.workload.log_history import DurableDelivery, LogTrack, SubscriberTrack


def wrong(*deliveries: tuple[int, int], entries: int = 3) -> list[str]:
    """What the checker says of one process that got these entries, each with the number of its delivery."""
    log = LogTrack("t", final=[(b"%d-0" % number, b"v%d" % number) for number in range(1, entries + 1)])
    story = SubscriberTrack("s")
    story.got += [
        DurableDelivery("s", 1, b"%d-0" % number, b"v%d" % number, count) for number, count in deliveries
    ]
    log.subscribers["s"] = story
    return [violation.text for violation in marks.check(History(logs=[log]))]


def test_marked_redeliveries_pass() -> None:
    assert wrong((1, 1), (2, 1), (1, 2), (3, 1)) == []


def test_deliveries_after_a_wrong_one_are_not_missing() -> None:
    (text,) = wrong((1, 1), (1, 1), (2, 1), (3, 1))
    assert "b'v1' was redelivered without a mark" in text


def test_missing_entries_are_reported_beside_a_wrong_delivery() -> None:
    again, missing = wrong((1, 1), (1, 1), (3, 1))
    assert "was redelivered" in again
    assert "1 entries never arrived, the first is b'v2'" in missing


def shared(*got: tuple[str, int]) -> list[str]:
    """What the checker says of a group whose members got one entry, each with the number of the delivery."""
    story = SubscriberTrack("g", is_shared=True)
    story.got += [DurableDelivery(member, 1, b"1-0", b"v1", count) for member, count in got]
    log = LogTrack("t", final=[(b"1-0", b"v1")], subscribers={"g": story})
    return [violation.text for violation in marks.check(History(logs=[log]))]


def test_in_a_group_the_second_delivery_may_arrive_first() -> None:
    """It was on its way to a slow member when another member took the entry over."""
    assert shared(("b", 2), ("a", 1)) == []


def test_in_a_group_one_delivery_of_an_entry_is_unmarked() -> None:
    (text,) = shared(("a", 1), ("b", 1))
    assert "was redelivered without a mark" in text
