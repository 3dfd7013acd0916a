"""The tally of a game from the messages of its observers."""

from __future__ import annotations

from equipoise.lab.workload.game import GameTally

TILE = b"world/tile/0/0"


def tally(sent: int, seen: list[int], *, doubtful: tuple[int, ...] = ()) -> GameTally:
    made = GameTally(sent={(TILE, 7): sent}, doubtful={(TILE, 7, number) for number in doubtful})
    for number in seen:
        made.observe(TILE, b"7 %d 0.5 ..." % number)
    return made


def test_everything_seen_once_and_in_order_is_as_it_should_be() -> None:
    assert tally(3, [0, 1, 2]).verdict() == {"lost": 0, "duplicated": 0, "out_of_order": 0, "gaps": 0}


def test_missing_duplicated_and_late_messages_are_counted() -> None:
    assert tally(4, [0, 2, 2, 1]).verdict() == {"lost": 1, "duplicated": 1, "out_of_order": 1, "gaps": 0}


def test_unacknowledged_messages_may_be_missing() -> None:
    assert tally(3, [0, 1], doubtful=(2,)).verdict()["lost"] == 0


def test_recent_messages_are_not_missing_yet() -> None:
    made = tally(5, [0, 1, 2])
    assert made.verdict({(TILE, 7): 3})["lost"] == 0
    assert made.verdict({(TILE, 7): 4})["lost"] == 1
    assert made.verdict({})["lost"] == 0
