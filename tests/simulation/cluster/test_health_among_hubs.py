"""INFO and /healthz of a hub that cannot reach another hub or the store, or has no plan."""

from __future__ import annotations

import asyncio

from equipoise.lab.simulation.cluster.region import STORE
from equipoise.lab.simulation.cluster.world import SESSION_S, ClusterWorld

from .test_membership_cases import play, until


def health(world: ClusterWorld, hub: str) -> tuple[str, bool]:
    running = world.hubs[hub].hub
    assert running is not None
    return running.core.health.text, running.core.health.is_serving


def test_two_hubs_that_cannot_reach_each_other_are_named_within_seconds() -> None:
    async def script(world: ClusterWorld) -> None:
        world.sim.cut("h1", "h2")
        await until(
            lambda: "link to h2" in health(world, "h1")[0] and "link to h1" in health(world, "h2")[0], 12.0
        )
        # Both keep serving, and the third hub reports nothing.
        assert health(world, "h1")[1]
        assert health(world, "h3") == ("ok", True)
        world.sim.heal("h1", "h2")
        await until(lambda: health(world, "h1") == health(world, "h2") == ("ok", True))

    play(script)


def test_a_hub_without_its_store_reports_it_and_continues_to_serve() -> None:
    async def script(world: ClusterWorld) -> None:
        for hub in world.hubs:
            world.sim.cut(hub, STORE)
        await until(
            lambda: all("the store cannot be reached" in health(world, hub)[0] for hub in world.hubs), 30.0
        )
        assert all(health(world, hub)[1] for hub in world.hubs)
        for hub in world.hubs:
            world.sim.heal(hub, STORE)
        await until(lambda: all(health(world, hub) == ("ok", True) for hub in world.hubs))

    play(script)


def test_a_hub_that_was_declared_dead_and_has_no_plan_is_not_healthy() -> None:
    """1. h1 is cut off from the store for longer than its session. 2. The others declare it dead. 3. It begins anew and
    has no plan as long as the cut lasts. 4. Afterwards it takes part again."""

    async def script(world: ClusterWorld) -> None:
        world.sim.cut("h1", STORE)
        await asyncio.sleep(3 * SESSION_S)
        await until(lambda: not health(world, "h1")[1], 30.0)
        assert "no plan" in health(world, "h1")[0]
        world.sim.heal("h1", STORE)
        await until(lambda: health(world, "h1") == ("ok", True))

    play(script)
