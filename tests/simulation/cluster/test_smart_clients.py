"""Clients that follow redirects between real hubs under all faults, by seed; some cases step by step."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

import equipoise
from equipoise.client.routing.channel import TopicChannel
from equipoise.lab.simulation.campaign import ablation_by_name
from equipoise.lab.simulation.cluster.world import ClusterWorld
from equipoise.lab.simulation.simulated_hub import PORT
from equipoise.lab.simulation.world import OBSERVER
from equipoise.lab.workload import hurried
from equipoise.model import Mode

from .worlds import CALM, case, check_promises, check_seeds, run

SEEDS = range(5)
# A run with four hubs and twelve clients takes ten times as long.
FEW_SEEDS = range(2)


@pytest.mark.parametrize(
    "name",
    [
        "cluster-routed-moves",
        "cluster-routed-lazy",
        "cluster-routed-skew",
        "cluster-routed-ring",
        "cluster-routed-resets",
        "cluster-routed-cuts",
        "cluster-routed-crashes",
        "cluster-routed-zombies",
        "cluster-routed-everything",
    ],
)
def test_routed_clients_receive_every_message_once_and_in_order(name: str) -> None:
    check_seeds(name, SEEDS)


@pytest.mark.parametrize(
    "name",
    [
        "cluster-routed-lanes",
        "cluster-routed-replication",
        "cluster-routed-replication-ring",
        "cluster-routed-replication-clients",
        "cluster-routed-replication-crashes",
        "cluster-routed-replication-cuts",
        "cluster-routed-replication-everything",
        "cluster-routed-followers-skew",
    ],
)
def test_routed_clients_of_replicas_receive_every_message_once_and_in_order(name: str) -> None:
    check_seeds(name, FEW_SEEDS)


@pytest.mark.parametrize(
    ("seed", "name"),
    [
        pytest.param(
            239, "cluster-routed-replication-cuts", id="a-lane-begins-while-a-subscriber-is-cut-off"
        ),
        pytest.param(
            241,
            "cluster-routed-replication-everything",
            id="a-hub-without-a-plan-lags-behind-what-was-received",
        ),
        pytest.param(
            374,
            "cluster-routed-replication-everything",
            id="a-trunk-opens-for-those-who-get-its-lanes-elsewhere",
        ),
    ],
)
def test_seeds_that_once_failed_stay_green(seed: int, name: str) -> None:
    check_promises(run(seed, case(name)), seed)


def test_the_same_seed_gives_the_same_run() -> None:
    scenario = case("cluster-routed-skew")
    assert run(3, scenario).hash == run(3, scenario).hash


# Step by step.


class Story:
    """Three hubs, and a client of the test's own beside them; the plan has the topic t where the test wants it."""

    def __init__(self, world: ClusterWorld) -> None:
        self.world = world

    def subscribers(self, topic: str = "t") -> dict[str, int]:
        """By hub, how many clients subscribe there."""
        found: dict[str, int] = {}
        for name, node in self.world.hubs.items():
            known = None if node.hub is None else node.hub.core.index.topics.get(topic.encode())
            if known is not None and known.members:
                found[name] = len(known.members)
        return found

    def sessions(self) -> dict[str, int]:
        """By hub, the connections of clients."""
        return {
            name: sum(session.peer is None for session in node.hub.core.sessions.values())
            for name, node in self.world.hubs.items()
            if node.hub is not None
        }

    async def until(self, is_so: Callable[[], bool]) -> None:
        await self.world.until(is_so, 20.0)
        assert is_so()


def tell(seed: int, story: Callable[[Story, equipoise.Bus], Awaitable[None]], **settings: float) -> None:
    """Play a story with one client, whose base is h1; the topic t lives at h1 at first."""
    ends: list[BaseException | None] = []

    async def client(world: ClusterWorld) -> None:
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

    def prepare(world: ClusterWorld) -> None:
        world.keep(client(world))

    outcomes = run(seed, replace(CALM, duration_s=30.0), clients=(), prepare=prepare)
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
            (channel,) = bus._routing.channels.of(b"t")
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


def test_a_client_that_leaves_before_it_has_arrived_has_no_live_subscription() -> None:
    with ablation_by_name("staying").off():
        assert any(silences(seed)[1] for seed in range(5))


def test_a_publisher_goes_to_the_home_too_and_its_link_is_closed_when_it_falls_silent() -> None:
    async def story(hubs: Story, bus: equipoise.Bus) -> None:
        hubs.world.move("t", "h2")
        await asyncio.sleep(0.5)
        await bus.publish("t", "told")
        await hubs.until(lambda: hubs.sessions() == {"h1": 1, "h2": 1, "h3": 0})
        await asyncio.sleep(0.5)
        base = hubs.world.hubs["h1"].hub
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


def test_a_dead_home_is_replaced_quickly_and_the_client_receives_a_gap() -> None:
    async def story(hubs: Story, bus: equipoise.Bus) -> None:
        hubs.world.move("t", "h2")
        async with bus.subscribe("t") as t:
            await bus.publish("t", "before")
            assert isinstance(await anext(t), equipoise.Message)
            await hubs.until(lambda: hubs.subscribers() == {"h2": 1})
            hubs.world.hubs["h2"].crash(silent=False)
            hubs.world.directory.expire("h2")
            event = await anext(t)
            assert isinstance(event, equipoise.Gap)
            while True:
                await bus.publish("t", "after")
                event = await anext(t)
                if isinstance(event, equipoise.Message):
                    break
            await hubs.until(lambda: sum(hubs.subscribers().values()) == 1)
        hubs.world.hubs["h2"].start()

    tell(4, story)


def test_the_base_that_dies_is_replaced_by_another_hub_of_the_url() -> None:
    async def story(hubs: Story, bus: equipoise.Bus) -> None:
        hubs.world.move("t", "h3")
        async with bus.subscribe("t") as t, bus.psubscribe("other*") as other:
            await hubs.until(lambda: hubs.subscribers() == {"h3": 1})
            hubs.world.hubs["h1"].crash(silent=False)
            hubs.world.directory.expire("h1")
            await bus.publish("t", "while the base is away")
            assert isinstance(await anext(t), equipoise.Message), "the home goes on serving"
            assert isinstance(await anext(other), equipoise.Gap)
            await bus.publish("other topic", "x")
            assert isinstance(await anext(other), equipoise.Message)
        hubs.world.hubs["h1"].start()

    tell(5, story)


def test_a_client_without_redirects_receives_no_duplicate_from_a_lagging_hub() -> None:
    """
    1. A subscriber without redirects has received messages at the home h1; h2 follows the topic, and its link is cut.
    2. It loses h1 and goes on at h2, which is not as far. When the link is up again, it gets what it lacks, and no gap.
    """

    async def story(hubs: Story, bus: equipoise.Bus) -> None:
        sim = hubs.world.sim
        staying = hurried(routing=False)
        async with (
            equipoise.connect(f"equipoise://h2:{PORT}", settings=staying) as other,
            other.subscribe("t"),
            bus.subscribe("t") as t,
        ):
            await hubs.until(lambda: hubs.subscribers() == {"h1": 1, "h2": 1})
            sim.cut("h1", "h2", one_way=True)
            received = []
            for number in range(3):
                await bus.publish("t", str(number))
                received.append(await anext(t))
            sim.cut(OBSERVER, "h1")
            sim.reset_connections(OBSERVER, "h1")
            await hubs.until(lambda: hubs.subscribers().get("h2") == 2)
            sim.heal("h1", "h2", one_way=True)
            await bus.publish("t", "3")
            received.append(await anext(t))
            assert [getattr(event, "text", event) for event in received] == ["0", "1", "2", "3"]
            sim.heal(OBSERVER, "h1")

    tell(7, story, routing=False)


def test_a_client_reads_each_lane_from_its_home_without_duplicates() -> None:
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
