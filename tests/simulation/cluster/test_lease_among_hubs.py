"""The lease with a real store: outages cost no lease; a hub that is cut off loses it before its session ends."""

from __future__ import annotations

import asyncio

from equipoise.control.operations import hubs_without_specs, publish_specs
from equipoise.lab.simulation.cluster.region import STORE, TREE, RegionHub
from equipoise.lab.simulation.cluster.world import SESSION_S, ClusterWorld
from equipoise.model import TopicSpec
from equipoise.store import HubsStore, PlanStore, SpecsStore

from .test_membership_cases import beside, cluster_of, play, share, until

TERM_S = SESSION_S / 2


def is_held(node: RegionHub) -> bool:
    hub = node.hub
    return hub is not None and hub.core.lease.is_valid(hub.core.now())


def holders(world: ClusterWorld) -> set[str]:
    return {name for name, node in world.region.hubs.items() if is_held(node)}


async def need_leases(world: ClusterWorld) -> None:
    store = await beside(world)
    specs = SpecsStore(store, TREE)
    await specs.put(TopicSpec(pattern=b"limited", rate_per_s=10.0))
    version = await publish_specs(specs, PlanStore(store, TREE, clock=lambda: 0.0))
    assert await hubs_without_specs(HubsStore(store, TREE), version, timeout_s=10.0) == []
    await asyncio.sleep(TERM_S)


def test_every_hub_holds_its_lease_while_the_store_answers() -> None:
    async def script(world: ClusterWorld) -> None:
        await need_leases(world)
        for _ in range(50):
            assert holders(world) == {"h1", "h2", "h3"}
            await asyncio.sleep(0.1)

    play(script)


def test_without_the_store_connected_hubs_keep_their_lease() -> None:
    async def script(world: ClusterWorld) -> None:
        await need_leases(world)
        world.region.go_away()
        for _ in range(round(5 * SESSION_S / 0.05)):
            assert holders(world) == {"h1", "h2", "h3"}
            await asyncio.sleep(0.05)
        world.region.serve()
        await until(world.region.is_settled)
        await asyncio.sleep(2 * SESSION_S)
        assert holders(world) == {"h1", "h2", "h3"}

    play(script)


def test_a_hub_cut_off_from_all_loses_its_lease_before_its_session_can_expire() -> None:
    async def script(world: ClusterWorld) -> None:
        await need_leases(world)
        cut_at = world.sim.now
        for other in (STORE, "h1", "h3"):
            world.sim.cut("h2", other)
        await until(lambda: not is_held(world.region.hubs["h2"]))
        lost_at = world.sim.now
        assert lost_at - cut_at <= TERM_S + 0.02
        # The others declare it dead only when its session has ended, and hold theirs all the while.
        assert share(world, "h1", "h2") > 0.0
        while share(world, "h1", "h2") > 0.0:
            assert {"h1", "h3"} <= holders(world)
            assert not is_held(world.region.hubs["h2"])
            await asyncio.sleep(0.02)
        assert world.sim.now - lost_at > 0.3 * SESSION_S
        assert not is_held(world.region.hubs["h2"])

    play(script)


def test_a_hub_cut_off_from_the_store_loses_its_lease_once_others_declare_it_dead() -> None:
    async def script(world: ClusterWorld) -> None:
        await need_leases(world)
        node = world.region.hubs["h2"]
        life = cluster_of(node).core.incarnation
        world.sim.cut("h2", STORE)
        # The others say that it is alive to them, until its session ends.
        await asyncio.sleep(0.7 * SESSION_S)
        assert is_held(node)
        await until(lambda: share(world, "h1", "h2") == 0.0)
        declared_dead_at = world.sim.now
        await until(lambda: not is_held(node) or cluster_of(node).core.incarnation != life)
        assert world.sim.now - declared_dead_at <= TERM_S
        assert not is_held(node)

    play(script)
