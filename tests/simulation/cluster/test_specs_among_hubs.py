"""Every hub reads the specs before it applies a plan that needs them; an operator sees which hubs have them."""

from __future__ import annotations

import asyncio

from equipoise.control.operations import change_spec, hubs_without_specs, publish_specs
from equipoise.hub import Hub
from equipoise.lab.simulation.cluster.region import STORE, TREE
from equipoise.lab.simulation.cluster.world import SESSION_S, ClusterWorld
from equipoise.model import PlanChange, TopicSpec
from equipoise.model.change import ASKED_FOR
from equipoise.store import HubsStore, PlanStore, SpecsStore

from .test_membership_cases import beside, cluster_of, play, until


def hub_of(world: ClusterWorld, name: str) -> Hub:
    hub = world.region.hubs[name].hub
    assert hub is not None
    return hub


def limit(hub: Hub, name: bytes) -> float | None:
    """The latency limit of a topic, as the hub knows it."""
    topic = hub.core.make_topic(name)
    assert topic is not None
    spec = hub.core.specs.of(topic)
    return None if spec is None else spec.latency_ms


async def set_limit(world: ClusterWorld, latency_ms: float | None) -> int:
    store = await beside(world)
    specs = SpecsStore(store, TREE)
    await change_spec(specs, b"game.*", {"latency_ms": latency_ms})
    return await publish_specs(specs, PlanStore(store, TREE, clock=lambda: 0.0))


async def behind(world: ClusterWorld, version: int, timeout_s: float = 10.0) -> list[str]:
    return await hubs_without_specs(HubsStore(await beside(world), TREE), version, timeout_s=timeout_s)


def test_every_hub_has_a_spec_when_the_command_reports_it() -> None:
    async def script(world: ClusterWorld) -> None:
        assert limit(hub_of(world, "h1"), b"game.1") is None
        for latency_ms in (40.0, 50.0, None):
            version = await set_limit(world, latency_ms)
            asked_at = world.sim.now
            assert await behind(world, version) == []
            assert world.sim.now - asked_at < 1.0
            for name in world.region.hubs:
                assert limit(hub_of(world, name), b"game.1") == latency_ms
                assert limit(hub_of(world, name), b"other") is None
                assert cluster_of(world.region.hubs[name]).router.routing.plan.specs_version == version

    play(script)


def test_a_hub_that_cannot_reach_the_store_is_named() -> None:
    async def script(world: ClusterWorld) -> None:
        world.sim.cut("h2", STORE)
        version = await set_limit(world, 40.0)
        assert await behind(world, version, timeout_s=0.3 * SESSION_S) == ["h2"]
        world.sim.heal("h2", STORE)
        assert await behind(world, version) == []
        assert limit(hub_of(world, "h2"), b"game.1") == 40.0

    play(script)


def test_a_hub_serves_nothing_before_it_knows_the_specs() -> None:
    async def script(world: ClusterWorld) -> None:
        await set_limit(world, 40.0)
        world.add_hub("h4").start()
        node = world.region.hubs["h4"]
        # Its first plan, however early: the specs are there already.
        await until(lambda: node.hub is not None and node.hub.cluster is not None)
        await until(lambda: cluster_of(node).router.version > 0)
        assert limit(hub_of(world, "h4"), b"game.1") == 40.0
        assert hub_of(world, "h4").core.specs.version == 1

    play(script)


def test_a_plan_waits_for_its_specs() -> None:
    async def script(world: ClusterWorld) -> None:
        # A writer whose specs lag behind the plan: the folder's version is raised only later.
        store = await beside(world)
        plans = PlanStore(store, TREE, clock=lambda: 0.0)
        plan = await plans.load()
        specs = SpecsStore(store, TREE)
        await specs.put(TopicSpec(pattern=b"game.*", latency_ms=40.0))
        version = await specs.version() + 1
        await plans.commit(PlanChange.on(plan, ASKED_FOR, specs_version=version))
        await asyncio.sleep(2.0)
        assert {cluster_of(node).router.version for node in world.region.hubs.values()} == {plan.version}
        await specs.put(TopicSpec(pattern=b"game.*", latency_ms=50.0))
        await until(
            lambda: all(
                cluster_of(node).router.version == plan.version + 1 for node in world.region.hubs.values()
            )
        )
        assert all(limit(hub_of(world, name), b"game.1") == 50.0 for name in world.region.hubs)

    play(script)
