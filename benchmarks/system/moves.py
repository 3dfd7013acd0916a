"""Does a client notice when 128 busy topics move at once, and again?

Three hub processes and a ZooKeeper on this machine; 200 subscribers and 50 publishers, half of each redis-py clients at
hubs drawn at random, half smart clients. All topics are moved to the next hub by one commit, several times over. Then
every subscriber must have had every message of its topics, once, in each publisher's order.

Estimate: a move costs two hops between hubs, below a millisecond each, and waits for the loop of three busy processes
on two cores; so some milliseconds at the median, tens at the 99th percentile.

Finding: after a commit each hub works for 0.07 s of the next half second, and 250 clients for 0.3 s: most of it in the
first 0.1 s, in which messages wait for one of two cores. A smart client follows a redirect in half a millisecond, so
clients are spread over processes: in one (`--processes 1`) they also wait for each other. How late the loops of clients
were, and the CPU of hubs and clients, are part of the result.

    python benchmarks/system/moves.py [--rounds 4] [--seconds 4] [--processes 5] [--out benchmarks/results]
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import multiprocessing
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import redis.asyncio

import equipoise
from equipoise.client import Gap
from equipoise.local import Layout, LocalSystem, SystemSettings
from equipoise.model import Entry, PlanChange, Reason, Why
from equipoise.profile.environment import report_result
from equipoise.profile.meters import process_cpu_s
from equipoise.store import PlanStore, Tree, open_store

HUBS = 3
TOPICS = [f"move.{number}".encode() for number in range(128)]
SUBSCRIBERS, PUBLISHERS = 200, 50
TOPICS_PER_SUBSCRIBER, TOPICS_PER_PUBLISHER = 4, 6
# Messages per second of one publisher: with 50 of them, and six subscribers to a topic, some 6,000 deliveries.
RATE = 20.0
# A message counts as in flight during a move if it was published within so many seconds after the commit.
DURING_S = 0.5
# Redirects that a busy hub sends more slowly, and other work that moves leave, delay messages published before this.
AFTER_S = 1.5
# How often this process looks how late its own loop is.
TICK_S = 0.002


@dataclass
class Subscriber:
    """What one subscriber has seen: for each publisher and topic the sequence numbers, in order."""

    name: str
    topics: list[bytes]
    seen: dict[tuple[bytes, bytes], list[int]] = field(default_factory=dict)
    # (published, took), in seconds.
    latencies: list[tuple[float, float]] = field(default_factory=list)
    gaps: int = 0

    def take(self, topic: bytes, payload: bytes) -> None:
        publisher, sequence, at = payload.split(b" ")
        published = float(at)
        self.latencies.append((published, time.monotonic() - published))
        self.seen.setdefault((publisher, topic), []).append(int(sequence))


@dataclass
class Publisher:
    name: bytes
    topics: list[bytes]
    sent: dict[bytes, int] = field(default_factory=dict)

    def next(self, topic: bytes) -> bytes:
        sequence = self.sent.get(topic, 0)
        self.sent[topic] = sequence + 1
        return b"%s %d %.6f" % (self.name, sequence, time.monotonic())


@dataclass
class Seen:
    """The results of one process of clients."""

    subscribers: list[Subscriber]
    publishers: list[Publisher]
    failures: Counter[str]
    # Of its loop: (at, late by), in seconds.
    lags: list[tuple[float, float]]


class Crowd:
    """The clients of one process: every `parts`-th of all, from `part` on."""

    def __init__(self, ports: list[int], part: int, parts: int) -> None:
        rng = random.Random(1)
        subscribers = [
            Subscriber(f"s{i}", rng.sample(TOPICS, TOPICS_PER_SUBSCRIBER)) for i in range(SUBSCRIBERS)
        ]
        publishers = [
            Publisher(b"p%d" % i, rng.sample(TOPICS, TOPICS_PER_PUBLISHER)) for i in range(PUBLISHERS)
        ]
        self._ports = ports
        self._rng = random.Random(part)
        self.is_over = asyncio.Event()
        self.subscribers = dict(list(enumerate(subscribers))[part::parts])
        self.publishers = dict(list(enumerate(publishers))[part::parts])
        self._ready = 0
        self.all_ready = asyncio.Event()
        self.may_publish = asyncio.Event()

    def start(self) -> list[asyncio.Task[None]]:
        tasks = []
        for i, subscriber in self.subscribers.items():
            run = self._subscribe_plain if i % 2 else self._subscribe_smart
            tasks.append(asyncio.create_task(run(subscriber)))
        for i, publisher in self.publishers.items():
            run_publisher = self._publish_plain if i % 2 else self._publish_smart
            tasks.append(asyncio.create_task(run_publisher(publisher)))
        return tasks

    def _count_ready(self) -> None:
        self._ready += 1
        if self._ready == len(self.subscribers):
            self.all_ready.set()

    def _url(self) -> str:
        return f"equipoise://127.0.0.1:{self._rng.choice(self._ports)}"

    async def _subscribe_plain(self, subscriber: Subscriber) -> None:
        client = redis.asyncio.Redis(port=self._rng.choice(self._ports))
        pubsub = client.pubsub()
        await pubsub.subscribe(*subscriber.topics)
        confirmed = 0
        while True:
            message = await pubsub.get_message(timeout=None)
            if message is None:
                continue
            if message["type"] == "subscribe":
                confirmed += 1
                if confirmed == len(subscriber.topics):
                    self._count_ready()
            elif message["type"] == "message":
                subscriber.take(message["channel"], message["data"])

    async def _subscribe_smart(self, subscriber: Subscriber) -> None:
        async with equipoise.connect(self._url()) as bus, bus.subscribe(*subscriber.topics) as messages:
            self._count_ready()
            async for event in messages:
                if isinstance(event, Gap):
                    subscriber.gaps += 1
                else:
                    subscriber.take(_bytes(event.topic), event.payload)

    async def _publish_plain(self, publisher: Publisher) -> None:
        client = redis.asyncio.Redis(port=self._rng.choice(self._ports))
        async for topic in self._turns(publisher):
            await client.publish(topic, publisher.next(topic))
        await client.aclose()

    async def _publish_smart(self, publisher: Publisher) -> None:
        async with equipoise.connect(self._url()) as bus:
            async for topic in self._turns(publisher):
                await bus.publish(topic, publisher.next(topic))

    async def _turns(self, publisher: Publisher) -> Any:
        await self.may_publish.wait()
        while not self.is_over.is_set():
            yield self._rng.choice(publisher.topics)
            await asyncio.sleep(self._rng.expovariate(RATE))


async def watch_loop(lags: list[tuple[float, float]]) -> None:
    """Note how late the loop of this process is: this delay is not the hub's."""
    while True:
        due = time.monotonic() + TICK_S
        await asyncio.sleep(TICK_S)
        now = time.monotonic()
        lags.append((now, now - due))


def serve(ports: list[int], part: int, parts: int, pipe: Connection) -> None:
    """Be one process of clients: says when all have subscribed, publishes when told, ends when told."""
    logging.basicConfig(level=logging.ERROR)
    asyncio.run(_serve(ports, part, parts, pipe))


async def _serve(ports: list[int], part: int, parts: int, pipe: Connection) -> None:
    crowd = Crowd(ports, part, parts)
    lags: list[tuple[float, float]] = []
    tasks = [*crowd.start(), asyncio.create_task(watch_loop(lags))]
    async with asyncio.timeout(120):
        await crowd.all_ready.wait()
    pipe.send(os.getpid())
    await asyncio.to_thread(pipe.recv)
    crowd.may_publish.set()
    await asyncio.to_thread(pipe.recv)
    crowd.is_over.set()
    # For all processes to stop, and the last messages to come.
    await asyncio.sleep(2.5)
    failures = Counter(repr(task.exception()) for task in tasks if task.done() and task.exception())
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    pipe.send(Seen([*crowd.subscribers.values()], [*crowd.publishers.values()], failures, lags))


async def _process_at(port: int) -> int:
    """The process id that a hub states in INFO."""
    client = redis.asyncio.Redis(port=port)
    found = await client.info("server")
    await client.aclose()
    return int(found["process_id"])


def _bytes(name: str | bytes) -> bytes:
    return name.encode() if isinstance(name, str) else name


def judge(found: Sequence[Seen]) -> dict[str, int]:
    """Lost, duplicated, out of order, over all subscribers."""
    lost = duplicated = disordered = 0
    subscribers = [subscriber for one in found for subscriber in one.subscribers]
    publishers = [publisher for one in found for publisher in one.publishers]
    for subscriber in subscribers:
        for publisher in publishers:
            for topic in subscriber.topics:
                sent = publisher.sent.get(topic, 0)
                seen = subscriber.seen.get((publisher.name, topic), [])
                lost += sent - len(set(seen))
                duplicated += len(seen) - len(set(seen))
                disordered += sum(a > b for a, b in pairwise(seen))
    gaps = sum(subscriber.gaps for subscriber in subscribers)
    verdict = {"lost": lost, "duplicated": duplicated, "out_of_order": disordered, "gap_events": gaps}
    for one in found:
        for failure, count in one.failures.items():
            verdict[f"failed: {failure}"] = verdict.get(f"failed: {failure}", 0) + count
    return verdict


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


async def move_all(plans: PlanStore, turn: int) -> float:
    """Every topic to the next hub, in one commit; when it was made."""
    plan = await plans.load()
    entries = [Entry(topic, (f"hub-{1 + (turn + number) % HUBS}",)) for number, topic in enumerate(TOPICS)]
    at = time.monotonic()
    await plans.commit(PlanChange.on(plan, Why(Reason.OPERATOR, note="benchmark"), set_entries=entries))
    return at


async def run(rounds: int, seconds: float, processes: int, folder: Path) -> dict[str, Any]:
    settings = SystemSettings(hubs=HUBS, has_pipeline=False, has_controller=False)
    async with LocalSystem(Layout(folder), settings) as system:
        async with asyncio.timeout(60):
            while not system.is_ready:  # noqa: ASYNC110  a state of several processes
                await asyncio.sleep(0.05)
        ports = [system.layout.known_port(f"hub-{number + 1}") for number in range(HUBS)]
        store = await open_store(system.store_url)
        plans = PlanStore(store, Tree(), writer="benchmark")
        hubs = [await _process_at(port) for port in ports]
        pipes = start_clients(ports, processes)
        clients = [await asyncio.to_thread(pipe.recv) for pipe in pipes]
        tell_all(pipes, "publish")
        await asyncio.sleep(seconds)
        moved_at, busy = [], []
        for turn in range(rounds):
            before = [*map(process_cpu_s, (*hubs, *clients))]
            moved_at.append(await move_all(plans, turn + 1))
            await asyncio.sleep(DURING_S)
            after = [*map(process_cpu_s, (*hubs, *clients))]
            busy.append([round(1e3 * (one - other)) for one, other in zip(after, before, strict=True)])
            await asyncio.sleep(seconds)
        tell_all(pipes, "stop")
        found = [await asyncio.to_thread(pipe.recv) for pipe in pipes]
        await store.close()
    lags = [
        max((lag for one in found for seen_at, lag in one.lags if at <= seen_at <= at + DURING_S), default=0)
        for at in moved_at
    ]
    return {
        **judge(found),
        **latencies(found, moved_at),
        "moving_cpu_ms_hubs_and_clients": busy,
        "moving_client_lag_ms_max": [round(1e3 * lag, 1) for lag in lags],
    }


def start_clients(ports: list[int], processes: int) -> list[Connection]:
    pipes = []
    spawning = multiprocessing.get_context("spawn")
    for part in range(processes):
        ours, theirs = spawning.Pipe()
        spawning.Process(target=serve, args=(ports, part, processes, theirs), daemon=True).start()
        pipes.append(ours)
    return pipes


def tell_all(pipes: Sequence[Connection], word: str) -> None:
    for pipe in pipes:
        pipe.send(word)


def latencies(found: Sequence[Seen], moved_at: list[float]) -> dict[str, float]:
    during: list[float] = []
    after: list[float] = []
    calm: list[float] = []
    for subscriber in (subscriber for one in found for subscriber in one.subscribers):
        for published, took in subscriber.latencies:
            since_s = min((published - at for at in moved_at if at <= published), default=AFTER_S)
            kind = during if since_s <= DURING_S else after if since_s < AFTER_S else calm
            kind.append(1_000 * took)
    return {
        "deliveries": len(during) + len(after) + len(calm),
        "calm_ms_p50": percentile(calm, 0.5),
        "calm_ms_p99": percentile(calm, 0.99),
        "moving_ms_p50": percentile(during, 0.5),
        "moving_ms_p99": percentile(during, 0.99),
        "moving_ms_max": max(during, default=0.0),
        "after_ms_p50": percentile(after, 0.5),
        "after_ms_p99": percentile(after, 0.99),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=4.0, help="before, between and after moves")
    parser.add_argument(
        "--processes",
        type=int,
        default=5,
        help="that clients are spread over; odd, so that each has both kinds",
    )
    parser.add_argument("--out", type=Path, help="folder to keep the dated result in")
    chosen = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="equipoise-moves-") as folder:
        outcome = asyncio.run(run(chosen.rounds, chosen.seconds, chosen.processes, Path(folder)))
    found = {
        "topics": len(TOPICS),
        "moves": len(TOPICS) * chosen.rounds,
        "subscribers": SUBSCRIBERS,
        "publishers": PUBLISHERS,
        "client_processes": chosen.processes,
        **outcome,
    }
    report_result("moves", found, chosen.out)


if __name__ == "__main__":
    main()
