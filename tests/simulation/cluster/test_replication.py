"""Replicated topics under all faults, by seed: every message once, in order, without needless gaps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace

import pytest

from equipoise.hub.cluster.lane_state import lane_key
from equipoise.lab.scenarios import Client, ClusterScenario, Dialect, PublishedStream, Workload
from equipoise.lab.scenarios.cluster_clients import PLAIN_CROWD
from equipoise.lab.simulation.cluster.world import ClusterWorld
from equipoise.lab.workload.history import Missed
from equipoise.model import Mode

from .worlds import Outcomes, case, check_promises, check_seeds, run

# These cost ten times as much as those of other cases; seeds that have once failed are in test_worlds.py.
SEEDS = range(3)
STILL = case("cluster-lanes", replications=(0, 0))
HUBS = STILL.hubs
# Subscribers that get gaps.
WITH_POSITIONS = ("dan", "gus")
Story = Callable[[ClusterWorld], Coroutine[object, object, None]]


@pytest.mark.parametrize(
    "name",
    [
        "cluster-lanes",
        "cluster-replication",
        "cluster-replication-ring",
        "cluster-replication-crashes",
        "cluster-replication-clients",
        "cluster-replication-everything",
        "cluster-followers",
        "cluster-followers-skew",
        "cluster-followers-crashes",
        "cluster-lanes-roving",
    ],
)
def test_subscribers_of_a_replicated_topic_get_every_message_once_and_in_order(name: str) -> None:
    check_seeds(name, SEEDS)


def play(seed: int, scenario: ClusterScenario, story: Story) -> Outcomes:
    """One seed, with a story in addition to its drawn events."""
    return run(seed, scenario, prepare=lambda world: world.keep(story(world)))


def crowded(**cluster_settings: int) -> ClusterScenario:
    """Large messages, long cuts, little room: plain subscribers, and two that know positions."""
    base = case("cluster-replication")
    large = tuple(
        replace(client, publishes=tuple(replace(p, payload_bytes=(3_000, 3_000)) for p in client.publishes))
        for client in base.workload.clients
        if client.publishes
        or client.name in WITH_POSITIONS
        or client.dialect in (Dialect.RESP2, Dialect.RESP3)
    )
    return replace(
        base,
        link_cuts=(2, 5),
        cluster_settings=cluster_settings,
        workload=Workload(clients=large),
        expectation=replace(base.expectation, properties=("once", "order", "progress")),
    )


def missed_in(outcomes: Outcomes) -> int:
    events = [event for track in outcomes.history.tracks for event in track.events]
    return sum(event.missed or 0 for event in events if isinstance(event, Missed))


def test_with_small_queues_publishers_are_slowed_down_and_no_message_is_lost() -> None:
    for seed in range(4):
        outcomes = run(seed, crowded(pending_bytes_max=65_536))
        check_promises(outcomes, seed)
        assert missed_in(outcomes) == 0, f"seed {seed}"


def test_with_a_full_link_gaps_have_exact_counts() -> None:
    """Plain clients get no gaps. Clients with positions get gaps for exactly their missing messages."""
    missed = 0
    for seed in range(4):
        outcomes = run(seed, crowded(pending_bytes_max=65_536, link_bytes_max=65_536))
        assert {violation.property for violation in outcomes.violations} <= {"once"}, f"seed {seed}"
        unseen = [
            str(one) for one in outcomes.violations if any(f" {name}/" in str(one) for name in WITH_POSITIONS)
        ]
        assert unseen == [], f"seed {seed}"
        missed += missed_in(outcomes)
    assert missed, "there was room for everything"


def _lanes(world: ClusterWorld, topic: bytes) -> dict[str, int]:
    """By hub, the messages that its lane of the topic has so far."""
    found = {}
    for name, node in world.hubs.items():
        lane = None if node.hub is None else node.hub.core.index.lanes.get(lane_key(name, topic))
        if lane is not None:
            found[name] = lane.n
    return found


def test_messages_are_spread_over_the_homes_of_all_subscribers() -> None:
    seen: list[dict[str, int]] = []

    async def story(world: ClusterWorld) -> None:
        await world.until(lambda: world.directory.plan.version > 0, 5.0)
        world.replicate("a", HUBS, Mode.ALL_SUBSCRIBERS)
        await world.until(lambda: sum(map(bool, _lanes(world, b"a").values())) == 3, 3.0)
        seen.append(_lanes(world, b"a"))

    talk = (PublishedStream(topics=("a",), count=400, burst=(1, 4), interval_s=0.015, receipts=0.1),)
    everywhere = tuple(Client(name=f"at-{hub}", place=hub, publishes=talk) for hub in HUBS)
    workload = Workload(clients=(*everywhere, *PLAIN_CROWD.clients))
    outcomes = play(1, replace(STILL, workload=workload), story)
    assert not outcomes.violations
    assert seen[0].keys() == {"h2", "h3", "h4"}
    assert all(seen[0].values())


@pytest.mark.parametrize("seed", range(5))
def test_a_mode_change_between_the_two_replications_is_not_noticed(seed: int) -> None:
    """
    1. a is replicated over three hubs, by turns in the one mode and the other, then in another order of homes;
    2. each change comes while publishers at all hubs go on, and while the change before may be unfinished;
    3. every subscriber gets every message once, in order.
    """
    used: list[int] = []

    async def story(world: ClusterWorld) -> None:
        await world.until(lambda: world.directory.plan.version > 0, 5.0)
        await asyncio.sleep(0.3)
        modes = (Mode.ALL_PUBLISHERS, Mode.ALL_SUBSCRIBERS)
        for number in range(6):
            homes = HUBS[:3] if number < 4 else (HUBS[2], HUBS[0], HUBS[3])
            world.replicate("a", homes, modes[number % 2])
            await asyncio.sleep(0.1 + world.random.random() * 0.5)
            used.append(sum(_lanes(world, b"a").values()))

    outcomes = play(seed, replace(STILL, lag_s=0.2), story)
    check_promises(outcomes, seed)
    assert any(used), "the lanes were not used"


def test_a_further_home_follows_the_first_even_without_subscribers() -> None:
    seen: list[tuple[str | None, ...]] = []

    def sources(world: ClusterWorld) -> tuple[str | None, ...]:
        found: list[str | None] = []
        for name in HUBS:
            hub = world.hubs[name].hub
            topic = None if hub is None else hub.core.index.topics.get(b"unheard")
            found.append(None if topic is None or topic.stream is None else topic.stream.source)
        return tuple(found)

    async def story(world: ClusterWorld) -> None:
        await world.until(lambda: world.directory.plan.version > 0, 5.0)
        world.replicate("unheard", ("h1", "h2"), Mode.ALL_PUBLISHERS)
        await world.until(lambda: sources(world)[1] is not None, 5.0)
        seen.append(sources(world))
        world.replicate("unheard", ("h3",), Mode.SINGLE)
        await world.until(lambda: not any(sources(world)), 5.0)
        seen.append(sources(world))

    assert not play(1, STILL, story).violations
    assert seen == [(None, "h1", None, None), (None, None, None, None)]
