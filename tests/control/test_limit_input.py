"""Requirements of a rate limit on hubs and plan: an unmet one is rejected with a remedy, and changes nothing."""

from __future__ import annotations

import asyncio

import pytest

from equipoise.control.operations import change_spec, hubs_without_limits, place
from equipoise.errors import PlanError, SettingsError
from equipoise.model import Entry, Member, Mode, Plan, PlanChange, Specs, TopicSpec
from equipoise.model.change import ASKED_FOR
from equipoise.store import HubFacts, HubsStore, MemoryStore, MemoryTree, PlanStore, SpecsStore

HOMES = ("h1", "h2", "h3")


async def opened() -> MemoryStore:
    return await MemoryStore(MemoryTree(lambda: 0.0)).open()


async def alive(store: MemoryStore, name: str, *, keeps_limits: bool) -> HubsStore:
    hubs = HubsStore(store)
    await hubs.announce(HubFacts(hub=name, address=f"{name}:1", incarnation=1, keeps_limits=keeps_limits))
    return hubs


def test_hubs_of_an_older_release_are_named_and_get_no_limited_topic() -> None:
    async def script() -> None:
        store = await opened()
        hubs = await alive(store, "old", keeps_limits=False)
        specs, seen = SpecsStore(store), await hubs.load()
        assert hubs_without_limits(seen) == ["old"]
        with pytest.raises(SettingsError, match="without rate limits: old"):
            await change_spec(specs, b"x", {"rate_per_s": 10.0}, hubs=seen)
        assert await specs.get(b"x") is None
        # What hubs of that release can do is not refused.
        assert await change_spec(specs, b"x", {"latency_ms": 40.0}, hubs=seen) is not None

    asyncio.run(script())


def test_a_burst_below_the_number_of_homes_is_rejected_on_either_side() -> None:
    async def script() -> None:
        store = await opened()
        await alive(store, "h1", keeps_limits=True)
        specs, plans = SpecsStore(store), PlanStore(store, clock=lambda: 0.0)
        members = [Member(name) for name in HOMES]
        entry = Entry(b"x", HOMES, Mode.ALL_SUBSCRIBERS)
        plan = await plans.commit(PlanChange.on(Plan(), ASKED_FOR, set_members=members, set_entries=[entry]))
        given = {"rate_per_s": 10.0, "burst_messages": 2}
        with pytest.raises(SettingsError, match="give a burst of 3 or more"):
            await change_spec(specs, b"x*", given, plan=plan)
        assert await specs.get(b"x*") is None
        assert await change_spec(specs, b"x*", {**given, "burst_messages": 3}, plan=plan) is not None
        # A pattern is not held to the homes of a topic that has a spec of its own.
        assert await change_spec(specs, b"*", given, plan=plan) is not None
        limited = Specs([TopicSpec(pattern=b"y", rate_per_s=10.0, burst_messages=2)])
        with pytest.raises(PlanError, match="give a burst of 3 or more"):
            await place(plans, b"y", HOMES, Mode.ALL_SUBSCRIBERS, alive=HOMES, specs=limited)
        placed = await place(plans, b"y", HOMES[:2], Mode.ALL_SUBSCRIBERS, alive=HOMES, specs=limited)
        assert placed.entries[b"y"].homes == HOMES[:2]

    asyncio.run(script())


@pytest.mark.parametrize("pattern", [b"$sys", b"$*"])
def test_a_rate_for_system_topics_is_rejected(pattern: bytes) -> None:
    async def script() -> None:
        specs = SpecsStore(await opened())
        with pytest.raises(SettingsError, match=r"begin with \$ have no rate limit"):
            await change_spec(specs, pattern, {"rate_per_s": 10.0})
        assert await specs.get(pattern) is None

    asyncio.run(script())


def test_removing_the_rate_removes_burst_and_wait() -> None:
    async def script() -> None:
        specs = SpecsStore(await opened())
        await change_spec(specs, b"x", {"rate_per_s": 10.0, "burst_messages": 3, "wait_ms": 50.0})
        assert await change_spec(specs, b"x", {"rate_per_s": None}) is None
        assert await specs.get(b"x") is None

    asyncio.run(script())


def test_shares_of_an_entry_sum_up_and_stay_when_a_home_leaves() -> None:
    entry = Entry(b"x", HOMES, Mode.ALL_SUBSCRIBERS, shares=(500_000, 300_000, 200_000))
    left = entry.without("h1")
    assert left is not None
    assert (left.homes, left.shares) == (("h2", "h3"), (800_000, 200_000))
    single = left.without("h2")
    assert single is not None
    assert (single.mode, single.shares) == (Mode.SINGLE, ())
    assert single.without("h3") is None
    for shares in ((1, 2), (500_000, 500_000, 0), (1_000_000,)):
        with pytest.raises(PlanError, match="share"):
            Entry(b"x", HOMES, Mode.ALL_SUBSCRIBERS, shares=shares)
