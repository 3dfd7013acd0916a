"""Topics that are replicated under load, with plain and positioned subscribers, at hubs that lie unevenly far apart."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from random import Random

from equipoise.lab.scenarios import Client, Dialect, Publishing, Subscribing
from equipoise.lab.simulation.link import LinkSpec
from equipoise.lab.workload import Driven, History, Place, Stage, cast_client
from equipoise.model import Mode

from .gathering import Gathering
from .positioned import Positioned
from .wandering import Wandering
from .worlds import Outcomes, Trouble, World, run

HUBS = ("h1", "h2", "h3", "h4")
BOTH = (Mode.ALL_SUBSCRIBERS, Mode.ALL_PUBLISHERS)


def talk(*topics: str) -> tuple[Publishing, ...]:
    return (Publishing(topics=topics, count=400, burst=(1, 4), interval_s=0.015, receipts=0.1),)


def hear(*names: str, is_pattern: bool = False) -> tuple[Subscribing, ...]:
    return (Subscribing(names=names, is_pattern=is_pattern),)


# Publishers of the same topics at any hub, and listeners of every kind.
CROWD = (
    Client(name="ann", publishes=talk("a", "b", "c")),
    Client(name="bob", publishes=talk("a", "b")),
    Client(name="ida", publishes=talk("a", "c")),
    Client(name="cat", dialect=Dialect.RESP3, subscribes=hear("a", "b", "c")),
    Client(name="eve", dialect=Dialect.RESP2, subscribes=hear("a", "b")),
    Client(name="fay", dialect=Dialect.RESP2, subscribes=hear("*", is_pattern=True)),
    Client(name="dan", subscribes=hear("a", "b", "c")),
    Client(name="gus", subscribes=hear("a", "c")),
    Client(name="hal", subscribes=hear("[ab]", is_pattern=True)),
    Client(name="joe", subscribes=hear("a", "b")),
    Client(name="kim", subscribes=hear("a", "c")),
)
# Who takes lanes from the hubs that number them.
GATHERING = ("joe", "kim")
# Who publishes at all hubs by turns.
WANDERING = ("leo", "mia")
WANDERERS = tuple(Client(name=name, publishes=talk("a", "b")) for name in WANDERING)


# Without those who would hold the hub to the wire.
PLAIN = tuple(client for client in CROWD if client.publishes or client.dialect is not Dialect.SMART)


def cast(client: Client, place: Place, stage: Stage, history: History) -> Driven:
    if client.name in WANDERING:
        return Wandering(client, place, stage, history, HUBS)  # type: ignore[return-value]  # driven like the others
    if client.name in GATHERING:
        return Gathering(client, place, stage, history)  # type: ignore[return-value]  # driven like the others
    if client.dialect is Dialect.SMART and client.subscribes:
        return Positioned(client, place, stage, history)  # type: ignore[return-value]  # driven like the others
    return cast_client(client, place, stage, history)


class Uneven:
    """Every way between two hubs has a latency of its own, up to 100 times that of another."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._known: dict[tuple[str, str], LinkSpec] = {}

    def link(self, source: str, target: str) -> LinkSpec:
        spec = self._known.get((source, target))
        if spec is None:
            is_between = source in HUBS and target in HUBS
            drawn = Random(f"{self._seed} {source} {target}").random() if is_between else 0.0
            spec = self._known[source, target] = LinkSpec(latency_s=0.001 * 100**drawn)
        return spec


class Scattered(Uneven):
    """Clients, too, lie unevenly far from the hubs: what two hubs tell them comes in any order."""

    def link(self, source: str, target: str) -> LinkSpec:
        spec = self._known.get((source, target))
        if spec is None:
            drawn = Random(f"{self._seed} {source} {target}").random()
            spec = self._known[source, target] = LinkSpec(latency_s=0.001 * 100**drawn)
        return spec


def play(
    seed: int,
    trouble: Trouble,
    *,
    clients: tuple[Client, ...] = CROWD,
    story: Callable[[World], Coroutine[object, object, None]] | None = None,
) -> Outcomes:
    """Play one seed, with a story beside the trouble."""

    def prepare(world: World) -> None:
        world.cast = cast
        if story is not None:
            world.keep(story(world))

    return run(seed, trouble, clients=clients, hubs=HUBS, prepare=prepare, topology=Uneven(seed))


LANES = Trouble(replications=(2, 7), modes=(Mode.ALL_SUBSCRIBERS,))
LANES_SKEW = Trouble(
    replications=(2, 8),
    modes=BOTH,
    moves=(0, 3),
    link_resets=(0, 5),
    link_cuts=(0, 3),
    pauses=(0, 2),
    lag_s=0.3,
)
LANES_BULK = Trouble(
    replications=(2, 8),
    modes=BOTH,
    moves=(0, 2),
    reweighs=(0, 2),
    joins=(0, 2),
    link_resets=(0, 3),
    lag_s=0.3,
)
LANES_CRASH = Trouble(replications=(2, 6), modes=BOTH, crashes=(1, 2), is_gap_allowed=True)
LANES_CLIENTS = Trouble(
    replications=(2, 8), modes=BOTH, client_resets=(1, 8), link_resets=(0, 3), lag_s=0.3, is_gap_allowed=True
)
LANES_ALL = Trouble(
    replications=(2, 6),
    modes=BOTH,
    moves=(0, 2),
    joins=(0, 1),
    crashes=(0, 2),
    long_pauses=(0, 1),
    pauses=(0, 1),
    link_resets=(0, 3),
    link_cuts=(0, 2),
    client_resets=(0, 3),
    lag_s=0.2,
    is_gap_allowed=True,
)
LANES_CUTS = replace(LANES_SKEW, client_cuts=(1, 4), duration_s=6.0, is_gap_allowed=True)
FOLLOWERS = Trouble(replications=(2, 7), modes=(Mode.ALL_PUBLISHERS,))
FOLLOWERS_SKEW = Trouble(
    replications=(2, 8),
    moves=(0, 3),
    link_resets=(0, 5),
    link_cuts=(0, 3),
    pauses=(0, 2),
    lag_s=0.3,
)
FOLLOWERS_CRASH = Trouble(replications=(2, 5), crashes=(1, 2), is_gap_allowed=True)
