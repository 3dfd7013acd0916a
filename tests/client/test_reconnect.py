"""Lost connections: gaps, re-subscription, pings, several addresses, rejections."""

from __future__ import annotations

import asyncio
import random

import pytest

import equipoise
from equipoise import Event, Gap, GapReason, Message, Position
from equipoise.errors import ClosedError, DeniedError, DisconnectedError, ProtocolError, RefusedError
from support.polling import until

from .peer import Peer, always, connect, message, on_loop, push, serving

QUICK = equipoise.ClientSettings(reconnect_first_s=0.01, reconnect_max_s=0.05)


async def cut(peer: Peer) -> None:
    """Reset the connection and wait until the client is back and has asked for its names."""
    sessions = len(peer.sessions)
    names = sum(request[0].startswith((b"EQ.SUB", b"EQ.PSUB")) for request in peer.last.requests)
    peer.last.reset()
    await peer.until(
        lambda: (
            len(peer.sessions) > sessions
            and sum(request[0].startswith((b"EQ.SUB", b"EQ.PSUB")) for request in peer.last.requests) == names
        )
    )


@pytest.mark.parametrize(
    ("stands_at", "gap"),
    [
        ((1, 2), None),
        ((1, 5), Gap("a", 3, GapReason.RECONNECTED)),
        ((2, 0), Gap("a", None, GapReason.RECONNECTED)),
        ((2, 7), Gap("a", None, GapReason.RECONNECTED)),
    ],
)
@on_loop
async def test_after_a_reconnection_the_gap_has_the_exact_number_of_missed_messages(
    stands_at: tuple[int, int], gap: Gap | None
) -> None:
    async with serving() as peer, connect(peer.url, settings=QUICK) as bus, bus.subscribe("a") as a:
        peer.last.send(message(b"a", 1, 1, b"x", b"y"))
        assert [await anext(a), await anext(a)] == [
            Message("a", b"x", Position(1, 1)),
            Message("a", b"y", Position(1, 2)),
        ]
        peer.positions[b"a"] = stands_at
        await cut(peer)
        epoch, n = stands_at
        peer.last.send(message(b"a", epoch, n + 1, b"z"))
        expected: list[Event] = [gap] if gap else []
        expected.append(Message("a", b"z", Position(epoch, n + 1)))
        assert [await anext(a) for _ in expected] == expected


@on_loop
async def test_a_subscriber_that_never_received_a_message_still_gets_the_gap() -> None:
    async with serving() as peer, connect(peer.url, settings=QUICK) as bus:
        peer.positions[b"a"] = (4, 10)
        async with bus.subscribe("a") as a:
            peer.positions[b"a"] = (4, 12)
            await cut(peer)
            assert await anext(a) == Gap("a", 2, GapReason.RECONNECTED)


@on_loop
async def test_a_lane_that_ended_meanwhile_is_not_waited_for() -> None:
    """The hub names the lanes that there are behind its answer; a dependency on another one has been met."""
    lane = push(b"eq.lane", b"a", b"two", 3, 0)
    async with serving() as peer:
        peer.answers[b"EQ.SUBSCRIBE"] = lambda s, request: push(b"eq.subscribe", request[1], 1, 1, 0) + lane
        async with connect(peer.url, settings=QUICK) as bus, bus.subscribe("a") as a:
            peer.last.send(push(b"eq.lmessage", b"a", b"two", 3, 1, b"x"))
            assert await anext(a) == Message("a", b"x", Position(3, 1))
            peer.answers[b"EQ.SUBSCRIBE"] = lambda s, request: push(b"eq.subscribe", request[1], 1, 1, 0)
            await cut(peer)
            peer.last.send(push(b"eq.after", b"a", b"", b"two", 3, 5) + message(b"a", 1, 1, b"y"))
            assert await anext(a) == Gap("a", None, GapReason.NEW_EPOCH)
            assert await anext(a) == Message("a", b"y", Position(1, 1))


@on_loop
async def test_a_gap_of_a_pattern_has_no_number() -> None:
    async with (
        serving() as peer,
        connect(peer.url, settings=QUICK) as bus,
        bus.psubscribe("a*") as pattern,
    ):
        peer.last.send(push(b"eq.pmessage", b"a*", b"a1", 1, 1, b"x"))
        await until(lambda: pattern.pending == 1)
        await cut(peer)
        peer.last.send(push(b"eq.pmessage", b"a*", b"a1", 1, 9, b"y"))
        assert [await anext(pattern) for _ in range(3)] == [
            Message("a1", b"x", Position(1, 1), "a*"),
            Gap(None, None, GapReason.RECONNECTED, "a*"),
            Message("a1", b"y", Position(1, 9), "a*"),
        ]


@on_loop
async def test_names_are_subscribed_to_again_in_their_first_order() -> None:
    names = [f"topic-{i}" for i in random.Random(1).sample(range(1000), 40)]
    async with serving() as peer, connect(peer.url, settings=QUICK) as bus, bus.subscribe(*names):
        await cut(peer)
        asked = [request[1].decode() for request in peer.last.requests if request[0] == b"EQ.SUBSCRIBE"]
        assert asked == names


@on_loop
async def test_a_subscription_made_while_the_connection_is_down_gets_no_gap() -> None:
    async with (
        serving() as peer,
        connect(peer.url, settings=QUICK) as bus,
        bus.subscribe("a") as old,
    ):
        await peer.stop()
        await until(lambda: not bus.is_connected)
        entering = asyncio.create_task(bus.subscribe("a").__aenter__())
        await asyncio.sleep(0)
        peer.positions[b"a"] = (1, 6)
        await peer.start()
        new = await entering
        assert await anext(old) == Gap("a", 6, GapReason.RECONNECTED)
        peer.last.send(message(b"a", 1, 7, b"x"))
        assert await anext(new) == Message("a", b"x", Position(1, 7))


@on_loop
async def test_a_silent_hub_is_abandoned_after_two_unanswered_pings() -> None:
    async with serving() as peer, connect(peer.url, ping_interval_s=0.01, settings=QUICK) as bus:
        first = peer.last
        await peer.until(lambda: first.count(b"PING") >= 3)
        assert len(peer.sessions) == 1, "answered pings keep the connection"
        pings = first.count(b"PING")
        peer.answers[b"PING"] = always(None)
        await peer.until(lambda: len(peer.sessions) == 2)
        assert first.count(b"PING") - pings in (2, 3), "one may have been answered as the hub fell silent"
        peer.answers[b"PING"] = always(b"+PONG\r\n")
        assert (await bus.publish("a", "x")).receivers == 1


@on_loop
async def test_a_hub_that_sends_messages_is_not_silent() -> None:
    async with serving() as peer, connect(peer.url, ping_interval_s=0.01, settings=QUICK) as bus:
        peer.answers[b"PING"] = lambda session, request: push(b"message", b"unused", b"x")
        await peer.until(lambda: peer.last.count(b"PING") >= 6)
        assert len(peer.sessions) == 1
        assert bus.is_connected


@on_loop
async def test_the_addresses_are_tried_in_turn() -> None:
    async with serving() as one, serving() as two:
        url = f"equipoise://127.0.0.1:{one.port},127.0.0.1:{two.port}"
        async with connect(url, settings=QUICK) as bus:
            assert (len(one.sessions), len(two.sessions)) == (1, 0)
            await one.stop()
            await two.until(lambda: len(two.sessions) == 1)
            await bus.publish("a", "to two")
            await one.start()
            await two.stop()
            await one.until(lambda: len(one.sessions) == 2)
            await bus.publish("a", "to one")
            assert one.last.requests[-1][2] == b"to one"


@on_loop
async def test_a_wrong_password_raises_and_is_not_retried() -> None:
    async with serving() as peer:
        peer.answers[b"HELLO"] = always(b"-WRONGPASS invalid username-password pair or user is disabled.\r\n")
        url = f"equipoise://ann:hunter2@127.0.0.1:{peer.port}"
        with pytest.raises(DeniedError, match="check the user and the secret in the bus URL") as caught:
            async with connect(url, first_connect_timeout_s=60, name="probe"):
                pass
        assert "hunter2" not in str(caught.value)
        assert len(peer.sessions) == 1
        hello = [b"HELLO", b"3", b"AUTH", b"ann", b"hunter2", b"SETNAME", b"probe"]
        assert peer.last.requests[0] == hello
        assert b"hunter2" not in b" ".join(word for request in peer.last.requests[1:] for word in request)
        await peer.until(lambda: not peer.last.is_open)


@on_loop
async def test_a_password_that_becomes_invalid_ends_the_bus_with_the_reason() -> None:
    async with serving() as peer, connect(peer.url, settings=QUICK) as bus:
        async with bus.subscribe("a") as a:
            await peer.stop()
            await until(lambda: not bus.is_connected)
            waiting = asyncio.create_task(bus.publish("a", "x"))
            peer.answers[b"HELLO"] = always(b"-NOAUTH HELLO must be called with the client authenticated\r\n")
            await peer.start()
            with pytest.raises(DeniedError, match="put a user and its secret in the bus URL"):
                await waiting
            with pytest.raises(DeniedError):
                await anext(a)
            with pytest.raises(DeniedError):
                await bus.publish("a", "later")
            with pytest.raises(DeniedError):
                bus.publish_nowait("a", "later")
            with pytest.raises(DeniedError):
                async with bus.subscribe("b"):
                    pass
        sessions = len(peer.sessions)
        await asyncio.sleep(0)
        assert len(peer.sessions) == sessions


@on_loop
async def test_a_permission_revoked_while_disconnected_ends_the_subscription() -> None:
    async with (
        serving() as peer,
        connect(peer.url, settings=QUICK) as bus,
        bus.subscribe("a") as a,
        bus.subscribe("b") as b,
    ):
        peer.answers[b"EQ.SUBSCRIBE"] = lambda session, request: (
            b"-NOPERM no\r\n" if request[1] == b"a" else push(b"eq.subscribe", request[1], 1, 1, 4)
        )
        await cut(peer)
        with pytest.raises(DeniedError, match="NOPERM no; ask the operator"):
            await anext(a)
        assert await anext(b) == Gap("b", 4, GapReason.RECONNECTED)


@on_loop
async def test_a_temporary_rejection_is_retried() -> None:
    async with serving() as peer, connect(peer.url, settings=QUICK) as bus:
        greet = peer.answers[b"HELLO"]
        peer.answers[b"HELLO"] = always(b"-ERR max number of clients reached\r\n")
        peer.last.reset()
        await peer.until(lambda: len(peer.sessions) >= 4)
        peer.answers[b"HELLO"] = greet
        await bus.publish("a", "x")


@on_loop
async def test_invalid_bytes_end_the_connection_and_the_client_reconnects() -> None:
    async with serving() as peer, connect(peer.url, settings=QUICK) as bus, bus.subscribe("a") as a:
        for nonsense in (
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            b":5\r\n",
            push(b"eq.subscribe", b"never asked", 1, 1, 1),
            push(b"eq.message", b"a"),
            push(b"eq.message", b"a", b"no epoch", b"no n", b"x"),
            b"*" + b"1" * 40 + b"\r\n",
        ):
            session = peer.last
            session.send(nonsense)
            await peer.until(lambda before=session: not before.is_open)  # type: ignore[misc]  # bound now
            await peer.until(lambda: peer.last.is_open and peer.last.count(b"EQ.SUBSCRIBE") == 1)
        peer.last.send(message(b"a", 1, 1, b"x"))
        assert await anext(a) == Message("a", b"x", Position(1, 1))


@on_loop
async def test_another_kind_of_server_is_an_error_when_connecting() -> None:
    async with serving() as peer:
        peer.answers[b"HELLO"] = always(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        with pytest.raises(ProtocolError, match=rf"127.0.0.1:{peer.port}: the server does not speak"):
            async with connect(peer.url):
                pass
        for refusal in (b"-ERR unknown command 'HELLO'\r\n", b"-NOPROTO unsupported protocol version\r\n"):
            peer.answers[b"HELLO"] = always(refusal)
            with pytest.raises(RefusedError, match="too old: use an Equipoise hub, or Redis 6 or newer"):
                async with connect(peer.url, first_connect_timeout_s=60):
                    pass


@on_loop
async def test_an_unreachable_address_raises_at_once_with_a_remedy() -> None:
    async with serving() as peer:
        await peer.stop()
        bus = connect(peer.url)
        with pytest.raises(
            DisconnectedError, match=rf"127.0.0.1:{peer.port}: no server listens there; start a hub"
        ):
            await bus.__aenter__()
        with pytest.raises(ClosedError):
            bus.publish_nowait("a", "x")


@on_loop
async def test_a_hub_that_does_not_greet_in_time_is_an_error() -> None:
    async with serving() as peer:
        peer.answers = {command: always(None) for command in (b"HELLO", b"EQ.LINK", b"EQ.DEFER", b"CLIENT")}
        with pytest.raises(DisconnectedError, match=r"did not answer within 0\.02 s"):
            async with connect(peer.url, connect_timeout_s=0.02):
                pass
        await peer.until(lambda: peer.sessions and not peer.last.is_open)


@on_loop
async def test_first_connect_timeout_lets_a_hub_start_after_its_client() -> None:
    async with serving() as peer:
        await peer.stop()
        bus = connect(peer.url, first_connect_timeout_s=10, settings=QUICK)
        entering = asyncio.create_task(bus.__aenter__())
        await asyncio.sleep(0)
        await peer.start()
        await entering
        await bus.publish("a", "x")
        await bus.close()


@on_loop
async def test_the_delays_between_attempts_come_from_the_given_random_numbers() -> None:
    draws: list[tuple[float, float]] = []

    class Recorded(random.Random):
        def uniform(self, a: float, b: float) -> float:
            draws.append((a, b))
            return 0.001

    async with serving() as peer, connect(peer.url, rng=Recorded()) as bus:
        peer.answers[b"HELLO"] = always(b"-ERR not yet\r\n")
        peer.last.reset()
        await peer.until(lambda: len(peer.sessions) >= 5)
        await until(lambda: not bus.is_connected)
    assert draws[:4] == [(0.05, 0.1), (0.1, 0.2), (0.2, 0.4), (0.4, 0.8)]


@on_loop
async def test_every_connection_of_one_bus_gives_the_same_name_and_no_other_bus_does() -> None:
    async with (
        serving() as peer,
        connect(peer.url, settings=QUICK) as bus,
        connect(peer.url, rng=random.Random(1)),
        connect(peer.url, rng=random.Random(1)),
    ):
        peer.sessions[0].reset()
        await peer.until(lambda: len(peer.sessions) == 4)
        await bus.publish("a", "x")
        names = [
            [request[1] for request in session.requests if request[0] == b"EQ.LINK"]
            for session in peer.sessions
        ]
        assert [len(name) for name in names] == [1, 1, 1, 1]
        assert names[0] == names[3] and names[1] == names[2], "the same link; the same random numbers"
        assert names[0] != names[1] and len(names[0][0]) == 32


@on_loop
async def test_a_plain_redis_gets_only_redis_commands_and_each_reconnection_is_a_gap() -> None:
    async with serving() as peer:
        for command in (b"EQ.SUBSCRIBE", b"EQ.PSUBSCRIBE", b"EQ.UNSUBSCRIBE", b"EQ.PUNSUBSCRIBE", b"CLIENT"):
            del peer.answers[command]
        for command in (b"SUBSCRIBE", b"PSUBSCRIBE", b"UNSUBSCRIBE", b"PUNSUBSCRIBE"):
            peer.answers[command] = lambda session, request: push(request[0].lower(), request[1], 1)
        async with connect(peer.url, settings=QUICK) as bus:
            async with bus.subscribe("a", "b") as topics, bus.psubscribe("a*") as pattern:
                peer.last.send(push(b"message", b"a", b"x") + push(b"pmessage", b"a*", b"a", b"x"))
                assert await anext(topics) == Message("a", b"x")
                assert await anext(pattern) == Message("a", b"x", None, "a*")
                peer.last.reset()
                assert [await anext(topics), await anext(topics)] == [
                    Gap("a", None, GapReason.RECONNECTED),
                    Gap("b", None, GapReason.RECONNECTED),
                ]
                assert await anext(pattern) == Gap(None, None, GapReason.RECONNECTED, "a*")
            await peer.until(
                lambda: peer.last.count(b"PUNSUBSCRIBE") == 1 and peer.last.count(b"UNSUBSCRIBE") == 2
            )
