"""A publisher that sends each message to another hub, with the position that the message depends on: EQ.AFTER."""

from __future__ import annotations

import asyncio

import hiredis

from equipoise.client.wire.codec import encode_request
from equipoise.lab.scenarios import Client
from equipoise.lab.workload.endpoint import HubEndpoint
from equipoise.lab.workload.history import History, Marker, PublishOutcome
from equipoise.lab.workload.payload import encode_payload
from equipoise.lab.workload.stage import RunPhases

__all__ = ["RovingPublisher"]


class RovingPublisher:
    """One publisher of a workload; `run` it as a task."""

    # Whether it sends no dependency: an ablation that must violate the order.
    is_careless = False

    def __init__(self, client: Client, place: HubEndpoint, stage: RunPhases, history: History) -> None:
        self.name = client.name
        (publishing,) = client.publishes
        self._topics = publishing.topics
        self._place = place
        self._stage = stage
        self._history = history
        self._hubs = (place.host, *place.others)
        self._connections: dict[str, tuple[asyncio.StreamReader, asyncio.StreamWriter, hiredis.Reader]] = {}
        # By topic, the receipt of the last message: stream, epoch, n.
        self._last: dict[str, tuple[bytes, int, int]] = {}
        self.streams: set[bytes] = set()
        self.unfinished = 1

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._rove())
            await self._stage.stop.wait()
            task.cancel()

    def stall(self) -> None:
        """Nothing to do: the client only publishes."""

    def resume(self) -> None:
        pass

    async def _rove(self) -> None:
        await self._stage.begin.wait()
        number = 0
        marked: set[str] = set()
        while len(marked) < len(self._topics):
            topic = self._topics[number % len(self._topics)]
            is_concluding = self._stage.conclude.is_set()
            sequence = await self._publish(self._hubs[number % len(self._hubs)], topic)
            if is_concluding and topic not in marked:
                marked.add(topic)
                self._history.markers.append(Marker((self.name, topic), sequence))
            number += 1
        self.unfinished = 0

    async def _publish(self, hub: str, topic: str) -> int:
        sequence = self._history.next_sequence(self.name, topic)
        sent = self._history.begin(self.name, topic, asyncio.get_running_loop().time())
        last = self._last.get(topic)
        if last is not None and not self.is_careless:
            stream, epoch, n = last
            words = (topic.encode(), stream, b"%d" % epoch, b"%d" % n)
            assert await self._ask(hub, b"EQ.AFTER", *words) == b"OK"
        receipt = await self._ask(hub, b"EQ.PUBLISH", topic.encode(), encode_payload(self.name, sequence, 24))
        assert isinstance(receipt, list), receipt
        stream, epoch, n, _ = receipt
        self._last[topic] = (stream, epoch, n)
        self.streams.add(stream)
        sent.outcome = PublishOutcome.ACKNOWLEDGED
        return sequence

    async def _ask(self, hub: str, *words: bytes) -> object:
        if hub not in self._connections:
            reader, writer = await asyncio.open_connection(hub, self._place.port)
            self._connections[hub] = (reader, writer, hiredis.Reader(notEnoughData=...))
        reader, writer, parser = self._connections[hub]
        writer.write(encode_request(*words))
        while (reply := parser.gets()) is ...:
            parser.feed(await reader.read(65536))
        return reply
