"""A store that comes back empty, older, or with another region: hubs restore it, or stay apart and report it."""

from __future__ import annotations

import asyncio

from equipoise.access import parse_users
from equipoise.control.operations import publish_specs
from equipoise.lab.simulation.cluster.region import TREE
from equipoise.lab.simulation.cluster.world import SESSION_S, ClusterWorld
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

from .test_membership_cases import beside, cluster_of, play, until

USERS = '[users.default]\nnopass = true\npublish = ["*"]\nsubscribe = ["*"]\n'


async def lose(world: ClusterWorld, tree: MemoryTree) -> None:
    """The store's machine is replaced: its content is lost, or as old as this copy."""
    world.region.go_away()
    await asyncio.sleep(0.2)
    world.region.tree = tree
    world.region.serve()


async def copy_nodes(source: Store, target: Store, path: str) -> None:
    """All persistent nodes below a path."""
    node = await source.get(path)
    if node.owner:
        return
    await target.create(path, node.data)
    for name in await source.children(path):
        await copy_nodes(source, target, f"{path}/{name}")


def versions(world: ClusterWorld) -> list[int]:
    return [cluster_of(node).router.version for node in world.region.hubs.values()]


def epochs(world: ClusterWorld) -> list[int]:
    return [node.incarnations for node in world.region.hubs.values()]


def problems(world: ClusterWorld) -> list[str]:
    return [node.hub.core.health.text for node in world.region.hubs.values() if node.hub is not None]


def test_an_emptied_store_gets_plan_users_and_specs_back() -> None:
    async def script(world: ClusterWorld) -> None:
        own = await beside(world)
        users = UsersStore(own, TREE)
        await users.seed(parse_users(USERS))
        stored = await users.load()
        await publish_users(
            users, PlanStore(own, TREE), parse_users(USERS), access_version=stored.access_version
        )
        await SpecsStore(own, TREE).put(TopicSpec(pattern=b"game.*", latency_ms=40.0))
        assert await publish_specs(SpecsStore(own, TREE), PlanStore(own, TREE)) == 1
        nodes = world.region.hubs.values()
        await until(
            lambda: all(
                node.membership is not None
                and node.membership.known_users.access_version == 2
                and len(node.membership.known_specs.specs) == 1
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
        specs = await SpecsStore(other, TREE).load_with_version()
        assert [spec.pattern for spec in specs.specs] == [b"game.*"]
        # As the plan counts them, or hubs would wait for specs that never come.
        assert specs.version == plan.specs_version == 1
        assert problems(world) == ["ok"] * 3
        # No hub restarted, and a new hub joins them.
        assert epochs(world) == [1, 1, 1]
        world.add_hub("h4").start()
        await until(
            lambda: (
                world.region.hubs["h4"].membership is not None
                and world.region.hubs["h4"].membership.ready.is_set()
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
    async def script(world: ClusterWorld) -> None:
        # A copy of the store from before the latest plan.
        old = MemoryTree(world.sim.loop.time)
        source = await beside(world)
        target = await MemoryStore(old, StoreSettings(session_timeout_s=1e6)).open()
        await copy_nodes(source, target, "/equipoise")
        world.directory.commit(world.directory.plan)
        await until(lambda: len(set(versions(world))) == 1 and world.region.is_settled())
        latest = max(versions(world))
        await lose(world, old)
        await asyncio.sleep(6 * SESSION_S)
        other = await beside(world)
        assert (await PlanStore(other, TREE).load()).version >= latest
        assert problems(world) == ["ok"] * 3

    play(script)


def test_hubs_do_not_mix_with_another_region_that_was_first() -> None:
    async def script(world: ClusterWorld) -> None:
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
