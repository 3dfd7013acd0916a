"""Interleavings of moves with other events, as numbered steps, over seeds that determine latencies.

If no hub crashes, no subscriber may get a gap. A change of mode between the two replications is in
`test_replication`; moves in which a hub crashes are in `test_handover_crashes`.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from equipoise.hub.cluster.link.frames import (
    CloseFrame,
    EgressFrame,
    FlushFrame,
    Frame,
    PreparedFrame,
    PrepareFrame,
    RunFrame,
)
from equipoise.lab.scenarios import Dialect, Expectation
from equipoise.lab.scenarios.cluster_clients import STORY_SUBSCRIBERS, publisher_at, subscriber_at
from equipoise.lab.simulation.cluster.directory import Directory
from equipoise.lab.simulation.cluster.stories import TOPIC, Moment, TappedWire
from equipoise.lab.simulation.cluster.world import ClusterWorld
from equipoise.lab.workload.history import Away

from .worlds import STORY, check_promises, tell

SEEDS = range(8)
# Of a case with several variants: as many in all.
HALF = range(4)
THIRD = range(4)


def test_publisher_subscriber_and_home_on_three_hubs_with_no_move_at_all() -> None:
    """
    1. the home of a is h1; two clients publish at h2; four subscribe at h3, by name and by pattern;
    2. nothing moves;
    3. every message goes h2 → h1 → h3, and comes once, in order.
    """
    clients = (
        publisher_at("ann", "h2"),
        publisher_at("bob", "h2"),
        subscriber_at("cat", "h3", Dialect.RESP3),
        subscriber_at("dan", "h3"),
        subscriber_at("fay", "h3", Dialect.RESP2, pattern="*"),
        subscriber_at("hal", "h3", pattern="[a]"),
    )

    async def story(world: ClusterWorld, wire: TappedWire) -> None:
        wire.received.clear()

    for seed in SEEDS:
        outcomes, wire = tell(seed, story, clients=clients)
        check_promises(outcomes, seed)
        assert wire.received["h1", RunFrame] and wire.received["h3", EgressFrame]
        assert wire.hops_max == 1
        assert not wire.received["h1", PrepareFrame] + wire.received["h2", PrepareFrame]


@pytest.mark.parametrize("late", STORY.hubs)
def test_messages_sent_under_an_older_plan_arrive_like_others(late: str) -> None:
    """
    1. the home of a is h1, and publishers are at all hubs;
    2. a is moved to h2; one hub gets that plan half a second after the others;
    3. until then it passes messages to h1 (h3), keeps numbering them (h1) or is given the topic by surprise (h2);
    4. h1 forwards to h2 the messages that reach it by the older plan.
    """

    async def story(world: ClusterWorld, wire: TappedWire) -> None:
        assert isinstance(world.directory, Directory)
        world.directory.due_at[late] = world.sim.now + 0.5
        world.move(TOPIC, "h2")

    hops = []
    for seed in THIRD:
        outcomes, wire = tell(seed, story)
        check_promises(outcomes, seed)
        assert wire.received["h2", CloseFrame] == 1, f"seed {seed}: there was no move"
        hops.append(wire.hops_max)
    if late == "h3":
        assert min(hops) > 1, "nothing was sent by the older plan"


@pytest.mark.parametrize("moment", [Moment.BEFORE_WRITE, Moment.AFTER_WRITE], ids=lambda moment: moment.value)
def test_a_link_that_is_reset_between_a_message_and_the_close_loses_neither(moment: Moment) -> None:
    """
    1. a moves from h1 to h2; messages are on their way from h1 to both others;
    2. when h1 is about to send CLOSE, or has just sent it, all its links are reset;
    3. frames in flight are resent, in order, and executed once.
    """

    async def story(world: ClusterWorld, wire: TappedWire) -> None:
        def reset() -> None:
            world.sim.reset_connections("h1", "h2")
            world.sim.reset_connections("h1", "h3")

        wire.set_trap("h1", moment, CloseFrame, reset)
        world.move(TOPIC, "h2")

    for seed in HALF:
        outcomes, wire = tell(seed, story)
        check_promises(outcomes, seed)
        assert wire.sprung == 1, f"seed {seed}: nothing was reset"


@pytest.mark.parametrize(
    ("hub", "moment", "verb"),
    [
        pytest.param("h1", Moment.AFTER_WRITE, PrepareFrame, id="once-the-first-is-asked"),
        pytest.param("h2", Moment.AFTER_WRITE, PreparedFrame, id="once-it-has-agreed"),
        pytest.param("h1", Moment.AFTER_WRITE, CloseFrame, id="once-the-close-is-under-way"),
        pytest.param("h2", Moment.AFTER_RECEIVE, CloseFrame, id="once-it-has-opened"),
    ],
)
def test_a_second_move_begins_while_the_first_is_unfinished(
    hub: str, moment: Moment, verb: type[Frame]
) -> None:
    """
    1. a moves from h1 to h2;
    2. at one step of that the plan names h3, and each hub gets it at a time of its own;
    3. a ends up at h3, after two moves or one, without a gap.
    """

    async def story(world: ClusterWorld, wire: TappedWire) -> None:
        wire.set_trap(hub, moment, verb, lambda: world.move(TOPIC, "h3"))
        world.move(TOPIC, "h2")

    for seed in THIRD:
        outcomes, wire = tell(seed, story)
        check_promises(outcomes, seed)
        assert wire.sprung == 1, f"seed {seed}: there was no second move"
        assert wire.received["h3", CloseFrame] >= 1, f"seed {seed}: the topic did not arrive"


def test_a_plain_subscriber_that_never_leaves_its_hub_misses_nothing() -> None:
    """
    1. cat and eve listen at h1, where a lives, and know nothing of plans;
    2. a moves to h2, to h3, back to h1, and to h2 again;
    3. their connections stay, and bring everything once, in order.
    """
    plain = (subscriber_at("cat", "h1", Dialect.RESP3), subscriber_at("eve", "h1", Dialect.RESP2))
    clients = (publisher_at("ann", "h1"), publisher_at("bob", "h2"), publisher_at("ida", "h3"), *plain)

    async def story(world: ClusterWorld, wire: TappedWire) -> None:
        for hub in ("h2", "h3", "h1", "h2"):
            world.move(TOPIC, hub)
            await asyncio.sleep(0.1 + 0.2 * world.random.random())

    for seed in SEEDS:
        outcomes, wire = tell(seed, story, clients=clients, scenario=replace(STORY, duration_s=2.0))
        check_promises(outcomes, seed)
        assert wire.received["h3", CloseFrame] and wire.received["h1", CloseFrame], (
            f"seed {seed}: too few moves"
        )
        assert not any(isinstance(event, Away) for track in outcomes.history.tracks for event in track.events)


@pytest.mark.parametrize("name", ["h1", "h3"])
def test_a_hub_that_is_restarted_under_its_old_name_is_a_new_one(name: str) -> None:
    """
    1. the home of a is h1; h3 forwards messages to it and follows it;
    2. one of them crashes and returns within 50 ms, before any other hub has noticed;
    3. the others treat it as another incarnation: no frame of the former one counts for it.
    """
    lives: set[tuple[int, int]] = set()

    async def story(world: ClusterWorld, wire: TappedWire) -> None:
        node = world.hubs[name]
        before = world.directory.alive[name].incarnation
        node.crash(silent=world.random.random() < 0.5)
        await asyncio.sleep(0.05)
        node.start()
        await world.until(lambda: world.directory.alive[name].incarnation != before, 1.0)
        lives.add((before, world.directory.alive[name].incarnation))

    for seed in HALF:
        outcomes, _ = tell(seed, story, scenario=replace(STORY, duration_s=2.0, expectation=Expectation()))
        check_promises(outcomes, seed)
    assert len(lives) == len(HALF) and all(before != after for before, after in lives)


def test_a_pattern_subscriber_receives_the_end_of_an_epoch_before_messages_of_the_next_home() -> None:
    """
    1. the home of a is h1; h3, far from h1 and near h2, receives it only by patterns, without following a hub;
    2. a moves to h2 and back again, twice;
    3. h3 has the first messages of h2 before the last of h1: it sends h1 a FLUSH, and waits.
    """

    async def story(world: ClusterWorld, wire: TappedWire) -> None:
        for hub in ("h2", "h1", "h2", "h1"):
            world.move(TOPIC, hub)
            await asyncio.sleep(0.1 + 0.2 * world.random.random())

    flushes = 0
    for seed in SEEDS:
        outcomes, wire = tell(seed, story, scenario=replace(STORY, duration_s=2.0))
        check_promises(outcomes, seed)
        flushes += wire.received["h1", FlushFrame]
    assert flushes, "the new home never was the first to be heard"


@pytest.mark.parametrize("way", ["reset", "unheard", "deaf"])
def test_a_publisher_that_reconnects_elsewhere_is_not_overtaken_by_itself(way: str) -> None:
    """
    1. ann publishes a, without waiting for receipts, at its home h1;
    2. her connection is reset while h1 is out of her reach, or h1 stops hearing her, or she stops hearing h1;
    3. she continues at another hub; messages that h1 had accepted are numbered before any later one;
    4. no acknowledged message is duplicated or out of order, and no subscriber misses one.
    """
    clients = (
        publisher_at("ann", "h1", interval_s=0.01),
        *STORY_SUBSCRIBERS,
    )

    async def story(world: ClusterWorld, wire: TappedWire) -> None:
        if way == "unheard":
            world.sim.cut("ann", "h1", one_way=True)
        elif way == "deaf":
            world.sim.cut("h1", "ann", one_way=True)
        else:
            world.sim.cut("ann", "h1")
            world.sim.reset_connections("ann", "h1")
        await asyncio.sleep(2.5)
        # The delayed message arrives when she has long been connected elsewhere.
        world.sim.heal("ann", "h1")

    scenario = replace(STORY, duration_s=4.0, is_routing=True)
    for seed in THIRD:
        outcomes, wire = tell(seed, story, clients=clients, scenario=scenario)
        check_promises(outcomes, seed)
        assert wire.received["h1", RunFrame], f"seed {seed}: she did not go elsewhere"
