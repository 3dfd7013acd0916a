"""The pages as a browser shows them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from playwright.async_api import Page, ViewportSize, expect

from web.browsing import DESK, PHONE, browsing, go_to, is_too_wide, log_in, require_chromium
from web.site_world import HOT, TOKEN, Site, play, some_view

pytestmark = pytest.mark.needs_chromium


def look(
    scenario: Callable[[Site, Page], Coroutine[Any, Any, None]],
    *,
    token: str = "",
    size: ViewportSize = DESK,
) -> None:
    require_chromium()

    async def main(site: Site) -> None:
        async with browsing(site.address, size) as page:
            await scenario(site, page)

    play(main, token=token)


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_every_page_shows_what_it_is_for_and_fits_the_screen(size: ViewportSize) -> None:
    async def scenario(site: Site, page: Page) -> None:
        for name, words in (
            (
                "Overview",
                [
                    "hubs alive",
                    "latency p99",
                    "pipeline lag",
                    "leader",
                    "Load of each hub",
                    "Latency",
                    "a:6399",
                ],
            ),
            ("Topics", ["game/tile 1\\xff", "calm", "1–3 of 3"]),
            ("Map", ["paris"]),
            ("Plans", ["takes part with weight", "joined"]),
        ):
            await go_to(page, name)
            for word in words:
                await expect(page.locator("main")).to_contain_text(word)
            assert not await is_too_wide(page), f"{name} is wider than the screen"
        await go_to(page, "Topics")
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
        await go_to(page, "Topics")
        await page.get_by_role("link", name="game/tile").click()
        await page.get_by_role("button", name="Move").click()
        await page.get_by_label("Hubs").select_option("b")
        await page.get_by_role("button", name="Cancel").click()
        assert HOT not in (await site.plan()).entries
        await page.get_by_role("button", name="Move").click()
        await page.get_by_label("Hubs").select_option("b")
        await page.get_by_role("button", name="Confirm").click()
        history = page.locator("tbody tr", has_text="operator")
        await expect(history).to_contain_text("still")
        await expect(history).to_contain_text("b")
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
