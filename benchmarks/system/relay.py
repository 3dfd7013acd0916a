"""What does a plain client lose by being at the wrong hub?

Two hub processes and a ZooKeeper. A topic lives at one of them. A plain publisher that pipelines and a plain
subscriber are both at the home, or both at the other hub, by turns; the ratio of the rates is what counts.

Estimate: at the wrong hub every message crosses to the home and back, in frames that carry many at once, and two
processes share the work; on two cores with a driver beside them, somewhat more than half.

    python benchmarks/system/relay.py [--rounds 5] [--out benchmarks/results]
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import socket
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from equipoise.local import Layout, LocalSystem, SystemSettings
from equipoise.model import Entry, PlanChange, Reason, Why
from equipoise.profile.environment import tell
from equipoise.store import PlanStore, Tree, open_store

TOPIC = b"relayed"
PAYLOAD = b"x" * 100
BATCH = 50
BATCHES = 400
# Batches whose receipts have not come.
WINDOW = 8
_PUBLISH = b"*3\r\n$7\r\nPUBLISH\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(TOPIC), TOPIC, len(PAYLOAD), PAYLOAD)
_MESSAGE_BYTES = len(b"*3\r\n$7\r\nmessage\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(TOPIC), TOPIC, 100, PAYLOAD))


def rate_at(port: int) -> float:
    """Messages per second from a publisher to a subscriber at this hub."""
    with socket.create_connection(("127.0.0.1", port), 20) as subscriber:
        subscriber.sendall(b"*2\r\n$9\r\nSUBSCRIBE\r\n$%d\r\n%s\r\n" % (len(TOPIC), TOPIC))
        subscriber.recv(4096)
        with socket.create_connection(("127.0.0.1", port), 20) as publisher:
            return _drive(publisher, subscriber)


def _drive(publisher: socket.socket, subscriber: socket.socket) -> float:
    batch = _PUBLISH * BATCH
    began, received, expected = time.perf_counter(), 0, BATCHES * BATCH * _MESSAGE_BYTES
    for sent in range(BATCHES):
        publisher.sendall(batch)
        # No more under way than the window: a publisher that never waits only measures buffers.
        while received < (sent + 1 - WINDOW) * BATCH * _MESSAGE_BYTES:
            received += len(subscriber.recv(1 << 20))
    while received < expected:
        received += len(subscriber.recv(1 << 20))
    assert received == expected, "a message came twice"
    return BATCHES * BATCH / (time.perf_counter() - began)


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
        await plans.commit(PlanChange.on(plan, why, set_entries=[Entry(TOPIC, ("hub-1",))]))
        await store.close()
        home, other = (system.layout.known_port(name) for name in ("hub-1", "hub-2"))
        await asyncio.sleep(1.0)
        rates: dict[str, list[float]] = {"home": [], "other": []}
        for _ in range(rounds + 1):
            rates["home"].append(await asyncio.to_thread(rate_at, home))
            rates["other"].append(await asyncio.to_thread(rate_at, other))
    # The first round is for warming up.
    ratios = [other / home for home, other in zip(rates["home"][1:], rates["other"][1:], strict=True)]
    return {
        "home_per_s": statistics.median(rates["home"][1:]),
        "other_per_s": statistics.median(rates["other"][1:]),
        "ratio": statistics.median(ratios),
        "ratios": ratios,
    }


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
    tell("relay", outcome, chosen.out)


if __name__ == "__main__":
    main()
