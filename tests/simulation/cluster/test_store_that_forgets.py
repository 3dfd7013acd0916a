"""A store that comes back empty, older, or as another region's: hubs put it right, or keep apart and say so."""

from __future__ import annotations

import asyncio

from equipoise.access import parse_users
from equipoise.lab.simulation import Simulation
from equipoise.model import TopicSpec
from equipoise.store import (
    MemoryStore,
    MemoryTree,
    PlanStore,
    SpecsStore,
    StoreSettings,
    UsersStore,
    publish_users,
)
from equipoise.store.contract import Store

from .store_worlds import SESSION_S, TREE, StoreNode, StoreTrouble, StoreWorld
from .test_membership_cases import Script, beside, cluster_of, until

USERS = '[users.default]\nnopass = true\npublish = ["*"]\nsubscribe = ["*"]\n'


def play(script: Script) -> None:
    with Simulation(seed=1, time_s_max=600.0) as sim:
        world = StoreWorld(sim, StoreTrouble(), (), ("h1", "h2", "h3"))

        async def main() -> None:
            await world.directory.begin()
            for node in world.nodes.values():
                node.start()
            await until(world.is_settled)
            await script(world)

        sim.run(main())


async def lose(world: StoreWorld, tree: MemoryTree) -> None:
    """The store's machine is replaced: what was in it is gone, or as old as this copy."""
    world.directory.go_away()
    await asyncio.sleep(0.2)
    world.directory.tree = tree
    world.directory.serve()


async def copy_nodes(source: Store, target: Store, path: str) -> None:
    """All persistent nodes below a path."""
    node = await source.get(path)
    if node.owner:
        return
    await target.create(path, node.data)
    for name in await source.children(path):
        await copy_nodes(source, target, f"{path}/{name}")


def versions(world: StoreWorld) -> list[int]:
    return [cluster_of(node).router.version for node in world.store_nodes.values()]


def epochs(world: StoreWorld) -> list[int]:
    return [node.lives for node in world.store_nodes.values()]


def problems(world: StoreWorld) -> list[str]:
    return [node.hub.core.health.text for node in world.store_nodes.values() if node.hub is not None]


def test_an_emptied_store_gets_plan_users_and_specs_back() -> None:
    async def script(world: StoreWorld) -> None:
        own = await beside(world)
        users = UsersStore(own, TREE)
        await users.seed(parse_users(USERS))
        stored = await users.load()
        await publish_users(
            users, PlanStore(own, TREE), parse_users(USERS), access_version=stored.access_version
        )
        await SpecsStore(own, TREE).put(TopicSpec(pattern=b"game.*", latency_ms=40.0))
        nodes = world.store_nodes.values()
        await until(
            lambda: all(
                node.membership is not None
                and node.membership.known_users.access_version == 2
                and len(list(node.membership.specs)) == 1
                for node in nodes
            )
        )
        version = max(versions(world))
        await lose(world, MemoryTree(world.sim.loop.time))
        await asyncio.sleep(6 * SESSION_S)
        other = await beside(world)
        plan = await PlanStore(other, TREE).load()
        assert plan.version >= version
        assert {member.hub for member in plan.members} == {"h1", "h2", "h3"}
        assert (await UsersStore(other, TREE).load()).access_version == 2
        assert [spec.pattern for spec in await SpecsStore(other, TREE).load()] == [b"game.*"]
        assert problems(world) == ["ok"] * 3
        # Nobody began anew, and a hub that comes now joins them.
        assert epochs(world) == [1, 1, 1]
        world.nodes["h4"] = StoreNode(world, "h4")
        world.nodes["h4"].start()
        await until(
            lambda: (
                world.store_nodes["h4"].membership is not None
                and world.store_nodes["h4"].membership.ready.is_set()
                and len(set(versions(world))) == 1
            )
        )
        assert {member.hub for member in (await PlanStore(other, TREE).load()).members} == {
            "h1",
            "h2",
            "h3",
            "h4",
        }

    play(script)


def test_an_older_store_gets_the_latest_plan_back() -> None:
    async def script(world: StoreWorld) -> None:
        # A copy of the store from before the latest plan.
        old = MemoryTree(world.sim.loop.time)
        source = await beside(world)
        target = await MemoryStore(old, StoreSettings(session_timeout_s=1e6)).open()
        await copy_nodes(source, target, "/equipoise")
        world.directory.commit(world.directory.plan)
        await until(lambda: len(set(versions(world))) == 1 and world.is_settled())
        latest = max(versions(world))
        await lose(world, old)
        await asyncio.sleep(6 * SESSION_S)
        other = await beside(world)
        assert (await PlanStore(other, TREE).load()).version >= latest
        assert problems(world) == ["ok"] * 3

    play(script)


def test_hubs_do_not_mix_with_another_region_that_was_first() -> None:
    async def script(world: StoreWorld) -> None:
        fresh = MemoryTree(world.sim.loop.time)
        plans = versions(world)
        await lose(world, fresh)
        stranger = await beside(world)
        await stranger.ensure(TREE.root)
        await stranger.create(TREE.identity, b"another")
        await asyncio.sleep(6 * SESSION_S)
        assert all("another region" in problem for problem in problems(world))
        # They serve on with the plan they had, and are in no store.
        assert versions(world) == plans
        assert await stranger.find(TREE.hubs) is None

    play(script)
