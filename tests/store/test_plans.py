"""The plan in the store: one writer per version, readers that never go back, damage that is detected."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from contextlib import aclosing

import pytest

from equipoise.errors import DamagedError, NoNodeError, PlanError, PlanRaceError, StoreUnavailableError
from equipoise.model import Entry, Member, Mode, Plan, PlanChange, Reason, Why, apply
from equipoise.store import Answer, MemoryStore, Node, Read, Store, StoreSettings, open_store
from equipoise.store.records.plans import PlanSettings, PlanStore
from store.memory_world import TREE, MemoryWorld, run, take
from support.zookeeper import require_zookeeper, shared_zookeeper

ASKED = Why(Reason.OPERATOR, {"load_ratio": 0.9})
OFTEN = PlanSettings(snapshot_versions_max=5, history_versions_max=8)


class World(MemoryWorld):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1000.0

    async def plans(self, settings: PlanSettings = OFTEN, store: Store | None = None) -> PlanStore:
        chosen = store or await self.store()
        return PlanStore(chosen, TREE, writer="c1", settings=settings, clock=lambda: self.now_s)


def first_change() -> PlanChange:
    return PlanChange.on(Plan(), ASKED, set_members=[Member("h1"), Member("h2")])


def entry(number: int, home: str = "h1") -> Entry:
    return Entry(b"topic-%d" % number, (home,))


async def grown(plans: PlanStore, to_version: int) -> Plan:
    """Commit until the plan has this version, one entry each."""
    plan = await plans.load()
    while plan.version < to_version:
        if plan.version == 0:
            change = first_change()
        else:
            change = PlanChange.on(plan, ASKED, set_entries=[entry(plan.version + 1)])
        plan = await plans.commit(change)
    return plan


# Committing.


def test_a_region_without_a_plan_has_the_empty_one() -> None:
    async def scenario() -> None:
        assert await (await World().plans()).load() == Plan()

    run(scenario())


def test_a_committed_plan_is_loaded_by_others() -> None:
    async def scenario() -> None:
        world = World()
        one, other = await world.plans(), await world.plans()
        made = await one.commit(first_change())
        assert made == apply(Plan(), first_change())
        assert await other.load() == made
        second = PlanChange.on(
            made, ASKED, set_entries=[Entry(b"\x00\xff", ("h1", "h2"), Mode.ALL_PUBLISHERS)]
        )
        made = await other.commit(second)
        assert await one.load() == made

    run(scenario())


def test_only_one_of_two_controllers_commits_a_version() -> None:
    async def scenario() -> None:
        world = World()
        one, other = await world.plans(), await world.plans()
        plan = await grown(one, 3)
        await other.load()
        results = await asyncio.gather(
            one.commit(PlanChange.on(plan, ASKED, set_entries=[entry(1, "h1")])),
            other.commit(PlanChange.on(plan, ASKED, set_entries=[entry(1, "h2")])),
            return_exceptions=True,
        )
        assert sorted(type(result).__name__ for result in results) == ["Plan", "PlanRaceError"]
        winner = next(result for result in results if isinstance(result, Plan))
        assert (await one.load(), await other.load()) == (winner, winner)

    run(scenario())


def test_a_change_of_an_old_plan_is_rejected_however_late() -> None:
    async def scenario() -> None:
        world = World()
        one, other = await world.plans(), await world.plans()
        old = await grown(one, 2)
        await grown(one, 30)
        with pytest.raises(PlanRaceError) as raised:
            await other.commit(PlanChange.on(old, ASKED, set_entries=[entry(1)]))
        assert raised.value.version == 3

    run(scenario())


def test_a_change_that_does_not_fit_commits_nothing() -> None:
    async def scenario() -> None:
        plans = await World().plans()
        plan = await grown(plans, 2)
        with pytest.raises(PlanError):
            await plans.commit(PlanChange.on(plan, ASKED, set_entries=[Entry(b"x", ("stranger",))]))
        with pytest.raises(PlanError):
            await plans.commit(PlanChange(9))
        assert await plans.load() == plan

    run(scenario())


def test_history_has_author_time_change_and_reason() -> None:
    async def scenario() -> None:
        world = World()
        plans = await world.plans()
        await grown(plans, 1)
        world.now_s = 2000.0
        await grown(plans, 2)
        latest, first = await plans.history()
        assert (latest.at_s, latest.writer, latest.change.version) == (2000.0, "c1", 2)
        assert latest.change.entries[0].why == ASKED
        assert first.change == first_change()
        assert await plans.history(limit=1) == [latest]

    run(scenario())


def test_history_and_the_changes_that_readers_need_are_kept_and_the_rest_is_trimmed() -> None:
    async def scenario() -> None:
        world = World()
        plans = await world.plans()
        await grown(plans, 43)
        versions = [int(name) for name in world.tree.children(TREE.log)]
        assert versions == list(range(33, 44))
        assert [int(name) for name in world.tree.children(TREE.snapshots)] == [35, 40]
        assert len(world.tree.children(TREE.plan_blobs)) == 2
        assert world.tree.get(TREE.head).data == b"0000000043"

    run(scenario())


def test_a_change_too_large_for_a_node_is_committed() -> None:
    async def scenario() -> None:
        world = World()
        one, other = await world.plans(), await world.plans()
        plan = await grown(one, 1)
        noise = [Entry(uuid.uuid4().bytes * 4, ("h1",)) for _ in range(50_000)]
        made = await one.commit(PlanChange.on(plan, ASKED, set_entries=noise))
        assert len(made.entries) == 50_000
        assert await other.load() == made
        # A large change brings the next snapshot forward.
        assert world.tree.children(TREE.snapshots) == ("0000000002",)
        with pytest.raises(PlanRaceError):
            await one.commit(PlanChange(2))

    run(scenario())


def test_the_blob_of_a_lost_race_is_removed() -> None:
    async def scenario() -> None:
        world = World()
        one, other = await world.plans(), await world.plans()
        plan = await grown(one, 1)
        await other.load()
        noise = [Entry(uuid.uuid4().bytes * 4, ("h1",)) for _ in range(20_000)]
        big = PlanChange.on(plan, ASKED, set_entries=noise)
        results = await asyncio.gather(
            one.commit(big), other.commit(PlanChange.on(plan, ASKED)), return_exceptions=True
        )
        assert isinstance(results[0], PlanRaceError)
        assert world.tree.children(TREE.plan_blobs) == ()

    run(scenario())


# Following.


def test_a_watcher_gets_every_version_in_order() -> None:
    async def scenario() -> None:
        world = World()
        writer, reader = await world.plans(), await world.plans()
        await grown(writer, 2)
        async with aclosing(reader.watch()) as plans:
            assert (await anext(plans)).version == 2
            following = asyncio.create_task(take(plans, 20))
            last = await grown(writer, 22)
            seen = await following
        assert [plan.version for plan in seen] == list(range(3, 23))
        assert seen[-1] == last == reader.plan

    run(scenario())


def test_a_watcher_that_was_disconnected_continues_from_a_snapshot() -> None:
    async def scenario() -> None:
        world = World()
        writer, reader = await world.plans(), await world.plans()
        old = await grown(writer, 2)
        last = await grown(writer, 60)
        assert TREE.change(3).rpartition("/")[2] not in world.tree.children(TREE.log)
        async with aclosing(reader.watch(old)) as plans:
            assert await anext(plans) == last

    run(scenario())


def test_a_watcher_outlives_its_session() -> None:
    async def scenario() -> None:
        world = World()
        store = await world.store()
        writer, reader = await world.plans(), await world.plans(store=store)
        plan = await grown(writer, 2)
        async with aclosing(reader.watch(plan)) as plans:
            following = asyncio.create_task(take(plans, 1))
            await asyncio.sleep(0)
            world.tree.end_session(store.session)
            last = await grown(writer, 3)
            assert await following == [last]

    run(scenario())


def test_a_watcher_continues_when_the_store_was_unreachable() -> None:
    class Moody(MemoryStore):
        """Fails some reads as a store that is away does."""

        failures = 3

        async def read(self, reads: Sequence[Read]) -> tuple[Answer, ...]:
            if self.failures:
                self.failures -= 1
                raise StoreUnavailableError("away")
            return await super().read(reads)

    async def scenario() -> None:
        world = World()
        writer = await world.plans()
        plan = await grown(writer, 2)
        store = await Moody(world.tree).open()
        reader = await world.plans(store=store)
        async with aclosing(reader.watch(plan)) as plans:
            last = await grown(writer, 3)
            assert await take(plans, 1) == [last]
        assert not store.failures

    run(scenario())


def test_a_follower_reads_its_additional_nodes_with_each_plan() -> None:
    async def scenario() -> None:
        world = World()
        writer, reader = await world.plans(), await world.plans()
        plan, beside = await grown(writer, 2), [Read(TREE.head), Read(TREE.change(99))]
        async with aclosing(reader.follow(plan, beside=lambda: beside)) as plans:
            following = asyncio.create_task(anext(plans))
            # Until it waits for changes: the current plan comes by itself.
            for _ in range(20):
                await asyncio.sleep(0)
            third = await grown(writer, 3)
            found, answers = await following
            assert found == third
            assert answers is not None
            head, missing = answers
            assert isinstance(head, Node)
            assert missing is None
            last = await grown(writer, 4)
            assert await anext(plans) == (last, None)

    run(scenario())


def test_a_follower_that_was_disconnected_for_long_has_to_read_after_the_plan() -> None:
    async def scenario() -> None:
        world = World()
        writer, reader = await world.plans(), await world.plans()
        plan = await grown(writer, 2)
        last = await grown(writer, 60)
        assert not any(name.endswith("3") for name in world.tree.children(TREE.log) if int(name) < 10)
        async with aclosing(reader.follow(plan, beside=lambda: [Read(TREE.head)])) as plans:
            assert await anext(plans) == (last, None)

    run(scenario())


def test_many_changes_are_read_a_few_at_a_time_and_in_order() -> None:
    class Counted(MemoryStore):
        reads = 0

        async def read(self, reads: Sequence[Read]) -> tuple[Answer, ...]:
            Counted.reads += 1
            return await super().read(reads)

    async def scenario() -> None:
        world = World()
        last = await grown(await world.plans(PlanSettings()), 90)
        reader = await world.plans(store=await Counted(world.tree).open())
        assert await reader.load() == last
        # Where the log ends, six times up to 16 changes, that there is nothing more of them, and where it ends now.
        assert Counted.reads <= 9

    run(scenario())


# Damage.


def _blob_of(world: World, version: int) -> str:
    names = world.tree.children(TREE.plan_blobs)
    return next(f"{TREE.plan_blobs}/{name}" for name in names if name.startswith(f"{version:010d}-snapshot"))


@pytest.mark.parametrize("how", ["manifest", "part", "cut", "missing part", "other plan"])
def test_a_damaged_snapshot_is_replaced_by_an_older_one_and_the_log(how: str) -> None:
    async def scenario() -> None:
        world = World()
        last = await grown(await world.plans(), 43)
        part = _blob_of(world, 40) + "/0000"
        data = world.tree.get(part).data
        match how:
            case "manifest":
                world.overwrite(TREE.snapshot(40), b"\xc1")
            case "part":
                world.overwrite(part, data[:30] + bytes([data[30] ^ 1]) + data[31:])
            case "cut":
                world.overwrite(part, data[:-5])
            case "missing part":
                world.tree.delete(world.tree.open_session(60, None), part, None)
            case _:
                world.overwrite(TREE.snapshot(40), world.tree.get(TREE.snapshot(35)).data)
        assert await (await world.plans()).load() == last

    run(scenario())


def test_a_half_written_snapshot_does_not_exist() -> None:
    async def scenario() -> None:
        world = World()
        last = await grown(await world.plans(), 43)
        world.tree.delete(world.tree.open_session(60, None), TREE.snapshot(40), None)
        assert await (await world.plans()).load() == last

    run(scenario())


def test_a_plan_that_cannot_be_read_is_an_error_and_not_changed() -> None:
    async def scenario() -> None:
        world = World()
        await grown(await world.plans(), 43)
        for version in (35, 40):
            world.overwrite(TREE.snapshot(version), b"")
        before = world.tree.children(TREE.log)
        with pytest.raises(DamagedError):
            await (await world.plans()).load()
        with pytest.raises(DamagedError):
            await (await world.plans()).commit(PlanChange(44))
        assert world.tree.children(TREE.log) == before

    run(scenario())


def test_a_damaged_change_stops_a_reader_at_the_plan_before_it() -> None:
    async def scenario() -> None:
        world = World()
        writer, reader = await world.plans(), await world.plans()
        plan = await grown(writer, 2)
        await grown(writer, 3)
        world.overwrite(TREE.change(3), b"\x91\x00")
        async with aclosing(reader.watch(plan)) as plans:
            with pytest.raises(DamagedError) as raised:
                await anext(plans)
        assert raised.value.path == TREE.change(3)

    run(scenario())


# The real thing.


@pytest.mark.needs_java
def test_a_hundred_thousand_entries_fit_into_zookeeper() -> None:
    require_zookeeper()
    url = f"{shared_zookeeper().url}/{uuid.uuid4().hex}"
    settings = StoreSettings(session_timeout_s=4.0)

    async def scenario() -> None:
        store, other = await open_store(url, settings), await open_store(url, settings)
        writer, reader = PlanStore(store, TREE), PlanStore(other, TREE)
        plan = await writer.commit(first_change())
        async with aclosing(reader.watch()) as plans:
            assert (await anext(plans)).version == 1
            entries = [Entry(b"fleet/%d/telemetry" % n, (f"h{1 + n % 2}",)) for n in range(100_000)]
            plan = await writer.commit(PlanChange.on(plan, ASKED, set_entries=entries))
            assert await anext(plans) == plan
            moved = PlanChange.on(plan, ASKED, set_entries=[Entry(b"fleet/7/telemetry", ("h1",))])
            plan = await writer.commit(moved)
            assert await anext(plans) == plan
        latecomer = PlanStore(other, TREE)
        loaded = await latecomer.load()
        assert len(loaded.entries) == 100_000
        assert loaded == plan
        with pytest.raises(PlanRaceError):
            await latecomer.commit(PlanChange(3))
        with pytest.raises(NoNodeError):
            await store.get(TREE.change(4))
        await store.close()
        await other.close()

    run(scenario())
