"""A subscriber that receives lanes from the hubs that number them, and other streams from one hub: EQ.OWN.

It merges streams by position and holds messages that follow a mark. A violation of the wire protocol fails an
assertion; positions that it misses are gaps in its track.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from equipoise.client.wire.codec import encode_request
from equipoise.lab.scenarios import Client
from equipoise.lab.workload.endpoint import HubEndpoint, PushConnection
from equipoise.lab.workload.history import Away, History, Live, Missed, Track
from equipoise.lab.workload.stage import RunPhases

__all__ = ["LaneSubscriber"]

Position = tuple[int, int]


class Item(NamedTuple):
    """One push of a stream: a message, the start of the stream, its end, or a mark."""

    at: Position
    payload: bytes | None = None
    # The stream and position that the following items depend on.
    mark: tuple[bytes, Position] | None = None
    # The end of the previous epoch, in the start of a new trunk epoch.
    former: Position | None = None
    is_start: bool = False
    is_end: bool = False


class LaneTopic:
    """One topic, merged from all hubs that send streams of it."""

    def __init__(self, owner: LaneSubscriber, name: bytes) -> None:
        self.owner = owner
        self.name = name
        # The position of each started stream; and the queued items by stream and hub.
        self.at: dict[bytes, Position] = {}
        self.queues: dict[tuple[bytes, str], deque[Item]] = {}
        # By lane, the last ended epoch: other hubs may still send messages of it.
        self.over: dict[bytes, int] = {}
        # Lanes announced by other hubs than the base, each with hub and epoch: the base may announce them later.
        self.named: dict[tuple[bytes, str], int] = {}
        # By lane, the position at which its own hub started to send, until the topic has reached it.
        self.joining: dict[bytes, Position] = {}
        # Lanes received from their own hubs and no longer from the base.
        self.gathered: set[bytes] = set()

    def put(self, stream: bytes, hub: str, item: Item) -> None:
        self.queues.setdefault((stream, hub), deque()).append(item)
        self.pump()

    def pump(self) -> None:
        """Take all items whose turn has come."""
        has_moved = True
        while has_moved:
            has_moved = False
            for (stream, hub), queue in list(self.queues.items()):
                while queue and self._take(stream, hub, queue[0]):
                    queue.popleft()
                    has_moved = True
            for lane, at in list(self.joining.items()):
                if self.at.get(lane, (0, 0)) >= at:
                    del self.joining[lane]
                    self.gathered.add(lane)
                    self.owner.say_rest(self)

    def _take(self, stream: bytes, hub: str, item: Item) -> bool:
        known = self.at.get(stream)
        if item.mark is not None:
            other, at = item.mark
            if self.owner.is_careless:
                return True
            return self.at[other] >= at if other in self.at else not self._is_awaited(other, hub, at[0])
        if 0 < item.at[0] <= self.over.get(stream, 0):
            return True
        if item.is_end:
            return self._end(stream, known, item.at)
        if item.is_start:
            return self._start(stream, known, item.at)
        if known is None:
            # The base has not announced the stream yet.
            return False
        if item.former is not None:
            if item.at > known:
                if known != item.former:
                    self.miss(None)
                self.at[stream] = item.at
            return True
        if item.at <= known:
            return True
        if item.at[0] > known[0]:
            # The new epoch names no previous end: a hub died that numbered the stream or had messages for it.
            self.miss(None)
        elif item.at[1] > known[1] + 1:
            if any(one == stream and other != hub for one, other in self.queues):
                # Another hub sends the stream too, and may send the positions in between.
                return False
            self.miss(item.at[1] - known[1] - 1)
        assert item.payload is not None
        self.at[stream] = item.at
        self.owner.receive(asyncio.get_running_loop().time(), self.name.decode(), item.payload)
        return True

    def _is_awaited(self, lane: bytes, hub: str, epoch: int) -> bool:
        """Whether this hub, which has the lane, announced its start before the base did."""
        return self.over.get(lane, 0) < epoch >= self.named.get((lane, hub), epoch + 1)

    def _start(self, stream: bytes, known: Position | None, at: Position) -> bool:
        if known is not None and known[0] == at[0] and known < at:
            # The base sends the lane again, after a time in which its own hub did not.
            self.miss(at[1] - known[1])
        elif stream == b"" and known is not None and known[0] < at[0]:
            self.miss(None)
        elif known is not None and known[0] < at[0]:
            return False
        self.at[stream] = max(at, known or at)
        self.owner.begin(self, stream)
        return True

    def _end(self, stream: bytes, known: Position | None, at: Position) -> bool:
        if known is not None and at[0] == known[0] and known < at:
            return False
        if known is not None and (at[0] == 0 or at[0] >= known[0]):
            if at[0] != known[0]:
                # The lane's hub died, or a hub that may have had messages for it, and no message has arrived since.
                self.miss(None)
            self.over[stream] = max(at[0], known[0])
            del self.at[stream]
            self.joining.pop(stream, None)
            self.gathered.discard(stream)
        return True

    def lost(self, hub: str) -> None:
        """The connection to a hub was lost: the base sends its lane again."""
        for key in [key for key in self.queues if key[1] == hub]:
            del self.queues[key]
        self.named = {key: epoch for key, epoch in self.named.items() if key[1] != hub}
        lane = hub.encode()
        self.joining.pop(lane, None)
        if lane in self.gathered:
            self.gathered.discard(lane)
            self.owner.say_rest(self)

    def miss(self, missed: int | None) -> None:
        now = asyncio.get_running_loop().time()
        self.owner.track.events.append(Missed(now, self.name.decode(), missed))


class LaneSubscriber:
    """One subscriber of a workload; `run` it as a task."""

    # Whether it ignores marks: an ablation that must violate the order.
    is_careless = False

    def __init__(self, client: Client, place: HubEndpoint, stage: RunPhases, history: History) -> None:
        self.name = client.name
        self.unfinished = 0
        (subscribing,) = client.subscribes
        self.place = place
        self.base = place.host
        self._stage = stage
        self.track = Track(f"{client.name}/0", subscribing.names, is_pattern=False, is_smart=True)
        history.tracks.append(self.track)
        self.receive = self.track.receiver(history.payloads)
        self.topics: dict[bytes, LaneTopic] = {}
        self.hubs: dict[str, LaneConnection] = {}
        self.keeping: dict[str, asyncio.Task[None]] = {}
        # Number of lanes received from their own hubs so far.
        self.gathered = 0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self.group = group
            self.keep(self.base)
            await self._stage.stop.wait()
            for task in self.keeping.values():
                task.cancel()

    def stall(self) -> None:
        """Keeps reading: its assertions do not concern slow readers."""

    def resume(self) -> None:
        pass

    def keep(self, hub: str) -> None:
        if hub not in self.keeping:
            self.keeping[hub] = self.group.create_task(self._keep(hub))

    async def _keep(self, hub: str) -> None:
        loop, place = asyncio.get_running_loop(), self.place
        while True:
            if hub == self.base:
                self.topics = {name.encode(): LaneTopic(self, name.encode()) for name in self.track.names}
            connection = None
            try:
                async with asyncio.timeout(place.settings.connect_timeout_s):
                    _, connection = await loop.create_connection(
                        lambda: LaneConnection(self, hub), hub, place.port
                    )
                await connection.watch()
            except (OSError, TimeoutError):
                pass
            if connection is not None:
                connection.transport.abort()
                self.hubs.pop(hub, None)
            if hub == self.base:
                self.track.events.append(Away(loop.time()))
                for other in list(self.hubs.values()):
                    other.transport.abort()
            else:
                for topic in self.topics.values():
                    topic.lost(hub)
            await asyncio.sleep(place.retry_s)

    def begin(self, topic: LaneTopic, lane: bytes) -> None:
        """The base announced a lane: request it from its own hub."""
        hub = lane.decode()
        if hub not in ("", self.base):
            self.keep(hub)
            if hub in self.hubs:
                self.hubs[hub].ask_for_lane(topic)

    def say_rest(self, topic: LaneTopic) -> None:
        """Tell the base which lanes to leave out."""
        self.gathered += len(topic.gathered)
        if self.base in self.hubs:
            self.hubs[self.base].own(topic.name, sorted(topic.gathered))


class LaneConnection(PushConnection):
    """A connection to one hub."""

    def __init__(self, owner: LaneSubscriber, hub: str) -> None:
        super().__init__(owner.place.settings)
        self.owner = owner
        self.hub = hub
        self._unconfirmed = {name.encode() for name in owner.track.names}

    def own(self, topic: bytes, elsewhere: list[bytes]) -> None:
        self.transport.write(encode_request(b"EQ.OWN", topic, b"ELSEWHERE", *elsewhere))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.owner.hubs[self.hub] = self
        self.transport.write(encode_request(b"HELLO", b"3"))
        if self.hub == self.owner.base:
            for name in sorted(self._unconfirmed):
                self.own(name, [])
        else:
            for topic in self.owner.topics.values():
                self.ask_for_lane(topic)

    def ask_for_lane(self, topic: LaneTopic) -> None:
        """Request the lane of this hub without other known streams. The hub also sends streams unknown here."""
        if self.hub.encode() in topic.at:
            self.own(topic.name, [stream for stream in topic.at if stream != self.hub.encode()])

    def on_push(self, word: str, fields: Sequence[Any]) -> None:
        topic = self.owner.topics.get(fields[0])
        if topic is not None and self.owner.hubs.get(self.hub) is self:
            getattr(self, f"on_{word}")(topic, *fields[1:])

    # Pushes of the hub.

    def on_own(
        self, topic: LaneTopic, count: int, stream: bytes | None, epoch: int, n: int, *left_out: bytes
    ) -> None:
        if self.hub == self.owner.base:
            if stream is not None:
                topic.put(stream, self.hub, Item((epoch, n), is_start=True))
            if topic.name in self._unconfirmed:
                self._unconfirmed.discard(topic.name)
                if not self._unconfirmed:
                    self.owner.track.events.append(Live(asyncio.get_running_loop().time()))
        elif stream == self.hub.encode() and stream in topic.at and stream not in topic.gathered:
            topic.joining[stream] = (epoch, n)
            topic.pump()

    def on_notown(self, topic: LaneTopic, count: int) -> None:
        pass

    def on_trunk(self, topic: LaneTopic, epoch: int, n: int) -> None:
        topic.put(b"", self.hub, Item((epoch, n), is_start=True))

    def on_lane(self, topic: LaneTopic, lane: bytes, epoch: int, n: int) -> None:
        if self.hub == self.owner.base:
            topic.put(lane, self.hub, Item((epoch, n), is_start=True))
        else:
            # The base announces the lane too, perhaps later. Items that depend on the lane wait until then.
            topic.named[lane, self.hub] = epoch

    def on_ended(self, topic: LaneTopic, lane: bytes, epoch: int, n: int) -> None:
        topic.named.pop((lane, self.hub), None)
        topic.put(lane, self.hub, Item((epoch, n), is_end=True))

    def on_after(self, topic: LaneTopic, stream: bytes, other: bytes, epoch: int, n: int) -> None:
        topic.put(stream, self.hub, Item((0, 0), mark=(other, (epoch, n))))

    def on_opened(self, topic: LaneTopic, epoch: int, former: int, n: int, at: int = 0) -> None:
        if self.hub == self.owner.base:
            topic.put(b"", self.hub, Item((epoch, at), former=(former, n)))

    def on_message(self, topic: LaneTopic, epoch: int, n: int, *payloads: bytes) -> None:
        assert self.hub == self.owner.base, "the request left out the trunk"
        self.on_lmessage(topic, b"", epoch, n, *payloads)

    def on_lmessage(self, topic: LaneTopic, lane: bytes, epoch: int, n: int, *payloads: bytes) -> None:
        if self.hub != self.owner.base and lane != self.hub.encode():
            # A lane that was unknown at the time of the request: the base sends it too.
            return
        for number, payload in enumerate(payloads):
            topic.put(lane, self.hub, Item((epoch, n + number), payload))
