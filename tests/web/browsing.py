"""A page in Chromium that fails whoever looks at it if it complains, or asks another host for anything."""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Page, ViewportSize, async_playwright, expect

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
PHONE: ViewportSize = {"width": 390, "height": 800}
DESK: ViewportSize = {"width": 1280, "height": 900}
REFUSED = re.compile(r"status of 40[01]\b")
# Unless a page is told otherwise, 5 s are waited for what it is to show: too little beside other work.
PATIENCE_MS = 45_000
expect.set_options(timeout=PATIENCE_MS)
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]


def require_chromium() -> None:
    """Skip the test where there is none."""
    if not CHROMIUM:
        pytest.skip("Chromium is not installed")


@asynccontextmanager
async def browsing(address: str, size: ViewportSize) -> AsyncIterator[Page]:
    """The page at the address."""
    complaints: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = await browser.new_page(viewport=size)
        page.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
        page.on("pageerror", lambda problem: complaints.append(str(problem)))
        page.on(
            "request", lambda asked: None if asked.url.startswith(address) else complaints.append(asked.url)
        )
        page.set_default_timeout(PATIENCE_MS)
        await page.goto(address)
        yield page
        await browser.close()
    # A refusal is an answer, which browsers log all the same.
    assert [text for text in complaints if not REFUSED.search(text)] == []


async def log_in(page: Page, token: str) -> None:
    await page.get_by_role("button", name="Log in").click()
    await page.get_by_label("Token").fill(token)
    await page.get_by_role("button", name="Confirm").click()


async def go_to(page: Page, name: str) -> None:
    await page.get_by_role("navigation").get_by_role("link", name=name).click()


async def is_too_wide(page: Page) -> bool:
    found: bool = await page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
    return found
