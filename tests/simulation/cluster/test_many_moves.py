"""Many topics that leave a hub together: a limited number at a time, without losses or long waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace

import pytest

from equipoise.hub.cluster import barrier, handover_engine, stream_gc
from equipoise.hub.cluster.cluster import Cluster
from equipoise.lab.scenarios import Client, Dialect, PublishedStream, Subscribing
from equipoise.lab.simulation.cluster.world import ClusterWorld

from .worlds import CALM, Outcomes, case, check_promises, run

NAMES = tuple(f"t{number}" for number in range(24))
POOL = replace(CALM, cluster_settings={"moves_max": 3, "handover_retry_s": 0.4}, lag_s=0.02)


def _talk() -> tuple[PublishedStream, ...]:
    return (PublishedStream(topics=NAMES, count=None, burst=(5, 15), interval_s=0.03, receipts=0.1),)


CROWD = (
    Client(name="ann", place="h1", publishes=_talk()),
    Client(name="bob", place="h2", publishes=_talk()),
    Client(name="cat", place="h1", dialect=Dialect.RESP3, subscribes=(Subscribing(names=NAMES),)),
    Client(name="dan", place="h2", subscribes=(Subscribing(names=NAMES),)),
    Client(
        name="fay",
        place="h3",
        dialect=Dialect.RESP2,
        subscribes=(Subscribing(names=("*",), is_pattern=True),),
    ),
)
Story = Callable[[ClusterWorld], Coroutine[object, object, None]]


def _play(seed: int, story: Story, clients: tuple[Client, ...] = CROWD) -> Outcomes:
    async def later(world: ClusterWorld) -> None:
        await asyncio.sleep(1.0)
        await story(world)

    outcomes = run(seed, POOL, clients=clients, prepare=lambda world: world.keep(later(world)))
    check_promises(outcomes, seed)
    return outcomes


def _cluster(world: ClusterWorld, name: str) -> Cluster:
    cluster = world.hubs[name].cluster
    assert cluster is not None
    return cluster


def _drain(world: ClusterWorld, name: str) -> None:
    """Give the hub's topics to the others."""
    world.weigh({hub: 0 if hub == name else 16 for hub in world.hubs})


def _give_all_to(world: ClusterWorld, name: str) -> None:
    world.weigh({hub: 16 if hub == name else 0 for hub in world.hubs})


def test_a_hub_closes_a_limited_number_of_topics_at_once_and_all_move() -> None:
    """
    1. the home of a third of the topics is h1, with traffic;
    2. the plan gives h1 nothing more: all of them are offered to others at once;
    3. h1 closes three of them, and one more whenever one has been opened;
    4. the others stay at h1, and messages that reach their new homes are sent back there.
    """
    closed: list[int] = []
    for seed in range(4):
        moved: list[int] = []

        async def story(world: ClusterWorld, moved: list[int] = moved) -> None:
            cluster = _cluster(world, "h1")
            lived = [topic for topic in cluster.core.index.topics.values() if topic.stream is None]
            _drain(world, "h1")
            for _ in range(1_000):
                closed.append(len(cluster.moves._closed))
                if cluster.moves.begun and not cluster.moves.under_way:
                    break
                await asyncio.sleep(0.001)
            moves = cluster.moves
            assert (moves.begun, moves.finished, moves.retried) == (len(lived), len(lived), 0)
            moved.append(len(lived))

        _play(seed, story)
        assert moved and moved[0] > 4, f"seed {seed}: there was nothing to move"
    assert max(closed) == 3


def test_a_topic_whose_new_home_is_full_stays_and_is_offered_again() -> None:
    """
    1. the home of all topics is h1, which has all clients; h2 has few topics, and no room for others;
    2. the plan assigns all topics to it: it cannot create them, and does not reply;
    3. they go on at h1, which offers them again and again;
    4. h2 has room again, and takes them.
    """
    # What is published elsewhere would go to h2, which would have to drop it.
    together = tuple(replace(client, place="h1") for client in CROWD)
    retried = 0
    for seed in range(3):

        async def story(world: ClusterWorld) -> None:
            nonlocal retried
            index, home = _cluster(world, "h2").core.index, _cluster(world, "h1")
            moves = home.moves
            _give_all_to(world, "h1")
            streams = home.core.index.topics.values()
            await world.until(lambda: all(topic.stream is None for topic in streams), 5.0)
            index.topics_max = 0
            _give_all_to(world, "h2")
            await world.until(lambda: moves.retried > 0, 5.0)
            retried += moves.retried
            index.topics_max = 1_000
            await world.until(lambda: not moves.under_way, 5.0)
            assert not moves.under_way, "they never got away"

        _play(seed, story, together)
    assert retried


def test_moves_in_many_turns_are_as_good_as_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that looks at all topics does so in slices; here each slice is one topic."""
    monkeypatch.setattr(barrier, "EVALUATE_SLICE", 1)
    monkeypatch.setattr(handover_engine, "REVIEW_SLICE", 1)
    monkeypatch.setattr(stream_gc, "TIDY_SLICE", 1)
    everything = case("cluster-everything")
    for seed in range(20):
        outcomes = run(seed, everything)
        check_promises(outcomes, seed)
