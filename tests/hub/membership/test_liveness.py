"""What a hub whose node was deleted concludes from the hubs that it finds when it returns."""

from __future__ import annotations

import pytest

from equipoise.hub.membership.liveness import FailureDetector
from equipoise.model import Plan
from equipoise.store.records.hubs import HubSeen, HubsStore
from equipoise.store.records.hubs_snapshot import HubFacts
from store.memory_world import TREE, MemoryWorld, run


async def seen_after(world: MemoryWorld, *lives: tuple[str, int]) -> dict[str, HubSeen]:
    """The hubs in the store once these have registered."""
    for name, incarnation in lives:
        facts = HubFacts(hub=name, address=f"{name}:1", incarnation=incarnation)
        await HubsStore(await world.store(), TREE).announce(facts)
    return await HubsStore(await world.store(), TREE).load()


@pytest.mark.parametrize(
    ("now", "is_witnessed"),
    [
        # The other hub was absent as well, and has the same incarnation: this hub declares no hub dead.
        ([("h2", 1)], False),
        # It has restarted, or another one has begun: it knows nothing of this hub, and serves.
        ([("h2", 2)], True),
        ([("h2", 1), ("h3", 1)], True),
        ([], False),
    ],
)
def test_a_hub_that_has_started_meanwhile_replaces_this_one(
    now: list[tuple[str, int]], is_witnessed: bool
) -> None:
    async def scenario() -> None:
        sight = FailureDetector("h1")
        sight.conclude(await seen_after(MemoryWorld(), ("h1", 1), ("h2", 1)), Plan(1), 0, now=0.0)
        world = MemoryWorld()
        # Creations before it, so that no node has the id that it had before.
        await (await world.store()).create("/other", b"")
        seen = await seen_after(world, *now)
        assert sight.has_witness(seen) is is_witnessed

    run(scenario())


def test_a_hub_that_was_present_all_the_time_has_missed_this_one() -> None:
    async def scenario() -> None:
        sight = FailureDetector("h1")
        seen = await seen_after(MemoryWorld(), ("h1", 1), ("h2", 1))
        sight.conclude(seen, Plan(1), 0, now=0.0)
        del seen["h1"]
        assert sight.has_witness(seen)

    run(scenario())
