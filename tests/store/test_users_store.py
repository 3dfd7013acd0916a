"""Users in the store: seeded once, replaced by version, announced through the plan."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import aclosing

import pytest

from equipoise.access import Users, parse_users
from equipoise.errors import BadVersionError, DamagedError, SettingsError
from equipoise.model import Member, Plan, PlanChange, Reason, Why
from equipoise.store.records import blobs
from equipoise.store.records.plans import PlanStore
from equipoise.store.records.users import UsersStore, publish_users
from store.memory_world import TREE, MemoryWorld, run, take


def users_of(*patterns: str) -> Users:
    return parse_users(f"[users.default]\nnopass = true\nsubscribe = [{', '.join(map(repr, patterns))}]\n")


def digest_of(n: int, k: int) -> str:
    return hashlib.blake2b(b"%d %d" % (n, k)).hexdigest()


NEWS, GAME = users_of("news.*"), users_of("game.*")


def test_a_region_without_users_is_open() -> None:
    async def scenario() -> None:
        stored = await UsersStore(await MemoryWorld().store(), TREE).load()
        assert (stored.users.is_open, stored.access_version) == (True, 0)

    run(scenario())


def test_the_first_users_file_seeds_the_store_and_later_ones_do_not() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        one, other = UsersStore(await world.store(), TREE), UsersStore(await world.store(), TREE)
        assert (await one.seed(Users.open())).access_version == 0
        seeded = await asyncio.gather(one.seed(NEWS), other.seed(GAME))
        assert seeded[0].users.version == seeded[1].users.version
        assert [stored.access_version for stored in seeded] == [1, 1]
        assert (await other.seed(GAME)).users.version == seeded[0].users.version

    run(scenario())


def test_replacing_compares_the_access_version_and_leaves_nothing_behind() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        users = UsersStore(await world.store(), TREE)
        await users.seed(NEWS)
        assert (await users.replace(GAME, access_version=1)).access_version == 2
        with pytest.raises(BadVersionError):
            await users.replace(NEWS, access_version=1)
        stored = await users.load()
        assert (stored.users.version, stored.access_version) == (GAME.version, 2)
        assert len(world.tree.children(TREE.users_blobs)) == 1

    run(scenario())


def test_only_one_of_two_operators_replaces_a_version() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        one, other = UsersStore(await world.store(), TREE), UsersStore(await world.store(), TREE)
        await one.seed(NEWS)
        results = await asyncio.gather(
            one.replace(GAME, access_version=1),
            other.replace(users_of("chat"), access_version=1),
            return_exceptions=True,
        )
        assert sum(isinstance(result, BadVersionError) for result in results) == 1
        assert len(world.tree.children(TREE.users_blobs)) == 1

    run(scenario())


def test_open_access_is_not_stored() -> None:
    async def scenario() -> None:
        users = UsersStore(await MemoryWorld().store(), TREE)
        with pytest.raises(SettingsError):
            await users.replace(Users.open(), access_version=0)

    run(scenario())


def test_more_users_than_a_node_holds_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blobs, "PART_BYTES_MAX", 10_000)

    async def scenario() -> None:
        world = MemoryWorld()
        # Digests do not compress to less than half: 8 patterns of 64 random bytes for each of 40 users.
        text = "".join(
            f'[users.u{n}]\ncertificates = ["{n}"]\npublish = {[digest_of(n, k) for k in range(8)]}\n'
            for n in range(40)
        )
        many = parse_users(text)
        users = UsersStore(await world.store(), TREE)
        await users.seed(many)
        [blob] = world.tree.children(TREE.users_blobs)
        assert len(world.tree.children(f"{TREE.users_blobs}/{blob}")) > 1
        assert (await users.load()).users.version == many.version

    run(scenario())


def test_a_watcher_gets_each_version_of_the_users() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        writer, reader = UsersStore(await world.store(), TREE), UsersStore(await world.store(), TREE)
        async with aclosing(reader.watch()) as changes:
            assert (await anext(changes)).users.is_open
            await writer.seed(NEWS)
            assert (await anext(changes)).access_version == 1
            following = asyncio.create_task(take(changes, 1))
            await writer.replace(GAME, access_version=1)
            [stored] = await following
            assert stored.users.version == GAME.version

    run(scenario())


def test_damaged_users_are_an_error() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        users = UsersStore(await world.store(), TREE)
        await users.seed(NEWS)
        world.overwrite(TREE.users, b"\xc1")
        with pytest.raises(DamagedError):
            await users.load()

    run(scenario())


def test_the_access_version_is_part_of_the_plan() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        users, plans = UsersStore(await world.store(), TREE), PlanStore(await world.store(), TREE)
        rival = PlanStore(await world.store(), TREE)
        await plans.commit(PlanChange.on(Plan(), Why(Reason.JOINED), set_members=[Member("h1")]))

        async def compete() -> None:
            for _ in range(5):
                plan = await rival.load()
                try:
                    await rival.commit(PlanChange.on(plan, Why(Reason.OPERATOR)))
                except Exception as problem:
                    assert type(problem).__name__ == "PlanRaceError"

        made, _ = await asyncio.gather(publish_users(users, plans, NEWS, access_version=0), compete())
        plan = await rival.load()
        assert plan.access_version == made.access_version == 1
        assert plan.by_hub.keys() == {"h1"}

    run(scenario())
