"""Pages in Chromium. A page that reports an error, or asks another host for anything, fails its test."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

import pytest
from playwright.async_api import Browser, Page, Playwright, ViewportSize, async_playwright, expect

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
PHONE: ViewportSize = {"width": 390, "height": 800}
DESK: ViewportSize = {"width": 1280, "height": 900}
REFUSED = re.compile(r"status of 40[01]\b")
# By default a page has 5 s to show its content: too little on a busy machine.
PATIENCE_MS = 45_000
expect.set_options(timeout=PATIENCE_MS)
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]


def require_chromium() -> None:
    """Skip the test where there is none."""
    if not CHROMIUM:
        pytest.skip("Chromium is not installed")


class Chromium:
    """A browser and the loop that it belongs to. What looks at its pages runs on that loop, one test after another.

    Always true: two pages share neither storage nor connections.
    """

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """To its end, on the browser's loop."""
        self._runner.run(work)

    @asynccontextmanager
    async def browsing(self, address: str, size: ViewportSize) -> AsyncIterator[Page]:
        """The page at the address."""
        assert self._browser is not None, "not started"
        complaints: list[str] = []
        context = await self._browser.new_context(viewport=size)
        try:
            page = await context.new_page()
            page.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
            page.on("pageerror", lambda problem: complaints.append(str(problem)))
            page.on(
                "request",
                lambda asked: None if asked.url.startswith(address) else complaints.append(asked.url),
            )
            page.set_default_timeout(PATIENCE_MS)
            await page.goto(address)
            yield page
        finally:
            await context.close()
        # A rejection is a reply, which browsers still log.
        assert [text for text in complaints if not REFUSED.search(text)] == []

    def __enter__(self) -> Self:
        self._runner.run(self._start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.run(self._stop())
        self._runner.close()

    async def _start(self) -> None:
        self._playwright = await async_playwright().start()
        self._browser = await self._playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)

    async def _stop(self) -> None:
        assert self._browser is not None and self._playwright is not None, "not started"
        await self._browser.close()
        await self._playwright.stop()


async def log_in(page: Page, token: str) -> None:
    await page.get_by_role("button", name="Log in").click()
    await page.get_by_label("Token").fill(token)
    await page.get_by_role("button", name="Confirm").click()


async def go_to(page: Page, name: str) -> None:
    await page.get_by_role("navigation").get_by_role("link", name=name).click()


async def is_too_wide(page: Page) -> bool:
    found: bool = await page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
    return found
