"""How long does a publisher to a durable topic wait when the owner of its log dies, or when the topic moves?

`equipoise up` with three hubs and three bookies. Parts (`--only`):

supervised    the hub that owns a log gets SIGKILL; a client of another hub appends until it is acknowledged again. The
              supervisor starts the hub anew meanwhile
unsupervised  the same while the supervisor is stopped, so that the hub stays dead
silent        the hub gets SIGSTOP, as if its machine were lost: no other hub can know that its process has ended
thousand      1,000 logs on a hub that gets SIGKILL: until each of them has acknowledged an append
thousand silent  the same with SIGSTOP
moves         64 durable topics, to each of which a client appends 20 times a second, move to the next hub: one after
              the other, then all by one commit: how long appends take within a second of it, and how many are refused

Estimate: the other hubs of the machine notice the end of a process in a few milliseconds, claim and recover its log in
some tens. Of a hub that falls silent the session has to end (6 s). Each log costs two writes to the store and a
recovery. A move seals a ledger, which waits for one
sync, and opens the next one: some tens of milliseconds, for 64 at once on two cores perhaps a hundred.

Finding: docs/results/durable.md.

    python benchmarks/system/durable_faults.py [--only supervised,moves] [--rounds 3] [--out benchmarks/results]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from durable_clients import Connection  # type: ignore[import-not-found]  # the script beside this one
from victims import System  # type: ignore[import-not-found]

from equipoise.model import Entry, PlanChange, Reason, Why
from equipoise.profile.environment import report_result
from equipoise.store import PlanStore, Store, Tree, open_store
from equipoise.store.records.bookies import BookiesStore
from equipoise.store.records.topic_logs import TopicLogsStore

HUBS, BOOKIES = 3, 3
THOUSAND = tuple(f"many.{number}".encode() for number in range(1_000))
MOVED = tuple(f"moved.{number}".encode() for number in range(64))
# Of the logs of a dead hub one client asks after so many.
LOGS_PER_CLIENT = 50
# An append counts as made during a move if it was sent within so many seconds after the commit.
DURING_S = 1.0
EVERY_S = 0.05
REST_S = 3.0
# Topics that move one at a time in a round, and how soon the next one follows.
SINGLE_MOVES = 20
SINGLE_EVERY_S = 0.3
PATIENCE_S = 60.0


class Cluster:
    """The running system, its store, and which hub is which process."""

    def __init__(self, system: System, ports: tuple[int, ...], store: Store, rounds: int) -> None:
        self.system = system
        self.ports = {f"hub-{number + 1}": port for number, port in enumerate(ports)}
        self.plans = PlanStore(store, Tree(), writer="benchmark")
        self.logs = TopicLogsStore(store, Tree())
        self._bookies = BookiesStore(store, Tree())
        self.rounds = rounds

    def pid(self, hub: str) -> int:
        for pid, words in self.system.processes().items():
            if "hub" in words and hub in words:
                return int(pid)
        raise SystemExit(f"{hub} does not run")

    async def until_whole(self) -> None:
        """All hubs are members, and all bookies take entries."""
        async with asyncio.timeout(PATIENCE_S):
            while not (  # noqa: ASYNC110  # a state of several processes
                self.ports.keys() <= {member.hub for member in (await self.plans.load()).members}
                and len(await self._bookies.load()) == BOOKIES
            ):
                await asyncio.sleep(0.2)

    async def place(self, topics: Sequence[bytes], hub_of: Callable[[int], str]) -> float:
        """Put each topic on a hub, by one commit; when it was made."""
        plan = await self.plans.load()
        entries = [Entry(topic, (hub_of(number),)) for number, topic in enumerate(topics)]
        at = time.monotonic()
        change = PlanChange.on(plan, Why(Reason.OPERATOR, note="benchmark"), set_entries=entries)
        await self.plans.commit(change)
        return at

    async def owner(self, topic: bytes) -> str:
        return (await self.logs.load(topic)).node.owner

    def others(self, hub: str) -> tuple[int, ...]:
        return tuple(port for name, port in self.ports.items() if name != hub)


async def acknowledged(ports: tuple[int, ...], topics: Sequence[bytes]) -> float:
    """When each of the topics had acknowledged an append; those that were refused are tried again."""
    connection, left = Connection(ports), list(topics)
    async with asyncio.timeout(PATIENCE_S):
        while left:
            replies = await connection.ask(*(("XADD", topic, "*", "f", "x" * 1_000) for topic in left))
            # What was not answered at all counts as refused.
            replies += [None] * (len(left) - len(replies))
            left = [topic for topic, reply in zip(left, replies, strict=True) if not isinstance(reply, bytes)]
            if left:
                await asyncio.sleep(0.01)
    connection.close()
    return time.monotonic()


async def after_kill(
    cluster: Cluster, topics: Sequence[bytes], hub: str, number: signal.Signals = signal.SIGKILL
) -> float:
    """Kill, or stop, a hub that owns the logs; seconds until all have acknowledged again."""
    ports = cluster.others(hub)
    await asyncio.gather(
        *(
            acknowledged(ports, topics[start : start + LOGS_PER_CLIENT])
            for start in range(0, len(topics), LOGS_PER_CLIENT)
        )
    )
    owner = await cluster.owner(topics[-1])
    if owner != hub:
        raise SystemExit(f"{owner} owns the log, not {hub}")
    at = time.monotonic()
    os.kill(cluster.pid(hub), number)
    done = await asyncio.gather(
        *(
            acknowledged(ports, topics[start : start + LOGS_PER_CLIENT])
            for start in range(0, len(topics), LOGS_PER_CLIENT)
        )
    )
    return max(done) - at


async def killed(
    cluster: Cluster,
    topics: Sequence[bytes],
    *,
    is_supervised: bool,
    number: signal.Signals = signal.SIGKILL,
) -> dict[str, Any]:
    found = []
    for turn in range(cluster.rounds):
        hub = f"hub-{2 + turn % 2}"
        await cluster.place(topics, lambda _, hub=hub: hub)  # type: ignore[misc]
        await asyncio.sleep(REST_S)
        if not is_supervised:
            cluster.system.pause(is_paused=True)
        try:
            found.append(await after_kill(cluster, topics, hub, number))
        finally:
            if number is signal.SIGSTOP:
                os.kill(cluster.pid(hub), signal.SIGCONT)
            cluster.system.pause(is_paused=False)
        # Until the hub is back.
        await acknowledged((cluster.ports[hub],), topics[:1])
        await asyncio.sleep(REST_S)
    return {"until_ack_s": found, "median_s": statistics.median(found), "max_s": max(found)}


async def supervised(cluster: Cluster) -> dict[str, Any]:
    return await killed(cluster, [b"owned"], is_supervised=True)


async def unsupervised(cluster: Cluster) -> dict[str, Any]:
    return await killed(cluster, [b"owned"], is_supervised=False)


async def silent(cluster: Cluster) -> dict[str, Any]:
    return await killed(cluster, [b"owned"], is_supervised=False, number=signal.SIGSTOP)


async def thousand(cluster: Cluster) -> dict[str, Any]:
    return await killed(cluster, THOUSAND, is_supervised=False)


async def thousand_silent(cluster: Cluster) -> dict[str, Any]:
    return await killed(cluster, THOUSAND, is_supervised=False, number=signal.SIGSTOP)


class Appending:
    """A client for each topic that moves; when each append was sent, and how long it took."""

    def __init__(self, cluster: Cluster) -> None:
        self._ports = list(cluster.ports.values())
        self.waits: list[tuple[int, float, float]] = []
        self.refusals: Counter[str] = Counter()
        self._is_over = False
        self._tasks = [asyncio.create_task(self._append(number)) for number in range(len(MOVED))]

    async def _append(self, number: int) -> None:
        connection = Connection((self._ports[number % HUBS],))
        await asyncio.sleep(EVERY_S * number / len(MOVED))
        while not self._is_over:
            sent_at = time.monotonic()
            reply = next(iter(await connection.ask(("XADD", MOVED[number], "*", "f", "x" * 1_000))), None)
            self.waits.append((number, sent_at, 1e3 * (time.monotonic() - sent_at)))
            if not isinstance(reply, bytes):
                self.refusals[str(reply).split(" ")[0]] += 1
            await asyncio.sleep(max(0.0, sent_at + EVERY_S - time.monotonic()))
        connection.close()

    async def stop(self) -> None:
        self._is_over = True
        await asyncio.gather(*self._tasks)

    def during(self, moved_at: dict[int, list[float]]) -> dict[str, float]:
        """The appends to topics that were moving, in milliseconds."""
        found = [
            wait_ms
            for number, sent_at, wait_ms in self.waits
            if any(at - EVERY_S <= sent_at <= at + DURING_S for at in moved_at.get(number, ()))
        ]
        return {"p50": percentile(found, 0.5), "p99": percentile(found, 0.99), "max": max(found)}


async def moves(cluster: Cluster) -> dict[str, Any]:
    await cluster.place(MOVED, lambda number: f"hub-{1 + number % HUBS}")
    appending = Appending(cluster)
    await asyncio.sleep(2 * REST_S)
    calm = [wait_ms for _, sent_at, wait_ms in appending.waits if sent_at > time.monotonic() - REST_S]
    refused_before = appending.refusals.total()
    singly: dict[int, list[float]] = {}
    for number in range(min(len(MOVED), SINGLE_MOVES * cluster.rounds)):
        at = await cluster.place([MOVED[number]], lambda _, number=number: f"hub-{1 + (number + 1) % HUBS}")  # type: ignore[misc]
        singly[number] = [at]
        await asyncio.sleep(SINGLE_EVERY_S)
    await asyncio.sleep(REST_S)
    together: dict[int, list[float]] = {number: [] for number in range(len(MOVED))}
    for turn in range(cluster.rounds):
        at = await cluster.place(MOVED, lambda number, turn=turn: f"hub-{1 + (number + turn + 2) % HUBS}")  # type: ignore[misc]
        for moments in together.values():
            moments.append(at)
        await asyncio.sleep(REST_S)
    await appending.stop()
    return {
        "refused": appending.refusals.total() - refused_before,
        "refusals": dict(appending.refusals),
        "calm_ms_p99": percentile(calm, 0.99),
        "one at a time, ms": appending.during(singly),
        f"{len(MOVED)} at once, ms": appending.during(together),
    }


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


PARTS: dict[str, Callable[[Cluster], Awaitable[dict[str, Any]]]] = {
    "supervised": supervised,
    "unsupervised": unsupervised,
    "silent": silent,
    "thousand": thousand,
    "thousand silent": thousand_silent,
    "moves": moves,
}


async def run(system: System, parts: list[str], rounds: int) -> dict[str, object]:
    ports = await system.until_up(HUBS)
    store = await open_store(system.store)
    found: dict[str, object] = {}
    try:
        for name in parts:
            began_at = time.monotonic()
            cluster = Cluster(system, ports, store, rounds)
            await cluster.until_whole()
            found[name] = await PARTS[name](cluster)
            print(f"{name}: {found[name]} ({time.monotonic() - began_at:.0f} s)", flush=True)
    finally:
        await store.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="folder to keep the dated result in")
    options = parser.parse_args()
    parts = options.only.split(",")
    if unknown := [name for name in parts if name not in PARTS]:
        parser.error(f"no part {unknown[0]}: there are {', '.join(PARTS)}")
    # Beside the project: /tmp may be a memory disk.
    with tempfile.TemporaryDirectory(prefix="durable-faults-", dir=Path.cwd()) as folder:
        system = System(Path(folder), HUBS, has_pipeline=False, bookies=BOOKIES, has_disks=False)
        try:
            found = asyncio.run(run(system, parts, options.rounds))
        finally:
            system.stop()
    report_result("durable_faults", {"rounds": options.rounds, **found}, options.out)


if __name__ == "__main__":
    main()
