"""Do hubs of unequal capacity balance the subscribers of a content topic without a controller, and without losses?

Four hub processes and a ZooKeeper. The first is the head of a content topic, the other three are its edges, and get
processor time as 1 : 2 : 4 (SIGSTOP and SIGCONT, 25 times a second). All subscribers, smart and each with a filter,
connect to the weakest edge. ZooKeeper is stopped once they are connected; there is no controller and no pipeline. Then
the edges are observed. Every subscriber must have received every message that its filter matches, once, in order.

Estimate: a session takes some 40 s with the settings' defaults (samples within 30 s, DONE, 30 s of stabilising), and
four of them bring three edges near 1 : 2 : 4.

    python benchmarks/system/content.py [--subscribers 600] [--rate 50] [--minutes 5] [--out benchmarks/results]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import redis.asyncio

import equipoise
from equipoise.client import Gap
from equipoise.local import Layout, LocalSystem, SystemSettings
from equipoise.model import Entry, Mode, PlanChange, Reason, Why
from equipoise.profile.environment import report_result
from equipoise.store import PlanStore, Tree, open_store

TOPIC = "quotes"
SYMBOLS = 10
# The share of a processor that each edge gets.
SHARES = {"hub-2": 0.06, "hub-3": 0.12, "hub-4": 0.24}
CYCLE_S = 0.04
PROCESSES = 3
# Looks, five seconds apart, without another message until what is missing counts as lost.
STILL = 4


class Listener:
    """What one subscriber has seen."""

    def __init__(self, symbol: int) -> None:
        self.symbol = symbol
        self.numbers: list[int] = []
        self.gaps = 0

    async def listen(self, url: str) -> None:
        async with (
            equipoise.connect(
                url,
                request_timeout_s=60.0,
                first_connect_timeout_s=120.0,
                # Probes of 600 clients on one machine would take as much of the hubs as the messages.
                coordinate_enabled=False,
            ) as bus,
            bus.subscribe(TOPIC, where=f"symbol = {self.symbol}") as quotes,
        ):
            async for event in quotes:
                if isinstance(event, Gap):
                    self.gaps += 1
                else:
                    self.numbers.append(json.loads(event.payload)["number"])

    def judged(self, last: int) -> tuple[int, int, int]:
        """Messages lost, seen twice or out of order, and gaps; `last` was published when all had come."""
        due = range(self.numbers[0], last + 1, SYMBOLS) if self.numbers else range(0)
        seen = [number for number in self.numbers if number <= last]
        return len(set(due) - set(seen)), len(seen) - len(set(seen)) + (seen != sorted(seen)), self.gaps


def crowd(url: str, symbols: list[int], tube: Connection) -> None:
    """One process of subscribers: reports when all are subscribed, and on request what they have received."""
    asyncio.run(_crowd(url, symbols, tube))


async def _crowd(url: str, symbols: list[int], tube: Connection) -> None:
    listeners = [Listener(symbol) for symbol in symbols]
    tasks = []
    for number, listener in enumerate(listeners):
        tasks.append(asyncio.create_task(listener.listen(url)))
        if not number % 10:
            await asyncio.sleep(0.05)
    while True:
        asked = await asyncio.to_thread(tube.recv)
        if asked is None:
            break
        if asked == "heard":
            tube.send(sum(bool(listener.numbers) for listener in listeners))
        else:
            tube.send([listener.judged(asked) for listener in listeners])
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def hold_back(pid: int, share: float, is_over: threading.Event) -> None:
    """Let a process run for a share of each cycle."""
    try:
        while not is_over.is_set():
            os.kill(pid, signal.SIGCONT)
            time.sleep(share * CYCLE_S)
            os.kill(pid, signal.SIGSTOP)
            time.sleep((1 - share) * CYCLE_S)
    finally:
        os.kill(pid, signal.SIGCONT)


async def carried(clients: dict[str, redis.asyncio.Redis]) -> dict[str, int]:
    """By edge, the subscriptions that it carries."""
    found = {}
    for name, client in clients.items():
        rows = (await client.execute_command("EQ.FILTERS", TOPIC, 100))[2:]  # type: ignore[no-untyped-call]
        found[name] = sum(int(count) for _, count in rows)
    return found


async def loads(clients: dict[str, redis.asyncio.Redis]) -> dict[str, str]:
    """By edge, its state, the load that it measures, and subscribers moved."""
    found = {}
    for name, client in clients.items():
        info = await client.info("stats")
        state, delay_ms = info["eq_content_state"], 1e3 * info["eq_content_delay_s"]
        ratios = f"input {info['eq_content_input_ratio']:.2f} output {info['eq_content_output_ratio']:.3f}"
        moves = f"sent {info['eq_content_moved']} taken {info['eq_content_came']}"
        found[f"{name} load"] = f"{state} {ratios} delay {delay_ms:.1f} ms {moves}"
    return found


async def publish(url: str, rate: float, sent: list[int]) -> None:
    async with equipoise.connect(url) as bus:
        began = time.monotonic()
        while True:
            number = sent[0] + 1
            await bus.publish(
                TOPIC, json.dumps({"number": number, "symbol": number % SYMBOLS, "pad": "x" * 80})
            )
            sent[0] = number
            await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))


async def run(chosen: argparse.Namespace, folder: Path) -> dict[str, Any]:
    settings = SystemSettings(hubs=4, has_pipeline=False, has_controller=False)
    async with LocalSystem(Layout(folder), settings) as system:
        async with asyncio.timeout(120):
            while not system.is_ready:  # noqa: ASYNC110  a state of several processes
                await asyncio.sleep(0.1)
        await _make_topic(system)
        ports = {name: system.layout.known_port(name) for name in SHARES}
        clients = {name: redis.asyncio.Redis(port=port) for name, port in ports.items()}
        pids = {name: int((await client.info("server"))["process_id"]) for name, client in clients.items()}
        sent = [0]
        publishing = asyncio.create_task(publish(system.hub_url(1), chosen.rate, sent))
        tubes, processes = _begin_crowds(system.hub_url(2), chosen.subscribers)
        try:
            return await _watch(chosen, system, clients, pids, tubes, sent)
        finally:
            publishing.cancel()
            for tube, process in zip(tubes, processes, strict=True):
                tube.send(None)
                await asyncio.to_thread(process.join, 30)
                process.kill()
            for client in clients.values():
                await client.aclose()


async def _make_topic(system: LocalSystem) -> None:
    store = await open_store(system.store_url)
    plans = PlanStore(store, Tree(), writer="benchmark")
    async with asyncio.timeout(60):
        while len((plan := await plans.load()).members) < 4:  # noqa: ASYNC110  as above
            await asyncio.sleep(0.1)
    entry = Entry(TOPIC.encode(), ("hub-1", *SHARES), Mode.CONTENT)
    await plans.commit(PlanChange.on(plan, Why(Reason.OPERATOR, note="benchmark"), set_entries=[entry]))
    await store.close()
    await asyncio.sleep(1.0)


def _begin_crowds(url: str, subscribers: int) -> tuple[list[Connection], list[Any]]:
    spawn = multiprocessing.get_context("spawn")
    tubes, processes = [], []
    for part in range(PROCESSES):
        ours, theirs = spawn.Pipe()
        symbols = [number % SYMBOLS for number in range(part, subscribers, PROCESSES)]
        process = spawn.Process(target=crowd, args=(url, symbols, theirs), daemon=True)
        process.start()
        tubes.append(ours)
        processes.append(process)
    return tubes, processes


async def _watch(
    chosen: argparse.Namespace,
    system: LocalSystem,
    clients: dict[str, redis.asyncio.Redis],
    pids: dict[str, int],
    tubes: list[Connection],
    sent: list[int],
) -> dict[str, Any]:
    async with asyncio.timeout(300):
        while await _ask(tubes, "heard", sum) < chosen.subscribers:  # noqa: ASYNC110  a state of several processes
            await asyncio.sleep(1.0)
    before = await carried(clients)
    is_over = threading.Event()
    holding = [
        threading.Thread(target=hold_back, args=(pids[name], share, is_over), daemon=True)
        for name, share in SHARES.items()
    ]
    for thread in holding:
        thread.start()
    if system._zookeeper is not None:
        await system._zookeeper.stop()
    rows = []
    began = time.monotonic()
    try:
        while (passed_s := time.monotonic() - began) < 60 * chosen.minutes:
            rows.append({"at_s": round(passed_s), **await carried(clients), **await loads(clients)})
            print(rows[-1], flush=True)
            await asyncio.sleep(10.0)
    finally:
        is_over.set()
        for thread in holding:
            await asyncio.to_thread(thread.join)
    last = sent[0]
    judged = await _settled(tubes, last)
    return {
        "subscribers": chosen.subscribers,
        "messages": last,
        "before": before,
        "after": await carried(clients),
        "lost": sum(lost for lost, _, _ in judged),
        "twice": sum(twice for _, twice, _ in judged),
        "gaps": sum(gaps for _, _, gaps in judged),
        "rows": rows,
    }


async def _settled(tubes: list[Connection], last: int) -> list[tuple[int, int, int]]:
    """By subscriber, its received messages once backlogs are drained: all of them, or no new one for a while."""
    missing: list[int] = []
    while True:
        await asyncio.sleep(5.0)
        judged = [one for part in await _ask(tubes, last, list) for one in part]
        missing.append(sum(lost for lost, _, _ in judged))
        if not missing[-1] or (len(missing) > STILL and missing[-1] == missing[-1 - STILL]):
            return judged


async def _ask(tubes: list[Connection], what: Any, gather: Any) -> Any:
    for tube in tubes:
        tube.send(what)
    return gather([await asyncio.to_thread(tube.recv) for tube in tubes])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--subscribers", type=int, default=600)
    parser.add_argument("--rate", type=float, default=50.0, help="messages per second")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--out", type=Path, help="folder to keep the dated result in")
    chosen = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="equipoise-content-") as folder:
        outcome = asyncio.run(run(chosen, Path(folder)))
    report_result("content", outcome, chosen.out)


if __name__ == "__main__":
    main()
