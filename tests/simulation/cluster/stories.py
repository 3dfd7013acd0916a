"""Told runs: clients with fixed places, a topic with a known home, and things that happen at exactly one frame.

The trouble of `worlds` is drawn from the seed; here only latencies, bursts and the order of what happens at one instant
are. A `Wire` sees every frame that hubs write and hear, counts them and springs traps at them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context
from enum import Enum
from random import Random
from typing import NamedTuple

import msgspec
import pytest

from equipoise.hub.cluster.frame_dispatch import FrameDispatch
from equipoise.hub.cluster.link.frames import Frame, IngressFrame
from equipoise.hub.cluster.link.link import OutLink
from equipoise.lab.scenarios import Client, Dialect, Publishing, Subscribing
from equipoise.lab.simulation.link import LinkSpec
from equipoise.resp.spelling import bulk

from .worlds import Outcomes, Trouble, World, run

TOPIC = "a"
HUBS = ("h1", "h2", "h3")


def speaker(name: str, hub: str, *, interval_s: float = 0.03) -> Client:
    """Publishes all the time, mostly without waiting for receipts."""
    publishing = Publishing(topics=(TOPIC,), count=None, burst=(1, 5), interval_s=interval_s, receipts=0.1)
    return Client(name=name, place=hub, publishes=(publishing,))


def listener(name: str, hub: str, dialect: Dialect = Dialect.SMART, *, pattern: str | None = None) -> Client:
    subscribing = Subscribing(names=(pattern or TOPIC,), is_pattern=pattern is not None)
    return Client(name=name, place=hub, dialect=dialect, subscribes=(subscribing,))


# Somebody of each kind at each hub.
CROWD = (
    speaker("ann", "h1"),
    speaker("bob", "h2"),
    speaker("ida", "h3"),
    listener("cat", "h1", Dialect.RESP3),
    listener("dan", "h1"),
    listener("eve", "h2", Dialect.RESP2),
    listener("gus", "h2"),
    listener("hal", "h3", pattern="[a]"),
    listener("fay", "h3", Dialect.RESP2, pattern="*"),
)


class Uneven:
    """Each way between hubs has a latency of its own; the one from h1 to h3 is the longest, so h3 hears of what h2 has
    done before it has heard what h1 had."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._known: dict[tuple[str, str], LinkSpec] = {}

    def link(self, source: str, target: str) -> LinkSpec:
        spec = self._known.get((source, target))
        if spec is None:
            drawn = Random(f"{self._seed} {source} {target}").random()
            latency_s = 0.001 + 0.01 * drawn
            if (source, target) == ("h1", "h3"):
                latency_s += 0.04
            spec = self._known[source, target] = LinkSpec(latency_s=latency_s)
        return spec


class Moment(Enum):
    """When a trap springs."""

    BEFORE_SAYING = "before saying"
    """The frame never leaves the hub that is about to write it, nor does what it wrote just before."""
    AFTER_SAYING = "after saying"
    """At the same instant, once the frame is on its way."""
    AFTER_HEARING = "after hearing"
    """The frame was dealt with, and nothing that was said to it has left the hub."""


class Trap(NamedTuple):
    hub: str
    moment: Moment
    verb: type[Frame]
    spring: Callable[[], object]


class Wire:
    """All frames between the hubs of one world about the topic, and those about no topic."""

    def __init__(self) -> None:
        self.world: World | None = None
        # By who heard it and what.
        self.heard: Counter[tuple[str, type[Frame]]] = Counter()
        # The longest way by which a message came in, in hubs.
        self.hops_max = 0
        self.traps: list[Trap] = []
        self.sprung = 0

    def set_trap(self, hub: str, moment: Moment, verb: type[Frame], spring: Callable[[], object]) -> None:
        """Call `spring` once, the next time that this happens."""
        self.traps.append(Trap(hub, moment, verb, spring))

    def writing(self, link: OutLink, data: bytes) -> None:
        if not self.traps or link.is_over or link.is_fallen:
            return
        for trap in [trap for trap in self.traps if trap.moment is not Moment.AFTER_HEARING]:
            if self._cluster_of(trap.hub, link) and _is_of(trap.verb, data):
                self._spring(trap, is_at_once=trap.moment is Moment.BEFORE_SAYING)

    def hears(self, hub: str, frame: Frame) -> None:
        about = msgspec.structs.astuple(frame)[0]
        if isinstance(about, bytes) and about != TOPIC.encode():
            return
        verb = type(frame)
        self.heard[hub, verb] += 1
        if isinstance(frame, IngressFrame):
            self.hops_max = max(self.hops_max, 1 + len(frame.path))
        for trap in [trap for trap in self.traps if trap.moment is Moment.AFTER_HEARING]:
            if trap.hub == hub and trap.verb is verb:
                self._spring(trap, is_at_once=True)

    def _spring(self, trap: Trap, *, is_at_once: bool) -> None:
        self.traps.remove(trap)
        self.sprung += 1
        assert self.world is not None, "frames are written in a world"
        if is_at_once:
            # Whatever it starts belongs to no host.
            Context().run(trap.spring)
        else:
            self.world.sim.loop.call_soon(trap.spring, context=Context())

    def _cluster_of(self, hub: str, link: OutLink) -> bool:
        assert self.world is not None, "frames are written in a world"
        node = self.world.nodes[hub].hub
        cluster = None if node is None else node.cluster
        return cluster is not None and cluster.out.get(link.hub) is link


Story = Callable[[World, Wire], Coroutine[object, object, None]]


def _is_of(verb: type[Frame], data: bytes) -> bool:
    """Whether a frame, which is written alone, has the verb, and is about the topic if about any."""
    word = bulk(verb.verb)
    at = data.find(word, 0, 40)
    is_of_topic = msgspec.structs.fields(verb)[0].type is bytes
    return at >= 0 and (not is_of_topic or data.startswith(bulk(TOPIC.encode()), at + len(word)))


@contextmanager
def tapped() -> Iterator[Wire]:
    """Have all hubs' frames seen by a wire."""
    wire = Wire()
    write, execute = OutLink.write, FrameDispatch.execute

    def watched_write(link: OutLink, data: bytes) -> None:
        wire.writing(link, data)
        write(link, data)

    def watched_execute(dispatch: FrameDispatch, peer: str, frame: Frame) -> None:
        execute(dispatch, peer, frame)
        wire.hears(dispatch._cluster.name, frame)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OutLink, "write", watched_write)
        patch.setattr(FrameDispatch, "execute", watched_execute)
        yield wire


def tell(
    seed: int,
    story: Story,
    *,
    clients: tuple[Client, ...] = CROWD,
    trouble: Trouble | None = None,
    home: str = "h1",
) -> tuple[Outcomes, Wire]:
    """Play one seed: the topic lives at `home`, clients talk, and a moment later the story begins."""
    with tapped() as wire:

        async def begin(world: World) -> None:
            await world.until(lambda: world.directory.plan.version > 0, 5.0)
            world.move(TOPIC, home)
            tracks = world.history.tracks
            await world.until(lambda: bool(tracks) and all(track.is_live for track in tracks), 10.0)
            await asyncio.sleep(0.3 + 0.2 * world.random.random())
            await story(world, wire)

        def prepare(world: World) -> None:
            wire.world = world
            world.keep(begin(world))

        settled = trouble or Trouble(duration_s=1.5)
        outcomes = run(seed, settled, clients=clients, hubs=HUBS, prepare=prepare, topology=Uneven(seed))
    return outcomes, wire
