"""Publishing to durable topics: a message is sent until it has a receipt, and is in the log once."""

from __future__ import annotations

import asyncio

import pytest

from equipoise.client.numbered_publishing import NumberedPublishing
from equipoise.errors import RefusedError, UncertainError
from equipoise.hub import Hub
from equipoise.model import Durability, Specs, TopicSpec
from equipoise.stream.position import Position
from support.polling import until

from .peer import Peer, always, bulk, connect, on_loop, push, serving
from .test_durable import bus_at, keeping
from .test_with_hub import QUICK

OUT_OF_ORDER = b"-OUTOFORDER the next number is 0\r\n"


def receipt(n: int, last_id: bytes) -> bytes:
    return b"*5\r\n$0\r\n\r\n:1\r\n:%d\r\n:0\r\n%b" % (n, bulk(last_id))


def durable(peer: Peer, version: int = 1) -> None:
    """Let the peer announce durable topics."""
    peer.answers[b"EQ.LINK"] = lambda session, request: push(b"eq.durable", version) + b"+OK\r\n"


def batches(peer: Peer) -> list[list[bytes]]:
    """Run, first number and messages of all that was appended."""
    requests = [request for session in peer.sessions for request in session.requests]
    return [request[3:] for request in requests if request[0] == b"EQ.APPEND"]


@on_loop
async def test_receipts_carry_position_and_id() -> None:
    async with keeping() as hub, bus_at(hub) as bus:
        receipts = await asyncio.gather(*(bus.publish("t", str(number)) for number in range(3)))
        assert [one.position for one in receipts] == [Position(1, n) for n in (1, 2, 3)]
        ids = [one.id or "" for one in receipts]
        last = await bus.publish("t", "3")
        link = bus._routing.make_log_link()
        shown = await link.ask(b"XRANGE", b"t", b"-", b"+", timeout_s=10)
        link.close()
        assert [at.decode() for at, _ in shown] == [*ids, last.id]
        assert [fields[1] for _, fields in shown] == [b"0", b"1", b"2", b"3"]


@on_loop
async def test_unanswered_messages_are_resent_over_the_next_connection() -> None:
    async with serving() as peer, connect(peer.url, settings=QUICK) as bus:
        durable(peer)
        peer.last.reset()
        peer.answers[b"EQ.APPEND"] = always(None)
        await until(lambda: len(peer.sessions) == 2 and bus.is_connected)
        waiting = [asyncio.ensure_future(bus.publish("t", text)) for text in ("a", "b")]
        await until(lambda: len(batches(peer)) == 1)
        peer.answers[b"EQ.APPEND"] = always(receipt(8, b"5-4"))
        peer.last.reset()
        first, second = await asyncio.gather(*waiting)
        assert (first.position, first.id, second.position, second.id) == ((1, 7), "5-3", (1, 8), "5-4")
        await bus.publish("t", "c")
        assert batches(peer) == [[b"0", b"0", b"a", b"b"]] * 2 + [[b"0", b"2", b"c"]]


@on_loop
async def test_temporarily_rejected_messages_are_resent() -> None:
    answers = [b"-TRYAGAIN not yet\r\n", b"-UNCERTAIN who knows\r\n", receipt(1, b"1-0")]
    async with serving() as peer:
        durable(peer)
        peer.answers[b"EQ.APPEND"] = lambda session, request: answers.pop(0)
        async with connect(peer.url) as bus:
            assert (await bus.publish("t", "a")).id == "1-0"
        assert batches(peer) == [[b"0", b"0", b"a"]] * 3


@on_loop
async def test_a_topic_that_is_not_durable_is_published_to_in_order_as_before() -> None:
    async with serving() as peer:
        durable(peer)
        peer.answers[b"EQ.APPEND"] = always(b"-NOTDURABLE it keeps no log\r\n")
        peer.answers[b"PUBLISH"] = always(b":4\r\n")
        async with connect(peer.url) as bus:
            bus.publish_nowait("t", "a")
            found = await asyncio.gather(*(bus.publish("t", text) for text in ("b", "c")))
            assert [(one.receivers, one.position) for one in found] == [(4, None)] * 2
            await bus.publish("t", "d")
            peer.last.send(push(b"eq.durable", 2))
            await until(lambda: bus._routing.numbered.takes(b"t"))
            await bus.publish("t", "e")
        published = [request[2] for request in peer.last.requests if request[0] == b"PUBLISH"]
        assert published == [b"a", b"b", b"c", b"d", b"e"]
        assert [batch[2:] for batch in batches(peer)] == [[b"a", b"b", b"c"], [b"e"]]


@on_loop
async def test_an_error_is_raised_and_the_number_used_again() -> None:
    answers = [b"-NOPERM no\r\n", receipt(1, b"1-0")]
    async with serving() as peer:
        durable(peer)
        peer.answers[b"EQ.APPEND"] = lambda session, request: answers.pop(0)
        async with connect(peer.url) as bus:
            with pytest.raises(RefusedError, match="NOPERM"):
                await bus.publish("t", "a")
            await bus.publish("t", "b")
        assert batches(peer) == [[b"0", b"0", b"a"], [b"0", b"0", b"b"]]


@on_loop
async def test_a_message_with_an_unknown_outcome_is_followed_by_a_new_run() -> None:
    async with serving() as peer:
        durable(peer)
        peer.answers[b"EQ.APPEND"] = always(b"-UNCERTAIN who knows\r\n")
        async with connect(peer.url) as bus:
            with pytest.raises(UncertainError):
                await bus.publish("t", "a", timeout_s=0.2)
            peer.answers[b"EQ.APPEND"] = always(receipt(2, b"1-1"))
            await bus.publish("t", "b")
        assert batches(peer)[-1] == [b"1", b"0", b"b"]


@on_loop
async def test_a_log_that_no_longer_knows_the_publisher_gets_a_new_run() -> None:
    answers = [
        OUT_OF_ORDER,
        receipt(1, b"1-0"),
        b"-UNCERTAIN who knows\r\n",
        OUT_OF_ORDER,
        receipt(2, b"1-1"),
    ]
    async with serving() as peer:
        durable(peer)
        peer.answers[b"EQ.APPEND"] = lambda session, request: answers.pop(0)
        async with connect(peer.url) as bus:
            await bus.publish("t", "a")
            with pytest.raises(UncertainError):
                await bus.publish("t", "b")
            await bus.publish("t", "c")
        assert [batch[:2] for batch in batches(peer)] == [
            [b"0", b"0"],
            [b"1", b"0"],
            [b"1", b"1"],
            [b"1", b"1"],
            [b"2", b"0"],
        ]


@on_loop
async def test_flush_waits_for_numbered_messages_and_raises_their_error() -> None:
    async with serving() as peer:
        durable(peer)
        peer.answers[b"EQ.APPEND"] = always(b"-NOPERM no\r\n")
        async with connect(peer.url) as bus:
            bus.publish_nowait("t", "a")
            with pytest.raises(RefusedError, match="NOPERM"):
                await bus.flush()
            peer.answers[b"EQ.APPEND"] = always(receipt(1, b"1-0"))
            bus.publish_nowait("t", "b")
            await bus.flush()


@on_loop
async def test_clients_are_notified_when_topics_become_durable() -> None:
    async with keeping() as hub, bus_at(hub) as bus:
        hub.follow_specs(Specs([]), 2)
        assert (await bus.publish("t", "0")).position is None
        hub.follow_specs(Specs([TopicSpec(pattern=b"t", durability=Durability(1, 1, 1))]), 3)
        await until(lambda: _version(bus._routing.numbered) == 3)
        assert (await bus.publish("t", "1")).position == (1, 1)
        assert (await bus.publish("other", "1")).position is None


def _version(numbered: NumberedPublishing) -> int | None:
    return numbered._version


@on_loop
async def test_a_connection_lost_at_a_hub_repeats_nothing() -> None:
    async with keeping() as hub, bus_at(hub) as bus:
        for number in range(5):
            publishing = [asyncio.ensure_future(bus.publish("t", f"{number}.{i}")) for i in range(3)]
            await asyncio.sleep(0)
            _cut_all(hub)
            await asyncio.gather(*publishing)
        link = bus._routing.make_log_link()
        shown = await link.ask(b"XRANGE", b"t", b"-", b"+", timeout_s=10)
        link.close()
        assert [fields[1].decode() for _, fields in shown] == [f"{n}.{i}" for n in range(5) for i in range(3)]


def _cut_all(hub: Hub) -> None:
    for session in list(hub.core.sessions.values()):
        hub.core.cut(session, "the test says so")
