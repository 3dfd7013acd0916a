"""Clients follow redirects to the homes of topics, step by step, with scripted hubs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

import equipoise
from equipoise import Gap, GapReason, Message
from equipoise.client.routing import router
from equipoise.errors import BackloggedError, UncertainError
from support.polling import until

from .hubs import hubs
from .peer import Answer, Session, always, connect, message, on_loop, push, serving

QUICK = equipoise.ClientSettings(reconnect_first_s=0.01, reconnect_max_s=0.05)


@pytest.fixture(autouse=True)
def _impatient() -> Iterator[None]:
    """Ticks of a hundredth of a second, so that no test has to wait long for one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(router, "TICK_S", 0.01)
        patch.setattr(router, "MOVE_S", 0.01)
        yield


# Subscribers.


@on_loop
async def test_a_subscriber_subscribes_at_the_home_and_leaves_the_relay_once_it_has_caught_up() -> None:
    async with hubs() as (base, home, _), connect(base.url) as bus, bus.subscribe("a") as a:
        home.peer.positions[b"a"] = (1, 2)
        base.tell(b"a", 5, home)
        await home.peer.until(lambda: home.asked(b"EQ.SUBSCRIBE", b"a") == 1)
        home.last.send(message(b"a", 1, 3, b"3"))
        base.last.send(message(b"a", 1, 1, b"1"))
        assert (await anext(a), base.asked(b"EQ.UNSUBSCRIBE")) == (
            Message("a", b"1", equipoise.Position(1, 1)),
            0,
        )
        base.last.send(message(b"a", 1, 2, b"2"))
        await base.peer.until(lambda: base.asked(b"EQ.UNSUBSCRIBE", b"a") == 1)
        home.last.send(message(b"a", 1, 4, b"4"))
        assert [
            event.payload for event in [await anext(a) for _ in range(3)] if isinstance(event, Message)
        ] == [
            b"2",
            b"3",
            b"4",
        ]


@on_loop
async def test_a_subscriber_stays_at_its_hub_if_the_home_is_unreachable() -> None:
    async with hubs() as (base, home, _), connect(base.url, settings=QUICK) as bus:
        await home.peer.stop()
        async with bus.subscribe("a") as a:
            base.tell(b"a", 5, home)
            base.last.send(message(b"a", 1, 1, b"1"))
            assert isinstance(await anext(a), Message)
            await home.peer.start()
            await home.peer.until(lambda: home.asked(b"EQ.SUBSCRIBE", b"a") == 1)
            await base.peer.until(lambda: base.asked(b"EQ.UNSUBSCRIBE", b"a") == 1)


@on_loop
async def test_a_lost_home_is_replaced_by_the_base_and_the_gap_is_reported() -> None:
    async with (
        hubs() as (base, home, _),
        connect(base.url, settings=QUICK) as bus,
        bus.subscribe("a") as a,
    ):
        base.tell(b"a", 5, home)
        await base.peer.until(lambda: base.asked(b"EQ.UNSUBSCRIBE", b"a") == 1)
        base.peer.positions[b"a"] = (1, 3)
        await home.peer.stop()
        assert await anext(a) == Gap("a", 3, GapReason.RECONNECTED)
        base.last.send(message(b"a", 1, 4, b"4"))
        assert isinstance(await anext(a), Message)
        assert bus.is_connected


@on_loop
async def test_a_rejection_by_the_home_does_not_end_the_subscription() -> None:
    async with hubs() as (base, home, _), connect(base.url) as bus, bus.subscribe("a") as a:
        home.peer.answers[b"EQ.SUBSCRIBE"] = always(b"-NOPERM not here\r\n")
        base.tell(b"a", 5, home)
        await home.peer.until(lambda: home.asked(b"EQ.SUBSCRIBE", b"a") == 1)
        base.last.send(message(b"a", 1, 1, b"1"))
        assert isinstance(await anext(a), Message)
        assert base.asked(b"EQ.UNSUBSCRIBE") == 0


@on_loop
async def test_a_publisher_that_subscribes_to_its_topic_does_so_at_the_home_at_once() -> None:
    async with hubs() as (base, home, _), connect(base.url) as bus:
        await bus.publish("a", "x")
        base.tell(b"a", 5, home)
        await bus.publish("a", "y")
        await until(lambda: b"y" in home.payloads() or b"y" in base.payloads())
        await home.peer.until(lambda: home.peer.sessions and home.asked(b"EQ.LINK") == 1)
        await until(lambda: bus._routing._misplaced == {})
        async with bus.subscribe("a"):
            assert (home.asked(b"EQ.SUBSCRIBE", b"a"), base.asked(b"EQ.SUBSCRIBE", b"a")) == (1, 0)


@on_loop
async def test_of_a_topic_with_lanes_every_home_sends_its_own_lane_and_one_sends_the_rest() -> None:
    async with hubs() as (base, one, two), connect(base.url) as bus, bus.subscribe("a") as a:
        for hub, stream in ((one, b""), (two, b"two")):
            hub.peer.answers[b"EQ.OWN"] = _own(stream)
            hub.peer.answers[b"EQ.SUBSCRIBE"] = _whole
        base.peer.answers[b"EQ.SUBSCRIBE"] = _whole
        base.tell(b"a", 5, one, two, mode=b"all-subscribers")
        await base.peer.until(lambda: base.asked(b"EQ.UNSUBSCRIBE", b"a") == 1)
        await until(lambda: bus._routing._misplaced == {})
        asked = [request for hub in (one, two) for s in hub.peer.sessions for request in s.requests]
        own = [request for request in asked if request[0] == b"EQ.OWN"]
        assert sorted(len(request) for request in own) == [2, 4], "its own at one, all but that at the other"
        assert sum(request[0] == b"EQ.UNSUBSCRIBE" for request in asked) == 1
        one.last.send(message(b"a", 1, 1, b"trunk"))
        two.last.send(push(b"eq.lmessage", b"a", b"two", 3, 1, b"lane"))
        events = [await anext(a), await anext(a)]
        assert {event.payload for event in events if isinstance(event, Message)} == {b"trunk", b"lane"}


def _own(stream: bytes) -> Answer:
    return lambda session, request: push(b"eq.own", request[1], 1, stream, 3 if stream else 1, 0)


def _whole(session: Session, request: list[bytes]) -> bytes:
    return push(b"eq.subscribe", request[1], 1, 1, 0) + push(b"eq.lane", request[1], b"two", 3, 0)


# Publishers.


@on_loop
async def test_a_publisher_waits_for_its_old_hub_and_tags_its_first_message_to_the_new_one() -> None:
    async with hubs() as (base, home, _), connect(base.url) as bus:
        base.settles = False
        await bus.publish("a", "1")
        base.tell(b"a", 5, home)
        await base.peer.until(lambda: base.asked(b"EQ.SETTLE", b"a") == 1)
        publishes = [asyncio.create_task(bus.publish("a", str(n))) for n in (2, 3)]
        await asyncio.sleep(0)
        bus.publish_nowait("a", "4")
        await bus.publish("b", "others do not wait")
        assert home.payloads() == []
        base.settle(b"a")
        assert [(await publish).receivers for publish in publishes] == [7, 1]
        await bus.flush()
        assert base.payloads() == [b"1", b"others do not wait"]
        assert home.payloads() == [b"2", b"3", b"4"]
        assert home.asked(b"EQ.AFTER", b"a", b"", b"1", b"1") == 1


@on_loop
async def test_a_publisher_that_settles_at_its_old_hub_again_waits_for_the_second_reply() -> None:
    async with hubs() as (base, home, _), connect(base.url) as bus:
        base.settles = False
        await bus.publish("a", "1")
        publisher = bus._publishing._publishers[b"a"]
        base.tell(b"a", 5, home)
        await base.peer.until(lambda: base.asked(b"EQ.SETTLE", b"a") == 1)
        base.tell(b"a", 6, base)
        await until(lambda: publisher.question is None)
        await bus.publish("a", "2")
        base.tell(b"a", 7, home)
        await base.peer.until(lambda: base.asked(b"EQ.SETTLE", b"a") == 2)
        waiting = asyncio.create_task(bus.publish("a", "3"))
        base.settle(b"a")
        await bus.publish("b", "answered behind that")
        assert publisher.question is not None, "the first answer says nothing about the second message"
        base.settle(b"a")
        await waiting
        assert (base.payloads(), home.payloads()) == ([b"1", b"2", b"answered behind that"], [b"3"])


@on_loop
async def test_a_reply_is_not_matched_with_a_rejected_request() -> None:
    async with hubs() as (base, home, _), connect(base.url) as bus:
        await bus.publish("a", "1")
        base.peer.answers[b"EQ.SETTLE"] = always(b"-ERR not now\r\n")
        base.tell(b"a", 5, home)
        await base.peer.until(lambda: base.asked(b"EQ.SETTLE", b"a") == 1)
        await bus.publish("a", "2")
        base.peer.answers[b"EQ.SETTLE"] = base._settle
        base.tell(b"a", 6, base)
        await home.peer.until(lambda: home.asked(b"EQ.SETTLE", b"a") == 1)
        await bus.publish("a", "3")
        base.tell(b"a", 7, home)
        await base.peer.until(lambda: base.asked(b"EQ.SETTLE", b"a") == 2)
        await bus.publish("a", "4")
        assert (base.payloads(), home.payloads()) == ([b"1", b"3"], [b"2", b"4"])


@on_loop
async def test_messages_without_receipt_while_a_topic_changes_hubs_are_bounded() -> None:
    async with hubs() as (base, home, _), connect(base.url, in_flight_messages_max=2) as bus:
        base.settles = False
        await bus.publish("a", "1")
        base.tell(b"a", 5, home)
        await base.peer.until(lambda: base.asked(b"EQ.SETTLE", b"a") == 1)
        bus.publish_nowait("a", "2")
        bus.publish_nowait("a", "3")
        with pytest.raises(BackloggedError, match="while their topics change hubs"):
            bus.publish_nowait("a", "4")
        base.settle(b"a")
        await bus.flush()
        bus.publish_nowait("a", "5")
        await bus.flush()
        assert home.payloads() == [b"2", b"3", b"5"]


@on_loop
async def test_a_publisher_that_lost_its_hub_has_its_link_severed_before_it_continues_elsewhere() -> None:
    async with hubs() as (base, home, _), connect(base.url, settings=QUICK) as bus:
        base.severs = False
        await bus.publish("a", "1")
        base.tell(b"a", 5, home)
        await bus.publish("a", "2")
        await until(lambda: bus._routing._misplaced == {})
        home.peer.answers[b"PUBLISH"] = home.peer.answers[b"EQ.PUBLISH"] = always(None)
        uncertain = asyncio.create_task(bus.publish("a", "3"))
        await home.peer.until(lambda: b"3" in home.payloads())
        name = next(request[1] for request in home.last.requests if request[0] == b"EQ.LINK")
        await home.peer.stop()
        with pytest.raises(UncertainError):
            await uncertain
        waiting = asyncio.create_task(bus.publish("a", "4"))
        await base.peer.until(lambda: base.asked(b"EQ.SEVER", name, home.address) == 1)
        assert b"4" not in base.payloads()
        base.last.send(push(b"eq.severed", name))
        await waiting
        assert b"4" in base.payloads()
        sent = [request[:2] for request in base.last.requests if request[0] in (b"EQ.AFTER", b"EQ.PUBLISH")]
        assert sent[-2:] == [[b"EQ.AFTER", b"a"], [b"EQ.PUBLISH", b"a"]], (
            "it comes after all that has a position"
        )


@on_loop
async def test_a_dependency_is_sent_again_if_the_connection_was_lost_before() -> None:
    async with hubs() as (base, home, _), connect(base.url, settings=QUICK, in_flight_messages_max=1) as bus:
        await bus.publish("a", "1")
        base.tell(b"a", 5, home)
        await bus.publish("a", "2")
        await until(lambda: bus._routing._misplaced == {})
        name = next(request[1] for request in home.last.requests if request[0] == b"EQ.LINK")
        base.severs, base.peer.answers[b"PUBLISH"] = False, always(None)
        await home.peer.stop()
        waiting = asyncio.create_task(bus.publish("a", "3"))
        await base.peer.until(lambda: base.asked(b"EQ.SEVER", name) == 1)
        uncertain = asyncio.create_task(bus.publish("b", "in flight"))
        await base.peer.until(lambda: b"in flight" in base.payloads())
        base.last.send(push(b"eq.severed", name))
        publishing = bus._publishing
        await until(lambda: publishing._publishers[b"a"].last_link is publishing._base)
        former = base.last
        former.reset()
        with pytest.raises(UncertainError):
            await uncertain
        base.peer.answers[b"PUBLISH"] = always(b":1\r\n")
        await waiting
        assert base.last is not former
        sent = [request[0] for request in base.last.requests if request[0] in (b"EQ.AFTER", b"EQ.PUBLISH")]
        assert sent[-2:] == [b"EQ.AFTER", b"EQ.PUBLISH"]


@on_loop
async def test_a_base_that_reconnects_to_another_hub_has_its_former_link_severed() -> None:
    async with hubs() as (one, two, _):
        url = f"equipoise://127.0.0.1:{one.peer.port},127.0.0.1:{two.peer.port}"
        async with connect(url, settings=QUICK) as bus:
            await bus.publish("a", "1")
            name = next(request[1] for request in one.last.requests if request[0] == b"EQ.LINK")
            await one.peer.stop()
            await two.peer.until(lambda: two.asked(b"EQ.LINK") == 1)
            await bus.publish("a", "2")
            assert two.asked(b"EQ.SEVER", name, one.address) == 1
            assert two.payloads() == [b"2"]
            two.last.reset()
            await two.peer.until(lambda: two.asked(b"EQ.LINK") == 2)
            await bus.publish("a", "3")
            links = [r[1] for s in two.peer.sessions for r in s.requests if r[0] == b"EQ.LINK"]
            assert name not in links[1:], "a link that was ended is not gone on with"


@on_loop
async def test_a_plain_redis_gets_no_routing_requests() -> None:
    async with serving() as one, serving() as two:
        url = f"equipoise://127.0.0.1:{one.port},127.0.0.1:{two.port}"
        async with connect(url, settings=QUICK) as bus:
            await bus.publish("a", "1")
            await one.stop()
            await two.until(lambda: two.sessions and two.last.count(b"EQ.LINK") == 1)
            await bus.publish("a", "2")
            assert [r[2] for r in two.last.requests if r[0] == b"PUBLISH"] == [b"2"]


# Pushes of a hub.


@on_loop
async def test_redirects_of_older_plans_and_of_unused_topics_are_ignored() -> None:
    async with hubs() as (base, home, other), connect(base.url) as bus, bus.subscribe("a"):
        base.tell(b"a", 5, home)
        await base.peer.until(lambda: base.asked(b"EQ.UNSUBSCRIBE", b"a") == 1)
        home.tell(b"a", 4, other)
        home.tell(b"unused", 9, other)
        await bus.publish("a", "x")
        await until(lambda: bus._routing._misplaced == {})
        assert other.peer.sessions == []


@pytest.mark.parametrize(
    "words",
    [
        pytest.param((b"a", 9, b"single", b"no address"), id="no address"),
        pytest.param((b"a", 9, b"single"), id="no home"),
        pytest.param((b"a", b"nine", b"single", b"127.0.0.1:1"), id="no version"),
        pytest.param(
            (b"a", 9, b"all-subscribers", *(b"127.0.0.1:%d" % n for n in range(1, 100))), id="too many"
        ),
        pytest.param((b"a", 9, b"single", b"127.0.0.1:1"), id="unreachable"),
        pytest.param((b"a", 9, b"all-subscribers", b"127.0.0.1:1", b"127.0.0.1:2"), id="no home is there"),
    ],
)
@on_loop
async def test_invalid_pushes_of_a_hub_are_ignored(words: tuple[bytes | int, ...]) -> None:
    async with (
        hubs() as (base, _, _),
        connect(base.url, settings=QUICK) as bus,
        bus.subscribe("a") as a,
    ):
        base.last.send(push(b"eq.home", *words))
        base.last.send(message(b"a", 1, 1, b"x"))
        assert isinstance(await anext(a), Message)
        await bus.publish("a", "y")
        assert (len(base.peer.sessions), base.asked(b"EQ.UNSUBSCRIBE")) == (1, 0)


@on_loop
async def test_redirects_that_change_all_the_time_are_followed_at_a_limited_rate() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(router, "MOVE_S", 0.05)
        async with hubs() as (base, one, two), connect(base.url) as bus, bus.subscribe("a") as a:
            began = asyncio.get_running_loop().time()
            for version in range(1, 400):
                base.tell(b"a", version, (one, two)[version % 2])
            await two.peer.until(lambda: two.asked(b"EQ.SUBSCRIBE"))
            await until(lambda: bus._routing._misplaced == {})
            moves = one.asked(b"EQ.SUBSCRIBE") + two.asked(b"EQ.SUBSCRIBE")
            took_s = asyncio.get_running_loop().time() - began
            assert moves <= 2 + took_s / 0.05
            two.last.send(message(b"a", 1, 1, b"x"))
            assert isinstance(await anext(a), Message)


@on_loop
async def test_a_client_with_routing_off_is_not_redirected() -> None:
    async with (
        hubs() as (base, home, _),
        connect(base.url, routing=False) as bus,
        bus.subscribe("a"),
    ):
        assert base.asked(b"EQ.LINK") == 1
        assert next(r for r in base.last.requests if r[0] == b"EQ.LINK")[2:] == []
        base.tell(b"a", 5, home)
        await bus.publish("a", "x")
        assert home.peer.sessions == []


# Links.


@on_loop
async def test_an_unused_route_is_removed_and_its_link_closed() -> None:
    async with hubs() as (base, home, _), connect(base.url, route_idle_s=0.5) as bus:
        await bus.publish("a", "1")
        base.tell(b"a", 5, home)
        await home.peer.until(lambda: home.asked(b"EQ.LINK") == 1)
        await until(lambda: len(bus._routing._routes) == 0)
        await home.peer.until(lambda: not home.last.is_open)
        await bus.publish("a", "2")
        assert base.payloads() == [b"1", b"2"]


@on_loop
async def test_the_route_of_a_subscriber_is_kept() -> None:
    async with hubs() as (base, home, _), connect(base.url, route_idle_s=0.02, merge_timeout_s=0.1) as bus:
        async with bus.subscribe("a"):
            base.tell(b"a", 5, home)
            await base.peer.until(lambda: base.asked(b"EQ.UNSUBSCRIBE", b"a") == 1)
            for _ in range(5):
                timer = bus._routing._sweeping
                await until(lambda timer=timer: bus._routing._sweeping is not timer)  # type: ignore[misc]  # bound
            assert home.last.is_open
            assert base.asked(b"EQ.SUBSCRIBE", b"a") == 1
        await home.peer.until(lambda: not home.last.is_open)


@on_loop
async def test_the_number_of_links_is_limited() -> None:
    async with (
        hubs() as (base, one, two),
        connect(base.url, links_max=1) as bus,
        bus.subscribe("a"),
        bus.subscribe("b") as b,
    ):
        base.tell(b"a", 1, one)
        await base.peer.until(lambda: base.asked(b"EQ.UNSUBSCRIBE", b"a") == 1)
        base.tell(b"b", 1, two)
        base.last.send(message(b"b", 1, 1, b"x"))
        assert isinstance(await anext(b), Message)
        assert two.peer.sessions == []


@on_loop
async def test_a_client_whose_hubs_are_all_unreachable_tries_hubs_from_redirects() -> None:
    async with (
        hubs() as (base, home, _),
        connect(base.url, settings=QUICK) as bus,
        bus.subscribe("a"),
    ):
        base.tell(b"a", 5, home)
        await base.peer.until(lambda: base.asked(b"EQ.UNSUBSCRIBE", b"a") == 1)
        await base.peer.stop()
        await home.peer.until(lambda: len(home.peer.sessions) == 2)
        await until(lambda: bus.is_connected)
        await bus.publish("never used before", "x")
        assert home.payloads() == [b"x"]


@on_loop
async def test_closing_closes_every_link() -> None:
    async with hubs() as (base, home, _):
        async with connect(base.url) as bus, bus.subscribe("a"):
            base.tell(b"a", 5, home)
            await base.peer.until(lambda: base.asked(b"EQ.UNSUBSCRIBE", b"a") == 1)
        await home.peer.until(lambda: not home.last.is_open)
        await base.peer.until(lambda: not base.last.is_open)
        assert len(asyncio.all_tasks()) == 1


@on_loop
async def test_flush_covers_all_links() -> None:
    async with hubs() as (base, home, _), connect(base.url) as bus:
        bus.publish_nowait("a", "1")
        base.tell(b"a", 5, home)
        await home.peer.until(lambda: home.asked(b"EQ.LINK") == 1)
        await until(lambda: bus._routing._misplaced == {})
        home.peer.answers[b"EQ.PUBLISH"] = always(b"-ERR no\r\n")
        bus.publish_nowait("a", "2")
        bus.publish_nowait("b", "3")
        with pytest.raises(equipoise.errors.RefusedError, match="ERR no"):
            await bus.flush()
