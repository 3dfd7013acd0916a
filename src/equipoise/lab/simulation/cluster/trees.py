"""Content topics of a world: their first trees and their changes, drawn from the seed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import TYPE_CHECKING

from equipoise.model import Entry, Mode

if TYPE_CHECKING:
    from equipoise.lab.simulation.cluster.world import ClusterWorld

__all__ = ["TreeChanges", "planted"]


def planted(topics: Iterable[str], hubs: Iterable[str]) -> dict[bytes, Entry]:
    """Plan entries of content topics on all hubs, with the first hub as the parent of the others."""
    homes = tuple(sorted(hubs))
    return {topic.encode(): Entry(topic.encode(), homes, Mode.CONTENT) for topic in topics}


class TreeChanges:
    """Tree changes in the run of one seed."""

    def __init__(self, world: ClusterWorld, topics: Sequence[str]) -> None:
        self._world = world
        # A durable topic cannot be a content topic.
        self._topics = [topic for topic in topics if topic not in world.scenario.durable]
        self._random = Random(f"trees in {world.sim.seed}")

    def begin(self, at: Callable[[float, Callable[[], None]], None]) -> None:
        """Draw the number and times of tree changes, and schedule them with `at`."""
        scenario, draw = self._world.scenario, self._random.random
        if draw() < scenario.tree_share:
            low, high = scenario.tree_changes
            for _ in range(low + int(draw() * (high - low + 1))):
                at(draw() * scenario.duration_s, self._change)

    def _change(self) -> None:
        """Give a topic a tree over some hubs, each below a hub drawn before it, or change its current tree."""
        world, random, members = self._world, self._random, self._world.members
        if len(members) < 2 or not self._topics:
            return
        topic = random.choice(self._topics)
        entry = world.directory.plan.entries.get(topic.encode())
        homes = random.sample(members, random.randint(2, len(members)))
        if entry is not None and entry.mode is Mode.CONTENT and random.random() < 0.5:
            # The home stays, and the hubs below it change places.
            homes = [entry.homes[0], *(home for home in homes if home != entry.homes[0])]
        if len(homes) > 1:
            parents = (0, *(random.randrange(number) for number in range(1, len(homes))))
            world.replicate(topic, tuple(homes), Mode.CONTENT, parents=parents)
