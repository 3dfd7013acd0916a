"""Operator changes of a plan, and the errors of rejected ones."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from equipoise.control.operations import change_spec, drain, forget, place, unplace, weigh
from equipoise.errors import PlanError, SettingsError
from equipoise.model import Durability, Entry, Member, Mode, Plan, PlanChange, Reason, Specs, TopicSpec, diff
from equipoise.store.records.hubs import HubFacts, HubsStore
from equipoise.store.records.plans import PlanSettings, PlanStore
from equipoise.store.records.specs import SpecsStore
from store.memory_world import TREE, MemoryWorld, run

ALL = ("h1", "h2", "h3")


async def planned(world: MemoryWorld, *entries: Entry, members: tuple[Member, ...] = ()) -> PlanStore:
    plans = PlanStore(await world.store(), TREE, writer="ann", clock=lambda: 7.0)
    wanted = Plan.of(members=members or tuple(map(Member, ALL)), entries=entries)
    await plans.commit(diff(Plan(), wanted))
    return plans


def test_a_topic_is_placed_and_released_with_author_and_note() -> None:
    async def scenario() -> None:
        plans = await planned(MemoryWorld())
        plan = await place(plans, b"t", ("h2",), Mode.SINGLE, alive=ALL, note="closer")
        assert plan.entries[b"t"] == Entry(b"t", ("h2",), is_pinned=True)
        (committed, _) = await plans.history()
        assert (committed.writer, committed.change.entries[0].why.note) == ("ann", "closer")
        assert (await place(plans, b"t", ("h2",), Mode.SINGLE, alive=ALL)).version == plan.version
        loose = await place(plans, b"t", ("h2",), Mode.SINGLE, alive=ALL, is_pinned=False)
        assert loose.entries[b"t"] == Entry(b"t", ("h2",))
        assert b"t" not in (await unplace(plans, b"t")).entries
        assert (await unplace(plans, b"t")).version == plan.version + 2

    run(scenario())


@pytest.mark.parametrize(
    ("homes", "mode", "text"),
    [
        (("h9",), Mode.SINGLE, "members are: h1, h2, h3"),
        (("h3",), Mode.SINGLE, "h3 is dead: start it first, or choose one of h1, h2"),
        (("h1", "h2"), Mode.SINGLE, "single but has 2 homes"),
        (("h1", "h1"), Mode.ALL_PUBLISHERS, "names a home twice"),
        (("h1",), Mode.CONTENT, "has no edge"),
    ],
)
def test_an_invalid_placement_is_rejected_with_a_remedy(
    homes: tuple[str, ...], mode: Mode, text: str
) -> None:
    async def scenario() -> None:
        plans = await planned(MemoryWorld())
        with pytest.raises(PlanError, match=text):
            await place(plans, b"t", homes, mode, alive=("h1", "h2"))
        assert plans.plan.version == 1

    run(scenario())


def test_a_content_topic_is_placed_as_a_tree_unless_a_hub_or_its_spec_forbids() -> None:
    async def scenario() -> None:
        plans = await planned(MemoryWorld())
        plan = await place(plans, b"t", ALL, Mode.CONTENT, alive=ALL, followed={"h3": "h2"})
        assert plan.entries[b"t"] == Entry(b"t", ALL, Mode.CONTENT, is_pinned=True, parents=(0, 0, 1))
        with pytest.raises(PlanError, match="names h9"):
            await place(plans, b"t", ALL, Mode.CONTENT, alive=ALL, followed={"h3": "h9"})
        with pytest.raises(PlanError, match="without content topics: h2"):
            await place(plans, b"u", ALL, Mode.CONTENT, alive=ALL, unable=["h2"])
        durable = Specs([TopicSpec(pattern=b"log", durability=Durability(3, 2, 2))])
        with pytest.raises(PlanError, match="durable subscribers have no filters"):
            await place(plans, b"log", ALL, Mode.CONTENT, alive=ALL, specs=durable)
        drained = await drain(plans, "h2")
        assert drained.entries[b"t"] == Entry(b"t", ("h1", "h3"), Mode.CONTENT, is_pinned=True)

    run(scenario())


def test_an_operator_who_loses_a_race_changes_the_newer_plan() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        plans = await planned(world)
        other = PlanStore(await world.store(), TREE)

        class Slow(PlanStore):
            """Another writer commits between its read and its first write."""

            async def commit(self, change: PlanChange) -> Plan:
                if change.version == 2:
                    await place(other, b"a", ("h1",), Mode.SINGLE, alive=ALL)
                return await super().commit(change)

        plan = await place(Slow(await world.store(), TREE), b"b", ("h2",), Mode.SINGLE, alive=ALL)
        assert (plan.version, set(plan.entries)) == (3, {b"a", b"b"})
        assert (await plans.load()).version == 3

    run(scenario())


def test_a_drained_hub_has_no_share_and_no_entry() -> None:
    async def scenario() -> None:
        members = (Member("h1", 16, "x"), Member("h2", 16, "y"), Member("h3", 16, "x"))
        plans = await planned(
            MemoryWorld(),
            Entry(b"mine", ("h1",), is_pinned=True),
            Entry(b"both", ("h1", "h2"), Mode.ALL_PUBLISHERS, is_pinned=True),
            Entry(b"all", ("h2", "h1", "h3"), Mode.ALL_SUBSCRIBERS),
            Entry(b"other", ("h2",)),
            members=members,
        )
        plan = await drain(plans, "h1", note="new disk")
        assert plan.by_hub["h1"].weight == 0
        # To its own site, where it is not pinned.
        assert plan.entries[b"mine"] == Entry(b"mine", ("h3",))
        assert plan.entries[b"both"] == Entry(b"both", ("h2",), is_pinned=True)
        assert plan.entries[b"all"] == Entry(b"all", ("h2", "h3"), Mode.ALL_SUBSCRIBERS)
        assert plan.entries[b"other"] == Entry(b"other", ("h2",))
        assert (await plans.history())[0].change.members[0].why.reason is Reason.DRAINED
        assert (await drain(plans, "h1")).version == plan.version
        assert (await weigh(plans, "h1", 8)).by_hub["h1"].weight == 8

    run(scenario())


def test_the_last_hub_that_takes_topics_is_not_drained() -> None:
    async def scenario() -> None:
        plans = await planned(MemoryWorld(), members=(Member("h1"), Member("h2", 0)))
        with pytest.raises(PlanError, match="start another hub first"):
            await drain(plans, "h1")

    run(scenario())


def test_a_hub_is_not_drained_if_those_that_would_take_its_topics_are_dead() -> None:
    async def scenario() -> None:
        plans = await planned(MemoryWorld(), members=(Member("h1"), Member("h2")))
        with pytest.raises(PlanError, match="start another hub first"):
            await drain(plans, "h1", alive=("h1",))
        with pytest.raises(PlanError, match="start another hub first"):
            await weigh(plans, "h1", 0, alive=("h1",))
        assert (await weigh(plans, "h1", 0, alive=("h1", "h2"))).by_hub["h1"].weight == 0

    run(scenario())


def test_nothing_is_placed_on_a_drained_hub() -> None:
    async def scenario() -> None:
        plans = await planned(MemoryWorld(), members=(Member("h1"), Member("h2", 0)))
        with pytest.raises(PlanError, match=r"`equipoise hubs weigh h2 1`.*one of h1$"):
            await place(plans, b"t", ("h2",), Mode.SINGLE, alive=ALL)

    run(scenario())


FULL = TopicSpec(
    pattern=b"game.*", latency_ms=40.0, rate_per_s=500.0, burst_messages=9, durability=Durability()
)


def test_only_the_named_limits_of_a_spec_change() -> None:
    async def scenario() -> None:
        specs = SpecsStore(await MemoryWorld().store(), TREE)
        await specs.put(FULL)
        made = await change_spec(specs, b"game.*", {"site": "paris"})
        assert made == msgspec.structs.replace(FULL, site="paris") == await specs.get(b"game.*")
        assert await change_spec(specs, b"game.*", {"site": None, "latency_ms": 5.0}) == (
            msgspec.structs.replace(FULL, latency_ms=5.0)
        )
        with pytest.raises(SettingsError, match="above 0"):
            await change_spec(specs, b"game.*", {"latency_ms": -1.0})
        with pytest.raises(SettingsError, match="nothing to change"):
            await change_spec(specs, b"game.*", {})

    run(scenario())


def test_a_spec_is_removed_with_its_last_limit() -> None:
    async def scenario() -> None:
        specs = SpecsStore(await MemoryWorld().store(), TREE)
        await specs.put(FULL)
        assert await change_spec(specs, b"game.*", {"latency_ms": None}) is not None
        assert await change_spec(specs, b"game.*", {"durability": None}) is not None
        # A burst is removed with its rate.
        assert await change_spec(specs, b"game.*", {"rate_per_s": None}) is None
        assert len(await specs.load()) == 0
        assert await change_spec(specs, b"game.*", {"site": None}) is None

    run(scenario())


def test_two_concurrent_changes_of_a_spec_both_take_effect() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        specs, other = SpecsStore(await world.store(), TREE), SpecsStore(await world.store(), TREE)
        for before in (None, FULL, TopicSpec(pattern=b"game.*", site="rome")):
            if before is None:
                await specs.remove(b"game.*")
            else:
                await specs.put(before)
            await asyncio.gather(
                change_spec(specs, b"game.*", {"latency_ms": 7.0}),
                change_spec(other, b"game.*", {"site": "paris"}),
            )
            made = await specs.get(b"game.*")
            assert made is not None
            assert (made.latency_ms, made.site) == (7.0, "paris")

    run(scenario())


def test_only_a_stopped_hub_is_forgotten_and_its_entries_go_to_others() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        plans = await planned(world, Entry(b"t", ("h2",)))
        hub_store = await world.store()
        await HubsStore(hub_store, TREE).announce(HubFacts(hub="h2", address="h2:1", incarnation=1))
        hubs = HubsStore(await world.store(), TREE)
        with pytest.raises(PlanError, match="drain it and stop it first"):
            await forget(plans, hubs, "h2")
        await hub_store.close()
        plan = await forget(plans, hubs, "h2")
        assert "h2" not in plan.by_hub
        assert plan.entries[b"t"].homes[0] in ("h1", "h3")
        assert await hubs.load() == {}
        with pytest.raises(PlanError, match="no hub h2"):
            await forget(plans, hubs, "h2")

    run(scenario())


def test_the_last_hub_of_all_is_forgotten_with_everything_placed_on_it() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        plans = await planned(world, Entry(b"t", ("h1",)), members=(Member("h1"),))
        plan = await forget(plans, HubsStore(await world.store(), TREE), "h1")
        assert (plan.members, dict(plan.entries)) == ((), {})

    run(scenario())


def test_earlier_versions_are_available_as_far_as_history_reaches() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        settings = PlanSettings(snapshot_versions_max=5, history_versions_max=6)
        plans = PlanStore(await world.store(), TREE, settings=settings)
        await plans.commit(diff(Plan(), Plan.of(members=map(Member, ALL))))
        for n in range(2, 30):
            await place(plans, b"t%d" % n, ("h1",), Mode.SINGLE, alive=ALL)
        reader = PlanStore(await world.store(), TREE)
        kept = [committed.change.version for committed in await reader.history()]
        for version in (29, 28, 25, kept[-1]):
            plan = await reader.at(version)
            assert (plan.version, len(plan.entries)) == (version, version - 1)
        with pytest.raises(PlanError, match=f"history begins with {kept[-1]}"):
            await reader.at(3)
        with pytest.raises(PlanError, match="the latest is 29"):
            await reader.at(30)

    run(scenario())
