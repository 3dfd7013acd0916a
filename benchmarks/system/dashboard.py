"""How soon is a page painted, are 10,000 topics browsable, and what does an open page cost the controller?

A real `equipoise controller` with a store in memory. Eight hubs that are only announced, and a view of 10,000 topics
each second, as a pipeline would send it. Chromium looks at the pages; the controller's CPU is read from /proc, once
with no page open, then with several of each kind.

Estimate: an open page asks for three answers a second. A page of 100 topics out of 10,000 is a sort of 10,000 numbers
(1 ms) and 100 rows (2 ms): less than 1 % of a core. The first paint needs the page, its style and its script: a dozen
requests on loopback, 200 ms with Chromium's own work on two cores.

    python benchmarks/system/dashboard.py [--topics 10000] [--seconds 15] [--pages 3] [--out benchmarks/results]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, async_playwright, expect

from equipoise.processes import spawn
from equipoise.profile.environment import report_result
from equipoise.store import HubFacts, HubsStore, MemoryStore, MemoryStoreServer, MemoryTree, Tree
from equipoise.view import HubView, TopicView, View, to_tables
from equipoise.view.codec import encode_view, greeting

HOST = "127.0.0.1"
HUBS = [f"hub-{number}" for number in range(1, 9)]
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
KINDS = ("", "topics", "topic/t.00042", "map", "plans")
PAINTS = 5


class Feed:
    """Sends the controller a view each second."""

    def __init__(self, address: str, topics: int) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), 20)
        self._socket.sendall(greeting(""))
        rng = random.Random(1)
        self._topics = [
            TopicView(
                name=f"t.{number:05d}".encode(),
                publications_per_s=(rate := rng.paretovariate(1.2)),
                deliveries_per_s=8 * rate,
                out_bytes_per_s=800 * rate,
                publishers=3,
                subscribers=8,
                latency_s_worst=0.01 + 0.05 * rng.random(),
                carried_by={HUBS[number % len(HUBS)]: 1.0},
            )
            for number in range(topics)
        ]
        self._hubs = [HubView(name=name, cpu_ratio=0.2 + 0.05 * at) for at, name in enumerate(HUBS)]

    def send(self) -> None:
        view = View.of(time.time(), self._topics, self._hubs)
        self._socket.sendall(encode_view(view.time_s, view.window_s, to_tables(view)))
        assert self._socket.recv(1024).startswith(b"+"), "the view was refused"


async def started(folder: Path, topics: int) -> tuple[subprocess.Popen[bytes], str, Feed, list[Any]]:
    """The controller's process, its pages, the feed, and the tasks that must stay referenced."""
    tree = MemoryTree(asyncio.get_running_loop().time)
    server = MemoryStoreServer(tree, host=HOST, port=0)
    await server.start()
    stores = []
    for at, name in enumerate(HUBS):
        store = await MemoryStore(tree).open()
        facts = HubFacts(
            hub=name, address=f"{HOST}:{7000 + at}", incarnation=1, site=("paris", "tokyo")[at % 2]
        )
        await HubsStore(store, Tree()).announce(facts)
        stores.append(store)
    where = ["--store", f"eqs://{HOST}:{server.port}", "--http", f"{HOST}:0", "--policy", "static"]
    log = folder / "controller.log"
    process = spawn([sys.executable, "-m", "equipoise.cli.main", "controller", *where], log)
    deadline = time.monotonic() + 30
    while (found := re.search(r"ready on (\S+), dashboard at (\S+)", log.read_text())) is None:
        assert time.monotonic() < deadline, log.read_text()
        await asyncio.sleep(0.05)
    feed = await asyncio.to_thread(Feed, found[1], topics)
    return process, found[2], feed, [server, *stores]


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


async def cpu_ratio(pid: int, seconds: float) -> float:
    before, began = cpu_s(pid), time.monotonic()
    await asyncio.sleep(seconds)
    return (cpu_s(pid) - before) / (time.monotonic() - began)


async def paint_ms(browser: Browser, url: str) -> float:
    """First contentful paint in a browser that has seen nothing of it before."""
    page = await browser.new_page()
    await page.goto(url)
    await page.wait_for_selector(".tile b")
    script = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    painted: float = await page.evaluate(script)
    await page.close()
    return painted


async def browse(page: Page, url: str) -> dict[str, float]:
    """Time from a click to the result on the page, in ms."""
    await page.goto(url)
    await page.wait_for_selector(".tile b")
    took: dict[str, float] = {}

    async def timed(name: str, act: Any, shown: str) -> None:
        began = time.perf_counter()
        await act
        await expect(page.locator("main")).to_contain_text(shown)
        took[name] = 1_000 * (time.perf_counter() - began)

    await timed("topics_ms", page.click("nav a:has-text('Topics')"), "1–100 of")
    await timed("next_page_ms", page.click("button:has-text('Next')"), "101–200 of")
    await timed("search_ms", page.fill("input[type=search]", "t.09"), "1–100 of 1,000")
    await timed("sort_ms", page.click("th button:has-text('topic')"), "t.09000")
    return took


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with tempfile.TemporaryDirectory(prefix="equipoise-bench-") as folder:
        process, url, feed, kept = await started(Path(folder), options.topics)

        async def feeding() -> None:
            while True:
                await asyncio.to_thread(feed.send)
                await asyncio.sleep(1.0)

        fed = asyncio.create_task(feeding())
        try:
            async with async_playwright() as playwright:
                browser = await playwright.chromium.launch(
                    executable_path=chromium,
                    args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
                )
                await asyncio.sleep(3)
                paints = [await paint_ms(browser, url) for _ in range(PAINTS)]
                found: dict[str, Any] = {
                    "first_paint_ms_median": statistics.median(paints),
                    "first_paint_ms_max": max(paints),
                    **await browse(await browser.new_page(), url),
                }
                for context in browser.contexts:
                    await context.close()
                idle = await cpu_ratio(process.pid, options.seconds)
                found["cpu_ratio_idle"] = idle
                for kind in KINDS:
                    pages = [await browser.new_page() for _ in range(options.pages)]
                    for page in pages:
                        await page.goto(f"{url}/#/{kind}")
                    await asyncio.sleep(2)
                    busy = await cpu_ratio(process.pid, options.seconds)
                    found[f"cpu_ratio_per_page_{kind.partition('/')[0] or 'overview'}"] = (
                        busy - idle
                    ) / options.pages
                    for page in pages:
                        await page.close()
                await browser.close()
            return found
        finally:
            fed.cancel()
            process.kill()
            process.wait()
            del kept


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--pages", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = asyncio.run(measure(options))
    report_result("dashboard", {"topics": options.topics, "pages": options.pages, **found}, options.out)


if __name__ == "__main__":
    main()
