"""A swarm on a real hub behind a relay, and the report of its crossing."""

from __future__ import annotations

import asyncio
import io

import pytest
from rich.console import Console

from equipoise.hub import Hub, HubSettings
from equipoise.lab.demo.acts import EAST, SHORT, STORY, WEST, Until
from equipoise.lab.demo.report import report_page, summary_lines
from equipoise.lab.demo.scene import Scene, SwarmLine
from equipoise.lab.demo.screen import LineShow, render, swarm_words
from equipoise.lab.demo.sites import DemoSites, site_of
from equipoise.lab.demo.swarm import DRONES, Following, Swarm
from equipoise.lab.demo.wan import HOST
from equipoise.lab.workload.game import GameTally

CLEAN = {"lost": 0, "duplicated": 0, "out_of_order": 0, "gaps": 0}


def scene(at_s: float, latency_ms: float | None, *, site: str = EAST, home_site: str = EAST) -> Scene:
    swarm = SwarmLine(site, latency_ms, 40.0, "hub-2", home_site)
    return Scene(at_s=at_s, act="an act", words="About it.", players=0, swarm=swarm)


def seen(*scenes: Scene) -> Following:
    following = Following()
    following.leave(WEST, 0.0)
    following.leave(EAST, 10.0)
    for one in scenes:
        following.see(one)
    return following


def test_a_limit_that_broke_and_holds_again_was_followed() -> None:
    far = [scene(10 + at, 70.0, home_site=WEST) for at in range(5)]
    near = [scene(15 + at, 9.0) for at in range(3)]
    before = seen(*far, *near[:2])
    assert (before.was_broken, before.is_near, before.back_s) == (True, False, None)
    following = seen(*far, *near)
    assert (following.is_near, following.back_s) == (True, 5.0)
    assert following.latency_ms_max == 70.0
    (line,) = summary_lines(
        CLEAN, published=1, delivered=1, moves=0, hubs_max=3, homes_max=1, following=following
    )[2:]
    assert "70 ms at worst" in line and "back under 40 ms after 5 s" in line


def test_a_blip_starts_the_count_anew_and_a_far_home_is_not_near() -> None:
    following = seen(scene(11, 70.0), scene(12, 9.0), scene(13, 9.0), scene(14, 55.0), scene(15, 9.0))
    assert not following.is_near
    assert not seen(*(scene(11 + at, 9.0, home_site=WEST) for at in range(9))).is_near
    assert not seen(*(scene(11 + at, None) for at in range(9))).is_near


def test_a_topic_that_did_not_follow_is_reported_unless_there_was_no_crossing() -> None:
    lines = summary_lines(
        CLEAN, published=1, delivered=1, moves=0, hubs_max=3, homes_max=1, following=seen(scene(11, 70.0))
    )
    assert "did not follow it in time (70 ms at worst)" in lines[-1]
    alone = Following()
    alone.leave(WEST, 0.0)
    assert not any(
        "swarm" in line
        for line in summary_lines(
            CLEAN, published=1, delivered=1, moves=0, hubs_max=3, homes_max=1, following=alone
        )
    )


def test_the_terminal_and_the_report_show_the_swarm_against_its_limit() -> None:
    far, near = scene(0.0, 70.0, home_site=WEST), scene(1.0, 9.0)
    assert far.swarm is not None
    assert swarm_words(far.swarm) == (
        "the swarm is in the east, its topic at hub-2 in the west; 70.0 ms, limit 40 ms: BROKEN"
    )
    out = io.StringIO()
    with LineShow(Console(file=out, width=300), "header") as show:
        show(far)
    Console(file=out, width=120).print(render(near, "header"))
    assert "limit 40 ms: BROKEN" in out.getvalue() and "limit 40 ms: held" in out.getvalue()
    page = report_page([far, near], [], [], is_good=True)
    assert page.count("<svg") == 5 and "Latency from drone to drone, and its limit" in page


@pytest.mark.parametrize("story", [STORY, SHORT])
def test_a_story_has_the_swarm_settle_before_it_crosses(story: object) -> None:
    assert isinstance(story, tuple)
    flights = [(act.swarm_at, act.until) for act in story if act.swarm_at]
    assert flights[:2] == [(WEST, Until.SETTLED), (EAST, Until.FOLLOWED)]


def test_hubs_are_at_the_sites_in_turn_and_announce_the_address_of_their_relay() -> None:
    async def main() -> None:
        region = DemoSites(["hub-1", "hub-2", "hub-3"], lambda name: (HOST, 1))
        await region.open()
        assert [region.ways.places[f"hub-{number}"] for number in (1, 2, 3)] == [WEST, EAST, WEST]
        words = region.words["hub-2"]
        assert words[:3] == ("--site", EAST, "--advertise")
        assert f"equipoise://{words[3]}" == region.url("hub-2")
        await region.close()

    asyncio.run(main())
    assert site_of(3) == EAST


def test_drones_receive_each_other_through_relays_with_the_latency_of_the_path() -> None:
    async def main() -> None:
        hub = Hub(HubSettings(host=HOST, port=0))
        await hub.start()
        region = DemoSites(["hub-1"], lambda name: (HOST, hub.port))
        await region.open()
        await region.start_gateways(["hub-1"])
        swarm = Swarm([region.url("hub-1")], region.ways, region.gateways, GameTally())
        async with asyncio.timeout(30):
            await swarm.fly_to(WEST)
            near_ms = await measured(swarm, lambda taken: True)
            assert near_ms >= 4.0
            await swarm.fly_to(EAST)
            assert swarm.site == EAST
            # There and back between the sites, twice the last hop.
            assert await measured(swarm, lambda taken: taken >= 64.0) >= 64.0
            swarm.hush()
            while swarm.tally.delivered < DRONES * swarm.tally.published:  # noqa: ASYNC110  messages have no event
                await asyncio.sleep(0.01)
        assert swarm.tally.verdict() == CLEAN
        await swarm.stop()
        await region.close()
        await hub.stop()

    asyncio.run(main())


async def measured(swarm: Swarm, is_enough: object) -> float:
    """What the swarm takes, once that is enough."""
    assert callable(is_enough)
    while (taken := swarm.latency_ms()) is None or not is_enough(taken):  # noqa: ASYNC110  likewise
        await asyncio.sleep(0.01)
    return taken
