"""The map by network coordinates: the layout, the API, and the page."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from playwright.async_api import ViewportSize, expect

from equipoise.coordinates import Coordinate
from equipoise.model import Specs, TopicSpec
from equipoise.store import MemoryStore, SpecsStore
from equipoise.view import HubView, TopicView, View
from equipoise.web.geography import Projector, clients_at
from equipoise.web.latency_status import noted_topics, standings
from web.browsing import DESK, PHONE, Chromium, go_to, is_too_wide
from web.site_world import TOKEN, TREE, Site, play

Spot = tuple[float, float]


def place(x_ms: float, y_ms: float, *rest_ms: float, height_ms: float = 0.0) -> Coordinate:
    point = (x_ms, y_ms, *rest_ms, *[0.0] * (6 - len(rest_ms)))
    return Coordinate(tuple(number / 1_000 for number in point), 0.1, height_ms / 1_000)


def world(places: Mapping[str, Coordinate | None], topics: dict[bytes, Coordinate] | None = None) -> View:
    rows = [
        TopicView(
            name=name, publishers_at=at, publishers_located=1.0, subscribers_at=at, subscribers_located=1.0
        )
        for name, at in (topics or {}).items()
    ]
    return View.of(time.time(), rows, [HubView(name=name, coordinate=at) for name, at in places.items()])


def apart(one: Spot, other: Spot) -> float:
    return math.dist(one, other)


FLAT = {"a": place(0, 0), "b": place(40, 0), "c": place(0, 30), "d": place(-20, 15)}


def test_hubs_on_a_plane_are_as_far_apart_on_the_map_as_in_the_network() -> None:
    picture = Projector().picture(world(FLAT, {b"t": place(20, 20)}), [0])
    assert picture is not None
    assert apart(picture.hubs["a"], picture.hubs["b"]) == pytest.approx(40, abs=0.01)
    assert apart(picture.hubs["b"], picture.hubs["c"]) == pytest.approx(50, abs=0.01)
    assert apart(picture.topics[0], picture.hubs["a"]) == pytest.approx(math.hypot(20, 20), abs=0.01)


@pytest.mark.parametrize("seed", range(10))
def test_a_picture_resembles_the_last_one_however_the_space_has_turned(seed: int) -> None:
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.normal(size=(8, 8)))
    shift = rng.normal(size=8)
    projector = Projector()
    first = projector.picture(world(FLAT), [])
    turned = {
        name: replace(at, point_s=tuple((np.array(at.point_s) @ turn + shift).tolist()))
        for name, at in FLAT.items()
    }
    second = projector.picture(world(turned), [])
    assert first is not None and second is not None
    for name in FLAT:
        assert second.hubs[name] == pytest.approx(first.hubs[name], abs=0.01)


def test_small_changes_and_hubs_that_start_or_stop_do_not_move_other_hubs() -> None:
    rng = random.Random(1)
    projector = Projector()
    first = projector.picture(world(FLAT), [])
    assert first is not None
    for step in range(30):
        trembling: dict[str, Coordinate | None] = {
            name: place(
                1_000 * at.point_s[0] + rng.uniform(-1, 1), 1_000 * at.point_s[1] + rng.uniform(-1, 1)
            )
            for name, at in FLAT.items()
        }
        if step % 3 == 0:
            trembling["e"] = place(10, -40)
        if step % 5 == 0:
            del trembling["d"]
        picture = projector.picture(world(trembling), [])
        assert picture is not None
        for name in ("a", "b", "c"):
            assert apart(picture.hubs[name], first.hubs[name]) < 6


def test_hubs_on_a_line_leave_the_other_axis_to_topics() -> None:
    hubs: dict[str, Coordinate | None] = {"a": place(0, 0), "b": place(50, 0)}
    picture = Projector().picture(world(hubs, {b"t": place(25, 30)}), [0])
    assert picture is not None
    assert apart(picture.topics[0], picture.hubs["a"]) == pytest.approx(math.hypot(25, 30), abs=0.5)


def test_topics_beside_a_line_of_hubs_stay_on_their_side() -> None:
    hubs: dict[str, Coordinate | None] = {"a": place(0, 0), "b": place(50, 0)}
    projector = Projector()
    first = projector.picture(world(hubs, {b"t": place(25, 30), b"u": place(5, 3)}), [0, 1])
    assert first is not None
    for step in range(20):
        # The side is the same, whatever direction the space gives it; one of them wanders.
        sign = -1 if step % 2 else 1
        moved = {b"t": place(25, sign * 30), b"u": place(5 + 2 * step, sign * 3)}
        picture = projector.picture(world(hubs, moved), [0, 1])
        assert picture is not None
        assert apart(picture.topics[0], first.topics[0]) < 3


def test_one_located_hub_is_a_map_and_none_is_no_map() -> None:
    alone = Projector().picture(world({"a": place(3, 4), "b": None}), [])
    assert alone is not None and alone.hubs == {"a": (0.0, 0.0)}
    assert Projector().picture(world({"a": None}), []) is None
    assert Projector().picture(View.of(0.0), []) is None


def test_a_topic_is_where_its_clients_are_on_average() -> None:
    row = TopicView(
        name=b"t",
        publishers_at=place(0, 0),
        publishers_located=1.0,
        subscribers_at=place(40, 0),
        subscribers_located=3.0,
    )
    one_side = replace(row, name=b"u", publishers_at=None, publishers_located=0.0)
    unused = TopicView(name=b"v")
    found = clients_at(View.of(0.0, [row, one_side, unused], []), [2, 1, 0])
    assert np.isnan(found[0]).all()
    assert found[1][0] == pytest.approx(0.040)
    assert found[2][0] == pytest.approx(0.030)


def test_topics_above_their_limits_are_noted_first_then_those_with_one_then_the_busiest() -> None:
    rows = [
        TopicView(name=b"busy", out_bytes_per_s=1e6),
        TopicView(name=b"near/held", latency_s_worst=0.010),
        TopicView(name=b"near/broken", latency_s_worst=0.060),
        TopicView(name=b"slow", latency_s_worst=9.0, out_bytes_per_s=5.0),
    ]
    view = View.of(0.0, rows, [])
    specs = Specs([TopicSpec(pattern=b"near/*", latency_ms=40)])
    assert noted_topics(view, specs, 10) == [2, 1, 0, 3]
    assert noted_topics(view, specs, 1) == [2]


def test_a_measurement_takes_precedence_over_an_estimate() -> None:
    hubs = [HubView(name="a", coordinate=place(0, 0)), HubView(name="b", coordinate=place(100, 0))]
    row = TopicView(
        name=b"t",
        publishers_at=place(0, 0),
        publishers_located=1.0,
        subscribers_at=place(20, 0),
        subscribers_located=1.0,
        deviation_s=0.001,
    )
    measured = replace(row, name=b"u", latency_s_worst=0.05)
    view = View.of(0.0, [row, measured, TopicView(name=b"v")], hubs)
    spec = TopicSpec(pattern=b"*", latency_ms=40.0)
    here, there, unknown = standings(view, [0, 1, 2], [["a"], ["a", "b"], ["a"]], [spec] * 3)
    assert here.worst_s is None and here.is_held is True
    assert here.expected_s == pytest.approx(0.011)
    assert there.worst_s == 0.05 and there.is_held is False
    # The worse of two homes: 50 ms to b, 40 ms on from there.
    assert there.expected_s == pytest.approx(0.091)
    assert (unknown.expected_s, unknown.is_held) == (None, None)


def test_a_limit_is_compared_with_the_measurement_at_its_quantile_and_not_with_the_estimate() -> None:
    row = TopicView(
        name=b"t",
        latency_s_p50=0.01,
        latency_s_p90=0.03,
        latency_s_p99=0.05,
        latency_s_max=0.2,
        latency_s_worst=0.128,
    )
    view = View.of(0.0, [row], [])

    def status(quantile: float) -> tuple[float | None, bool | None]:
        spec = TopicSpec(pattern=b"*", latency_ms=40.0, quantile=quantile)
        (found,) = standings(view, [0], [["a"]], [spec])
        return found.measured_s, found.is_held

    assert status(0.5) == (0.01, True)
    assert status(0.9) == (0.03, True)
    assert status(0.95) == status(0.99) == (0.05, False)
    assert status(0.999) == (0.2, False)


def located_view() -> View:
    """Two sites, 60 ms apart; one topic within its limit, one above it, one without."""
    hubs = [
        HubView(name="a", cpu_ratio=0.5, incarnation=1, coordinate=place(0, 0)),
        HubView(name="b", cpu_ratio=0.1, incarnation=1, coordinate=place(60, 0)),
    ]
    rows = [
        TopicView(
            name=name,
            publications_per_s=10,
            publishers_at=at,
            publishers_located=4.0,
            subscribers_at=at,
            subscribers_located=4.0,
            deviation_s=0.001,
            latency_s_worst=worst_s,
        )
        for name, at, worst_s in (
            (b"swarm/1", place(2, 3), 0.012),
            (b"swarm/2", place(55, -8), 0.061),
            (b"other", place(30, 4), 0.02),
        )
    ]
    return View.of(time.time(), rows, hubs)


async def show_located(site: Site) -> None:
    store = await MemoryStore(site.stores).open()
    await SpecsStore(store, TREE).put(TopicSpec(pattern=b"swarm/*", latency_ms=40))
    async with asyncio.timeout(60):
        while site.controller.knowledge.specs.of(b"swarm/1") is None:  # noqa: ASYNC110  what a task learns has no event
            await asyncio.sleep(0.01)
    site.views.latest = located_view()


def test_the_api_has_positions_of_hubs_and_topics_and_the_state_of_limits() -> None:
    async def scenario(site: Site) -> None:
        status, found = await site.ask("/api/map", token=TOKEN)
        assert (status, found) == (200, {"is_located": False, "hubs": [], "topics": []})
        await show_located(site)
        status, found = await site.ask("/api/map", token=TOKEN)
        assert status == 200 and found["is_located"]
        spots = {hub["hub"]: (hub["x_ms"], hub["y_ms"]) for hub in found["hubs"]}
        assert apart(spots["a"], spots["b"]) == pytest.approx(60, abs=0.1)
        assert {hub["site"] for hub in found["hubs"]} == {"paris"}
        rows = {topic["topic"]: topic for topic in found["topics"]}
        assert [topic["is_held"] for topic in found["topics"]] == [False, True, None]
        assert rows["swarm/2"]["latency_s_expected"] is not None
        _, few = await site.ask("/api/map?limit=1", token=TOKEN)
        assert [topic["topic"] for topic in few["topics"]] == ["swarm/2"]
        _, topic = await site.ask(f"/api/topics/{rows['swarm/2']['id']}", token=TOKEN)
        assert (topic["latency_s_worst"], topic["latency_limit_ms"], topic["is_held"]) == (0.061, 40.0, False)
        for bad in ("limit=0", "limit=x", "limit=501"):
            assert (await site.ask(f"/api/map?{bad}", token=TOKEN))[0] == 400

    play(scenario, token=TOKEN)


@pytest.mark.needs_chromium
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_the_page_draws_topics_at_their_clients_once_hubs_have_coordinates(
    chromium: Chromium, size: ViewportSize
) -> None:
    async def scenario(site: Site) -> None:
        async with chromium.browsing(site.address, size) as page:
            await go_to(page, "Map")
            await expect(page.get_by_role("img", name="Sites, hubs and topics")).to_be_visible()
            await expect(page.locator("main")).to_contain_text("no hub has a coordinate yet")
            await show_located(site)
            plane = page.get_by_role("img", name="Hubs and topics by network distance")
            await expect(plane).to_be_visible()
            await expect(plane.locator("g.hub")).to_have_count(2)
            await expect(plane.locator("g.topic")).to_have_count(3)
            await expect(plane.locator("g.topic.broken title")).to_have_text(
                "swarm/2 at a: p99 –, ≈ 61 ms by coordinates, limit 40 ms, broken"
                if site.controller.knowledge.plan.home_of(b"swarm/2", {"a", "b"}).homes == ("a",)
                else "swarm/2 at b: p99 –, ≈ 61 ms by coordinates, limit 40 ms, broken"
            )
            await expect(plane.locator("g.topic.held line")).to_have_count(1)
            await expect(plane).to_contain_text("ms round trip")
            await expect(plane).to_contain_text("paris")
            assert not await is_too_wide(page)

    play(scenario, run=chromium.run)
