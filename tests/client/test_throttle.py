"""Topics above their rate limits: their messages wait, their timeouts are suspended, other topics continue."""

from __future__ import annotations

import asyncio
import random

import pytest

import equipoise
from equipoise.errors import BackloggedError, RefusedError, UncertainError
from equipoise.lab.simulation import Simulation

from .peer import Peer, Session, connect, on_loop, push, serving

AHEAD = 4


class Limited:
    """A peer that holds the replies to publishes to "x" until the test releases them."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.numbers = 0
        self.has_tokens = False
        peer.answers[b"PUBLISH"] = self._publish

    def _publish(self, session: Session, request: list[bytes]) -> bytes:
        if request[1] != b"x" or self.has_tokens:
            return b":1\r\n"
        self.numbers += 1
        return push(b"eq.deferred", b"x", self.numbers, AHEAD)

    def answer(self, number: int, reply: bytes = b":7\r\n") -> None:
        self.peer.last.send(b">3\r\n$8\r\neq.reply\r\n:%d\r\n" % number + reply)

    async def until_deferred(self, count: int) -> None:
        await self.peer.until(lambda: self.numbers >= count)

    @property
    def sent(self) -> list[bytes]:
        return [request[2] for request in self.peer.last.requests if request[:2] == [b"PUBLISH", b"x"]]


@on_loop
async def test_other_topics_are_answered_while_one_waits() -> None:
    async with serving() as peer, connect(peer.url) as bus:
        hub = Limited(peer)
        waiting = asyncio.create_task(bus.publish("x", "0"))
        await hub.until_deferred(1)
        assert await bus.publish("free", "1") == equipoise.Receipt(1)
        assert not waiting.done()
        hub.answer(1)
        assert await waiting == equipoise.Receipt(7)


@on_loop
async def test_the_next_messages_wait_here_and_follow_in_order() -> None:
    async with serving() as peer, connect(peer.url) as bus:
        hub = Limited(peer)
        first = asyncio.create_task(bus.publish("x", "0"))
        await hub.until_deferred(1)
        await bus.publish("free", "heard")
        tasks = [asyncio.create_task(bus.publish("x", str(n))) for n in range(1, 20)]
        await hub.until_deferred(AHEAD)
        await bus.publish("free", "again")
        assert len(hub.sent) == AHEAD
        for n in range(1, 21):
            await hub.until_deferred(n)
            hub.answer(n)
        await asyncio.gather(first, *tasks)
        assert hub.sent == [b"%d" % n for n in range(20)]


def test_timeouts_are_suspended_while_a_topic_waits() -> None:
    """In virtual time: the hub lets the messages wait for ten times their time-out."""
    port, outcomes = 6399, list[object]()

    async def main(sim: Simulation) -> None:
        peer = Peer()
        hub = Limited(peer)
        loop = asyncio.get_running_loop()

        async def serve() -> None:
            await loop.create_server(lambda: Session(peer), "hub", port)

        await sim.host("hub").spawn(serve())
        bus = connect(f"equipoise://hub:{port}", request_timeout_s=1.0, rng=random.Random(1))
        async with bus:
            tasks = [asyncio.create_task(bus.publish("x", str(n))) for n in range(12)]
            flush = asyncio.create_task(bus.flush())
            for n in range(1, 13):
                await hub.until_deferred(n)
                await asyncio.sleep(10.0)
                assert not tasks[n - 1].done()
                hub.answer(n)
            outcomes.extend(await asyncio.gather(*tasks))
            await flush
            # Within its rate again, the topic's time-outs count as ever.
            peer.answers[b"PUBLISH"] = lambda session, request: None
            before = sim.now
            with pytest.raises(UncertainError):
                await bus.publish("x", "late")
            outcomes.append(round(sim.now - before, 3))
            peer.last.send(b":1\r\n")

    with Simulation(seed=1) as sim:
        sim.run(main(sim))
    assert outcomes == [equipoise.Receipt(7)] * 12 + [1.0]


@on_loop
async def test_flush_waits_for_deferred_messages_and_raises_their_error() -> None:
    async with serving() as peer, connect(peer.url) as bus:
        hub = Limited(peer)
        for n in range(6):
            bus.publish_nowait("x", str(n))
        flush = asyncio.create_task(bus.flush())
        await hub.until_deferred(6)
        await bus.publish("free", "1")
        assert not flush.done()
        for n in range(1, 6):
            hub.answer(n)
        hub.answer(6, b"-LIMITED x admits 1/s in bursts of 1: try again in 9 ms\r\n")
        with pytest.raises(RefusedError, match="LIMITED x admits"):
            await flush
        await bus.flush()


@on_loop
async def test_publishes_without_receipt_that_wait_here_are_bounded() -> None:
    async with serving() as peer, connect(peer.url, in_flight_messages_max=10) as bus:
        hub = Limited(peer)
        bus.publish_nowait("x", "0")
        await hub.until_deferred(1)
        await bus.publish("free", "1")
        with pytest.raises(BackloggedError, match="rate limits"):
            for n in range(100):
                bus.publish_nowait("x", str(n))
        bus.publish_nowait("free", "not held up")
        hub.has_tokens = True
        for n in range(1, hub.numbers + 1):
            hub.answer(n)
        await bus.flush()


@on_loop
async def test_a_lost_connection_makes_deferred_messages_uncertain_and_resends_queued_ones() -> None:
    async with serving() as peer, connect(peer.url, reconnect_first_s=0.01) as bus:
        hub = Limited(peer)
        tasks = [asyncio.create_task(bus.publish("x", str(n))) for n in range(3)]
        await hub.until_deferred(3)
        await bus.publish("free", "1")
        tasks += [asyncio.create_task(bus.publish("x", str(n))) for n in range(3, 10)]
        await asyncio.sleep(0)
        hub.has_tokens = True
        peer.last.reset()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, UncertainError) for result in results[:3])
        assert results[-1] == equipoise.Receipt(1)


@on_loop
async def test_closing_does_not_wait_for_ever() -> None:
    async with serving() as peer:
        hub = Limited(peer)
        bus = connect(peer.url, close_timeout_s=0.2)
        async with bus:
            bus.publish_nowait("x", "0")
            await hub.until_deferred(1)
            await bus.publish("free", "1")
            with pytest.raises(UncertainError):
                await bus.close()


@on_loop
async def test_a_reply_may_precede_the_push_that_it_is_deferred() -> None:
    async with serving() as peer, connect(peer.url) as bus:
        peer.answers[b"PUBLISH"] = lambda session, request: None
        task = asyncio.create_task(bus.publish("x", "0"))
        await peer.until(lambda: peer.last.count(b"PUBLISH") == 1)
        peer.last.send(b">3\r\n$8\r\neq.reply\r\n:1\r\n:5\r\n" + push(b"eq.deferred", b"x", 1, AHEAD))
        assert await task == equipoise.Receipt(5)
        peer.answers[b"PUBLISH"] = lambda session, request: b":2\r\n"
        assert await bus.publish("x", "1") == equipoise.Receipt(2)
