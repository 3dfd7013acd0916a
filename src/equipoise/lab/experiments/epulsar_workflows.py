"""The two workflows of ePulsar's section 3.6, message by message: Pulsar's, and the paper's own (figure 2).

For comparison only: the requests and waits of both workflows on the same simulated network as Equipoise's moves. A load
manager and a metadata store are in the cloud, two brokers at the edge, and clients near them, one per topic.

    Pulsar    the manager commands the broker to release topics, one after another; the broker releases its ownership
              in the store and disconnects the client. The client looks the topic up: its broker asks the manager,
              which chooses a broker. That broker acquires ownership in the store when the client connects to it.
    ePulsar   several topics at once; the broker sends the new broker's address to the client when it disconnects it,
              and commands the new broker to acquire ownership at the same time.

A client is down from the notice of its disconnect until the new broker has accepted it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from equipoise.lab.simulation import Simulation
from equipoise.lab.simulation.host import Host

__all__ = ["Migrated", "WorkflowPlaces", "migrate"]

PORT = 6650
MANAGER, METADATA = "manager", "metadata"

Handler = Callable[..., Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowPlaces:
    """Places of brokers, clients and the manager."""

    cloud: str
    brokers: tuple[str, str]
    clients: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated:
    """One migration of all topics."""

    # By client.
    down_s: tuple[float, ...]
    # Time from the first command until the manager knows of the last release, and of each release.
    total_s: float
    until_s: tuple[float, ...]

    @property
    def each_s(self) -> float:
        """Time per topic."""
        return self.total_s / len(self.until_s)


class WorkflowNode:
    """A process that answers requests and sends requests to others over persistent connections."""

    def __init__(self, host: Host, **handlers: Handler) -> None:
        self.host = host
        self._handlers = handlers
        self._peers: dict[str, asyncio.StreamWriter] = {}
        self._asked: dict[int, asyncio.Future[object]] = {}
        self._numbers = count()
        self._tasks: set[asyncio.Task[object]] = set()

    async def serve(self) -> None:
        await asyncio.start_server(self._greeted, "0.0.0.0", PORT)

    async def connect(self, peer: str) -> None:
        if peer not in self._peers:
            reader, writer = await asyncio.open_connection(peer, PORT)
            self._peers.setdefault(peer, writer)
            self.spawn(self._listen(reader, writer))

    async def ask(self, peer: str, verb: str, *args: object) -> object:
        await self.connect(peer)
        number = next(self._numbers)
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        _write(self._peers[peer], [number, verb, *args])
        return await answer

    def spawn(self, coroutine: Coroutine[Any, Any, object]) -> asyncio.Task[object]:
        """Run a coroutine in the background."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def forget(self, peer: str) -> None:
        """Close the connection: the next request opens a new one."""
        if peer in self._peers:
            self._peers.pop(peer).close()

    async def _greeted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._listen(reader, writer)

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            number, verb, *args = json.loads(line)
            if verb == "answer":
                self._asked.pop(number).set_result(args[0])
            else:
                self.spawn(self._answer(writer, number, verb, args))
        writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, number: int, verb: str, args: list[Any]) -> None:
        _write(writer, [number, "answer", await self._handlers[verb](*args)])


def _write(writer: asyncio.StreamWriter, words: Sequence[object]) -> None:
    if not writer.is_closing():
        writer.write(json.dumps(words).encode() + b"\n")


class Metadata:
    """The owners of topics."""

    def __init__(self, host: Host) -> None:
        self.owners: dict[str, str] = {}
        self.node = WorkflowNode(host, release=self._release, acquire=self._acquire)

    async def _release(self, topic: str) -> None:
        self.owners.pop(topic, None)

    async def _acquire(self, topic: str, broker: str) -> None:
        self.owners[topic] = broker


class Broker:
    """A broker with its topics."""

    def __init__(self, host: Host) -> None:
        self.name = host.name
        # Owned topics; a task is done once the broker has ownership.
        self._owned: dict[str, asyncio.Task[object]] = {}
        self.node = WorkflowNode(
            host, release=self._release, acquire=self._acquire, attach=self._attach, lookup=self._lookup
        )

    async def _release(self, topic: str, client: str, target: str, is_announced: bool) -> None:
        """`is_announced`: this broker sends the new broker's address to client and target."""
        self._owned.pop(topic, None)
        await self.node.ask(METADATA, "release", topic)
        self.node.spawn(self.node.ask(client, "closed", target if is_announced else ""))
        if is_announced:
            self.node.spawn(self.node.ask(target, "acquire", topic))

    async def _acquire(self, topic: str) -> None:
        await self._ownership(topic)

    async def _attach(self, topic: str) -> None:
        await self._ownership(topic)

    async def _lookup(self, topic: str) -> object:
        return await self.node.ask(MANAGER, "choose", topic)

    async def _ownership(self, topic: str) -> None:
        if topic not in self._owned:
            self._owned[topic] = self.node.spawn(self.node.ask(METADATA, "acquire", topic, self.name))
        await self._owned[topic]


class WorkflowClient:
    """The client of one topic. `down_s` is the downtime of its last migration."""

    def __init__(self, host: Host, topic: str, broker: str) -> None:
        self.host, self.topic, self.broker = host, topic, broker
        self.down_s = 0.0
        self.is_up = asyncio.Event()
        self.node = WorkflowNode(host, closed=self._closed)

    async def begin(self) -> None:
        await self.node.serve()
        await self.node.ask(self.broker, "attach", self.topic)
        self.is_up.set()

    async def _closed(self, target: str) -> None:
        loop = asyncio.get_running_loop()
        closed_at = loop.time()
        self.is_up.clear()
        self.node.spawn(self._move(target, closed_at))

    async def _move(self, target: str, closed_at: float) -> None:
        found = target or await self.node.ask(self.broker, "lookup", self.topic)
        assert isinstance(found, str)
        self.node.forget(self.broker)
        self.broker = found
        await self.node.ask(found, "attach", self.topic)
        self.down_s = asyncio.get_running_loop().time() - closed_at
        self.is_up.set()


class Manager:
    """The load manager, which moves several topics at once."""

    def __init__(self, host: Host) -> None:
        self.target = ""
        self.node = WorkflowNode(host, choose=self._choose)

    async def _choose(self, topic: str) -> str:
        return self.target

    async def migrate(
        self, clients: Mapping[str, tuple[str, str]], target: str, *, executors: int, is_announced: bool
    ) -> list[float]:
        """By topic, with its client and broker, the time from the beginning until the manager knew of its release."""
        loop = asyncio.get_running_loop()
        began, self.target = loop.time(), target
        slots = asyncio.Semaphore(executors)

        async def one(topic: str, client: str, broker: str) -> float:
            async with slots:
                await self.node.ask(broker, "release", topic, client, target, is_announced)
                return loop.time() - began

        return list(await asyncio.gather(*(one(topic, *where) for topic, where in clients.items())))


async def migrate(
    sim: Simulation,
    places: WorkflowPlaces,
    *,
    topics: int,
    executors: int,
    is_announced: bool,
    rounds: int = 2,
) -> list[Migrated]:
    """Move all topics to the second broker and back, repeatedly. Pulsar: one executor, `is_announced` False."""
    manager = Manager(sim.host(MANAGER, place=places.cloud))
    metadata = Metadata(sim.host(METADATA, place=places.cloud))
    brokers = [
        Broker(sim.host(f"broker-{at}", place=place)) for at, place in enumerate(places.brokers, start=1)
    ]
    names = [f"topic-{number}" for number in range(topics)]
    for node in (manager.node, metadata.node, *(broker.node for broker in brokers)):
        await node.host.spawn(node.serve(), name="serve")
    for broker, other in zip(brokers, reversed(brokers), strict=True):
        # Persistent connections are open before the migration.
        await manager.node.host.spawn(manager.node.connect(broker.name), name="connect")
        for peer in (MANAGER, METADATA, other.name):
            await broker.node.host.spawn(broker.node.connect(peer), name="connect")
    clients = [
        WorkflowClient(sim.host(f"reader-{name}", place=places.clients), name, brokers[0].name)
        for name in names
    ]
    await asyncio.gather(*(client.host.spawn(client.begin(), name="begin") for client in clients))
    found = []
    for turn in range(rounds):
        target = brokers[(turn + 1) % 2].name
        where = {client.topic: (client.host.name, client.broker) for client in clients}
        moving = manager.migrate(where, target, executors=executors, is_announced=is_announced)
        until_s = await manager.node.host.spawn(moving, name="migrate")
        # The steps of a client take at most a few of the longest round trips.
        await asyncio.sleep(5.0)
        assert all(client.is_up.is_set() and client.broker == target for client in clients), "all have moved"
        down_s = tuple(client.down_s for client in clients)
        found.append(Migrated(down_s=down_s, total_s=max(until_s), until_s=tuple(until_s)))
    return found
