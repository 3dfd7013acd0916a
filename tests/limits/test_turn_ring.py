"""Turns: one each, by weight, and never longer than a round."""

from __future__ import annotations

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

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


def test_who_joins_comes_before_those_that_have_had_a_turn_and_who_leaves_is_passed_over() -> None:
    ring: TurnRing[str] = TurnRing()
    ring.join("a")
    ring.join("b", 2)
    assert turns(ring, 2) == "ab"
    ring.join("c")
    ring.leave("b")
    ring.leave("z")
    assert "b" not in ring
    assert len(ring) == 2
    assert turns(ring, 4) == "caca"
    ring.leave("a")
    ring.leave("c")
    assert ring.first is None
    assert ring.total == 0


def test_who_joins_comes_behind_those_that_have_waited_for_longer() -> None:
    ring: TurnRing[str] = TurnRing()
    for party in "abc":
        ring.join(party)
    assert turns(ring, 1) == "a"
    ring.join("d")
    assert turns(ring, 5) == "bcdab"


def test_who_comes_back_after_a_turn_comes_behind_those_that_had_theirs_before() -> None:
    ring: TurnRing[str] = TurnRing()
    for party in "ab":
        ring.join(party)
    assert turns(ring, 4) == "abab"
    ring.leave("b")
    ring.join("b")
    assert turns(ring, 4) == "abab"


def test_a_flood_of_newcomers_passes_a_party_once_at_most_before_its_turn() -> None:
    ring: TurnRing[str] = TurnRing()
    ring.join("bob")
    waited, before, turns_of_bob = 0, 0, 0
    for number in range(60):
        ring.join(f"new-{number}")
        first = ring.first
        assert first is not None
        ring.turn_over()
        if first == "bob":
            assert waited <= before + 1
            waited, before, turns_of_bob = 0, len(ring) - 1, turns_of_bob + 1
        else:
            waited += 1
            ring.leave(first)
    assert turns_of_bob > 5


def test_a_party_that_is_refused_for_its_place_gets_one_when_it_comes_again() -> None:
    """Two that come back at once, and one that joins only if the next turn but one would be its own."""
    ring: TurnRing[str] = TurnRing()
    ring.join("ann")
    ring.join("bob")
    had = 0
    for _ in range(20):
        if "pat" not in ring and ring.turns_before("pat") <= 1:
            ring.join("pat")
        first = ring.first
        assert first is not None
        ring.turn_over()
        ring.leave(first)
        if first == "pat":
            had += 1
        else:
            ring.join(first)
    assert had >= 5


@given(st.lists(st.one_of(st.none(), st.tuples(st.sampled_from("abcde"), st.integers(-1, 3))), max_size=60))
def test_the_turns_before_a_party_are_those_that_others_take(steps: list[tuple[str, int] | None]) -> None:
    """None: a turn is taken. A weight below 0: the party leaves."""
    ring: TurnRing[str] = TurnRing()
    for step in steps:
        if step is None:
            if ring.first is not None:
                ring.turn_over()
        elif step[1] < 0:
            ring.leave(step[0])
        else:
            ring.join(*step)
        assert ring.total == sum(map(ring.weight, ring))
    for party in "abcde":
        found = deepcopy(ring)
        before = found.turns_before(party)
        found.join(party, max(1, ring.weight(party)))
        taken = 0
        while found.first != party:
            found.turn_over()
            taken += 1
        assert taken == before
