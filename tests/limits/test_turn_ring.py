"""Turns: one each, by weight, and never longer than a round."""

from __future__ import annotations

from equipoise.limits import TurnRing


def turns(ring: TurnRing[str], count: int) -> str:
    taken = []
    for _ in range(count):
        assert ring.first is not None
        taken.append(ring.first)
        ring.turn_over()
    return "".join(taken)


def test_each_party_has_one_turn_in_a_round() -> None:
    ring: TurnRing[str] = TurnRing()
    for party in "abc":
        ring.join(party)
    assert turns(ring, 7) == "abcabca"
    assert ring.total == 3


def test_a_party_has_as_many_turns_as_its_weight() -> None:
    ring: TurnRing[str] = TurnRing()
    ring.join("a")
    ring.join("b", 3)
    assert turns(ring, 8) == "abbbabbb"
    ring.join("b", 1)
    assert turns(ring, 4) == "abab"
    assert ring.total == 2


def test_who_joins_comes_last_and_who_leaves_is_passed_over() -> None:
    ring: TurnRing[str] = TurnRing()
    ring.join("a")
    ring.join("b", 2)
    assert turns(ring, 2) == "ab"
    ring.join("c")
    ring.leave("b")
    ring.leave("z")
    assert "b" not in ring
    assert len(ring) == 2
    assert turns(ring, 4) == "acac"
    ring.leave("a")
    ring.leave("c")
    assert ring.first is None
    assert ring.total == 0
