"""What is lost when processes are killed and stopped while messages flow?

`equipoise up` runs a store, hubs, a controller and (with --pipeline) Spark. Smart and plain clients publish and
subscribe. Every few seconds one process gets SIGKILL, or SIGSTOP for 2 to 30 s. Then everything is left
alone, and the simulator's checkers judge what the clients noted.

Printed per run: acknowledged messages that a smart subscriber lacks without a gap that covers them (untold),
duplicates, and messages out of order: all three must be 0. Also counted: messages lost inside a hub, which gaps report
to subscribers, and messages that plain subscribers lack, to whom no gap can be sent.

With --durable there are bookies and durable topics too (`durable_clients.py`). Bookies are killed and stopped like the
rest, and their disks are filled (`victims.py`). In the end every topic is read back through every hub: acknowledged
entries that are lost, entries that are stored twice, out of order, or stored though they were refused, and readers that
lack some: all must be 0.

A message of a plain publisher counts as acknowledged when its `:n` has come. One whose reply did not come is uncertain,
and is not sent again. No hub knows that two connections of a plain publisher are one program, so each of them counts as
a publisher of its own.

    python benchmarks/system/kill.py [--minutes 10] [--hubs 3] [--seed 1] [--pipeline] [--durable] [--no-keep]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from durable_clients import ZEROS, DurableClients  # type: ignore[import-not-found]  # the script beside this one
from victims import START_S, System, make_trouble  # type: ignore[import-not-found]  # likewise

from equipoise.client.wire.codec import encode_request
from equipoise.lab.scenarios import Client, Dialect, PublishedStream, Subscribing
from equipoise.lab.simulation.checkers import CHECKERS
from equipoise.lab.workload import History, HubEndpoint, RunPhases, cast_client, hurried
from equipoise.lab.workload.history import Missed, PublishOutcome, Received, Track
from equipoise.lab.workload.payload import encode_payload
from equipoise.profile.environment import report_result

TOPICS = tuple(f"kill.{n}" for n in range(12))
# Of plain publishers: messages in one write, how long they wait for replies and before they connect again.
BURST_MAX = 8
PUBLISH_EVERY_S = (0.01, 0.04)
REPLY_S = 8.0
RECONNECT_S = 0.2
PLAIN = "plain-pub"
PLAIN_PUBLISHERS = 3
# After the last fault: sessions end, hubs come back, topics find homes.
HEAL_S = 60.0
# One more than an ensemble of 3/3/2 has, so that members can be replaced.
BOOKIES = 4
RESULTS = Path(__file__).parents[1] / "results"


@dataclass(frozen=True, slots=True)
class Door(HubEndpoint):
    """A hub by its own port, with the other hubs' ports to fall back on."""

    ports: tuple[int, ...] = ()

    def url(self, user: str) -> str:
        return "equipoise://" + ",".join(f"127.0.0.1:{port}" for port in self.ports)


def clients() -> list[Client]:
    return [
        *(
            Client(
                name=f"pub{n}",
                publishes=(PublishedStream(topics=TOPICS, count=None, interval_s=0.02, receipts=0.5),),
            )
            for n in range(3)
        ),
        *(Client(name=f"sub{n}", subscribes=(Subscribing(names=TOPICS),)) for n in range(3)),
        Client(name="pattern", subscribes=(Subscribing(names=("kill.*",), is_pattern=True),)),
        Client(name="plain2", dialect=Dialect.RESP2, subscribes=(Subscribing(names=TOPICS),)),
        Client(name="plain3", dialect=Dialect.RESP3, subscribes=(Subscribing(names=TOPICS),)),
    ]


class PlainPublisher:
    """A Redis client that publishes bursts and reads their replies; when that fails, it goes to the next hub."""

    def __init__(
        self, number: int, ports: tuple[int, ...], rng: random.Random, stage: RunPhases, history: History
    ) -> None:
        self._name = f"{PLAIN}{number}"
        self._ports = ports
        self._rng = rng
        self._stage = stage
        self._history = history
        self._connections = 0

    async def run(self) -> None:
        await self._stage.begin.wait()
        while not self._stage.conclude.is_set():
            port = self._ports[self._connections % len(self._ports)]
            self._connections += 1
            try:
                async with asyncio.timeout(1.0):
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
            except (OSError, TimeoutError):
                await asyncio.sleep(RECONNECT_S)
                continue
            try:
                await self._publish(f"{self._name}.{self._connections}", reader, writer)
            except (OSError, EOFError, TimeoutError):
                # What was not answered stays uncertain.
                pass
            finally:
                writer.transport.abort()
            await asyncio.sleep(RECONNECT_S)

    async def _publish(self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        self._history.users[name] = ""
        while not self._stage.conclude.is_set():
            await asyncio.sleep(self._rng.uniform(*PUBLISH_EVERY_S))
            burst = []
            for topic in self._rng.choices(TOPICS, k=self._rng.randint(1, BURST_MAX)):
                payload = encode_payload(name, self._history.next_sequence(name, topic), 40)
                burst.append(self._history.begin(name, topic, loop.time()))
                writer.write(encode_request(b"PUBLISH", topic.encode(), payload))
            async with asyncio.timeout(REPLY_S):
                for sent in burst:
                    reply = await reader.readuntil(b"\r\n")
                    if reply.startswith(b":"):
                        sent.outcome, sent.answered_at = PublishOutcome.ACKNOWLEDGED, loop.time()
                    elif not reply.startswith(b"-UNCERTAIN"):
                        sent.outcome = PublishOutcome.FAILED


async def play(
    system: System, ports: tuple[int, ...], minutes: float, rng: random.Random, *, is_durable: bool
) -> dict[str, object]:
    stage, history, faults = RunPhases(), History(), Counter[str]()
    loop = asyncio.get_running_loop()
    settings = hurried()
    kept = DurableClients(ports, rng.randrange(1 << 30), stage) if is_durable else None
    async with asyncio.TaskGroup() as group:
        for n, client in enumerate(clients()):
            own = tuple(ports[(n + i) % len(ports)] for i in range(len(ports)))
            door = Door("127.0.0.1", own[0], settings, random.Random(client.name), ports=own)
            group.create_task(cast_client(client, door, stage, history).run())
        for n in range(PLAIN_PUBLISHERS):
            own = tuple(ports[(n + i) % len(ports)] for i in range(len(ports)))
            plain = PlainPublisher(n, own, random.Random(f"{PLAIN}{n}"), stage, history)
            group.create_task(plain.run())
        if kept is not None:
            group.create_task(kept.run())
            await until(lambda: kept.is_ready, START_S)
        await until(lambda: all(track.is_live for track in history.tracks), START_S)
        stage.begin.set()
        await make_trouble(system, rng, time.monotonic() + 60 * minutes, faults)
        await asyncio.sleep(HEAL_S)
        history.healed_at = loop.time()
        stage.conclude.set()
        publishers = sum(bool(client.publishes) for client in clients())
        await until(lambda: len(history.markers) >= publishers * len(TOPICS), START_S)
        await asyncio.sleep(5.0)
        if kept is not None:
            await kept.read_back(START_S)
        stage.stop.set()
    return judged(history, faults) | ({} if kept is None else {"durable": kept.tally()})


def judged(history: History, faults: Counter[str]) -> dict[str, object]:
    acknowledged = Counter(
        "by plain publishers" if publisher.startswith(PLAIN) else "by smart publishers"
        for (publisher, _), stream in history.sent.items()
        for sent in stream
        if sent.outcome is PublishOutcome.ACKNOWLEDGED
    )
    smart, plain = History(), History()
    for part, is_smart in ((smart, True), (plain, False)):
        part.sent, part.users, part.healed_at = history.sent, history.users, history.healed_at
        part.tracks = [track for track in history.tracks if track.is_smart is is_smart]
    untold = CHECKERS["once"](smart)
    disorder = CHECKERS["order"](history)
    return {
        "acknowledged": acknowledged.total(),
        **{f"acknowledged {who}": count for who, count in sorted(acknowledged.items())},
        "faults": dict(sorted(faults.items())),
        "untold or twice": len(untold),
        "first of them": [str(violation) for violation in untold[:5]],
        "out of order": len(disorder),
        "told as missing": {track.name: _told(track) for track in smart.tracks},
        "missing at plain subscribers": {track.name: _lacking(track, history) for track in plain.tracks},
    }


def _told(track: Track) -> dict[str, int]:
    gaps = [event.missed for event in track.events if isinstance(event, Missed)]
    return {"messages": sum(count or 0 for count in gaps), "gaps of unknown size": gaps.count(None)}


def _lacking(track: Track, history: History) -> int:
    """Acknowledged messages that never came, connection or not."""
    got = {
        (event.publisher, event.topic, event.sequence)
        for event in track.events
        if isinstance(event, Received)
    }
    return sum(
        sent.outcome is PublishOutcome.ACKNOWLEDGED and (publisher, topic, sequence) not in got
        for (publisher, topic), stream in history.sent.items()
        for sequence, sent in enumerate(stream)
    )


async def until(is_so: object, patience_s: float) -> None:
    assert callable(is_so)
    async with asyncio.timeout(patience_s):
        while not is_so():  # noqa: ASYNC110  # a state spread over all clients has no event of its own
            await asyncio.sleep(0.05)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--hubs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pipeline", action="store_true", help="Run Spark, too: 1 GB and half a core.")
    parser.add_argument("--durable", action="store_true", help="Run bookies and durable topics, too.")
    parser.add_argument("--no-keep", action="store_true", help="Print the result only.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="equipoise-kill-") as folder:
        system = System(
            Path(folder),
            options.hubs,
            has_pipeline=options.pipeline,
            bookies=BOOKIES if options.durable else 0,
        )
        try:

            async def run() -> dict[str, object]:
                ports = await system.until_up(options.hubs)
                if options.durable:
                    make_durable(system.store)
                rng = random.Random(options.seed)
                return await play(system, ports, options.minutes, rng, is_durable=options.durable)

            result = asyncio.run(run())
        finally:
            system.stop()
    facts = {"minutes": options.minutes, "hubs": options.hubs, "seed": options.seed, **result}
    if options.durable and not system.has_disks:
        facts["disks filled"] = "none: the kernel allows no mount namespace here"
    report_result("kill", facts, None if options.no_keep else RESULTS)
    return 1 if is_broken(result) else 0


def make_durable(store: str) -> None:
    words = ["topics", "set", "kept.*", "--durable", "3/3/2", "--store", store]
    subprocess.run([sys.executable, "-m", "equipoise.cli.main", *words], check=True)


def is_broken(result: dict[str, object]) -> bool:
    durable = result.get("durable", {})
    assert isinstance(durable, dict)
    return bool(
        result["untold or twice"] or result["out of order"] or any(durable.get(name) for name in ZEROS)
    )


if __name__ == "__main__":
    sys.exit(main())
