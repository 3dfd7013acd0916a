"""Subscriptions with a filter: spans in messages and gaps, and how such a subscription changes hubs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from equipoise import Gap, GapReason, Message, Position
from equipoise.client.routing import router
from equipoise.errors import MisuseError, RefusedError

from .hubs import HubPeer, hubs
from .peer import Session, always, connect, on_loop, push, serving
from .test_subscribe import take
from .test_with_hub import QUICK, running, url_of

BIG = "volume > 150"


@pytest.fixture(autouse=True)
def _impatient() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(router, "TICK_S", 0.01)
        patch.setattr(router, "MOVE_S", 0.01)
        yield


def span(epoch: int, first: int, count: int, *messages: tuple[int, bytes], number: bytes = b"1") -> bytes:
    words = [word for message in messages for word in message]
    return push(b"eq.fmessage", number, epoch, first, count, *words)


def confirm(epoch: int, n: int) -> object:
    def answer(session: Session, request: list[bytes]) -> bytes:
        return push(b"eq.fsubscribe", request[1], 1, epoch, n)

    return answer


def with_filters(hub: HubPeer, epoch: int = 1, n: int = 0) -> None:
    hub.peer.answers[b"EQ.FSUBSCRIBE"] = confirm(epoch, n)  # type: ignore[assignment]  # an Answer
    hub.peer.answers[b"EQ.FUNSUBSCRIBE"] = lambda session, request: push(b"eq.funsubscribe", request[1], 0)
    hub.peer.answers[b"EQ.COVER"] = always(b"+OK\r\n")


@on_loop
async def test_messages_have_their_positions_and_unmatched_messages_are_no_gap() -> None:
    async with hubs() as (hub, _, _), connect(hub.url) as bus:
        with_filters(hub)
        async with bus.subscribe("a", where=BIG) as a:
            assert hub.asked(b"EQ.FSUBSCRIBE", b"1", b"a", BIG.encode()) == 1
            hub.last.send(
                span(1, 1, 5, (2, b"x"), (3, b"y"), (5, b"z")) + span(1, 6, 9) + span(1, 10, 8, (17, b"w"))
            )
            assert await take(a, 4) == [
                Message("a", b"x", Position(1, 2)),
                Message("a", b"y", Position(1, 3)),
                Message("a", b"z", Position(1, 5)),
                Message("a", b"w", Position(1, 17)),
            ]
        await hub.peer.until(lambda: hub.asked(b"EQ.FUNSUBSCRIBE", b"1") == 1)


@on_loop
async def test_a_hole_is_a_gap_of_known_span_and_unknown_count() -> None:
    async with hubs() as (hub, _, _), connect(hub.url) as bus:
        with_filters(hub)
        async with bus.subscribe("a", where=BIG) as a:
            hub.last.send(span(1, 4, 2, (5, b"x")) + span(2, 1, 1, (1, b"y")))
            assert await take(a, 4) == [
                Gap("a", None, GapReason.HOLE, span=3),
                Message("a", b"x", Position(1, 5)),
                Gap("a", None, GapReason.NEW_EPOCH),
                Message("a", b"y", Position(2, 1)),
            ]


@on_loop
async def test_equal_filters_share_a_subscription_and_others_have_their_own() -> None:
    async with hubs() as (hub, _, _), connect(hub.url) as bus:
        with_filters(hub)
        async with (
            bus.subscribe("a", where=BIG) as one,
            bus.subscribe("a", where=BIG) as two,
            bus.subscribe("a", where="volume < 9") as small,
            bus.subscribe("a") as whole,
        ):
            assert hub.asked(b"EQ.FSUBSCRIBE") == 2
            hub.last.send(span(1, 1, 1, (1, b"x")) + span(1, 1, 2, (2, b"y"), number=b"2"))
            hub.last.send(push(b"eq.message", b"a", 1, 1, b"x", b"y"))
            assert [[event.payload for event in await take(s, 1)] for s in (one, two, small)] == [  # type: ignore[union-attr]
                [b"x"],
                [b"x"],
                [b"y"],
            ]
            assert len(await take(whole, 2)) == 2


@on_loop
async def test_a_subscription_that_changes_hubs_requests_the_position_of_the_stream() -> None:
    async with hubs() as (base, home, _), connect(base.url) as bus:
        with_filters(base)
        with_filters(home, 1, 7)
        async with bus.subscribe("a", where=BIG) as a:
            base.tell(b"a", 5, home)
            await home.peer.until(lambda: home.asked(b"EQ.FSUBSCRIBE") == 1)
            home.last.send(span(1, 8, 1, (8, b"8")))
            await base.peer.until(lambda: base.asked(b"EQ.COVER", b"1") >= 2)
            assert base.asked(b"EQ.FUNSUBSCRIBE") == 0
            # The former hub accounts for all up to where the next one begins.
            base.last.send(span(1, 1, 3) + span(1, 4, 4, (6, b"6")))
            await base.peer.until(lambda: base.asked(b"EQ.FUNSUBSCRIBE", b"1") == 1)
            assert [event.payload for event in await take(a, 2)] == [b"6", b"8"]  # type: ignore[union-attr]


@on_loop
async def test_a_server_without_filters_rejects_them_and_an_empty_filter_is_an_error() -> None:
    async with serving() as peer, connect(peer.url) as bus:
        peer.answers[b"EQ.FSUBSCRIBE"] = always(b"-ERR unknown command 'EQ.FSUBSCRIBE'\r\n")
        with pytest.raises(RefusedError, match="the server has no filters"):
            await bus.subscribe("a", where=BIG).__aenter__()
        async with bus.subscribe("a"):
            pass
        with pytest.raises(MisuseError, match="the filter is empty"):
            bus.subscribe("a", where=" ")


@on_loop
async def test_a_real_hub_sends_matching_messages_and_rejects_an_invalid_filter() -> None:
    async with running() as hub, connect(url_of(hub), settings=QUICK) as bus:
        with pytest.raises(RefusedError, match="byte 8"):
            await bus.subscribe("a", where="volume >").__aenter__()
        async with bus.subscribe("a", "b", where=BIG) as both:
            for volume in (100, 200, 300):
                for topic in ("a", "b"):
                    bus.publish_nowait(topic, json.dumps({"volume": volume}))
            await bus.flush()
            events = await take(both, 4)
            assert sorted((event.topic, event.position.n) for event in events) == [  # type: ignore[union-attr]
                ("a", 2),
                ("a", 3),
                ("b", 2),
                ("b", 3),
            ]


@on_loop
async def test_after_a_lost_connection_the_gap_has_its_span() -> None:
    async with (
        running() as hub,
        connect(url_of(hub), settings=QUICK) as bus,
        connect(url_of(hub)) as other,
        bus.subscribe("a", where=BIG) as a,
    ):
        await other.publish("a", json.dumps({"volume": 200}))
        assert isinstance(await anext(a), Message)
        topic = hub.core.index.topics[b"a"]
        (session,) = topic.content.sessions  # type: ignore[union-attr]  # it has filters
        for _ in range(3):
            await other.publish("a", json.dumps({"volume": 1}))
        session.wire.abort()
        async with asyncio.timeout(30):
            assert await anext(a) == Gap("a", None, GapReason.RECONNECTED, span=3)
            await other.publish("a", json.dumps({"volume": 300}))
            assert await anext(a) == Message("a", b'{"volume": 300}', Position(topic.epoch, 5))


@on_loop
async def test_a_client_that_returns_gets_no_repeated_message_from_a_hub_that_lags() -> None:
    async with hubs() as (hub, _, _), connect(hub.url) as bus:
        with_filters(hub)
        async with bus.subscribe("a", where=BIG) as a:
            hub.last.send(span(1, 1, 5, (5, b"x")))
            assert await take(a, 1) == [Message("a", b"x", Position(1, 5))]
        with_filters(hub, 1, 2)
        async with bus.subscribe("a", where=BIG) as a, bus.subscribe("a", where="volume > 151") as other:
            hub.last.send(span(1, 3, 4, (5, b"x"), (6, b"y"), number=b"2"))
            hub.last.send(span(1, 3, 4, (5, b"x"), (6, b"y"), number=b"3"))
            assert await take(a, 1) == [Message("a", b"y", Position(1, 6))]
            assert [event.payload for event in await take(other, 2) if isinstance(event, Message)] == [
                b"x",
                b"y",
            ]


@on_loop
async def test_a_redirected_subscription_announces_itself_at_the_new_edge_and_leaves_once_that_has_caught_up() -> (
    None
):
    async with hubs() as (base, one, two), connect(base.url) as bus:
        with_filters(base)
        with_filters(one, 1, 3)
        with_filters(two, 1, 7)
        async with bus.subscribe("a", where=BIG) as a:
            # The base is the head: it carries no subscribers.
            base.tell(b"a", 5, base, one, mode=b"content")
            await one.peer.until(lambda: one.asked(b"EQ.FSUBSCRIBE") == 1)
            base.last.send(span(1, 1, 3))
            await base.peer.until(lambda: base.asked(b"EQ.FUNSUBSCRIBE") == 1)
            one.tell(b"a", 6, base, one, two, mode=b"content")
            # Another subscription, an older plan, a hub that is no home: nothing comes of it.
            one.last.send(push(b"eq.edge", b"2", 6, two.address, b"s", 1))
            one.last.send(push(b"eq.edge", b"1", 5, two.address, b"s", 1))
            one.last.send(push(b"eq.edge", b"1", 6, b"localhost:1", b"s", 1))
            one.last.send(push(b"eq.edge", b"1", 6, two.address, b"h1:3", 12))
            words = (b"1", b"a", BIG.encode(), b"SESSION", b"h1:3", b"12")
            await two.peer.until(lambda: two.asked(b"EQ.FSUBSCRIBE", *words) == 1)
            two.last.send(span(1, 8, 1, (8, b"8")))
            await one.peer.until(lambda: one.asked(b"EQ.COVER", b"1") >= 1)
            assert one.asked(b"EQ.FUNSUBSCRIBE") == 0
            one.last.send(span(1, 4, 4, (6, b"6")))
            await one.peer.until(lambda: one.asked(b"EQ.FUNSUBSCRIBE", b"1") == 1)
            assert [event.payload for event in await take(a, 2)] == [b"6", b"8"]  # type: ignore[union-attr]
            assert two.asked(b"EQ.FSUBSCRIBE") == 1


@on_loop
async def test_a_subscription_that_is_sent_back_before_it_has_left_announces_that_at_its_edge() -> None:
    """The hub that sends it back counts clients that arrive at the edge, and would wait for this one in vain."""
    async with hubs() as (base, one, two), connect(base.url) as bus:
        with_filters(base)
        with_filters(one, 1, 3)
        with_filters(two, 1, 7)
        async with bus.subscribe("a", where=BIG) as a:
            base.tell(b"a", 5, base, one, mode=b"content")
            await one.peer.until(lambda: one.asked(b"EQ.FSUBSCRIBE") == 1)
            base.last.send(span(1, 1, 3))
            await base.peer.until(lambda: base.asked(b"EQ.FUNSUBSCRIBE") == 1)
            one.tell(b"a", 6, base, one, two, mode=b"content")
            one.last.send(push(b"eq.edge", b"1", 6, two.address, b"h1:3", 12))
            await two.peer.until(lambda: two.asked(b"EQ.FSUBSCRIBE") == 1)
            # The former edge has not reached the position at which the other one accepted the client.
            two.last.send(push(b"eq.edge", b"1", 6, one.address, b"h2:1", 5))
            words = (b"1", b"a", BIG.encode(), b"SESSION", b"h2:1", b"5")
            await one.peer.until(lambda: one.asked(b"EQ.FSUBSCRIBE", *words) == 1)
            await two.peer.until(lambda: two.asked(b"EQ.FUNSUBSCRIBE", b"1") == 1)
            assert one.asked(b"EQ.FUNSUBSCRIBE") == 0
            one.last.send(span(1, 4, 5, (6, b"6"), (8, b"8")))
            assert [event.payload for event in await take(a, 2)] == [b"6", b"8"]  # type: ignore[union-attr]


@on_loop
async def test_a_subscription_that_another_edge_rejects_stays_at_its_edge() -> None:
    async with hubs() as (base, other, _), connect(base.url) as bus:
        with_filters(base)
        other.peer.answers[b"EQ.FSUBSCRIBE"] = always(b"-ERR full\r\n")
        async with bus.subscribe("a", where=BIG) as a:
            # The base is an edge: its clients stay unless a hub redirects them.
            base.tell(b"a", 6, other, base, mode=b"content")
            base.last.send(push(b"eq.edge", b"1", 6, other.address, b"s", 1))
            await other.peer.until(lambda: other.asked(b"EQ.FSUBSCRIBE") == 1)
            base.last.send(span(1, 1, 1, (1, b"x")))
            assert [event.payload for event in await take(a, 1)] == [b"x"]  # type: ignore[union-attr]
            assert base.asked(b"EQ.FUNSUBSCRIBE") == 0
