"""The story of overloaded edges that balance subscribers while the real planner changes edges.

The planner must not change a topic while its edges are in a session, and planner and edges must not undo each other's
changes. Once the homes stay the same, edges must stop moving subscribers: loads here differ by about as much as
starts a session.
"""

from __future__ import annotations

import asyncio

from equipoise.content.balancing.edge_events import EdgePhase
from equipoise.lab.simulation.cluster.stories import TOPIC, Story, TappedWire
from equipoise.lab.simulation.cluster.world import ClusterWorld
from equipoise.model import Mode

__all__ = ["PLANNED_STORIES"]

_IN_SESSION = (EdgePhase.SAMPLING, EdgePhase.MIGRATING, EdgePhase.ACCEPTING, EdgePhase.STABILIZING)
# A view covers the last second, and the planner decides and commits a plan within another.
VIEW_S = 3.0
LOOK_S = 0.1
# The planner may add an edge or two, and remove one again.
CHANGES_MAX = 3
# If homes have not changed for `SETTLED_S`, edges move at most `MOVED_AT_REST_MAX` subscribers in the last `REST_S`.
REST_S = 12.0
SETTLED_S = 25.0
MOVED_AT_REST_MAX = 10


class _Watch:
    """Records changes of the topic's homes, and when its edges are in sessions."""

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world
        self._since: dict[str, float] = {}
        self.homes: list[tuple[str, ...]] = []
        self.changed_s = 0.0
        self.sessions = 0

    def look(self) -> None:
        world, now = self._world, self._world.sim.now
        entry = world.directory.plan.entries.get(TOPIC.encode())
        homes = () if entry is None else entry.homes
        if self.homes and homes != self.homes[-1]:
            busy = {hub: now - at for hub, at in self._since.items() if now - at > VIEW_S}
            before = self.homes[-1]
            world.count(f"{len(before)} to {len(homes)} homes")
            for hub in sorted(busy.keys() & set(before)):
                world.history.unbalanced.append(
                    f"the planner changed {before} to {homes} while {hub} was in a session for {busy[hub]:.1f} s"
                )
        if not self.homes or homes != self.homes[-1]:
            self.homes.append(homes)
            self.changed_s = now
        for name, node in world.hubs.items():
            balancer = None if node.cluster is None else node.cluster.edge.balancer
            if balancer is None or balancer.phase not in _IN_SESSION:
                self._since.pop(name, None)
            elif name not in self._since:
                self._since[name] = now
                self.sessions += 1


async def _planned(world: ClusterWorld, wire: TappedWire) -> None:
    """Two edges, all subscribers at one of them, and a further hub that the planner may make an edge."""
    for _ in range(5):
        # A commit that conflicts with the controller's commit has no effect.
        if not _has_edges(world):
            world.replicate(TOPIC, ("h0", "h1", "h2"), Mode.CONTENT)
            await world.until(lambda: _has_edges(world), 1.0)
    watch = _Watch(world)
    looks, moved = int((world.scenario.duration_s - 2.0) / LOOK_S), 0
    for look in range(looks):
        await asyncio.sleep(LOOK_S)
        watch.look()
        if look == looks - int(REST_S / LOOK_S):
            moved = _moved(world)
    moved = _moved(world) - moved
    if world.sim.now - watch.changed_s > SETTLED_S and moved > MOVED_AT_REST_MAX:
        world.history.unbalanced.append(
            f"edges moved {moved} subscribers in the last {REST_S:.0f} s, although homes did not change"
        )
    changes = watch.homes[1:]
    if len(changes) > CHANGES_MAX:
        world.history.unbalanced.append(f"the planner changed the homes {len(changes)} times: {watch.homes}")
    if not watch.sessions:
        world.history.unbalanced.append("no edge was in a session")


def _moved(world: ClusterWorld) -> int:
    """Number of subscribers that edges have moved so far."""
    return sum(node.cluster.edge.moved for node in world.hubs.values() if node.cluster is not None)


def _has_edges(world: ClusterWorld) -> bool:
    entry = world.directory.plan.entries.get(TOPIC.encode())
    return entry is not None and entry.mode is Mode.CONTENT


PLANNED_STORIES: dict[str, Story] = {"planned": _planned}
