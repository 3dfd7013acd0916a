"""A move in which the old or the new home crashes at each of its steps, and restarts.

The steps are frames: the hub crashes before it sends one, just after it has sent it, or just after the receiver has
executed it and before any reply is sent. Messages in the hub that died may be lost, and subscribers get a gap; messages
that arrive do so once and in order, and traffic continues afterwards.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from equipoise.hub.cluster.link.frames import (
    AttachedFrame,
    AttachFrame,
    CloseFrame,
    DoneFrame,
    EndedFrame,
    FlushFrame,
    Frame,
    OpenedFrame,
    PreparedFrame,
    PrepareFrame,
)
from equipoise.lab.scenarios import Expectation
from equipoise.lab.simulation.cluster.stories import TOPIC, Moment, TappedWire
from equipoise.lab.simulation.cluster.world import ClusterWorld

from .worlds import STORY, check_promises, tell

# Seeds in which h3 has to ask for the end of an epoch.
SEEDS = (0, 2)
OLD, NEW = "h1", "h2"
CRASHES = replace(STORY, duration_s=2.0, expectation=Expectation())

WRITTEN_BY = (
    (OLD, PrepareFrame),
    (NEW, PreparedFrame),
    (OLD, AttachFrame),
    (OLD, CloseFrame),
    (NEW, OpenedFrame),
    (NEW, AttachedFrame),
    (OLD, EndedFrame),
    (OLD, DoneFrame),
    (NEW, DoneFrame),
)
RECEIVED_BY = (
    (NEW, PrepareFrame),
    (OLD, PreparedFrame),
    (NEW, AttachFrame),
    (NEW, CloseFrame),
    (OLD, OpenedFrame),
    (OLD, AttachedFrame),
    (OLD, FlushFrame),
    (OLD, DoneFrame),
    (NEW, DoneFrame),
)
STEPS = [
    *(
        (hub, moment, verb)
        for hub, verb in WRITTEN_BY
        for moment in (Moment.BEFORE_WRITE, Moment.AFTER_WRITE)
    ),
    *((hub, Moment.AFTER_RECEIVE, verb) for hub, verb in RECEIVED_BY),
]


async def _restart(world: ClusterWorld, name: str) -> None:
    """Its session expires and it comes back; or it is back before that."""
    node, facts = world.hubs[name], world.directory.alive.get(name)
    if world.random.random() < 0.3:
        await asyncio.sleep(0.05)
        node.start()
        return
    await asyncio.sleep(0.2 + 0.3 * world.random.random())
    if world.directory.alive.get(name) is facts:
        world.directory.expire(name)
    await asyncio.sleep(0.3 * world.random.random())
    node.start()


@pytest.mark.parametrize(
    ("name", "moment", "verb"),
    [
        pytest.param(*step, id=f"{'old' if step[0] == OLD else 'new'} {step[1].value} {step[2].__name__}")
        for step in STEPS
    ],
)
def test_a_home_that_crashes_during_a_move_causes_no_duplicate_and_no_stuck_topic(
    name: str, moment: Moment, verb: type[Frame]
) -> None:
    """
    1. a moves from h1 to h2, with publishers and listeners at three hubs;
    2. one of the two crashes at a step of that, with or without a word to those connected to it;
    3. it comes back, after the others have declared it dead or before.
    """

    async def story(world: ClusterWorld, wire: TappedWire) -> None:
        crashed = asyncio.Event()

        def crash() -> None:
            world.hubs[name].crash(silent=world.random.random() < 0.5)
            crashed.set()

        wire.set_trap(name, moment, verb, crash)
        world.move(TOPIC, NEW)
        await crashed.wait()
        await _restart(world, name)

    for seed in SEEDS:
        outcomes, wire = tell(seed, story, scenario=CRASHES)
        assert wire.sprung == 1, f"seed {seed}: nothing crashed"
        check_promises(outcomes, seed)
