"""Does a rate limit hold over ten live hubs under any actions of publishers and operators?

`equipoise up` runs a store, hubs and a controller. One topic admits 10 messages per second in bursts of 5. Plain,
pipelined and smart publishers and batches (EQ.PUBLISH) at all hubs publish as fast as they are answered; meanwhile the
topic is moved, split among hubs in other shares, and made whole again. A plain subscriber notes when messages arrive.

Printed: the largest excess of any interval of t seconds over r·(t + 20 ms) + b (must not be above 0), and the admitted
rate (at least 0.99 r while there is demand). Exit status 1 if the limit was exceeded. The hubs' reports (EQ.ENVELOPE,
20 times per second) show where the rest of r·t went: parts of the rate that no hub had, after one hub shrank its share
and before another grew; and shares of hubs at which no message waited.

    python benchmarks/system/envelopes.py [--seconds 60] [--hubs 10] [--rate 10] [--burst 5] [--calm]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import redis.asyncio as redis

import equipoise
from equipoise.errors import EquipoiseError

TOPIC = "envelopes.live"
START_S = 120.0
# A subscriber's own clock and loop: messages that were admitted apart may arrive together.
SLACK_S = 0.020
WARM_UP_S = 2.0
# Between two changes of the plan.
CHANGE_S = 8.0
# Between two looks at the shares of hubs.
LOOK_S = 0.05


class System:
    """`equipoise up` in a folder of its own; commands of an operator run there."""

    def __init__(self, folder: Path, hubs: int) -> None:
        self._folder = folder
        self._environment = {**os.environ, "EQUIPOISE_STORE": ""}
        self._log = (folder / "up.log").open("wb")
        self._process = subprocess.Popen(
            self._words("up", "--hubs", str(hubs), "--no-pipeline"),
            stdout=self._log,
            stderr=self._log,
            env=self._environment,
            cwd=folder,
        )
        self._hubs = hubs

    def _words(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "equipoise.cli.main", *words]

    def run(self, *words: str) -> str:
        done = subprocess.run(
            self._words(*words), cwd=self._folder, env=self._environment, capture_output=True, check=False
        )
        if done.returncode:
            raise RuntimeError(done.stderr.decode() or done.stdout.decode())
        return done.stdout.decode()

    def addresses(self) -> dict[str, str]:
        """Of all hubs, by name, once they are alive."""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            try:
                rows = json.loads(self.run("hubs", "ls", "--json"))
            except (RuntimeError, json.JSONDecodeError):
                rows = []
            found = {row["hub"]: row["address"] for row in rows if row.get("address")}
            if len(found) >= self._hubs:
                return found
            time.sleep(1.0)
        raise SystemExit(f"the system did not start: {(self._folder / 'up.log').read_text()[-2000:]}")

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


def client(address: str) -> redis.Redis:
    host, _, port = address.rpartition(":")
    return redis.Redis(host=host, port=int(port), socket_timeout=30.0)


def count(tally: Counter[str], kind: str, outcome: object) -> bool:
    """Whether it was refused."""
    if not isinstance(outcome, Exception):
        tally[f"{kind} admitted"] += 1
        return False
    is_refused = str(outcome).startswith("LIMITED")
    tally[f"{kind} refused" if is_refused else f"failed: {str(outcome)[:60]}"] += 1
    return True


async def plain(address: str, tally: Counter[str]) -> None:
    connection = client(address)
    while True:
        try:
            outcome: object = await connection.publish(TOPIC, "plain")
        except redis.RedisError as problem:
            outcome = problem
        if count(tally, "plain", outcome):
            await asyncio.sleep(0.2)


async def pipelined(address: str, tally: Counter[str]) -> None:
    connection = client(address)
    while True:
        pipe = connection.pipeline(transaction=False)
        for _ in range(20):
            pipe.publish(TOPIC, "pipelined")
        try:
            outcomes: list[object] = await pipe.execute(raise_on_error=False)
        except redis.RedisError as problem:
            outcomes = [problem]
        if sum(count(tally, "pipelined", outcome) for outcome in outcomes):
            await asyncio.sleep(0.2)


async def batches(address: str, tally: Counter[str]) -> None:
    connection = client(address)
    while True:
        try:
            words = ("EQ.PUBLISH", TOPIC, "batch", "batch", "batch")
            outcome: object = await connection.execute_command(*words)  # type: ignore[no-untyped-call]
        except redis.RedisError as problem:
            outcome = problem
        if count(tally, "batch", outcome):
            await asyncio.sleep(0.2)


async def smart(address: str, tally: Counter[str]) -> None:
    async with equipoise.connect(f"equipoise://{address}") as bus:
        while True:
            try:
                await bus.publish(TOPIC, b"smart")
                outcome: object = None
            except EquipoiseError as problem:
                outcome = problem
            if count(tally, "smart", outcome):
                await asyncio.sleep(0.2)


async def listen(address: str, arrivals: list[float]) -> None:
    connection = client(address).pubsub(ignore_subscribe_messages=True)
    await connection.subscribe(TOPIC)
    while True:
        if await connection.get_message(timeout=1.0) is not None:
            arrivals.append(time.monotonic())


class Ledger:
    """The shares of the rate that hubs report, in messages: the integral of what no hub had, and of what was idle."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self.without_share = 0.0
        self.idle = 0.0
        self.seconds = 0.0

    async def watch(self, addresses: list[str]) -> None:
        connections = [client(address) for address in addresses]
        last = None
        while True:
            found = await asyncio.gather(*(self._ask(connection) for connection in connections))
            now = time.monotonic()
            if last is not None:
                self._add(now - last, found)
            last = now
            await asyncio.sleep(LOOK_S)

    @staticmethod
    async def _ask(connection: redis.Redis) -> dict[str, float]:
        rows = await connection.execute_command("EQ.ENVELOPE", TOPIC)  # type: ignore[no-untyped-call]
        words = rows[0] or []
        return {key.decode(): float(value) for key, value in zip(words[::2], words[1::2], strict=True)}

    def _add(self, seconds: float, found: list[dict[str, float]]) -> None:
        shares = [(one.get("share_rate_per_s", 0.0), one.get("waiting", 0.0)) for one in found]
        self.seconds += seconds
        self.without_share += seconds * max(0.0, self._rate - sum(share for share, _ in shares))
        self.idle += seconds * sum(share for share, waiting in shares if not waiting)


async def watch_loop(lags: list[float]) -> None:
    """How late this program's own loop is: a message may have arrived earlier than noted, by as much."""
    while True:
        due = time.monotonic() + 0.005
        await asyncio.sleep(0.005)
        lags.append(time.monotonic() - due)


async def operate(system: System, hubs: list[str], changes: Counter[str]) -> None:
    """Move the topic, split it, and make it whole, over and over."""
    rng = random.Random(1)
    while True:
        await asyncio.sleep(CHANGE_S)
        one, other, third = rng.sample(hubs, 3)
        split = ("replicate", TOPIC, "--mode", "all-subscribers", "--hubs")
        words, kind = rng.choice(
            [
                (("move", TOPIC, one), "move"),
                ((*split, f"{one},{other}", "--shares", "70,30"), "split in two"),
                ((*split, f"{one},{other},{third}"), "split in three"),
            ]
        )
        try:
            await asyncio.to_thread(system.run, *words)
            changes[kind] += 1
        except RuntimeError as problem:
            changes[f"{kind} failed: {problem}"] += 1


def excess(arrivals: list[float], rate: float, burst: int) -> float:
    """The most messages by which an interval exceeds r·(t + slack) + b; negative: there was room."""
    level, last, worst = float(burst), None, float("-inf")
    for at in arrivals:
        level = float(burst) if last is None else min(float(burst), level + (at - last) * rate)
        level -= 1
        last = at
        worst = max(worst, -level - rate * SLACK_S)
    return worst


async def measure(system: System, options: Any) -> int:
    addresses = system.addresses()
    hubs = sorted(addresses)
    print(
        system.run(
            "topics", "set", TOPIC, "--rate", f"{options.rate:g}/s", "--burst", str(options.burst)
        ).strip()
    )
    tally, changes, arrivals = Counter[str](), Counter[str](), list[float]()
    kinds = (plain, pipelined, batches, smart)
    lags: list[float] = []
    ledger = Ledger(options.rate)
    tasks = [asyncio.create_task(listen(addresses[hubs[0]], arrivals)), asyncio.create_task(watch_loop(lags))]
    tasks += [asyncio.create_task(kinds[i % 4](addresses[hub], tally)) for i, hub in enumerate(hubs * 2)]
    if not options.calm and len(hubs) >= 3:
        tasks.append(asyncio.create_task(operate(system, hubs, changes)))
    clients = len(tasks) - 1
    await asyncio.sleep(WARM_UP_S)
    tasks.append(asyncio.create_task(ledger.watch(list(addresses.values()))))
    await asyncio.sleep(options.seconds - WARM_UP_S)
    for task in tasks:
        task.cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    failures = [one for one in outcomes if not isinstance(one, asyncio.CancelledError)]
    worst = excess(arrivals, options.rate, options.burst)
    # From when the first burst is surely over.
    steady = [at for at in arrivals if at > arrivals[0] + WARM_UP_S]
    lasted = steady[-1] - steady[0] if len(steady) > 1 else 0.0
    rate = (len(steady) - 1) / lasted if lasted else 0.0
    print(f"{len(hubs)} hubs, {clients} clients, changes of the plan: {dict(changes) or 'none'}")
    print(f"by publishers: {dict(sorted(tally.items()))}")
    print(f"arrived: {len(steady)} in {lasted:.1f} s, {rate:.2f}/s = {rate / options.rate:.3f} r")
    print(
        f"of {options.rate * ledger.seconds:.0f} that {ledger.seconds:.1f} s allow: {ledger.without_share:.1f} "
        f"while no hub had that part of the rate, {ledger.idle:.1f} at hubs where nothing waited"
    )
    print(f"this program's own loop was late by up to {1e3 * max(lags, default=0.0):.0f} ms")
    print(f"most above r·(t + {1e3 * SLACK_S:.0f} ms) + b in any t: {worst:+.2f} messages")
    for failure in failures:
        print(f"a client ended: {failure!r}")
    return 1 if worst > 0 or not arrivals else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--hubs", type=int, default=10)
    parser.add_argument("--rate", type=float, default=10.0)
    parser.add_argument("--burst", type=int, default=5)
    parser.add_argument("--calm", action="store_true", help="change no plan")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        system = System(Path(folder), options.hubs)
        try:
            return asyncio.run(measure(system, options))
        finally:
            system.stop()


if __name__ == "__main__":
    sys.exit(main())
