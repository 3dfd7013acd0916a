"""A swarm goes from one site to another: from hubs' records through the view to the plan, with every delay on the way.

Records, the sums of the pipeline and the controller are real; hubs, clients and the time that Spark takes are made up.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from control.control_world import TREE, World, play
from equipoise.control.controller import Controller
from equipoise.coordinates import Coordinate
from equipoise.model import TopicSpec
from equipoise.pipeline.samples import sampled
from equipoise.pipeline.settings import Plausible
from equipoise.pipeline.sliding_window import SlidingWindow
from equipoise.pipeline.validation import judged
from equipoise.store import SpecsStore
from pipeline.places import SETTINGS, side_told
from pipeline.records import batch_of, hub_record, topic_record, view_of
from support.polling import until

TOPIC = b"swarm/1"
# Round trips from the middle: the sites are 80 ms apart.
SITES = {"east": 0.08, "west": 0.0}
LIMIT_MS = 50.0
# What the parts of the way may take, as docs/concepts/latency.md has it.
REPORT_S, RECORD_S, PIPELINE_S, EVIDENCE_S, DECISION_S = 5.0, 1.0, 2.0, 1.0, 0.5


def place(at_s: float, height_s: float = 0.002) -> Coordinate:
    return Coordinate.of([at_s, *[0.0] * (SETTINGS.dimensions - 1), 0.1, height_s, 0.0], SETTINGS)


class SwarmWorld(World):
    """Two hubs, a topic, and its clients at one of the sites."""

    def watch(self, controller: Controller, rng: random.Random) -> None:
        self.control = controller
        # The hubs' coordinates of the clients.
        self.told = "west"
        self._window = SlidingWindow()
        self._sequence = Counter[str]()
        self._phase_s = rng.random()
        self._task = self.sim.loop.create_task(self._records())

    @property
    def home(self) -> str:
        entry = self.control.knowledge.plan.entries.get(TOPIC)
        return entry.homes[0] if entry is not None else "west"

    async def _records(self) -> None:
        await asyncio.sleep(self._phase_s)
        while True:
            await asyncio.sleep(RECORD_S)
            now_s = self.sim.loop.time()
            found = []
            for name, at_s in SITES.items():
                here, clients = place(at_s), place(SITES[self.told])
                leg_us = round(clients.distance_s(here) / 2 * 1e6)
                sides = side_told("publishers", [clients], leg_us) | side_told(
                    "subscribers", [clients], leg_us
                )
                own = [topic_record(TOPIC, int(now_s * 1e6), **sides)] if name == self.home else []
                own.append(
                    hub_record(
                        int(now_s * 1e6),
                        coordinate=here.to_bytes(),
                        plan_version=self.control.knowledge.plan.version,
                    )
                )
                for record in own:
                    self._sequence[name] += 1
                    known = {"hub": name, "incarnation": 1, "sequence": self._sequence[name]}
                    found.append(record | known)
            batch = judged(batch_of(found), now_us=int(now_s * 1e6), plausible=Plausible())
            self._window.add(sampled([batch], Counter()))
            made = self._window.view()
            assert made is not None
            self.sim.loop.call_later(PIPELINE_S, self.views.take, view_of(made))


async def begin(world: World, rng: random.Random) -> SwarmWorld:
    assert isinstance(world, SwarmWorld)
    await SpecsStore(await world.store("operator"), TREE).put(
        TopicSpec(pattern=b"swarm/*", latency_ms=LIMIT_MS)
    )
    controller = await world.controller()
    for name in SITES:
        await world.hub(name, site=name)
    world.watch(controller, rng)
    await until(lambda: controller.status.rounds > 3)
    await asyncio.sleep(30 + 10 * rng.random())
    return world


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("report_s", [0.0, REPORT_S])
def test_the_plan_follows_a_swarm_within_the_stated_time(seed: int, report_s: float) -> None:
    async def scenario(started: World) -> None:
        world = await begin(started, random.Random(seed))
        assert world.home == "west"
        left_s = world.sim.loop.time()
        await asyncio.sleep(report_s)
        world.told = "east"
        await until(lambda: world.home == "east", 20.0)
        took_s = world.sim.loop.time() - left_s
        assert took_s <= report_s + RECORD_S + PIPELINE_S + EVIDENCE_S + DECISION_S

    play(scenario, seed, world=SwarmWorld)


def test_a_swarm_that_returns_is_followed_again_and_one_that_stays_causes_no_move() -> None:
    async def scenario(started: World) -> None:
        world = await begin(started, random.Random(1))
        world.told = "east"
        await until(lambda: world.home == "east", 20.0)
        version = world.control.knowledge.plan.version
        await asyncio.sleep(120.0)
        assert world.control.knowledge.plan.version == version
        world.told = "west"
        await until(lambda: world.home == "west", 20.0)

    play(scenario, world=SwarmWorld)


def test_a_swarm_that_no_hub_can_serve_in_time_does_not_keep_the_controller_busy() -> None:
    async def scenario(started: World) -> None:
        world = await begin(started, random.Random(1))
        specs = SpecsStore(world.stores["operator"], TREE)
        await specs.put(TopicSpec(pattern=b"swarm/*", latency_ms=0.5))
        await asyncio.sleep(20.0)
        spec = world.control.knowledge.specs.of(TOPIC)
        assert spec is not None and spec.latency_ms == 0.5
        before = world.control.status.rounds
        await asyncio.sleep(100.0)
        # One in each period.
        assert world.control.status.rounds - before <= 21

    play(scenario, world=SwarmWorld)
