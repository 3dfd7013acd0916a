"""Replicated topics under every kind of trouble, by seed: every message once, in order, no needless word of a gap."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from random import Random

import pytest

from equipoise.model import Mode
from equipoise.scenarios import Client, Dialect, Publishing, Subscribing
from equipoise.simulation.link import LinkSpec
from equipoise.workload import Driven, History, Place, Stage, cast_client

from .positioned import Positioned
from .worlds import Outcomes, Trouble, World, run

SEEDS = range(20)
HUBS = ("h1", "h2", "h3", "h4")
BOTH = (Mode.ALL_SUBSCRIBERS, Mode.ALL_PUBLISHERS)


def _talk(*topics: str) -> tuple[Publishing, ...]:
    return (Publishing(topics=topics, count=400, burst=(1, 4), interval_s=0.015, receipts=0.1),)


def _hear(*names: str, is_pattern: bool = False) -> tuple[Subscribing, ...]:
    return (Subscribing(names=names, is_pattern=is_pattern),)


# Publishers of the same topics at any hub, and listeners of every kind.
CROWD = (
    Client(name="ann", publishes=_talk("a", "b", "c")),
    Client(name="bob", publishes=_talk("a", "b")),
    Client(name="ida", publishes=_talk("a", "c")),
    Client(name="cat", dialect=Dialect.RESP3, subscribes=_hear("a", "b", "c")),
    Client(name="eve", dialect=Dialect.RESP2, subscribes=_hear("a", "b")),
    Client(name="fay", dialect=Dialect.RESP2, subscribes=_hear("*", is_pattern=True)),
    Client(name="dan", subscribes=_hear("a", "b", "c")),
    Client(name="gus", subscribes=_hear("a", "c")),
    Client(name="hal", subscribes=_hear("[ab]", is_pattern=True)),
)


def _cast(client: Client, place: Place, stage: Stage, history: History) -> Driven:
    if client.dialect is Dialect.SMART and client.subscribes:
        return Positioned(client, place, stage, history)  # type: ignore[return-value]  # driven like the others
    return cast_client(client, place, stage, history)


def _recast(world: World) -> None:
    world.cast = _cast


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


def play(seed: int, trouble: Trouble) -> Outcomes:
    return run(seed, trouble, clients=CROWD, hubs=HUBS, prepare=_recast, topology=Uneven(seed))


LANES = Trouble(replications=(2, 7), modes=(Mode.ALL_SUBSCRIBERS,))
LANES_STILL = Trouble(replications=(1, 1), modes=(Mode.ALL_SUBSCRIBERS,))
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


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Hubs warn about each client they cut: here that is no news."""
    logger = logging.getLogger("equipoise")
    level = logger.level
    logger.setLevel(logging.ERROR)
    yield
    logger.setLevel(level)


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(LANES, id="all-subscribers"),
        pytest.param(LANES_SKEW, id="both-modes-while-plans-differ-and-links-break"),
        pytest.param(LANES_BULK, id="both-modes-while-hubs-join-and-weights-change"),
        pytest.param(LANES_CRASH, id="both-modes-while-hubs-crash"),
        pytest.param(LANES_CLIENTS, id="both-modes-while-clients-reconnect"),
        pytest.param(FOLLOWERS, id="all-publishers"),
        pytest.param(FOLLOWERS_SKEW, id="all-publishers-while-plans-differ-and-links-break"),
        pytest.param(FOLLOWERS_CRASH, id="all-publishers-while-hubs-crash"),
    ],
)
def test_subscribers_of_a_replicated_topic_get_every_message_once_and_in_order(trouble: Trouble) -> None:
    for seed in SEEDS:
        outcomes = play(seed, trouble)
        assert not outcomes.violations, f"seed {seed}: {[str(v) for v in outcomes.violations[:5]]}"
        assert outcomes.history.messages > 50, f"seed {seed}: too little happened"


def test_a_further_home_follows_the_first_whether_or_not_anybody_listens_there() -> None:
    seen: list[tuple[str | None, ...]] = []

    def sources(world: World) -> tuple[str | None, ...]:
        found: list[str | None] = []
        for name in ("h1", "h2", "h3"):
            hub = world.nodes[name].hub
            topic = None if hub is None else hub.core.index.topics.get(b"unheard")
            found.append(None if topic is None or topic.stream is None else topic.stream.source)
        return tuple(found)

    async def story(world: World) -> None:
        await world.until(lambda: world.directory.plan.version > 0, 5.0)
        world.replicate("unheard", ("h1", "h2"), Mode.ALL_PUBLISHERS)
        await world.until(lambda: sources(world)[1] is not None, 5.0)
        seen.append(sources(world))
        world.replicate("unheard", ("h3",), Mode.SINGLE)
        await world.until(lambda: not any(sources(world)), 5.0)
        seen.append(sources(world))

    def prepare(world: World) -> None:
        world.keep(story(world))

    assert not run(1, Trouble(), prepare=prepare).violations
    assert seen == [(None, "h1", None), (None, None, None)]
