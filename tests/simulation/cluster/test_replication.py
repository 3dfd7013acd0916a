"""Replicated topics under every kind of trouble, by seed: every message once, in order, no needless word of a gap."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from msgspec import structs

from equipoise.hub.cluster.dependencies import Tags
from equipoise.hub.cluster.lane_state import lane_key
from equipoise.hub.cluster.lanes import Lanes
from equipoise.lab.scenarios import Client
from equipoise.model import Mode

from .gathering import Gathering
from .judging import check_promises
from .replicated import (
    CROWD,
    FOLLOWERS,
    FOLLOWERS_CRASH,
    FOLLOWERS_SKEW,
    GATHERING,
    HUBS,
    LANES,
    LANES_ALL,
    LANES_BULK,
    LANES_CLIENTS,
    LANES_CRASH,
    LANES_SKEW,
    PLAIN,
    WANDERERS,
    play,
    talk,
)
from .wandering import Wandering
from .worlds import SETTINGS, Trouble, World

SEEDS = range(15)


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(LANES, id="all-subscribers"),
        pytest.param(LANES_SKEW, id="both-modes-while-plans-differ-and-links-break"),
        pytest.param(LANES_BULK, id="both-modes-while-hubs-join-and-weights-change"),
        pytest.param(LANES_CRASH, id="both-modes-while-hubs-crash"),
        pytest.param(LANES_CLIENTS, id="both-modes-while-clients-reconnect"),
        pytest.param(LANES_ALL, id="both-modes-while-everything-happens"),
        pytest.param(FOLLOWERS, id="all-publishers"),
        pytest.param(FOLLOWERS_SKEW, id="all-publishers-while-plans-differ-and-links-break"),
        pytest.param(FOLLOWERS_CRASH, id="all-publishers-while-hubs-crash"),
    ],
)
def test_subscribers_of_a_replicated_topic_get_every_message_once_and_in_order(trouble: Trouble) -> None:
    for seed in SEEDS:
        outcomes = play(seed, trouble)
        check_promises(outcomes, seed)


# What would be missed if it were not there.


@pytest.mark.parametrize(
    ("owner", "name", "ablation", "broken"),
    [
        pytest.param(Tags, "must_wait", lambda tags, stream, marks: False, "order", id="without-tags"),
        pytest.param(
            Lanes,
            "is_barrier_passed",
            property(lambda lanes: True),
            "once",
            id="without-the-barrier-for-lanes",
        ),
    ],
)
def test_the_checkers_notice_what_is_left_out_of_lanes(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, ablation: object, broken: str
) -> None:
    monkeypatch.setattr(owner, name, ablation)
    assert any(
        violation.property == broken
        for seed in range(40)
        for violation in play(seed, LANES, clients=PLAIN).violations
    )


def test_a_subscriber_of_several_hubs_needs_the_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who takes lanes from their own hubs and passes over `eq.after` sees publishers overtake themselves."""
    monkeypatch.setattr(Gathering, "is_careless", True)
    gathering = (*PLAIN, *(client for client in CROWD if client.name in GATHERING))
    assert any(
        violation.property == "order"
        for seed in range(40)
        for violation in play(seed, LANES, clients=gathering).violations
    )


def test_a_publisher_that_wanders_from_hub_to_hub_keeps_its_order() -> None:
    for seed in SEEDS:
        outcomes = play(seed, LANES, clients=(*WANDERERS, *CROWD))
        check_promises(outcomes, seed)


def test_a_publisher_that_wanders_without_saying_so_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wandering, "is_careless", True)
    assert any(
        violation.property == "order"
        for seed in range(40)
        for violation in play(seed, LANES, clients=(*WANDERERS, *PLAIN)).violations
    )


def test_where_there_is_no_room_messages_are_missed_but_not_out_of_order() -> None:
    settings = structs.replace(SETTINGS, pending_bytes_max=65_536)
    trouble = replace(LANES_SKEW, link_cuts=(2, 5), settings=settings, is_gap_allowed=True)
    large = tuple(
        replace(client, publishes=tuple(replace(p, payload_bytes=(3_000, 3_000)) for p in client.publishes))
        for client in PLAIN
    )
    missed = 0
    for seed in SEEDS:
        violations = play(seed, trouble, clients=large).violations
        assert {violation.property for violation in violations} <= {"once"}, f"seed {seed}"
        missed += len(violations)
    assert missed, "there was room for everything"


def _lanes(world: World, topic: bytes) -> dict[str, int]:
    """By hub, the messages that its lane of the topic has so far."""
    found = {}
    for name, node in world.nodes.items():
        lane = None if node.hub is None else node.hub.core.index.lanes.get(lane_key(name, topic))
        if lane is not None:
            found[name] = lane.n
    return found


def test_messages_are_spread_over_the_homes_of_all_subscribers() -> None:
    seen: list[dict[str, int]] = []

    async def story(world: World) -> None:
        await world.until(lambda: world.directory.plan.version > 0, 5.0)
        world.replicate("a", HUBS, Mode.ALL_SUBSCRIBERS)
        await world.until(lambda: sum(map(bool, _lanes(world, b"a").values())) == 3, 3.0)
        seen.append(_lanes(world, b"a"))

    everywhere = tuple(Client(name=f"at-{hub}", place=hub, publishes=talk("a")) for hub in HUBS)
    outcomes = play(1, Trouble(), clients=(*everywhere, *PLAIN), story=story)
    assert not outcomes.violations
    assert seen[0].keys() == {"h2", "h3", "h4"}
    assert all(seen[0].values())


@pytest.mark.parametrize("seed", range(10))
def test_a_mode_change_between_the_two_replications_is_not_noticed(seed: int) -> None:
    """
    1. a is replicated over three hubs, by turns in the one mode and the other, then in another order of homes;
    2. each change comes while publishers at all hubs go on, and while the change before may be unfinished;
    3. everybody gets everything once, in order.
    """
    used: list[int] = []

    async def story(world: World) -> None:
        await world.until(lambda: world.directory.plan.version > 0, 5.0)
        await asyncio.sleep(0.3)
        modes = (Mode.ALL_PUBLISHERS, Mode.ALL_SUBSCRIBERS)
        for number in range(6):
            homes = HUBS[:3] if number < 4 else (HUBS[2], HUBS[0], HUBS[3])
            world.replicate("a", homes, modes[number % 2])
            await asyncio.sleep(0.1 + world.random.random() * 0.5)
            used.append(sum(_lanes(world, b"a").values()))

    outcomes = play(seed, Trouble(lag_s=0.2), story=story)
    check_promises(outcomes, seed)
    assert any(used), "the lanes were not used"


def test_a_further_home_follows_the_first_whether_or_not_anybody_listens_there() -> None:
    seen: list[tuple[str | None, ...]] = []

    def sources(world: World) -> tuple[str | None, ...]:
        found: list[str | None] = []
        for name in HUBS:
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

    assert not play(1, Trouble(), story=story).violations
    assert seen == [(None, "h1", None, None), (None, None, None, None)]
