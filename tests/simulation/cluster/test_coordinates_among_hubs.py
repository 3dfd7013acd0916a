"""Hubs find their coordinates by probing each other over their links, under faults of links and peers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from statistics import mean

import pytest

from equipoise.coordinates import Coordinate
from equipoise.hub.data.other_hubs import OtherHubs
from equipoise.hub.locations.settings import CoordinatesSettings
from equipoise.lab.simulation import Simulation
from equipoise.lab.simulation.link import LinkSpec
from equipoise.lab.simulation.topology import Cities, Sites, Star, Topology
from simulation.cluster.sited import SitedHubs

MS = 1e-3
THREE_SITES = Sites({("a", "b"): 30 * MS, ("a", "c"): 80 * MS, ("b", "c"): 60 * MS})
PAIRS = {f"{site}{i}": site for site in "abc" for i in (1, 2)}
# Access links from 2 to 16 ms, one way.
STAR = Star({f"s{i}": LinkSpec(latency_s=(2 + 2 * i) * MS) for i in range(8)})


def play(
    topology: Topology,
    where: Mapping[str, str],
    story: Callable[[SitedHubs], Awaitable[None]],
    *,
    seed: int = 0,
    settings: CoordinatesSettings | None = None,
) -> None:
    with Simulation(seed, topology=topology) as sim:
        world = SitedHubs(sim, topology, where, settings)

        async def main() -> None:
            await world.start()
            await story(world)

        sim.run(main())


@pytest.mark.parametrize("seed", range(2))
def test_hubs_at_three_sites_are_within_two_milliseconds_after_two_minutes(seed: int) -> None:
    async def story(world: SitedHubs) -> None:
        await asyncio.sleep(120)
        assert max(map(abs, world.errors_s())) < 2 * MS
        assert mean(world.ratios()) < 0.02
        for name in world.hubs:
            probing = world.probing(name)
            assert probing.peers == 5
            assert (probing.discarded, probing.estimator.outliers, probing.estimator.resets) == (0, 0, 0)

    play(THREE_SITES, PAIRS, story, seed=seed)


def test_hubs_in_cities_around_the_world_are_within_a_tenth_after_ten_minutes() -> None:
    cities = ("atlanta", "boston", "dallas", "london", "seattle", "sydney", "tokyo")

    async def story(world: SitedHubs) -> None:
        await asyncio.sleep(600)
        assert mean(world.ratios()) < 0.10
        assert mean(map(abs, world.errors_s())) < 10 * MS

    play(Cities(), dict(zip(cities, cities, strict=True)), story)


def test_hubs_around_a_switch_have_the_error_that_epulsar_reports() -> None:
    async def story(world: SitedHubs) -> None:
        for wait_s in (60, 240):
            await asyncio.sleep(wait_s)
            assert max(map(abs, world.errors_s())) < 3.5 * MS
            assert mean(world.ratios()) < 0.06

    play(STAR, {f"s{i}": f"s{i}" for i in range(8)}, story)


def test_a_single_hub_is_at_the_origin_and_two_are_at_their_distance() -> None:
    async def story(world: SitedHubs) -> None:
        await asyncio.sleep(60)
        assert max(map(abs, world.errors_s())) < 1 * MS

    play(Sites({("a", "b"): 30 * MS}), {"h1": "a", "h2": "b"}, story)

    async def alone(world: SitedHubs) -> None:
        await asyncio.sleep(5)
        assert world.told("h1").point_s == (0.0,) * 8
        assert world.probing("h1").sent == 0

    play(Sites({}), {"h1": "a"}, alone)


def test_a_hub_that_restarts_before_the_others_reports_no_coordinate() -> None:
    """1. All hubs of a plan stop. 2. One is back, and alone alive. 3. It was never at the origin."""

    async def story(world: SitedHubs) -> None:
        await asyncio.sleep(60)
        for name in ("h1", "h2"):
            world.crash(name)
        await world.start("h1")
        await asyncio.sleep(5)
        assert world.hubs["h1"].core.places.own is None
        await world.start("h2")
        await asyncio.sleep(60)
        assert max(map(abs, world.errors_s())) < 1 * MS

    play(Sites({("a", "b"): 30 * MS}), {"h1": "a", "h2": "b"}, story)


@pytest.mark.parametrize("rtt_ms", [350, 600])
def test_hubs_that_reply_more_slowly_than_rounds_find_their_coordinates_as_well(rtt_ms: int) -> None:
    async def story(world: SitedHubs) -> None:
        await asyncio.sleep(180)
        assert max(world.ratios()) < 0.05
        for name in world.hubs:
            probing = world.probing(name)
            assert probing.answered >= probing.sent - 1, "none is asked again before it has answered"

    play(Sites({("a", "b"): rtt_ms * MS}), {"a1": "a", "b1": "b"}, story)


def silence(world: SitedHubs, name: str) -> None:
    """Let a hub answer no probe any more."""
    world.probing(name).receive_probe = lambda cluster, peer, token: None  # type: ignore[method-assign]  # that is silence


def test_a_peer_that_does_not_answer_is_probed_again_after_the_timeout() -> None:
    async def story(world: SitedHubs) -> None:
        await asyncio.sleep(60)
        silence(world, "h2")
        sent = world.probing("h1").sent
        await asyncio.sleep(60)
        assert 5 <= world.probing("h1").sent - sent <= 7, "the longest round trip that counts takes 10 s"

    play(Sites({("a", "b"): 30 * MS}), {"h1": "a", "h2": "b"}, story)


def test_a_probe_lost_with_its_connection_blocks_no_other_probe() -> None:
    """1. A peer does not answer a question. 2. The link breaks and is back. 3. The peer is asked again at once."""

    async def story(world: SitedHubs) -> None:
        await asyncio.sleep(60)
        silence(world, "h2")
        await asyncio.sleep(3)
        probing, sent = world.probing("h1"), world.probing("h1").sent
        world.sim.reset_connections("h1", "h2")
        await asyncio.sleep(4)
        assert probing.sent > sent

    play(Sites({("a", "b"): 30 * MS}), {"h1": "a", "h2": "b"}, story)


def test_every_hub_has_a_coordinate_to_report_within_a_second() -> None:
    async def story(world: SitedHubs) -> None:
        await asyncio.sleep(1)
        for name in world.hubs:
            assert world.told(name).is_finite

    play(THREE_SITES, PAIRS, story)


def test_reported_coordinates_are_stable_in_a_stable_network() -> None:
    async def story(world: SitedHubs) -> None:
        await asyncio.sleep(300)
        before = {name: world.told(name) for name in world.hubs}
        raw = {name: world.probing(name).estimator.coordinate for name in world.hubs}
        await asyncio.sleep(120)
        assert sum(world.told(name) is not before[name] for name in world.hubs) <= 1
        assert all(world.probing(name).estimator.coordinate != raw[name] for name in world.hubs)

    play(THREE_SITES, PAIRS, story)


def lie(world: SitedHubs, name: str, told: Callable[[], bytes]) -> None:
    """Let a hub answer probes with something else than where it is."""

    def asked(cluster: OtherHubs, peer: str, token: int) -> None:
        cluster.send_echo(peer, token, told())

    world.probing(name).receive_probe = asked  # type: ignore[method-assign]  # that is the lie


FAR_AWAY = Coordinate((15.0, *[0.0] * 7), 0.0, 1e-5).to_bytes()
HONEST = {name: place for name, place in PAIRS.items() if name != "c2"}


@pytest.mark.parametrize("seed", range(2))
def test_a_hub_with_a_false_coordinate_moves_no_other_hub(seed: int) -> None:
    async def story(world: SitedHubs) -> None:
        await asyncio.sleep(90)
        lie(world, "c2", lambda: FAR_AWAY)
        await asyncio.sleep(120)
        errors_s = world.errors_s(lambda one, other: "c2" not in (one, other))
        assert max(map(abs, errors_s)) < 4 * MS
        assert sum(world.probing(name).estimator.outliers for name in HONEST) > 100

    play(THREE_SITES, PAIRS, story, seed=seed)


@pytest.mark.parametrize(
    "nonsense",
    [b"", b"\xff" * 88, b"\0" * 80, FAR_AWAY[:-1]],
    ids=["nothing", "no numbers", "too few", "cut short"],
)
def test_invalid_coordinates_are_counted_and_ignored(nonsense: bytes) -> None:
    async def story(world: SitedHubs) -> None:
        lie(world, "c2", lambda: nonsense)
        await asyncio.sleep(60)
        assert max(map(abs, world.errors_s(lambda one, other: "c2" not in (one, other)))) < 10 * MS
        assert all(world.probing(name).discarded > 5 for name in HONEST)
        assert all(world.probing(name).peers == 4 for name in HONEST)
        assert sum(world.sim.faults.values()) == 0, "no link was broken over it"

    play(THREE_SITES, PAIRS, story)


def test_a_restarted_hub_finds_its_coordinate_again_and_others_keep_theirs() -> None:
    async def story(world: SitedHubs) -> None:
        await asyncio.sleep(120)
        before = {name: world.told(name) for name in world.hubs if name != "b1"}
        world.crash("b1")
        await asyncio.sleep(20)
        assert {world.probing(name).peers for name in world.hubs} == {4}
        await world.start("b1")
        await asyncio.sleep(60)
        assert max(map(abs, world.errors_s())) < 3 * MS
        for name, told in before.items():
            assert world.told(name).raw_distance_s(told) < 8 * MS

    play(THREE_SITES, PAIRS, story)


def test_a_site_that_was_cut_off_keeps_its_coordinate_and_no_wait_counts_as_distance() -> None:
    async def story(world: SitedHubs) -> None:
        await asyncio.sleep(120)
        inside, outside = ("c1", "c2"), ("a1", "a2", "b1", "b2")
        for one in inside:
            for other in outside:
                world.sim.cut(one, other)
        await asyncio.sleep(30)
        assert max(map(abs, world.errors_s())) < 4 * MS, "nothing is learnt while nothing is heard"
        for one in inside:
            for other in outside:
                world.sim.heal(one, other)
        await asyncio.sleep(60)
        assert max(map(abs, world.errors_s())) < 4 * MS
        longest_s = max(
            sample
            for name in world.hubs
            for samples in world.probing(name).estimator._samples.values()
            for sample in samples
        )
        assert longest_s < 100 * MS

    play(THREE_SITES, PAIRS, story)


def test_seeds_are_probed_in_every_round() -> None:
    async def story(world: SitedHubs) -> None:
        await asyncio.sleep(60)
        probing = world.probing("c1")
        asked: list[str] = []
        probing._probe = lambda cluster, peer: asked.append(peer)  # type: ignore[method-assign]  # only note it
        await asyncio.sleep(30)
        rounds = len(asked) // 3
        assert rounds > 20
        assert asked.count("a1") >= rounds
        assert set(asked) == set(PAIRS) - {"c1"}

    play(THREE_SITES, PAIRS, story, settings=CoordinatesSettings(seeds=("a1", "unknown")))


def test_bulk_traffic_on_a_link_does_not_count_as_distance() -> None:
    """A hub whose link is busy is not probed, and does not answer: there are others to measure by."""

    async def story(world: SitedHubs) -> None:
        await asyncio.sleep(60)
        cluster = world.hubs["a1"].cluster
        assert cluster is not None
        busy = cluster.out["b1"]
        busy.pause()
        asked, answered = world.probing("a1").sent, world.probing("b1").answered
        end = busy.end
        await asyncio.sleep(20)
        assert busy.end == end, "neither a probe nor an answer waits there"
        assert world.probing("a1").sent > asked
        assert world.probing("b1").answered > answered
        busy.unpause()
        await asyncio.sleep(20)
        assert max(map(abs, world.errors_s())) < 3 * MS

    play(THREE_SITES, PAIRS, story)
