"""How long does a plan of 100,000 entries block a hub's loop when it is read and when it changes?

    python benchmarks/micro/large_plan.py [--entries 100000]

Estimate: decoding takes 60 to 150 ms, and copying the table up to 20 ms with cold memory. In a thread, in pieces, no
client should wait for more than two of Python's switching intervals of 5 ms. The aim is below 20 ms.

Finding (2026-11-15, ZooKeeper 3.9, Python 3.11, two cores busy with other work): one entry changed 8 to 14 ms, a
member 6 to 12 ms, 100,000 entries set at once and read whole at the start about 20 ms, of which a
collection of all garbage takes 12. When the table was copied in one piece on the loop, one entry took 14 to 28 ms.

Method: a hub of a cluster, in this process, and a task that wakes up every millisecond. The CPU time of the whole
process between two wake-ups counts, which excludes other work of the machine; another process commits the changes.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from equipoise.access import Users
from equipoise.hub import HubSettings
from equipoise.hub.membership.process import member
from equipoise.hub.membership.settings import MembershipSettings
from equipoise.hub.shell.collector import YOUNG
from equipoise.model import Entry, Member, Plan, PlanChange, Reason, Why
from equipoise.store import PlanStore, open_store
from equipoise.store.embedded.zookeeper_process import EmbeddedSettings, EmbeddedZooKeeper

WAKE_S = 0.001
SETTLE_S = 2.0
WHY = Why(Reason.OPERATOR)


class Probe:
    """The longest stretch of CPU time between two wake-ups."""

    def __init__(self) -> None:
        self.worst_ms = 0.0

    async def run(self) -> None:
        while True:
            before = time.process_time()
            await asyncio.sleep(WAKE_S)
            self.worst_ms = max(self.worst_ms, 1_000 * (time.process_time() - before))

    def take(self) -> float:
        worst_ms, self.worst_ms = self.worst_ms, 0.0
        return worst_ms


async def measure(url: str, entries: int) -> None:
    probe = Probe()
    probing = asyncio.create_task(probe.run())
    settings = HubSettings(name="h1", port=0, membership=MembershipSettings(store=url))
    for changes in (("all", "one", "member", "one"), ()):
        probe.take()
        async with member(settings, Users.open()) as running:
            await running.wait_ready()
            print(f"{'start':8} {probe.take():6.1f} ms")
            for change in changes:
                words = [
                    sys.executable,
                    __file__,
                    "--entries",
                    str(entries),
                    "--commit",
                    change,
                    "--url",
                    url,
                ]
                committing = await asyncio.create_subprocess_exec(*words)
                probe.take()
                await committing.wait()
                await asyncio.sleep(SETTLE_S)
                print(f"{change:8} {probe.take():6.1f} ms")
    probing.cancel()


async def commit(url: str, what: str, entries: int) -> None:
    store = await open_store(url)
    plans = PlanStore(store, writer="benchmark")
    plan = await plans.load()
    await plans.commit(change_of(plan, what, entries))
    await store.close()


def change_of(plan: Plan, what: str, entries: int) -> PlanChange:
    home = (plan.members[0].hub,)
    match what:
        case "all":
            made = [Entry(b"game.room.%06d" % number, home) for number in range(entries)]
            return PlanChange.on(plan, WHY, set_entries=made)
        case "one":
            return PlanChange.on(plan, WHY, set_entries=[Entry(b"one", home)])
        case _:
            return PlanChange.on(plan, WHY, set_members=[Member(f"other-{plan.version}", 0)])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--commit", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.commit:
        asyncio.run(commit(asked.url, asked.commit, asked.entries))
        return
    with tempfile.TemporaryDirectory(prefix="equipoise-plan-") as folder:
        zookeeper = EmbeddedZooKeeper(EmbeddedSettings(directory=Path(folder)))
        asyncio.run(zookeeper.start())
        try:
            gc.freeze()
            gc.set_threshold(YOUNG, 10, 10)
            uvloop.run(measure(zookeeper.url, asked.entries))
        finally:
            asyncio.run(zookeeper.stop())


if __name__ == "__main__":
    main()
