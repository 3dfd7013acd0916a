"""Drive the Equipoise client by a description: publish, subscribe, record events.

No message is sent twice: an uncertain message is recorded as uncertain, and the next message has a new number. The
client retries a rejected subscription after a while, because rules change.
"""

from __future__ import annotations

import asyncio
from functools import partial

import equipoise
from equipoise.client import Bus, Gap, Message, Subscription
from equipoise.errors import DeniedError, EquipoiseError, UncertainError
from equipoise.lab.scenarios import Client, PublishedStream, Subscribing
from equipoise.lab.workload.endpoint import HubEndpoint
from equipoise.lab.workload.history import (
    History,
    Live,
    Marker,
    Missed,
    PublishOutcome,
    Sent,
    SubscriptionEnded,
    Track,
)
from equipoise.lab.workload.payload import encode_json, encode_payload
from equipoise.lab.workload.stage import RunPhases

__all__ = ["SmartClient"]

# Rejected logins: the bus ends, and the client opens a new one.
_LOGIN_CODES = ("WRONGPASS", "NOAUTH")


class SmartClient:
    """One smart client of a workload. `run` it as a task; the other methods may be called meanwhile."""

    def __init__(self, client: Client, place: HubEndpoint, stage: RunPhases, history: History) -> None:
        self.name = client.name
        self._is_json = any(stream.is_json for stream in client.publishes)
        self._client = client
        self._place = place
        self.settings = place.settings
        self._stage = stage
        self._history = history
        self._loop = asyncio.get_running_loop()
        # None while the client has no usable bus.
        self.bus: Bus | None = None
        self._buses = 0
        self._has_bus = asyncio.Event()
        self._is_bus_over = asyncio.Event()
        self._may_take = asyncio.Event()
        self._may_take.set()
        # Open subscriptions by the names of their tracks.
        self.subscriptions: dict[str, Subscription] = {}
        self._tracks = [self._new_track(number, s) for number, s in enumerate(client.subscribes)]
        history.users[client.name] = client.user
        # Streams that have not sent their last message.
        self.unfinished = len(client.publishes)

    async def run(self) -> None:
        """Publish and subscribe as described, until the run stops or the caller cancels."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._keep_bus())]
            for track, subscribing in zip(self._tracks, self._client.subscribes, strict=True):
                tasks.append(group.create_task(self._subscribe(track, subscribing)))
            for publishing in self._client.publishes:
                tasks.append(group.create_task(self._publish(publishing)))
            await self._stage.stop.wait()
            for task in tasks:
                task.cancel()

    def stall(self) -> None:
        """Take no messages until `resume`; the connection stays active."""
        self._may_take.clear()

    def resume(self) -> None:
        self._may_take.set()

    def _new_track(self, number: int, subscribing: Subscribing) -> Track:
        track = Track(
            f"{self.name}/{number}",
            subscribing.names,
            is_pattern=subscribing.is_pattern,
            is_smart=True,
            user=self._client.user,
            where=subscribing.where,
        )
        self._history.tracks.append(track)
        return track

    async def _keep_bus(self) -> None:
        while True:
            self._is_bus_over.clear()
            try:
                url = self._place.url(self._client.user)
                async with equipoise.connect(url, settings=self._place.settings, rng=self._place.rng) as bus:
                    self.bus = bus
                    self._buses += 1
                    self._has_bus.set()
                    await self._is_bus_over.wait()
            except EquipoiseError:
                # Rejected, timed out, or failed on close. The calls that matter record their own errors.
                pass
            finally:
                self._has_bus.clear()
                self.bus = None
            await asyncio.sleep(self._place.retry_s)

    async def _ready_bus(self) -> Bus:
        while self.bus is None:
            await self._has_bus.wait()
        return self.bus

    def _look_at(self, error: EquipoiseError) -> None:
        if isinstance(error, DeniedError) and error.code in _LOGIN_CODES:
            self._has_bus.clear()
            self._is_bus_over.set()

    # Subscribing.

    async def _subscribe(self, track: Track, subscribing: Subscribing) -> None:
        loop = self._loop
        while True:
            bus = await self._ready_bus()
            reason = "closed"
            try:
                where = subscribing.where or None
                make = bus.psubscribe if subscribing.is_pattern else partial(bus.subscribe, where=where)
                async with make(*subscribing.names) as subscription:
                    track.events.append(Live(loop.time()))
                    self.subscriptions[track.name] = subscription
                    leaving = self._leave_later(subscription, subscribing.stays_s)
                    await self._take(track, subscription, subscribing.taking_s)
                    if leaving is not None:
                        leaving.cancel()
            except EquipoiseError as error:
                self._look_at(error)
                reason = str(error)
            self.subscriptions.pop(track.name, None)
            track.events.append(SubscriptionEnded(loop.time(), reason))
            await asyncio.sleep(self._place.retry_s)

    def _leave_later(self, subscription: Subscription, stays_s: float | None) -> asyncio.TimerHandle | None:
        if stays_s is None or self._stage.conclude.is_set():
            return None
        return self._loop.call_later(stays_s * (0.5 + self._place.rng.random()), subscription.close)

    async def _take(self, track: Track, subscription: Subscription, taking_s: float) -> None:
        receive, now = track.receiver(self._history.payloads), self._loop.time
        may_take, is_concluding = self._may_take.is_set, self._stage.conclude.is_set
        async for event in subscription:
            if type(event) is Message:
                receive(now(), event.topic, event.payload)
            elif isinstance(event, Gap):
                track.events.append(Missed(now(), event.topic, event.missed, event.span))
            if taking_s and not is_concluding():
                await asyncio.sleep(taking_s)
            if not may_take():
                await self._may_take.wait()

    # Publishing.

    async def _publish(self, publishing: PublishedStream) -> None:
        rng = self._place.rng
        await self._stage.begin.wait()
        begun, is_concluding = 0, self._stage.conclude.is_set
        while (publishing.count is None or begun < publishing.count) and not is_concluding():
            await asyncio.sleep(publishing.interval_s * (0.5 + rng.random()))
            low, high = publishing.burst
            count = low + int(rng.random() * (high - low + 1))
            if publishing.count is not None:
                count = min(count, publishing.count - begun)
            burst = self._draw_topics(publishing.topics, begun, count)
            begun += count
            if rng.random() < publishing.receipts:
                for topic in burst:
                    await self._publish_one(topic, self._draw_size(publishing))
            else:
                await self._publish_together(burst, publishing)
        await self._stage.conclude.wait()
        await self._mark(publishing)

    async def _publish_one(self, topic: str, size: int) -> Sent:
        bus = await self._ready_bus()
        payload, sent = self._begin(topic, size)
        try:
            await bus.publish(topic, payload)
        except UncertainError:
            pass
        except EquipoiseError as error:
            self._look_at(error)
            sent.outcome = PublishOutcome.FAILED
        else:
            sent.outcome = PublishOutcome.ACKNOWLEDGED
            sent.answered_at = self._loop.time()
        return sent

    async def _publish_together(self, burst: list[str], publishing: PublishedStream) -> None:
        bus = await self._ready_bus()
        under_way = []
        for topic in burst:
            payload, sent = self._begin(topic, self._draw_size(publishing))
            try:
                bus.publish_nowait(topic, payload)
            except EquipoiseError:
                sent.outcome = PublishOutcome.FAILED
            else:
                under_way.append(sent)
        try:
            await bus.flush()
        except EquipoiseError as error:
            # The error states the first failure only, so any message of the burst may have failed.
            self._look_at(error)
        else:
            for sent in under_way:
                sent.outcome = PublishOutcome.ACKNOWLEDGED

    async def _mark(self, publishing: PublishedStream) -> None:
        """Publish to each topic until one message is acknowledged, then continue for clients that reconnect later."""
        unmarked = dict.fromkeys(publishing.topics)
        while not self._stage.stop.is_set():
            for topic in publishing.topics:
                sequence = self._history.next_sequence(self.name, topic)
                sent = await self._publish_one(topic, self._draw_size(publishing))
                if topic in unmarked and sent.outcome is PublishOutcome.ACKNOWLEDGED:
                    del unmarked[topic]
                    self._history.markers.append(Marker((self.name, topic), sequence))
                    self.unfinished -= not unmarked
            await asyncio.sleep(self._place.retry_s)

    def _begin(self, topic: str, size: int) -> tuple[bytes, Sent]:
        sequence = self._history.next_sequence(self.name, topic)
        sent = self._history.begin(self.name, topic, self._loop.time(), self._buses)
        encode = encode_json if self._is_json else encode_payload
        return encode(self.name, sequence, size), sent

    def _draw_topics(self, topics: tuple[str, ...], begun: int, count: int) -> list[str]:
        """The topics of a burst: in turn, or one topic, because a hub processes a run of one topic at once."""
        if self._place.rng.random() < 0.5:
            return [topics[begun % len(topics)]] * count
        return [topics[number % len(topics)] for number in range(begun, begun + count)]

    def _draw_size(self, publishing: PublishedStream) -> int:
        low, high = publishing.payload_bytes
        return low if low == high else low + int(self._place.rng.random() * (high - low + 1))
