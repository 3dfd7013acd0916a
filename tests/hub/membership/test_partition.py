"""Which hub leaves when hubs cannot reach each other."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.hub.membership.partition import outvoted


@pytest.mark.parametrize(
    ("accusations", "leaving"),
    [
        ({"a": [], "b": [], "c": []}, []),
        # They differ only in their names.
        ({"a": ["b"], "b": ["a"], "c": []}, ["b"]),
        # One of them has not noticed yet.
        ({"a": ["b"], "b": [], "c": []}, ["b"]),
        ({"a": ["b", "c"], "b": ["a"], "c": ["a"]}, ["a"]),
        # Two and two: one side stays whole.
        ({"a": "cd", "b": "cd", "c": "ab", "d": "ab"}, ["d", "c"]),
        # Not alive, or itself.
        ({"a": ["z", "a"], "b": []}, []),
    ],
)
def test_the_hub_with_most_broken_pairs_leaves(accusations: dict[str, list[str]], leaving: list[str]) -> None:
    assert outvoted(accusations) == leaving


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.frozensets(st.sampled_from("abcdefgh")), max_size=8))
def test_the_remaining_hubs_reach_each_other_and_one_always_remains(
    accusations: dict[str, frozenset[str]],
) -> None:
    staying = accusations.keys() - set(outvoted(accusations))
    assert not any(
        one in accusations[other] or other in accusations[one] for one, other in combinations(staying, 2)
    )
    assert bool(staying) == bool(accusations)
