"""Clients that go where topics live, among real hubs under every kind of trouble, by seed; some of it step by step."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

import equipoise
from equipoise.client.publishing import Line, Publishing
from equipoise.client.routing.channel import TopicChannel
from equipoise.client.wire.connection import Connection
from equipoise.hub.cluster.settings import ClusterSettings
from equipoise.lab.workload import hurried
from equipoise.model import Mode
from equipoise.stream.merge import TopicMerge
from equipoise.stream.sources import MergedStream, Source

from . import replicated
from .judging import check_promises
from .worlds import CROWD, PORT, SETTINGS, Outcomes, Trouble, World, run

SEEDS = range(10)
# A run with four hubs and twelve clients takes ten times as long.
FEW_SEEDS = range(3)
MOVES = Trouble(moves=(1, 6), is_routing=True)
LAZY = replace(
    MOVES,
    settings=ClusterSettings(
        link_timeout_s=0.7, reconnect_interval_s_max=0.2, unsubscribe_delay_s=0.5, redirect_mode="lazy"
    ),
)
SKEW = Trouble(moves=(1, 8), link_resets=(0, 5), link_cuts=(0, 3), pauses=(0, 2), lag_s=0.3, is_routing=True)
BULK = Trouble(moves=(0, 3), reweighs=(1, 4), link_resets=(0, 3), joins=(0, 2), lag_s=0.3, is_routing=True)
RESETS = Trouble(moves=(1, 6), client_resets=(1, 6), is_gap_allowed=True, is_routing=True)
CUTS = Trouble(moves=(0, 5), client_cuts=(2, 5), duration_s=6.0, is_gap_allowed=True, is_routing=True)
CRASHES = Trouble(moves=(1, 5), crashes=(1, 2), is_gap_allowed=True, is_routing=True)
ZOMBIES = Trouble(long_pauses=(1, 2), is_gap_allowed=True, is_routing=True)
# Who talks for as long as clients are cut off.
TALKERS = tuple(
    replace(client, publishes=tuple(replace(p, count=240, interval_s=0.2) for p in client.publishes))
    for client in CROWD
)


def play(seed: int, trouble: Trouble) -> Outcomes:
    return run(seed, trouble, clients=TALKERS if trouble is CUTS else CROWD)


def play_replicated(seed: int, trouble: Trouble) -> Outcomes:
    """Topics with lanes and followers, with all smart clients of the real kind, near some hubs and far from others."""
    return run(
        seed,
        replace(trouble, is_routing=True),
        clients=replicated.CROWD,
        hubs=replicated.HUBS,
        topology=replicated.Scattered(seed),
    )


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(MOVES, id="topics-move"),
        pytest.param(LAZY, id="clients-are-told-lazily"),
        pytest.param(SKEW, id="topics-move-while-plans-differ-and-links-break"),
        pytest.param(BULK, id="hubs-join-and-weights-change"),
        pytest.param(RESETS, id="clients-are-reset"),
        pytest.param(CUTS, id="clients-are-cut-off-with-messages-in-flight"),
        pytest.param(CRASHES, id="hubs-crash-and-come-back"),
        pytest.param(ZOMBIES, id="hubs-wake-up-after-they-were-buried"),
    ],
)
def test_wherever_clients_go_every_message_comes_once_and_in_order(trouble: Trouble) -> None:
    for seed in SEEDS:
        outcomes = play(seed, trouble)
        check_promises(outcomes, seed)


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(replicated.LANES, id="lanes"),
        pytest.param(replicated.LANES_SKEW, id="lanes-while-plans-differ-and-links-break"),
        pytest.param(replicated.LANES_BULK, id="lanes-while-hubs-join"),
        pytest.param(replicated.LANES_CLIENTS, id="lanes-while-clients-are-reset"),
        pytest.param(replicated.LANES_CRASH, id="lanes-while-hubs-crash"),
        pytest.param(replicated.LANES_CUTS, id="lanes-while-clients-are-cut-off"),
        pytest.param(replicated.LANES_ALL, id="lanes-while-everything-happens"),
        pytest.param(replicated.FOLLOWERS_SKEW, id="followers-while-plans-differ-and-links-break"),
    ],
)
def test_wherever_replicas_are_every_message_comes_once_and_in_order(trouble: Trouble) -> None:
    for seed in FEW_SEEDS:
        outcomes = play_replicated(seed, trouble)
        check_promises(outcomes, seed)


@pytest.mark.parametrize(
    ("seed", "trouble"),
    [
        pytest.param(239, replicated.LANES_CUTS, id="a-lane-begins-while-a-subscriber-is-cut-off"),
        pytest.param(241, replicated.LANES_ALL, id="a-hub-without-a-plan-lags-behind-what-was-received"),
        pytest.param(374, replicated.LANES_ALL, id="a-trunk-opens-for-those-who-get-its-lanes-elsewhere"),
    ],
)
def test_seeds_that_have_failed_once_do_not_again(seed: int, trouble: Trouble) -> None:
    outcomes = play_replicated(seed, trouble)
    check_promises(outcomes, seed)


def test_the_same_seed_gives_the_same_run() -> None:
    assert play(3, SKEW).hash == play(3, SKEW).hash


# What would be missed if it were not there.


def _leave_at_once(merge: TopicMerge, sources: list[Source]) -> None:
    for source in merge.sources.keys() - set(sources):
        merge._leave(source)
    merge.wanted = set(sources)
    for source in sources:
        merge.sources.setdefault(source, False)


def _do_not_wait(publishing: Publishing, line: Line, way: Connection) -> None:
    line.way = None
    publishing._advance(line)


def _do_not_sever(publishing: Publishing, line: Line, way: Connection, connection: Connection) -> None:
    way.is_severed = True
    publishing._advance(line)


@pytest.mark.parametrize(
    ("owner", "name", "ablation", "trouble"),
    [
        pytest.param(
            TopicMerge, "want", _leave_at_once, SKEW, id="without-staying-until-the-new-home-is-as-far"
        ),
        pytest.param(Publishing, "_settle", _do_not_wait, SKEW, id="without-waiting-for-the-old-home"),
        pytest.param(Publishing, "_sever", _do_not_sever, CUTS, id="without-ending-the-lost-connection"),
    ],
)
def test_the_checkers_notice_what_is_left_out(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, ablation: Callable[..., object], trouble: Trouble
) -> None:
    monkeypatch.setattr(owner, name, ablation)
    assert any(play(seed, trouble).violations for seed in range(60))


@pytest.mark.parametrize(
    ("owner", "name", "ablation"),
    [
        pytest.param(Publishing, "_note", lambda *words: None, id="without-tags"),
        pytest.param(TopicMerge, "depends", lambda *words: None, id="without-marks"),
        pytest.param(
            MergedStream,
            "is_awaited_from",
            lambda *words: False,
            id="without-awaiting-a-lane-from-its-beginning",
        ),
    ],
)
def test_the_checkers_notice_what_is_left_out_of_lanes(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, ablation: Callable[..., object]
) -> None:
    monkeypatch.setattr(owner, name, ablation)
    assert any(play_replicated(seed, replicated.LANES_SKEW).violations for seed in range(10, 50))


# Step by step.


class Story:
    """Three hubs, and a client of the test's own beside them; the plan has the topic t where the test wants it."""

    def __init__(self, world: World) -> None:
        self.world = world

    def subscribers(self, topic: str = "t") -> dict[str, int]:
        """By hub, how many clients subscribe there."""
        found: dict[str, int] = {}
        for name, node in self.world.nodes.items():
            known = None if node.hub is None else node.hub.core.index.topics.get(topic.encode())
            if known is not None and known.members:
                found[name] = len(known.members)
        return found

    def sessions(self) -> dict[str, int]:
        """By hub, the connections of clients."""
        return {
            name: sum(session.peer is None for session in node.hub.core.sessions.values())
            for name, node in self.world.nodes.items()
            if node.hub is not None
        }

    async def until(self, is_so: Callable[[], bool]) -> None:
        await self.world.until(is_so, 20.0)
        assert is_so()


def tell(seed: int, story: Callable[[Story, equipoise.Bus], Awaitable[None]], **settings: float) -> None:
    """Play a story with one client, whose base is h1; the topic t lives at h1 at first."""
    ends: list[BaseException | None] = []

    async def client(world: World) -> None:
        await world.until(lambda: world.directory.plan.version > 0, 5.0)
        world.move("t", "h1")
        await asyncio.sleep(0.5)
        chosen = hurried(**settings)
        url = f"equipoise://h1:{PORT},h2:{PORT},h3:{PORT}"
        try:
            async with equipoise.connect(url, settings=chosen, rng=random.Random(seed)) as bus:
                await story(Story(world), bus)
        except BaseException as error:
            ends.append(error)
        else:
            ends.append(None)

    def prepare(world: World) -> None:
        world.keep(client(world))

    outcomes = run(seed, Trouble(settings=SETTINGS, duration_s=30.0), clients=(), prepare=prepare)
    for error in ends:
        if error is not None:
            raise error
    assert ends, "the story did not come to its end"
    assert not outcomes.violations


def test_after_a_move_the_subscriber_is_at_the_new_home_and_has_left_the_old_one() -> None:
    async def story(hubs: Story, bus: equipoise.Bus) -> None:
        async with bus.subscribe("t"):
            await hubs.until(lambda: hubs.subscribers() == {"h1": 1})
            for home in ("h2", "h3", "h1", "h3"):
                hubs.world.move("t", home)
                await hubs.until(lambda home=home: hubs.subscribers() == {home: 1})  # type: ignore[misc]  # bound
        await hubs.until(lambda: hubs.subscribers() == {})

    tell(1, story)


def silences(seed: int) -> tuple[int, int]:
    """Of a subscriber whose topic moves a dozen times: how often it was looked at, and how often nothing served it."""
    looks = silent = 0

    async def story(hubs: Story, bus: equipoise.Bus) -> None:
        nonlocal looks, silent
        async with bus.subscribe("t") as t:
            channel = bus._routing.channels.topics[b"t"]
            for number in range(12):
                hubs.world.move("t", f"h{1 + (number + 1) % 3}")
                for _ in range(200):
                    await asyncio.sleep(0.002)
                    looks += 1
                    silent += not (hubs.subscribers() and any(seat.is_live for seat in channel.merge.sources))
                await bus.publish("t", str(number))
                event = await anext(t)
                while not isinstance(event, equipoise.Message):
                    event = await anext(t)
                assert event.text == str(number)
            await hubs.until(lambda: hubs.subscribers() == {f"h{1 + 12 % 3}": 1})

    tell(seed, story)
    return looks, silent


def test_at_no_time_is_there_no_live_subscription(monkeypatch: pytest.MonkeyPatch) -> None:
    downs: list[bytes] = []
    monkeypatch.setattr(TopicChannel, "on_down", lambda channel: downs.append(channel.name))
    for seed in range(5):
        assert silences(seed) == (2_400, 0), f"seed {seed}"
    assert downs == []


def test_who_leaves_before_it_has_arrived_has_no_live_subscription(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TopicMerge, "want", _leave_at_once)
    assert any(silences(seed)[1] for seed in range(5))


def test_a_publisher_goes_to_the_home_too_and_its_link_is_closed_when_it_falls_silent() -> None:
    async def story(hubs: Story, bus: equipoise.Bus) -> None:
        hubs.world.move("t", "h2")
        await asyncio.sleep(0.5)
        await bus.publish("t", "told")
        await hubs.until(lambda: hubs.sessions() == {"h1": 1, "h2": 1, "h3": 0})
        await asyncio.sleep(0.5)
        base = hubs.world.nodes["h1"].hub
        assert base is not None and base.cluster is not None
        with pytest.MonkeyPatch.context() as patch:
            passed_on: list[object] = []
            patch.setattr(base.cluster.ingress, "submit", lambda *item: passed_on.append(item))
            for number in range(20):
                await bus.publish("t", str(number))
        assert passed_on == [], "the base has no part in it"
        await hubs.until(lambda: hubs.sessions() == {"h1": 1, "h2": 0, "h3": 0})
        for _ in range(12):
            # A hub does not say the same thing again for a while.
            await bus.publish("t", "told again")
            await asyncio.sleep(1.0)
        assert hubs.sessions() == {"h1": 1, "h2": 1, "h3": 0}

    tell(3, story, route_idle_s=4.0)


def test_a_home_that_dies_is_replaced_within_a_moment_and_the_gap_is_told() -> None:
    async def story(hubs: Story, bus: equipoise.Bus) -> None:
        hubs.world.move("t", "h2")
        async with bus.subscribe("t") as t:
            await bus.publish("t", "before")
            assert isinstance(await anext(t), equipoise.Message)
            await hubs.until(lambda: hubs.subscribers() == {"h2": 1})
            hubs.world.nodes["h2"].crash(silent=False)
            hubs.world.directory.expire("h2")
            event = await anext(t)
            assert isinstance(event, equipoise.Gap)
            while True:
                await bus.publish("t", "after")
                event = await anext(t)
                if isinstance(event, equipoise.Message):
                    break
            await hubs.until(lambda: sum(hubs.subscribers().values()) == 1)
        hubs.world.nodes["h2"].start()

    tell(4, story)


def test_the_base_that_dies_is_replaced_by_another_hub_of_the_url() -> None:
    async def story(hubs: Story, bus: equipoise.Bus) -> None:
        hubs.world.move("t", "h3")
        async with bus.subscribe("t") as t, bus.psubscribe("other*") as other:
            await hubs.until(lambda: hubs.subscribers() == {"h3": 1})
            hubs.world.nodes["h1"].crash(silent=False)
            hubs.world.directory.expire("h1")
            await bus.publish("t", "while the base is away")
            assert isinstance(await anext(t), equipoise.Message), "the home goes on serving"
            assert isinstance(await anext(other), equipoise.Gap)
            await bus.publish("other topic", "x")
            assert isinstance(await anext(other), equipoise.Message)
        hubs.world.nodes["h1"].start()

    tell(5, story)


def test_a_topic_with_lanes_is_taken_from_every_home_and_nothing_twice() -> None:
    async def story(hubs: Story, bus: equipoise.Bus) -> None:
        async with bus.subscribe("t") as t:
            hubs.world.replicate("t", ("h2", "h3"), Mode.ALL_SUBSCRIBERS)
            await hubs.until(lambda: hubs.subscribers() == {"h2": 1, "h3": 1})
            for number in range(40):
                await bus.publish("t", str(number))
                event = await anext(t)
                assert isinstance(event, equipoise.Message) and event.text == str(number)
            hubs.world.replicate("t", ("h1",), Mode.SINGLE)
            await hubs.until(lambda: hubs.subscribers() == {"h1": 1})

    tell(6, story)
