"""Bookies required by durable specs: a spec without them is rejected with a remedy, and changes nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from equipoise.control.cluster_state import hub_views
from equipoise.control.operations import change_spec, durability_compromises
from equipoise.errors import SettingsError
from equipoise.ledger.registration import BookieFacts
from equipoise.model import Durability, Plan, Specs, TopicSpec
from equipoise.store import HubFacts, HubsStore, MemoryStore, MemoryTree, SpecsStore


def bookies(*facts: BookieFacts) -> dict[str, BookieFacts]:
    return {each.name: each for each in facts}


def bookie(name: str, *, site: str = "", rack: str = "", is_read_only: bool = False) -> BookieFacts:
    return BookieFacts(name=name, host="h", port=1, site=site, rack=rack or name, is_read_only=is_read_only)


def test_a_quorum_with_too_few_writable_bookies_is_rejected_with_their_names() -> None:
    async def script() -> None:
        specs = SpecsStore(await MemoryStore(MemoryTree(lambda: 0.0)).open())
        found = bookies(bookie("b1"), bookie("b2", is_read_only=True))
        with pytest.raises(
            SettingsError, match=r"3/3/2 needs 3 writable bookies, there is 1 \(b1\); read-only: b2"
        ):
            await change_spec(specs, b"x", {"durability": Durability(3, 3, 2)}, bookies=found)
        with pytest.raises(SettingsError, match="there are 0: start more with `equipoise bookie`"):
            await change_spec(specs, b"x", {"durability": Durability(1, 1, 1)}, bookies={})
        assert await specs.get(b"x") is None
        assert await change_spec(specs, b"x", {"durability": Durability(1, 1, 1)}, bookies=found)
        # Other fields need no bookies, and durability can be taken back.
        assert await change_spec(specs, b"x", {"latency_ms": 5.0}, bookies={})
        assert await change_spec(specs, b"x", {"durability": None}, bookies={})

    asyncio.run(script())


def test_bookies_of_another_site_or_of_one_rack_are_named() -> None:
    spec = TopicSpec(pattern=b"x", durability=Durability(2, 2, 2), site="paris")
    found = bookies(bookie("b1", site="paris", rack="r"), bookie("b2", site="oslo", rack="r"))
    assert durability_compromises(spec, found) == ("bookie b2 is at site oslo, not at paris",)
    found = bookies(bookie("b1", site="paris", rack="r"), bookie("b2", site="paris", rack="r"))
    assert durability_compromises(spec, found) == ("bookies b1 and b2 share the rack r",)
    assert durability_compromises(TopicSpec(pattern=b"x"), found) == ()


def test_the_middle_bookie_of_a_site_gives_the_time_of_a_commit() -> None:
    async def script() -> None:
        hubs = HubsStore(await MemoryStore(MemoryTree(lambda: 0.0)).open())
        for name, site in (("h1", "paris"), ("h2", "oslo"), ("h3", "rome")):
            await hubs.announce(HubFacts(hub=name, address=f"{name}:1", incarnation=1, site=site))
        found = [
            replace(bookie(f"b{number}", site="paris"), sync_us_p99=sync)
            for number, sync in enumerate((9_000, 1_000, 3_000))
        ]
        found.append(replace(bookie("b4", site="oslo"), sync_us_p99=500))
        views = hub_views(await hubs.load(), Plan(), Specs(), releasable=set(), bookies=found)
        assert [(view.bookies, view.commit_s) for view in views] == [(3, 0.003), (1, 0.0005), (0, 0.0)]

    asyncio.run(script())
