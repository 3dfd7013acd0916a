"""The pages as a browser shows them."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from playwright.async_api import Page, async_playwright, expect

from web.site_world import HOT, TOKEN, Site, play, some_view

pytestmark = pytest.mark.needs_chromium
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
PHONE = {"width": 390, "height": 800}
DESK = {"width": 1280, "height": 900}


@asynccontextmanager
async def browsing(site: Site, size: dict[str, int]) -> AsyncIterator[Page]:
    """A page of the site. Whatever it complains about, or asks anybody else for, fails the test."""
    complaints: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        page = await browser.new_page(viewport={"width": size["width"], "height": size["height"]})
        page.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
        page.on("pageerror", lambda problem: complaints.append(str(problem)))
        page.on(
            "request",
            lambda asked: None if asked.url.startswith(site.address) else complaints.append(asked.url),
        )
        page.set_default_timeout(45_000)
        yield page
        await browser.close()
    # A refusal is an answer, which browsers log all the same.
    assert [text for text in complaints if "401" not in text] == []


def look(
    scenario: Callable[[Site, Page], Coroutine[Any, Any, None]],
    *,
    token: str = "",
    size: dict[str, int] = DESK,
) -> None:
    if not CHROMIUM:
        pytest.skip("Chromium is not installed")

    async def main(site: Site) -> None:
        async with browsing(site, size) as page:
            await page.goto(site.address)
            await scenario(site, page)

    play(main, token=token)


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_every_page_shows_what_it_is_for_and_fits_the_screen(size: dict[str, int]) -> None:
    async def scenario(site: Site, page: Page) -> None:
        for name, words in (
            ("Overview", ["hubs alive", "Load of each hub", "a:6399"]),
            ("Topics", ["game/tile 1\\xff", "calm", "1–3 of 3"]),
            ("Map", ["paris"]),
            ("Plans", ["takes part with weight", "joined"]),
        ):
            await page.get_by_role("navigation").get_by_role("link", name=name).click()
            for word in words:
                await expect(page.locator("main")).to_contain_text(word)
            wide = await page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
            assert not wide, f"{name} is wider than the screen"
        await page.get_by_role("navigation").get_by_role("link", name="Topics").click()
        await page.get_by_role("link", name="game/tile").click()
        await expect(page.locator("main")).to_contain_text("lives at")

    look(scenario, size=size)


def test_what_changes_is_shown_without_being_asked_for() -> None:
    async def scenario(site: Site, page: Page) -> None:
        await expect(page.locator("main")).to_contain_text("topics with load")
        await page.evaluate("window.isStillTheSame = true")
        view = some_view()
        site.views.latest = view.of(view.time_s + 1, hubs=view.hub_rows())
        tile = page.locator(".tile", has_text="topics with load")
        await expect(tile).to_contain_text("0")
        assert await page.evaluate("window.isStillTheSame")

    look(scenario)


def test_topics_are_found_by_part_of_their_name() -> None:
    async def scenario(site: Site, page: Page) -> None:
        await page.goto(f"{site.address}/#/topics")
        await page.get_by_label("Search topics").fill("quiet")
        await expect(page.locator("tbody tr")).to_have_count(1)

    look(scenario)


def test_an_operator_logs_in_and_moves_a_topic_after_confirming() -> None:
    async def scenario(site: Site, page: Page) -> None:
        await log_in(page, TOKEN)
        await page.get_by_role("navigation").get_by_role("link", name="Topics").click()
        await page.get_by_role("link", name="game/tile").click()
        await page.get_by_role("button", name="Move").click()
        await page.get_by_label("Hubs").select_option("b")
        await page.get_by_role("button", name="Cancel").click()
        assert HOT not in (await site.plan()).entries
        await page.get_by_role("button", name="Move").click()
        await page.get_by_label("Hubs").select_option("b")
        await page.get_by_role("button", name="Confirm").click()
        await expect(page.locator("main")).to_contain_text("operator")
        assert (await site.plan()).entries[HOT].homes == ("b",)

    look(scenario, token=TOKEN)


def test_a_wrong_token_is_refused_and_shows_nothing() -> None:
    async def scenario(site: Site, page: Page) -> None:
        await log_in(page, "wrong")
        await expect(page.locator("#notice")).to_contain_text("token")
        await expect(page.locator("main")).not_to_contain_text("a:6399")

    look(scenario, token=TOKEN)


def test_without_a_token_set_actions_are_refused_in_plain_words() -> None:
    async def scenario(site: Site, page: Page) -> None:
        await page.locator("tr", has_text="b:6399").get_by_role("button", name="Drain").click()
        await page.get_by_role("button", name="Confirm").click()
        await expect(page.locator("#notice")).to_contain_text("read-only")
        assert (await site.plan()).by_hub["b"].weight > 0

    look(scenario)


async def log_in(page: Page, token: str) -> None:
    await page.get_by_role("button", name="Log in").click()
    await page.get_by_label("Token").fill(token)
    await page.get_by_role("button", name="Confirm").click()
    await asyncio.sleep(0)
