"""Take the pictures of the dashboard that the docs show, from a real `equipoise up` with a game on it.

    python tests/web/screenshots.py docs/images        (make screenshots)

The system is the demo's: small hubs and quick policies, two sites, so that within a minute there is something to see.
The map is taken when the swarm has just crossed and its topic has not followed yet.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from playwright.async_api import Browser, ViewportSize, async_playwright, expect

from equipoise.client import ClientSettings
from equipoise.lab.demo import (
    CONTROLLER_TOML,
    CONTROLLER_WORDS,
    FAVOURITE,
    GAME,
    HUB_TOML,
    LIMIT_MS,
    DemoSites,
    Swarm,
)
from equipoise.lab.demo.acts import EAST, WEST
from equipoise.lab.demo.swarm import TOPIC
from equipoise.lab.workload.game import GameLoad
from equipoise.local import Layout, LocalSystem, SystemSettings
from equipoise.local.layout import HOST
from equipoise.model import TopicSpec
from equipoise.model.names import to_id
from equipoise.store import SpecsStore, Tree, open_store
from web.browsing import ARGUMENTS, CHROMIUM, DESK, PHONE

HUBS, HUBS_MAX = 3, 5
NAMES = [f"hub-{number + 1}" for number in range(2 * HUBS_MAX)]
WALKING, CROWD = 20, 26
READY_S = 120.0
# Long enough for a curve, and for the crowd to be answered.
WALK_S, CROWD_S = 25.0, 35.0


async def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="equipoise-screenshots-") as directory:
        layout = Layout(Path(directory) / "data")
        region = DemoSites(NAMES, lambda name: (HOST, layout.known_port(name)))
        await region.open()
        async with LocalSystem(layout, settings(Path(directory), region)) as system:
            load = GameLoad([system.hub_url()], GAME, settings=ClientSettings(coordinate_enabled=False))
            async with asyncio.timeout(READY_S):
                while not system.is_ready:  # noqa: ASYNC110  a state of several processes
                    await asyncio.sleep(0.2)
            await load.start()
            swarm = await take_off(system, region, load)
            try:
                await play(load)
                await take(system.dashboard_url, folder)
                await take_map(system.dashboard_url, folder, swarm)
            finally:
                await swarm.stop()
                await load.stop()
                await region.close()


async def take_off(system: LocalSystem, region: DemoSites, load: GameLoad) -> Swarm:
    store = await open_store(system.store_url)
    await SpecsStore(store, Tree(system.settings.region)).put(TopicSpec(pattern=TOPIC, latency_ms=LIMIT_MS))
    await store.close()
    await region.start_gateways(NAMES[:HUBS])
    swarm = Swarm([region.url(name) for name in NAMES[:HUBS]], region.ways, region.gateways, load.tally)
    await swarm.fly_to(WEST)
    return swarm


def settings(folder: Path, region: DemoSites) -> SystemSettings:
    (folder / "hub.toml").write_text(HUB_TOML)
    (folder / "controller.toml").write_text(CONTROLLER_TOML)
    return SystemSettings(
        hubs=HUBS,
        hubs_max=HUBS_MAX,
        extra={
            **region.words,
            "hub": ("--config", str(folder / "hub.toml")),
            "controller": ("--config", str(folder / "controller.toml"), *CONTROLLER_WORDS),
        },
    )


async def play(load: GameLoad) -> None:
    for players in range(4, WALKING + 1, 4):
        load.set_players(players)
        await asyncio.sleep(WALK_S / 5)
    load.favourite, load.crowd_of_ten = FAVOURITE, 5
    load.set_players(CROWD)
    await asyncio.sleep(CROWD_S)


async def take(url: str, folder: Path) -> None:
    tile = GAME.topic_at(*FAVOURITE)
    pages = {
        "overview": ("", "hubs alive"),
        "topics": ("topics", tile.decode()),
        "topic": (f"topic/{to_id(tile)}", "lives at"),
        "plans": ("plans", "joined"),
    }
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM or None, args=ARGUMENTS)
        for name, (page, words) in pages.items():
            await one(browser, f"{url}/#/{page}", words, folder / f"dashboard-{name}.png", DESK)
        await one(browser, f"{url}/", "hubs alive", folder / "dashboard-phone.png", PHONE)
        await browser.close()


async def take_map(url: str, folder: Path, swarm: Swarm) -> None:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM or None, args=ARGUMENTS)
        page = await browser.new_page(viewport=DESK)
        await page.goto(f"{url}/#/map")
        await expect(page.locator("g.topic.held")).to_have_count(1, timeout=40_000)
        await swarm.fly_to(EAST)
        await expect(page.locator("g.topic.broken")).to_have_count(1, timeout=20_000)
        await page.screenshot(path=folder / "dashboard-map.png")
        print(folder / "dashboard-map.png")
        await browser.close()


async def one(browser: Browser, url: str, words: str, path: Path, size: ViewportSize) -> None:
    page = await browser.new_page(viewport=size)
    await page.goto(url)
    await expect(page.locator("main")).to_contain_text(words, timeout=20_000)
    await expect(page.locator("#state")).to_contain_text("leading", timeout=20_000)
    # Charts are drawn with the answer after the first.
    await page.wait_for_timeout(2_500)
    await page.screenshot(path=path)
    await page.close()
    print(path)


if __name__ == "__main__":
    images = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")
    images.mkdir(parents=True, exist_ok=True)
    asyncio.run(main(images))
