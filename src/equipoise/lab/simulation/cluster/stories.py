"""Stories: fixed clients, a topic with a known home, and faults at an exact frame.

The seed determines only latencies, bursts and the order of events at one instant; in other worlds it determines faults
too. A `TappedWire` sees and counts every frame that hubs write and receive, and calls traps at them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context
from enum import Enum
from typing import NamedTuple

import msgspec

from equipoise.hub.cluster import relays
from equipoise.hub.cluster.frame_dispatch import FrameDispatch
from equipoise.hub.cluster.link.frames import CloseFrame, Frame, IngressFrame, RunFrame
from equipoise.hub.cluster.link.link import OutLink
from equipoise.hub.content.migrations import movable
from equipoise.lab.simulation.ablation import replaced
from equipoise.lab.simulation.cluster.directory import Directory
from equipoise.lab.simulation.cluster.world import ClusterWorld
from equipoise.lab.simulation.durable.world import STORE as LOG_STORE
from equipoise.resp.replies import bulk

__all__ = ["STORIES", "TOPIC", "Moment", "Story", "TappedWire", "Trap", "begin_story", "tapped"]

# The topic of every story; see equipoise.lab.scenarios.cluster_clients.STORY_CROWD.
TOPIC = "a"


class Moment(Enum):
    """The time at which the wire calls a trap."""

    BEFORE_WRITE = "before writing"
    """Before the hub writes the frame. If the hub crashes, neither the frame nor its latest writes leave it."""
    AFTER_WRITE = "after writing"
    """At the same instant, after the hub has written the frame."""
    AFTER_RECEIVE = "after receiving"
    """After the hub has processed the frame, before its replies leave the hub."""


class Trap(NamedTuple):
    hub: str
    moment: Moment
    verb: type[Frame]
    spring: Callable[[], object]


class TappedWire:
    """All frames between the hubs of one world that concern the topic or no topic at all."""

    def __init__(self) -> None:
        self.world: ClusterWorld | None = None
        # By receiving hub and kind of frame.
        self.received: Counter[tuple[str, type[Frame]]] = Counter()
        # The longest path of a received message, in hubs.
        self.hops_max = 0
        self.traps: list[Trap] = []
        self.sprung = 0

    def set_trap(self, hub: str, moment: Moment, verb: type[Frame], spring: Callable[[], object]) -> None:
        """Call `spring` once, the next time that the hub writes or receives such a frame."""
        self.traps.append(Trap(hub, moment, verb, spring))

    def writing(self, link: OutLink, data: bytes) -> None:
        if not self.traps or link.is_over or link.is_fallen:
            return
        for trap in [trap for trap in self.traps if trap.moment is not Moment.AFTER_RECEIVE]:
            if self._cluster_of(trap.hub, link) and _is_of(trap.verb, data):
                self._spring(trap, is_at_once=trap.moment is Moment.BEFORE_WRITE)

    def receiving(self, hub: str, frame: Frame) -> None:
        topic = msgspec.structs.astuple(frame)[0]
        if isinstance(topic, bytes) and topic != TOPIC.encode():
            return
        verb = type(frame)
        self.received[hub, verb] += 1
        if isinstance(frame, IngressFrame):
            self.hops_max = max(self.hops_max, 1 + len(frame.path))
        elif isinstance(frame, RunFrame):
            self.hops_max = max(self.hops_max, 1)
        for trap in [trap for trap in self.traps if trap.moment is Moment.AFTER_RECEIVE]:
            if trap.hub == hub and trap.verb is verb:
                self._spring(trap, is_at_once=True)

    def _spring(self, trap: Trap, *, is_at_once: bool) -> None:
        self.traps.remove(trap)
        self.sprung += 1
        assert self.world is not None, "frames are written in a world"
        if is_at_once:
            # An empty context: tasks that the trap starts belong to no host.
            Context().run(trap.spring)
        else:
            self.world.sim.loop.call_soon(trap.spring, context=Context())

    def _cluster_of(self, hub: str, link: OutLink) -> bool:
        assert self.world is not None, "frames are written in a world"
        cluster = self.world.hubs[hub].cluster
        return cluster is not None and cluster.out.get(link.hub) is link


Story = Callable[[ClusterWorld, TappedWire], Coroutine[object, object, None]]


def _is_of(verb: type[Frame], data: bytes) -> bool:
    """Whether a single frame has the verb and concerns the topic, if the verb has one."""
    word = bulk(verb.verb)
    at = data.find(word, 0, 40)
    is_of_topic = msgspec.structs.fields(verb)[0].type is bytes
    return at >= 0 and (not is_of_topic or data.startswith(bulk(TOPIC.encode()), at + len(word)))


@contextmanager
def tapped() -> Iterator[TappedWire]:
    """Pass all frames of hubs to a `TappedWire`. Hubs relay in Python: the compiled part passes no frames."""
    wire = TappedWire()
    write, execute = OutLink.write, FrameDispatch.execute

    def watched_write(link: OutLink, data: bytes) -> None:
        wire.writing(link, data)
        write(link, data)

    def watched_execute(dispatch: FrameDispatch, peer: str, frame: Frame) -> None:
        execute(dispatch, peer, frame)
        wire.receiving(dispatch._cluster.name, frame)

    with (
        replaced(relays, "compiled", None),
        replaced(OutLink, "write", watched_write),
        replaced(FrameDispatch, "execute", watched_execute),
    ):
        yield wire


def begin_story(world: ClusterWorld, wire: TappedWire, story: Story, *, home: str = "h1") -> None:
    """Call before the world starts. Gives the topic to `home`, waits for the clients, and then runs the story."""

    async def begin() -> None:
        await world.until(lambda: world.directory.plan.version > 0, 5.0)
        world.move(TOPIC, home)
        tracks = world.history.tracks
        await world.until(lambda: bool(tracks) and all(track.is_live for track in tracks), 10.0)
        await asyncio.sleep(0.3 + 0.2 * world.random.random())
        await story(world, wire)

    wire.world = world
    world.keep(begin())


# Stories of scenarios, which exercise safeguards that drawn faults seldom reach.


async def _four_moves(world: ClusterWorld, wire: TappedWire) -> None:
    """Clients publish continuously to the topic's last known home, and the topic moves four times."""
    for hub in ("h2", "h3", "h1", "h2"):
        world.move(TOPIC, hub)
        await asyncio.sleep(0.4)


async def _held_up(world: ClusterWorld, wire: TappedWire) -> None:
    """ann's messages to the home are delayed, and ann continues at another hub; later the delayed messages arrive."""
    world.sim.cut("ann", "h1", one_way=True)
    await asyncio.sleep(3.0)
    world.sim.heal("ann", "h1", one_way=True)


async def _restarted(world: ClusterWorld, wire: TappedWire) -> None:
    """
    1. Topic a moves from h1 to h2. h3 has not received the plan and sends messages to h1, which forwards them to h2.
    2. The link between h1 and h2 is cut.
    3. h3 crashes, restarts under its name before any hub detects it, and sends its publisher's next messages to h2.
    4. The link heals, and the messages that h1 forwarded arrive.
    """
    is_cut = asyncio.Event()

    def cut() -> None:
        world.sim.cut("h1", "h2")
        is_cut.set()

    assert isinstance(world.directory, Directory), "the story sets when h3 receives the plan"
    world.directory.due_at["h3"] = world.sim.now + 0.4
    wire.set_trap("h2", Moment.AFTER_RECEIVE, CloseFrame, cut)
    world.move(TOPIC, "h2")
    await is_cut.wait()
    await asyncio.sleep(0.15)
    world.hubs["h3"].crash(silent=False)
    await asyncio.sleep(0.05)
    world.hubs["h3"].start()
    await asyncio.sleep(1.2)
    world.sim.heal("h1", "h2")


async def _log_fill(world: ClusterWorld, wire: TappedWire) -> None:
    """
    1. fay, a plain pattern subscriber, receives messages of a durable topic at its home h1; h3 does not receive them.
    2. h1 crashes, and no other hub can open the log for a while.
    3. h1 restarts, and fay reconnects to it.
    4. A hub opens the log, and h3 receives the missing entries.
    """
    sim = world.sim
    sim.cut("h1", "h3", one_way=True)
    await asyncio.sleep(0.15)
    for hub in ("h2", "h3"):
        sim.cut(hub, LOG_STORE)
    world.hubs["h1"].crash(silent=False)
    await asyncio.sleep(0.05)
    sim.heal("h1", "h3", one_way=True)
    world.directory.expire("h1")
    world.hubs["h1"].start()
    await asyncio.sleep(0.9)
    for hub in ("h2", "h3"):
        sim.heal(hub, LOG_STORE)


async def _no_room(world: ClusterWorld, wire: TappedWire) -> None:
    """The home and a hub that follows it reach their topic limit by turns, and drop the topic."""
    for _ in range(8):
        cluster = world.hubs[world.draw(["h1", "h3"])].cluster
        assert cluster is not None, "no hub dies in this story"
        index = cluster.core.index
        index.topics_max, before = 0, index.topics_max
        for _ in range(4):
            index.make_room(1)
            await asyncio.sleep(0.03)
        index.topics_max = before
        await asyncio.sleep(0.1 + 0.1 * world.random.random())


async def _edges(world: ClusterWorld, wire: TappedWire) -> None:
    """A topic gets several homes, and hubs redirect subscribers between them, some before their last move ends."""
    draw = world.random.random
    for _ in range(15 + int(draw() * 30)):
        entry = world.directory.plan.entries.get(TOPIC.encode())
        mode = world.scenario.modes[0]
        if entry is None or entry.mode is not mode:
            world.replicate(TOPIC, tuple(sorted(world.members, key=lambda _: draw())), mode)
        else:
            _send(world, world.draw(sorted(world.hubs)), world.draw(list(entry.homes)))
        await asyncio.sleep(draw() * 0.2)


def _send(world: ClusterWorld, hub: str, target: str) -> None:
    cluster = world.hubs[hub].cluster
    topic = None if cluster is None else cluster.core.index.topics.get(TOPIC.encode())
    if cluster is None or topic is None or topic.content is None:
        return
    moving = [each for node in topic.content.index for each in movable(node) if world.random.random() < 0.7]
    world.count("edge move")
    until_s = cluster.core.now() + 1.0
    cluster.edge.migrations.send(moving, target, session="told", total=len(moving) or 1, until_s=until_s)


STORIES: dict[str, Story] = {
    "four-moves": _four_moves,
    "held-up": _held_up,
    "restarted": _restarted,
    "edges": _edges,
    "log-fill": _log_fill,
    "no-room": _no_room,
}
