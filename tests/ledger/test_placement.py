"""Where a ledger's entries go: the owner's site, distinct racks, the roomiest bookies; and what could not be had."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from equipoise.errors import DamagedError
from equipoise.ledger.placement import place_ensemble, replacement_for
from equipoise.ledger.registration import (
    BookieFacts,
    Cookie,
    decode_cookie,
    decode_facts,
    encode_cookie,
    encode_facts,
)


def bookie(
    name: str, *, site: str = "s", rack: str = "", free: int = 50, is_read_only: bool = False
) -> BookieFacts:
    return BookieFacts(
        name=name,
        host="127.0.0.1",
        port=1,
        site=site,
        rack=rack or name,
        free_bytes=free,
        total_bytes=100,
        is_read_only=is_read_only,
    )


def known(*bookies: BookieFacts) -> dict[str, BookieFacts]:
    return {each.name: each for each in bookies}


def test_the_owners_site_comes_first_and_another_site_is_told() -> None:
    bookies = known(bookie("a"), bookie("b"), bookie("far", site="x", free=99))
    found = place_ensemble(bookies, 2, site="s", draw=Random(1).random)
    assert found is not None
    assert (set(found.members), found.compromises) == ({"a", "b"}, ())
    found = place_ensemble(bookies, 3, site="s", draw=Random(1).random)
    assert found is not None
    assert found.members[2] == "far"
    assert found.compromises == ("bookie far is at site x, not at s",)


def test_racks_are_distinct_as_far_as_there_are_racks() -> None:
    bookies = known(
        bookie("a", rack="1", free=90), bookie("b", rack="1", free=80), bookie("c", rack="2", free=5)
    )
    found = place_ensemble(bookies, 2, site="s", draw=Random(1).random)
    assert found is not None and found.members == ("a", "c")
    found = place_ensemble(bookies, 3, site="s", draw=Random(1).random)
    assert found is not None and found.compromises == ("bookies a and b share the rack 1",)


def test_roomy_bookies_come_first_and_chance_spreads_over_equals() -> None:
    bookies = known(bookie("a", free=95), bookie("b", free=92), bookie("c", free=91), bookie("full", free=10))
    chosen: Counter[str] = Counter()
    for seed in range(60):
        found = place_ensemble(bookies, 1, site="s", draw=Random(seed).random)
        assert found is not None
        chosen[found.members[0]] += 1
    assert set(chosen) == {"a", "b", "c"}


def test_read_only_bookies_and_members_are_no_replacement() -> None:
    bookies = known(bookie("a"), bookie("b", is_read_only=True), bookie("c"))
    assert place_ensemble(bookies, 3, site="s", draw=Random(1).random) is None
    assert replacement_for(bookies, ["a"], site="s", draw=Random(1).random) == "c"
    assert replacement_for(bookies, ["a", "c"], site="s", draw=Random(1).random) is None


def test_a_registration_is_read_as_it_was_written_and_one_of_javas_too() -> None:
    facts = BookieFacts(
        name="b1", host="10.0.0.7", port=3181, site="s", rack="r", free_bytes=5, total_bytes=9, directory="d"
    )
    assert decode_facts("b1", encode_facts(facts), is_read_only=False) == facts
    java = decode_facts("10.0.0.8:3181", b"", is_read_only=True)
    assert (java.host, java.port, java.rack, java.directory) == ("10.0.0.8", 3181, "10.0.0.8", "")
    with pytest.raises(DamagedError):
        decode_facts("b1", b"\xff\xff", is_read_only=False)


def test_a_cookie_is_read_as_it_was_written() -> None:
    cookie = Cookie(bookie="b1", directory="d", instance="i")
    assert decode_cookie("p", encode_cookie(cookie)) == cookie
    with pytest.raises(DamagedError):
        decode_cookie("p", b"5\n")
