"""The pages of a real `equipoise up`, under load, in Chromium: one system for the whole module."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from playwright.async_api import Page, ViewportSize, expect

from local.up_world import Up, require_java
from web.browsing import DESK, PHONE, Chromium, go_to, is_too_wide, log_in, require_chromium

pytestmark = [
    pytest.mark.needs_java,
    pytest.mark.needs_spark,
    pytest.mark.needs_chromium,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("up"),
]
READY_S = 120.0
TILE = "world/tile/1/1"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Two hubs at two sites, a controller that sees their load, and a few players."""
    require_java()
    require_chromium()
    made = Up(tmp_path_factory.mktemp("up"))
    players: subprocess.Popen[bytes] | None = None
    try:
        made.start("--hubs", "2", "--sites", "paris,tokyo")
        made.until(lambda: "hub-2 ready" in made.said, "no hubs")
        load = [
            "load",
            f"equipoise://127.0.0.1:{made.port}",
            "--players",
            "0:8,600:8",
            "--tiles",
            "2",
            "--json",
        ]
        players = subprocess.Popen(
            [sys.executable, "-m", "equipoise.cli.main", *load], stdout=subprocess.DEVNULL
        )
        made.until(lambda: is_seen(made), "no topic is seen", READY_S)
        yield made
    finally:
        if players is not None:
            players.kill()
            players.wait()
        made.stop()


def is_seen(up: Up) -> bool:
    overview = up.ask("/api/overview")
    return overview is not None and overview["state"] == "leading" and overview["topics"] >= 4


def look(
    chromium: Chromium,
    up: Up,
    scenario: Callable[[Page], Coroutine[Any, Any, None]],
    size: ViewportSize = DESK,
) -> None:
    async def main() -> None:
        async with chromium.browsing(up.dashboard, size) as page:
            await scenario(page)

    chromium.run(main())


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_every_page_shows_the_system_and_fits_the_screen(
    chromium: Chromium, up: Up, size: ViewportSize
) -> None:
    async def scenario(page: Page) -> None:
        main = page.locator("main")
        for name, words in (
            ("Overview", ["hubs alive", "pipeline lag", "worst loop lag", f"127.0.0.1:{up.port}", "hub-2"]),
            ("Topics", [TILE, "1–4 of 4"]),
            ("Map", ["paris", "tokyo", "hub-1"]),
            ("Plans", ["hub-1 takes part with weight 1", "joined"]),
        ):
            await go_to(page, name)
            for word in words:
                await expect(main).to_contain_text(word)
            assert not await is_too_wide(page), f"{name} is wider than the screen"
        await go_to(page, "Topics")
        await page.get_by_role("link", name=TILE).click()
        await expect(main).to_contain_text("lives at")
        await expect(main).to_contain_text("Homes and reasons of moves")
        assert not await is_too_wide(page)

    look(chromium, up, scenario, size)


def test_charts_update_by_themselves(chromium: Chromium, up: Up) -> None:
    async def scenario(page: Page) -> None:
        await expect(page.locator(".tile", has_text="pipeline lag")).to_contain_text(" s")
        await page.evaluate("window.isStillTheSame = true")
        async with page.expect_response(lambda answer: "/api/curves?since_s=" in answer.url) as first:
            pass
        fresh = await (await first.value).json()
        # Only what is new, since the whole was asked for before.
        assert len(fresh["at_s"]) < 10
        assert await page.evaluate("window.isStillTheSame")

    look(chromium, up, scenario)


def test_an_operator_moves_a_topic_and_its_home_changes(chromium: Chromium, up: Up) -> None:
    async def scenario(page: Page) -> None:
        main = page.locator("main")
        await log_in(page, up.token)
        await go_to(page, "Topics")
        await page.get_by_role("link", name=TILE).click()
        lives = page.locator(".tile", has_text="lives at")
        await expect(lives).to_contain_text("hub-")
        home = (await lives.inner_text()).split()[0]
        other = {"hub-1": "hub-2", "hub-2": "hub-1"}[home]
        await page.get_by_role("button", name="Move").click()
        await page.get_by_label("Hubs").select_option(other)
        await page.get_by_role("button", name="Confirm").click()
        await expect(lives).to_contain_text(other)
        await expect(main).to_contain_text("operator")
        await expect(page.locator("tbody tr", has_text="operator").first).to_contain_text("still")

    look(chromium, up, scenario)


def test_without_the_token_actions_are_rejected_and_nothing_changes(chromium: Chromium, up: Up) -> None:
    before = up.ask("/api/overview")["plan_version"]

    async def scenario(page: Page) -> None:
        drain = page.locator("tr", has_text="hub-2").get_by_role("button", name="Drain")
        await drain.click()
        await page.get_by_role("button", name="Confirm").click()
        await expect(page.locator("#notice")).to_contain_text("a token is required")
        await log_in(page, "not-the-right-token")
        await expect(page.locator("#notice")).to_contain_text("a token is required")
        await expect(page.get_by_role("button", name="Log in")).to_be_visible()

    look(chromium, up, scenario)
    hubs = {hub["hub"]: hub["weight"] for hub in up.ask("/api/hubs")}
    assert hubs == {"hub-1": 1.0, "hub-2": 1.0} and up.ask("/api/overview")["plan_version"] >= before
