"""What does a plain client lose at a hub that is not the topic's home?

Two hub processes and a ZooKeeper. Two topics live at one of them. A plain publisher that pipelines and a plain
subscriber use one of them at the home, or the other one at the other hub, by turns: a hub follows a topic for a while
after its last subscriber has gone, so one topic would have the home relay in both turns. What counts is the CPU time of
both hubs per message; the ratio of the rates depends on how many processes the machine can run at a time.

Then CLIENTS plain publishers send a message each, to topics of their own, and wait until all have their replies and one
subscriber has all messages; again at the home, and at the other hub.

Estimate: at the wrong hub every message is read twice from links and written twice to them, beside what it takes at the
home, in frames that carry many at once. Compiled parts take a PUBLISH at the home, and these frames.

    python benchmarks/system/relay.py [--rounds 5] [--out benchmarks/results]
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import select
import socket
import statistics
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise.local import Layout, LocalSystem, SystemSettings
from equipoise.model import Entry, PlanChange, Reason, Why
from equipoise.profile.environment import report_result
from equipoise.profile.meters import process_cpu_s
from equipoise.store import PlanStore, Tree, open_store

AT_HOME, AT_OTHER = b"at.home", b"relayed"
PAYLOAD = b"x" * 100
BATCH = 50
BATCHES = 4_000
# Batches whose receipts have not come.
WINDOW = 8
# Publishers that send one message each and wait, and how often they do.
CLIENTS = 50
TURNS, TURNS_BEFORE = 300, 50
CROWD_AT_HOME = [b"at.home.%d" % number for number in range(CLIENTS)]
CROWD_AT_OTHER = [b"relayed.%d" % number for number in range(CLIENTS)]


def _publish(topic: bytes, payload: bytes) -> bytes:
    return b"*3\r\n$7\r\nPUBLISH\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(topic), topic, len(payload), payload)


def _message(topic: bytes, payload: bytes) -> bytes:
    return b"*3\r\n$7\r\nmessage\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(topic), topic, len(payload), payload)


@dataclass(frozen=True, slots=True)
class Sample:
    per_s: float
    # Of all hubs together.
    cpu_us: float


def sample_at(port: int, topic: bytes, hubs: list[int]) -> Sample:
    """Messages per second from a publisher to a subscriber at this hub, and CPU time per message of those processes."""
    before_s = sum(map(process_cpu_s, hubs))
    per_s = rate_at(port, topic)
    return Sample(per_s, 1e6 * (sum(map(process_cpu_s, hubs)) - before_s) / (BATCHES * BATCH))


def rate_at(port: int, topic: bytes) -> float:
    """Messages per second from a publisher to a subscriber at this hub."""
    with socket.create_connection(("127.0.0.1", port), 20) as subscriber:
        subscriber.sendall(b"*2\r\n$9\r\nSUBSCRIBE\r\n$%d\r\n%s\r\n" % (len(topic), topic))
        subscriber.recv(4096)
        with socket.create_connection(("127.0.0.1", port), 20) as publisher:
            return _drive(publisher, subscriber, topic)


def _drive(publisher: socket.socket, subscriber: socket.socket, topic: bytes) -> float:
    batch, size = _publish(topic, PAYLOAD) * BATCH, len(_message(topic, PAYLOAD))
    began, received, expected = time.perf_counter(), 0, BATCHES * BATCH * size
    for sent in range(BATCHES):
        publisher.sendall(batch)
        # A hub stops reading from a client that does not read its replies.
        while select.select([publisher], [], [], 0)[0]:
            publisher.recv(1 << 20)
        # No more under way than the window: a publisher that never waits only measures buffers.
        while received < (sent + 1 - WINDOW) * BATCH * size:
            received += len(subscriber.recv(1 << 20))
    while received < expected:
        received += len(subscriber.recv(1 << 20))
    assert received == expected, "a message came twice"
    return BATCHES * BATCH / (time.perf_counter() - began)


def crowd_cpu_us_at(port: int, topics: list[bytes], hubs: list[int]) -> float:
    """CPU time of the hubs per message if each topic's publisher sends one at a time, all of them together."""
    with ExitStack() as stack:
        subscriber, *publishers = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), 20)) for _ in [b"", *topics]
        ]
        confirmed = 0
        for topic in topics:
            subscriber.sendall(b"*2\r\n$9\r\nSUBSCRIBE\r\n$%d\r\n%s\r\n" % (len(topic), topic))
        while confirmed < len(topics):
            confirmed += subscriber.recv(1 << 20).count(b"subscribe")
        before_s = 0.0
        for turn in range(TURNS_BEFORE + TURNS):
            if turn == TURNS_BEFORE:
                before_s = sum(map(process_cpu_s, hubs))
            _take_turn(publishers, subscriber, topics)
        return 1e6 * (sum(map(process_cpu_s, hubs)) - before_s) / (TURNS * len(topics))


def _take_turn(publishers: list[socket.socket], subscriber: socket.socket, topics: list[bytes]) -> None:
    for publisher, topic in zip(publishers, topics, strict=True):
        publisher.sendall(_publish(topic, PAYLOAD))
    for publisher in publishers:
        publisher.recv(64)
    missing = sum(len(_message(topic, PAYLOAD)) for topic in topics)
    while missing:
        missing -= len(subscriber.recv(1 << 20))


async def run(rounds: int, folder: Path) -> dict[str, Any]:
    settings = SystemSettings(hubs=2, has_pipeline=False, has_controller=False)
    async with LocalSystem(Layout(folder), settings) as system:
        async with asyncio.timeout(60):
            while not system.is_ready:  # noqa: ASYNC110  a state of several processes
                await asyncio.sleep(0.05)
        store = await open_store(system.store_url)
        plans = PlanStore(store, Tree(), writer="benchmark")
        why = Why(Reason.OPERATOR, note="benchmark")
        async with asyncio.timeout(60):
            while len((plan := await plans.load()).members) < 2:  # noqa: ASYNC110  as above
                await asyncio.sleep(0.05)
        await plans.commit(
            PlanChange.on(
                plan,
                why,
                set_entries=[
                    Entry(topic, ("hub-1",)) for topic in (AT_HOME, AT_OTHER, *CROWD_AT_HOME, *CROWD_AT_OTHER)
                ],
            )
        )
        await store.close()
        home, other = (system.layout.known_port(name) for name in ("hub-1", "hub-2"))
        await asyncio.sleep(1.0)
        hubs = [await asyncio.to_thread(_process_at, port) for port in (home, other)]
        pairs, crowds = [], []
        for _ in range(rounds + 1):
            at_home = await asyncio.to_thread(sample_at, home, AT_HOME, hubs)
            pairs.append((at_home, await asyncio.to_thread(sample_at, other, AT_OTHER, hubs)))
        for _ in range(rounds):
            crowd_home = await asyncio.to_thread(crowd_cpu_us_at, home, CROWD_AT_HOME, hubs)
            crowds.append((crowd_home, await asyncio.to_thread(crowd_cpu_us_at, other, CROWD_AT_OTHER, hubs)))
    # The first round is for warming up.
    return outcome_of(pairs[1:]) | crowd_outcome_of(crowds)


def outcome_of(pairs: list[tuple[Sample, Sample]]) -> dict[str, Any]:
    """`pairs`: at the home, and at the other hub."""
    ratios = [other.per_s / home.per_s for home, other in pairs]
    cpu_ratios = [other.cpu_us / home.cpu_us for home, other in pairs]
    return {
        "home_per_s": statistics.median(home.per_s for home, _ in pairs),
        "other_per_s": statistics.median(other.per_s for _, other in pairs),
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "home_cpu_us": statistics.median(home.cpu_us for home, _ in pairs),
        "other_cpu_us": statistics.median(other.cpu_us for _, other in pairs),
        "cpu_ratio": statistics.median(cpu_ratios),
        "cpu_ratios": cpu_ratios,
    }


def crowd_outcome_of(pairs: list[tuple[float, float]]) -> dict[str, Any]:
    return {
        "crowd_home_cpu_us": statistics.median(home for home, _ in pairs),
        "crowd_other_cpu_us": statistics.median(other for _, other in pairs),
        "crowd_cpu_ratio": statistics.median(other / home for home, other in pairs),
    }


def _process_at(port: int) -> int:
    """The process id that the hub states in INFO."""
    with socket.create_connection(("127.0.0.1", port), 20) as asking:
        asking.sendall(b"INFO server\r\n")
        text = asking.recv(1 << 16).decode()
    return int(text.partition("process_id:")[2].split()[0])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, help="folder to keep the dated result in")
    chosen = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="equipoise-relay-") as folder:
        outcome = asyncio.run(run(chosen.rounds, Path(folder)))
    report_result("relay", outcome, chosen.out)


if __name__ == "__main__":
    main()
