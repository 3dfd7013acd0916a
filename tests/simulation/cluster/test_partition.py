"""Hubs that cannot reach each other while all reach the store: one side leaves, and the others continue."""

from __future__ import annotations

import asyncio

from equipoise.hub.membership.partition import Partition
from equipoise.lab.simulation.ablation import replaced
from equipoise.lab.simulation.cluster.world import ClusterWorld

from .test_health_among_hubs import health
from .test_membership_cases import cluster_of, play, until

# Longer than `unreachable_s`.
BOUND_S = 25.0


def cut(world: ClusterWorld, *pairs: tuple[str, str]) -> None:
    """Cut these, and change the plan, so that all hubs have to say that they go by it."""
    for pair in pairs:
        world.sim.cut(*pair)
    world.weigh({"h3": 20})


def can_open(world: ClusterWorld, hub: str) -> bool:
    return cluster_of(world.region.hubs[hub]).is_barrier_passed


def peers(world: ClusterWorld, hub: str) -> set[str]:
    return set(cluster_of(world.region.hubs[hub]).router.peers)


def test_one_of_two_hubs_that_cannot_reach_each_other_leaves_until_it_can() -> None:
    async def script(world: ClusterWorld) -> None:
        cut(world, ("h1", "h2"))
        await asyncio.sleep(5.0)
        # The hub that the cut does not concern goes on all the time.
        assert can_open(world, "h3")
        assert not can_open(world, "h1")
        await until(lambda: can_open(world, "h1") and peers(world, "h1") == {"h3"}, BOUND_S)
        assert can_open(world, "h3")
        text, is_serving = health(world, "h2")
        assert not is_serving
        assert "cannot reach h1" in text
        await asyncio.sleep(60.0)
        assert can_open(world, "h1"), "h2 stays away as long as the cut lasts"
        world.sim.heal("h1", "h2")
        await until(lambda: world.region.is_settled() and peers(world, "h1") == {"h2", "h3"})
        await until(lambda: all(health(world, hub) == ("ok", True) for hub in world.hubs))

    play(script)


def test_a_hub_that_no_other_reaches_leaves_whatever_its_name() -> None:
    async def script(world: ClusterWorld) -> None:
        cut(world, ("h1", "h2"), ("h1", "h3"))
        await until(lambda: peers(world, "h2") == {"h3"} and peers(world, "h3") == {"h2"}, BOUND_S)
        await until(lambda: can_open(world, "h2") and can_open(world, "h3"))
        assert not health(world, "h1")[1]

    play(script)


def test_without_leaving_both_wait_for_the_cut_to_end() -> None:
    async def stay(partition: Partition) -> bool:
        return False

    async def script(world: ClusterWorld) -> None:
        cut(world, ("h1", "h2"))
        await asyncio.sleep(4 * BOUND_S)
        assert not can_open(world, "h1")
        assert not can_open(world, "h2")

    with replaced(Partition, "_is_outvoted", stay):
        play(script)
