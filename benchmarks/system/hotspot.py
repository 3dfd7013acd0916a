"""How long is a hub overloaded before a plan relieves it?

    python benchmarks/system/hotspot.py [--rounds 5] [--out benchmarks/results]

A real `equipoise up`: ZooKeeper, two hubs that may send 300 kB/s each, the pipeline on Spark, the controller with its
defaults. Eight topics that live at one hub send a quarter of what it may; then, the planner having been idle for at
least T_wait, they send 1.1 times what it may. Measured is from the first message of the hot rate to the commit of the
plan that moves one of them, by the clock of this machine. Each round has topics of its own, at the other hub.

Estimate: a second until the hub's record is complete, half a second on average and one at worst until a batch begins,
half a second for the batch; the window is ten seconds long, so a step to 1.1 shows as an overload after seven seconds
by its mean, and as a rise within two or three. Three to four seconds, then; five are asked.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import tempfile
import time
from pathlib import Path
from typing import Any

import equipoise
from equipoise.local import Layout, LocalSystem, SystemSettings
from equipoise.model import Plan
from equipoise.plan import PlannerSettings
from equipoise.profile.environment import report_result
from equipoise.store import PlanStore, Tree, open_store

OUT_BYTES_PER_S_MAX = 300_000
TOPICS, SUBSCRIBERS, PAYLOAD_BYTES = 8, 5, 1_000
CALM_RATIO, HOT_RATIO = 0.25, 1.1
# What a message takes on the wire beside its payload, roughly.
FRAME_BYTES = 60
# Of calm before each round: T_wait, a window, and the minute for which topics and their neighbours rest.
IDLE_S = 75.0
PATIENCE_S = 60.0
NOBODY_S = 120.0


class Round:
    """One set of topics at one hub, at a rate that can be changed."""

    def __init__(self, url: str, topics: list[bytes]) -> None:
        self._url = url
        self.topics = topics
        self.ratio = CALM_RATIO
        self.hot_at_s: float | None = None
        self._running: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._running = [asyncio.create_task(self._listen()), asyncio.create_task(self._talk())]

    async def stop(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _listen(self) -> None:
        async def one() -> None:
            async with equipoise.connect(self._url) as bus, bus.subscribe(*self.topics) as messages:
                async for _ in messages:
                    pass

        async with asyncio.TaskGroup() as group:
            for _ in range(SUBSCRIBERS):
                group.create_task(one())

    async def _talk(self) -> None:
        payload = bytes(PAYLOAD_BYTES)
        async with equipoise.connect(self._url) as bus:
            while True:
                if self.ratio == HOT_RATIO and self.hot_at_s is None:
                    self.hot_at_s = time.time()
                for topic in self.topics:
                    await bus.publish(topic, payload)
                sent = TOPICS * SUBSCRIBERS * (PAYLOAD_BYTES + FRAME_BYTES)
                await asyncio.sleep(sent / (self.ratio * OUT_BYTES_PER_S_MAX))


def topics_at(plan: Plan, hub: str, round_number: int) -> list[bytes]:
    found: list[bytes] = []
    number = 0
    while len(found) < TOPICS:
        topic = b"hot/%d/%d" % (round_number, number)
        if plan.home_of(topic).homes == (hub,):
            found.append(topic)
        number += 1
    return found


async def relieved_after(plans: PlanStore, round_: Round) -> tuple[float, str]:
    """Seconds from the first hot message to the plan that moves one of the topics, and the reason it gives."""
    topics = set(round_.topics)
    async with asyncio.timeout(PATIENCE_S):
        while True:
            for committed in await plans.history(5):
                moved = [part for part in committed.change.entries if part.topic in topics]
                if moved and round_.hot_at_s is not None and committed.at_s >= round_.hot_at_s:
                    return committed.at_s - round_.hot_at_s, str(moved[0].why.reason)
            await asyncio.sleep(0.2)


async def run(rounds: int, folder: Path) -> dict[str, Any]:
    config = folder / "hub.toml"
    config.write_text(f"[telemetry]\nout_bytes_per_s_max = {OUT_BYTES_PER_S_MAX}\n")
    settings = SystemSettings(hubs=2, hubs_max=2, extra={"hub": ("--config", str(config))})
    results: list[dict[str, Any]] = []
    async with LocalSystem(Layout(folder / "data"), settings) as system:
        async with asyncio.timeout(NOBODY_S):
            while not system.is_ready:  # noqa: ASYNC110  a state of several processes
                await asyncio.sleep(0.1)
        url = f"equipoise://127.0.0.1:{system.layout.known_port('hub-1')}"
        store = await open_store(system.store_url)
        plans = PlanStore(store, Tree(), writer="benchmark")
        for number in range(rounds):
            plan = await plans.load()
            round_ = Round(url, topics_at(plan, f"hub-{1 + number % 2}", number))
            round_.start()
            await asyncio.sleep(IDLE_S)
            idle_s = time.time() - max((one.at_s for one in await plans.history(1)), default=0.0)
            round_.ratio = HOT_RATIO
            seconds, reason = await relieved_after(plans, round_)
            results.append({"seconds": round(seconds, 2), "reason": reason, "idle_s": round(idle_s, 1)})
            print(
                f"round {number + 1}: {seconds:.2f} s ({reason}), the planner idle for {idle_s:.0f} s",
                flush=True,
            )
            await round_.stop()
        await store.close()
    times = sorted(one["seconds"] for one in results)
    return {"rounds": results, "median_s": times[len(times) // 2], "worst_s": times[-1]}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, help="folder to keep the dated result in")
    chosen = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="equipoise-hotspot-") as folder:
        outcome = asyncio.run(run(chosen.rounds, Path(folder)))
    asked = {"t_wait_s": PlannerSettings().plan_wait_s, "hot_ratio": HOT_RATIO, "calm_ratio": CALM_RATIO}
    report_result("hotspot", {**asked, **outcome}, chosen.out)


if __name__ == "__main__":
    main()
