"""Do live hubs and a controller split a limited topic and seat its publishers without lost or disordered messages?

A real `equipoise up`: store, three hubs, the pipeline on Spark, the controller with its defaults. A topic has a rate
limit and a latency limit that one hub does not keep, by what the controller is told a message costs; its 60 smart
publishers fire in groups of 20 and state no group.
The controller records arrivals and has them fitted; the planner splits the topic over three hubs and names the order
of publishers that was found; the trunk's home deals seats. Then one hub is slowed (stopped for 200 ms of every 250)
until publishers have been sent to the others.

Printed: the time of each of these steps, the share of seats and traffic of each home as the dashboard shows them, and
the numbers of messages that the reader lacks, has twice, or out of order; all three must be 0, else the exit status is
1.

    python benchmarks/system/split.py [--fit-master local[1]] [--out benchmarks/results]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import random
import signal
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis.asyncio

import equipoise
from equipoise.client import Gap
from equipoise.errors import EquipoiseError
from equipoise.local import Layout, LocalSystem, SystemSettings
from equipoise.model import Entry, Reason, TopicSpec
from equipoise.profile.environment import report_result
from equipoise.store import PlanStore, Tree, open_store
from equipoise.store.records.specs import SpecsStore

TOPIC = "split.live"
GROUPS, GROUP_SIZE, EVERY_S = 3, 20, 0.25
# The cost of a message as configured for the controller. It is far above the real cost, so that three hubs are needed
# at a rate that this program can publish: its 20 publishers fire within some 3 ms.
MESSAGE_US = 400.0
SPEC = TopicSpec(pattern=TOPIC.encode(), rate_per_s=400.0, burst_messages=90, latency_ms=0.8, wait_ms=5_000.0)
START_S, FIT_S, RELIEF_S, SETTLE_S, END_S = 180.0, 240.0, 120.0, 20.0, 60.0
SLOW_SCRIPT = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
pid = int(sys.argv[1])
try:
    while True:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.2)
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.05)
finally:
    os.kill(pid, signal.SIGCONT)
"""


class Publishers:
    """Smart clients that publish in groups; a message contains its publisher and its number."""

    def __init__(self, urls: list[str]) -> None:
        self._urls = urls
        self.sent = [0] * (GROUPS * GROUP_SIZE)
        self.refused: Counter[str] = Counter()
        # Messages of which it is not known whether they were published, by publisher.
        self.uncertain: set[tuple[int, int]] = set()
        self._is_over = asyncio.Event()
        self._fire = [asyncio.Condition() for _ in range(GROUPS)]

    async def run(self) -> None:
        """Until `stop`; then all that was published has its position."""
        async with asyncio.TaskGroup() as group:
            for number in range(GROUPS):
                group.create_task(self._keep_time(number))
            for number in range(GROUPS * GROUP_SIZE):
                group.create_task(self._publish(number))

    def stop(self) -> None:
        self._is_over.set()

    async def _keep_time(self, group: int) -> None:
        rng = random.Random(group)
        while not self._is_over.is_set():
            await asyncio.sleep(rng.expovariate(1 / EVERY_S))
            async with self._fire[group]:
                self._fire[group].notify_all()
        async with self._fire[group]:
            self._fire[group].notify_all()

    async def _publish(self, number: int) -> None:
        fire = self._fire[number // GROUP_SIZE]
        async with equipoise.connect(self._urls[number % len(self._urls)]) as bus:
            while True:
                async with fire:
                    await fire.wait()
                if self._is_over.is_set():
                    return
                sequence = self.sent[number]
                self.sent[number] += 1
                try:
                    await bus.publish(TOPIC, b"%d:%d:" % (number, sequence) + bytes(80))
                except EquipoiseError as problem:
                    self.uncertain.add((number, sequence))
                    self.refused[type(problem).__name__] += 1


class Reader:
    """A smart subscriber that counts missing, duplicate and reordered messages."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.seen: list[set[int]] = [set() for _ in range(GROUPS * GROUP_SIZE)]
        self.twice = self.disorder = self.gaps = 0
        self._last = [-1] * (GROUPS * GROUP_SIZE)
        self.is_live = asyncio.Event()

    async def run(self) -> None:
        async with equipoise.connect(self._url) as bus, bus.subscribe(TOPIC) as events:
            self.is_live.set()
            async for event in events:
                if isinstance(event, Gap):
                    self.gaps += 1
                    continue
                publisher, sequence = (int(word) for word in event.payload.split(b":")[:2])
                self.twice += sequence in self.seen[publisher]
                self.disorder += sequence < self._last[publisher]
                self._last[publisher] = max(sequence, self._last[publisher])
                self.seen[publisher].add(sequence)

    def lacks(self, publishers: Publishers) -> int:
        """Messages that were acknowledged and have not come."""
        return sum(
            sequence not in self.seen[number] and (number, sequence) not in publishers.uncertain
            for number, count in enumerate(publishers.sent)
            for sequence in range(count)
        )


class Region:
    """The topic's state in the store and on the dashboard."""

    def __init__(self, plans: PlanStore, dashboard: str) -> None:
        self._plans = plans
        self._dashboard = dashboard

    async def entry(self) -> Entry | None:
        return (await self._plans.load()).entries.get(TOPIC.encode())

    async def until(self, is_so: Callable[[Entry], bool], patience_s: float, what: str) -> float:
        """Seconds until the entry is so. Raises SystemExit if that takes too long."""
        began = time.monotonic()
        while time.monotonic() - began < patience_s:
            entry = await self.entry()
            if entry is not None and is_so(entry):
                return time.monotonic() - began
            await asyncio.sleep(0.5)
        shown = await self.shown()
        raise SystemExit(f"not {what} within {patience_s:.0f} s: {await self.entry()}, {json.dumps(shown)}")

    async def shown(self) -> Any:
        """The topic's rate limit, as its page on the dashboard shows it."""

        def ask() -> Any:
            with urllib.request.urlopen(f"{self._dashboard}/api/topics/{TOPIC}", timeout=10) as answer:
                return json.loads(answer.read())["envelope"]

        return await asyncio.to_thread(ask)

    async def history(self) -> list[dict[str, Any]]:
        """Changes of the topic's entry, with reasons."""
        found = []
        for committed in await self._plans.history(200):
            for part in committed.change.entries:
                if part.topic == TOPIC.encode() and part.entry is not None:
                    entry, why = part.entry, part.why
                    row = {"at_s": committed.at_s, "reason": str(why.reason), "note": why.note}
                    row |= {"homes": entry.homes, "shares": entry.shares, "seats": entry.seats}
                    found.append({**row, "order": entry.order})
        return sorted(found, key=lambda row: row["at_s"])


def brief(shown: Any) -> str:
    """By home, its share of the seats and of the traffic."""
    return "; ".join(
        f"{one['hub']} {100 * one['seats_ratio']:.0f} % of seats, {one['publications_per_s'] or 0:.0f}/s"
        for one in shown["shares"]
    )


async def process_of(url: str) -> int:
    connection = redis.asyncio.Redis.from_url(url.replace("equipoise://", "redis://"))
    async with connection:
        return int((await connection.info("server"))["process_id"])


async def shed_load(region: Region, urls: dict[str, str]) -> dict[str, Any]:
    """Slow a hub that is not the trunk's home until publishers have been sent to the others."""
    entry = await region.entry()
    assert entry is not None
    slow, before = entry.homes[-1], entry.seat_parts[-1]
    process = await process_of(urls[slow])
    words = [sys.executable, "-S", "-c", SLOW_SCRIPT, str(process)]
    slowing = await asyncio.create_subprocess_exec(*words)
    try:
        waited = await region.until(
            lambda now: now.seat_parts[now.homes.index(slow)] < 0.7 * before, RELIEF_S, "relieved"
        )
        print(f"{slow} slowed; publishers sent elsewhere after {waited:.1f} s", flush=True)
        await asyncio.sleep(SETTLE_S)
        shown = await region.shown()
        print(f"while it is slow: {brief(shown)}", flush=True)
    finally:
        slowing.terminate()
        await slowing.wait()
        os.kill(process, signal.SIGCONT)
    return {"slow": slow, "relief_s": round(waited, 1), "shown_while_slow": shown}


async def play(system: LocalSystem, region: Region) -> dict[str, Any]:
    urls = {f"hub-{n}": f"equipoise://127.0.0.1:{system.layout.known_port(f'hub-{n}')}" for n in (1, 2, 3)}
    reader, publishers = Reader(urls["hub-1"]), Publishers(list(urls.values()))
    reading = asyncio.create_task(reader.run())
    await reader.is_live.wait()
    publishing = asyncio.create_task(publishers.run())
    split_s = await region.until(lambda entry: len(entry.homes) == 3, FIT_S, "split")
    ordered_s = split_s + await region.until(lambda entry: entry.order > 0, FIT_S, "dealt by an order")
    print(f"split over three hubs after {split_s:.1f} s, dealt by a found order after {ordered_s:.1f} s")
    await asyncio.sleep(SETTLE_S)
    shown = await region.shown()
    print(f"settled: {brief(shown)}; fit: {shown['fit']}", flush=True)
    relief = await shed_load(region, urls)
    publishers.stop()
    await publishing
    deadline = time.monotonic() + END_S
    while reader.lacks(publishers) and time.monotonic() < deadline:  # noqa: ASYNC110  # it looks at all it has
        await asyncio.sleep(0.2)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    tally: dict[str, Any] = {"published": sum(publishers.sent), "received": sum(map(len, reader.seen))}
    tally |= {"lost": reader.lacks(publishers), "twice": reader.twice, "out of order": reader.disorder}
    tally |= {"gaps told": reader.gaps, "refused or uncertain": dict(publishers.refused)}
    print(f"tally: {tally}", flush=True)
    times = {"split_s": round(split_s, 1), "ordered_s": round(ordered_s, 1)}
    return {**times, "shown_settled": shown, **relief, "tally": tally, "history": await region.history()}


async def run(folder: Path, fit_master: str) -> dict[str, Any]:
    config = folder / "controller.toml"
    planner = f"[planner]\npublication_cost_us = {MESSAGE_US}\n"
    config.write_text(f'[controller]\nfit_master = "{fit_master}"\n{planner}')
    settings = SystemSettings(hubs=3, hubs_max=3, extra={"controller": ("--config", str(config))})
    async with LocalSystem(Layout(folder / "data"), settings) as system:
        async with asyncio.timeout(START_S):
            while not system.is_ready:  # noqa: ASYNC110  # a state of several processes
                await asyncio.sleep(0.1)
        store = await open_store(system.store_url)
        try:
            await SpecsStore(store, Tree()).put(SPEC)
            dashboard = f"http://127.0.0.1:{system.layout.known_port('dashboard')}"
            return await play(system, Region(PlanStore(store, Tree(), writer="benchmark"), dashboard))
        finally:
            await store.close()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fit-master", default="local[1]", help="Spark for the fit; empty: without Spark")
    parser.add_argument("--out", type=Path, help="folder to keep the dated result in")
    chosen = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="equipoise-split-") as folder:
        outcome = asyncio.run(run(Path(folder), chosen.fit_master))
    for row in outcome["history"]:
        is_told = row["reason"] in (Reason.SPLIT, Reason.SEATS)
        if is_told:
            print(
                f"{row['reason']}: {row['note']}; homes {row['homes']}, seats {row['seats']}, order {row['order']}"
            )
    report_result("split", outcome, chosen.out)
    tally = outcome["tally"]
    return 1 if tally["lost"] or tally["twice"] or tally["out of order"] else 0


if __name__ == "__main__":
    sys.exit(main())
