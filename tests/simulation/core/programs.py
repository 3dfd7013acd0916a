"""A small asyncio program under every fault, for the tests of the simulator itself.

Run as a script it prints one line per seed: the trace hash, the virtual time at the end and the faults. It
needs the standard library and the simulator's core, nothing else, so that any interpreter can run it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from dataclasses import dataclass, field

from equipoise.lab.simulation import Lan, LinkSpec, Simulation

PORT = 7000
CLIENTS = 3
MESSAGES = 200


@dataclass
class Outcome:
    """What one seed came to."""

    digest: str
    now: float
    faults: Counter[str] = field(default_factory=Counter)
    received: int = 0


class Chat:
    """A server that sends every line it gets to every connected client."""

    def __init__(self) -> None:
        self.writers: dict[asyncio.StreamWriter, None] = {}

    async def serve(self) -> None:
        server = await asyncio.start_server(self._handle, "0.0.0.0", PORT)
        async with server:
            await server.serve_forever()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers[writer] = None
        try:
            while line := await reader.readline():
                for other in list(self.writers):
                    other.write(line)
                async with asyncio.timeout(5):
                    await writer.drain()
        except (OSError, TimeoutError):
            pass
        finally:
            self.writers.pop(writer, None)
            writer.close()


class Talker:
    """A client that sends its share of the lines and reads all lines, reconnecting after a loss."""

    def __init__(self, name: str, lines: int) -> None:
        self.name = name
        self.lines = lines
        self.received = 0

    async def run(self) -> None:
        sent = 0
        while sent < self.lines:
            try:
                async with asyncio.timeout(3):
                    reader, writer = await asyncio.open_connection("hub", PORT)
            except (OSError, TimeoutError):
                await asyncio.sleep(0.1)
                continue
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._read(reader))
                    sent = await self._send(writer, sent)
                    raise ConnectionResetError("all sent: stop the reader")
            except* (OSError, TimeoutError):
                writer.close()

    async def _send(self, writer: asyncio.StreamWriter, sent: int) -> int:
        try:
            while sent < self.lines:
                writer.write(f"{self.name} {sent}\n".encode())
                async with asyncio.timeout(2):
                    await writer.drain()
                sent += 1
                await asyncio.sleep(0.005)
        except (OSError, TimeoutError):
            await asyncio.sleep(0.05)
        return sent

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while await reader.readline():
            self.received += 1
        raise ConnectionResetError("the server has gone")


def run_seed(seed: int, *, shuffle: bool = False) -> Outcome:
    """Run the program once, with faults drawn from the seed."""
    spec = LinkSpec(latency_s=0.002, jitter_s=0.001, loss=0.01)
    with Simulation(seed, topology=Lan(spec), split=0.1, shuffle=shuffle) as sim:
        talkers = [Talker(f"client-{number}", MESSAGES // CLIENTS) for number in range(CLIENTS)]
        sim.run(_main(sim, talkers))
        received = sum(talker.received for talker in talkers)
        return Outcome(sim.trace.digest(), sim.now, sim.faults, received)


async def _main(sim: Simulation, talkers: list[Talker]) -> None:
    hub = sim.host("hub")
    hub.spawn(Chat().serve())
    tasks = [sim.host(talker.name).spawn(talker.run()) for talker in talkers]
    await _misbehave(sim)
    await asyncio.gather(*tasks)


async def _misbehave(sim: Simulation) -> None:
    hub = sim.host("hub")
    for _ in range(4):
        await asyncio.sleep(0.05 + 0.1 * sim.random.random())
        victim = f"client-{int(sim.random.random() * CLIENTS)}"
        what = int(sim.random.random() * 5)
        if what == 0:
            sim.reset_connections("hub", victim)
        elif what == 1:
            await sim.flap("hub", victim, times=2, down_s=0.05, up_s=0.05)
        elif what == 2:
            hub.pause()
            await asyncio.sleep(0.1)
            hub.thaw()
        elif what == 3:
            sim.cut(victim, "hub", one_way=True)
            await asyncio.sleep(0.3)
            sim.heal(victim, "hub", one_way=True)
        else:
            file = hub.disk.open("log")
            file.append(bytes(100))
            hub.crash(silent=sim.random.random() < 0.5)
            await asyncio.sleep(0.1)
            hub.restart()
            hub.spawn(Chat().serve())


if __name__ == "__main__":
    for text in sys.argv[1:]:
        outcome = run_seed(int(text), shuffle=int(text) % 2 == 1)
        print(json.dumps([outcome.digest, outcome.now, sorted(outcome.faults.items()), outcome.received]))
