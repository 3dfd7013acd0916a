"""The pages in a browser."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest
from playwright.async_api import Page, Route, ViewportSize, expect

from equipoise.model import WEIGHT_NORMAL, Entry, TopicSpec
from equipoise.store import MemoryStore, SpecsStore
from web.browsing import DESK, PHONE, Chromium, go_to, is_too_wide, log_in
from web.site_world import HOT, TOKEN, TREE, Site, play, some_view

pytestmark = pytest.mark.needs_chromium
# All that the page shows from now on, also for a moment only.
NOTE_ALL_SHOWN = """() => {
  const page = document.getElementById("page");
  window.allShown = page.innerText;
  new MutationObserver(() => { window.allShown += page.innerText; }).observe(page, { childList: true, subtree: true });
}"""


def look(
    chromium: Chromium,
    scenario: Callable[[Site, Page], Coroutine[Any, Any, None]],
    *,
    token: str = "",
    size: ViewportSize = DESK,
) -> None:
    async def main(site: Site) -> None:
        async with chromium.browsing(site.address, size) as page:
            await scenario(site, page)

    play(main, token=token, run=chromium.run)


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_every_page_shows_its_content_and_fits_the_screen(chromium: Chromium, size: ViewportSize) -> None:
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

    look(chromium, scenario, size=size)


def test_changes_are_shown_without_a_reload(chromium: Chromium) -> None:
    async def scenario(site: Site, page: Page) -> None:
        await expect(page.locator("main")).to_contain_text("topics with load")
        await page.evaluate("window.isStillTheSame = true")
        view = some_view()
        site.views.latest = view.of(view.time_s + 1, hubs=view.hub_rows())
        tile = page.locator(".tile", has_text="topics with load")
        await expect(tile).to_contain_text("0")
        assert await page.evaluate("window.isStillTheSame")

    look(chromium, scenario)


def test_a_logged_in_page_gets_changes_until_it_logs_out(
    chromium: Chromium,
) -> None:
    async def scenario(site: Site, page: Page) -> None:
        await log_in(page, TOKEN)
        tile = page.locator(".tile", has_text="topics with load")
        await expect(tile).to_contain_text("3")
        await expect(page.locator("#state")).to_have_text("leading")
        view = some_view()
        site.views.latest = view.of(view.time_s + 1, hubs=view.hub_rows())
        await expect(tile).to_contain_text("0")
        async with page.expect_response(lambda answer: answer.url.endswith("/api/events")) as again:
            await page.get_by_role("button", name="Log out").click()
        assert (await again.value).status == 401
        await expect(page.locator("#state")).not_to_have_text("leading")

    look(chromium, scenario, token=TOKEN)


def test_an_invalid_token_is_removed(chromium: Chromium) -> None:
    async def scenario(site: Site, page: Page) -> None:
        await page.evaluate("sessionStorage.setItem('equipoise-token', 'of the last controller')")
        await page.reload()
        await expect(page.locator("#notice")).to_contain_text("log in again")
        await expect(page.get_by_role("button", name="Log in")).to_be_visible()
        # The refusals that follow, of what the page asks without a token, are no news.
        for name in ("Topics", "Plans"):
            async with page.expect_response(lambda answer: answer.status == 401):
                await go_to(page, name)
        await expect(page.locator("#notice")).to_contain_text("log in again")

    look(chromium, scenario, token=TOKEN)


def test_a_rejection_of_a_request_without_a_token_keeps_a_newer_token(chromium: Chromium) -> None:
    async def scenario(site: Site, page: Page) -> None:
        is_kept = asyncio.Event()

        async def hold(route: Route) -> None:
            await is_kept.wait()
            await route.continue_()

        await page.route("**/api/topics*", hold)
        async with page.expect_response(lambda answer: "/api/topics" in answer.url) as refused:
            await go_to(page, "Topics")
            await page.evaluate(f"sessionStorage.setItem('equipoise-token', '{TOKEN}')")
            is_kept.set()
        assert (await refused.value).status == 401
        await (await refused.value).finished()
        async with page.expect_response(lambda answer: "/api/plan" in answer.url) as shown:
            await go_to(page, "Plans")
        assert (await shown.value).status == 200

    look(chromium, scenario, token=TOKEN)


def test_the_token_is_in_no_cookie(chromium: Chromium) -> None:
    async def scenario(site: Site, page: Page) -> None:
        await log_in(page, TOKEN)
        await expect(page.locator("#state")).to_have_text("leading")
        assert await page.context.cookies() == []
        assert await page.evaluate("document.cookie") == ""

    look(chromium, scenario, token=TOKEN)


def test_an_outdated_reply_is_not_shown(chromium: Chromium) -> None:
    async def scenario(site: Site, page: Page) -> None:
        overtaken = asyncio.Event()

        async def hold(route: Route) -> None:
            await overtaken.wait()
            await route.continue_()

        await page.route("**/api/topics?*search=game*", hold)
        await page.goto(f"{site.address}/#/topics")
        await expect(page.locator("tbody tr")).to_have_count(3)
        search = page.get_by_label("Search topics")
        await search.fill("game")
        await search.fill("quiet")
        await expect(page.locator("tbody tr")).to_have_count(1)
        await page.evaluate(NOTE_ALL_SHOWN)
        async with page.expect_response(lambda answer: "search=game" in answer.url) as late:
            overtaken.set()
        await (await late.value).finished()
        async with page.expect_response(lambda answer: "search=quie&" in answer.url + "&"):
            await search.fill("quie")
        assert "game/tile" not in await page.evaluate("window.allShown")

    look(chromium, scenario)


def test_an_error_of_an_input_or_a_click_is_shown(chromium: Chromium) -> None:
    async def scenario(site: Site, page: Page) -> None:
        def failing(words: str) -> Callable[[Route], Coroutine[Any, Any, None]]:
            return lambda route: route.fulfill(status=401, json={"error": words})

        await page.goto(f"{site.address}/#/topic/calm")
        await expect(page.locator("main")).to_contain_text("lives at")
        await page.route("**/api/hubs", failing("no hubs today"))
        await page.get_by_role("button", name="Move").click()
        await expect(page.locator("#notice")).to_contain_text("no hubs today")
        await go_to(page, "Topics")
        await page.route("**/api/topics?*search=x", failing("no topics today"))
        await page.get_by_label("Search topics").fill("x")
        await expect(page.locator("#notice")).to_contain_text("no topics today")

    look(chromium, scenario)


def test_topics_are_found_by_part_of_their_name(chromium: Chromium) -> None:
    async def scenario(site: Site, page: Page) -> None:
        await page.goto(f"{site.address}/#/topics")
        await page.get_by_label("Search topics").fill("quiet")
        await expect(page.locator("tbody tr")).to_have_count(1)

    look(chromium, scenario)


def test_an_operator_logs_in_moves_a_topic_after_confirming_and_gives_it_back(chromium: Chromium) -> None:
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
        assert (await site.plan()).entries[HOT] == Entry(HOT, ("b",), is_pinned=True)
        pinned = page.locator(".tile", has_text="pinned to")
        await expect(pinned).to_contain_text("b")
        await page.get_by_role("button", name="Unpin").click()
        await page.get_by_role("button", name="Confirm").click()
        await expect(pinned).to_contain_text("–")
        assert (await site.plan()).entries[HOT] == Entry(HOT, ("b",))
        await page.get_by_role("button", name="Return to the ring").click()
        await page.get_by_role("button", name="Confirm").click()
        await expect(page.locator(".left tbody tr").first).to_contain_text("by the ring")
        assert HOT not in (await site.plan()).entries

    look(chromium, scenario, token=TOKEN)


async def set_limit(page: Page, **fields: str) -> None:
    """Type these into the form, by the names of its fields, and confirm with Enter."""
    await page.get_by_role("button", name="Set a limit").click()
    for name, text in fields.items():
        await page.get_by_label(name).fill(text)
    await page.get_by_label("Pattern").press("Enter")


def test_an_operator_sets_and_removes_limits_and_pins_and_sees_the_result(chromium: Chromium) -> None:
    async def scenario(site: Site, page: Page) -> None:
        specs = SpecsStore(await MemoryStore(site.stores).open(), TREE)
        kept = TopicSpec(pattern=b"game*", rate_per_s=500.0, burst_messages=9)
        await specs.put(kept)
        notice = page.locator("#notice")
        await log_in(page, TOKEN)
        await go_to(page, "Topics")
        for text in ("40", "40 ms", "40ms"):
            await set_limit(page, Pattern="game*", Latency="41.5")
            await expect(notice).to_contain_text("latency 41.5 ms")
            await set_limit(page, Pattern="game*", Latency=text)
            await expect(notice).to_contain_text("game*: latency 40 ms, rate 500/s")
            assert await specs.get(b"game*") == msgspec.structs.replace(kept, latency_ms=40.0)
        for text in ("forty", "40 s", "-1", "0", "4e1", "1,5", "ms"):
            await set_limit(page, Pattern="game*", Latency=text)
            await expect(notice).to_contain_text(f"“{text}” is no latency")
        await expect(page.locator("tbody tr", has_text="game/tile")).to_contain_text("40 ms")
        # The form shows what is said already, and what is left as it is stays.
        await set_limit(page, Pattern="game*", Pinned="paris")
        await expect(notice).to_contain_text("game*: latency 40 ms, pinned to paris, rate 500/s")
        await page.get_by_role("link", name="game/tile").click()
        await expect(page.locator(".tile", has_text="pinned to")).to_contain_text("paris")
        await go_to(page, "Topics")
        await page.get_by_role("button", name="Set a limit").click()
        await page.get_by_label("Pattern").fill("game*")
        await expect(page.get_by_label("Latency")).to_have_value("40")
        await page.get_by_label("Latency").fill("")
        await page.get_by_label("Pinned").fill("")
        await page.get_by_role("button", name="Confirm").click()
        await expect(notice).to_have_text("game*: rate 500/s")
        assert await specs.get(b"game*") == kept

    look(chromium, scenario, token=TOKEN)


def test_an_operator_drains_a_hub_and_restores_it(chromium: Chromium) -> None:
    async def scenario(site: Site, page: Page) -> None:
        await log_in(page, TOKEN)
        hub = page.locator("tr", has_text="b:6399")
        await hub.get_by_role("button", name="Drain").click()
        await page.get_by_role("button", name="Confirm").click()
        await expect(hub).to_contain_text("drained")
        assert (await site.plan()).by_hub["b"].weight == 0
        await page.locator("tr", has_text="a:6399").get_by_role("button", name="Drain").click()
        await page.get_by_role("button", name="Confirm").click()
        await expect(page.locator("#notice")).to_contain_text("start another hub first")
        await hub.get_by_role("button", name="Undrain").click()
        await page.get_by_role("button", name="Confirm").click()
        await expect(hub).not_to_contain_text("drained")
        assert (await site.plan()).by_hub["b"].weight == WEIGHT_NORMAL

    look(chromium, scenario, token=TOKEN)


def test_a_wrong_token_is_refused_and_shows_nothing(chromium: Chromium) -> None:
    async def scenario(site: Site, page: Page) -> None:
        await log_in(page, "wrong")
        await expect(page.locator("#notice")).to_contain_text("token")
        await expect(page.locator("main")).not_to_contain_text("a:6399")

    look(chromium, scenario, token=TOKEN)


def test_without_a_token_set_actions_are_rejected_with_a_clear_error(chromium: Chromium) -> None:
    async def scenario(site: Site, page: Page) -> None:
        await page.locator("tr", has_text="b:6399").get_by_role("button", name="Drain").click()
        await page.get_by_role("button", name="Confirm").click()
        await expect(page.locator("#notice")).to_contain_text("read-only")
        assert (await site.plan()).by_hub["b"].weight > 0

    look(chromium, scenario)
