"""Durable subscriptions of the client, at a real hub that keeps its logs in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

import equipoise
from equipoise import Bus, DurableMessage, DurableSubscription, Gap, GapReason
from equipoise.access import Users
from equipoise.client.durable_subscription import spell_start
from equipoise.errors import DeniedError, DisplacedError, MisuseError
from equipoise.hub import Hub
from equipoise.ledger.memory import MemoryLedgers
from equipoise.ledger.quorum import Quorum
from equipoise.model import Durability, Specs, TopicSpec
from equipoise.store.backends.memory import MemoryStore
from equipoise.store.backends.memory_tree import MemoryTree
from equipoise.store.tree import Tree
from support.polling import until

from .peer import connect, on_loop
from .test_with_hub import QUICK, make_users, running, url_of


@asynccontextmanager
async def keeping(users: Users | None = None) -> AsyncIterator[Hub]:
    """A hub whose topics are durable."""
    loop = asyncio.get_running_loop()
    store = await MemoryStore(MemoryTree(loop.time)).open()
    async with running(users=users) as hub:
        hub.use_logs(store, Tree(), MemoryLedgers(loop.call_soon), lambda: Quorum(1, 1, 1))
        hub.follow_specs(Specs([TopicSpec(pattern=b"*", durability=Durability(1, 1, 1))]), 1)
        yield hub
    await store.close()


@asynccontextmanager
async def bus_at(hub: Hub, login: str = "") -> AsyncIterator[Bus]:
    async with connect(url_of(hub, login), settings=QUICK) as bus:
        yield bus


async def take(subscription: DurableSubscription, count: int) -> list[DurableMessage]:
    found: list[DurableMessage] = []
    async with asyncio.timeout(30):
        while len(found) < count:
            event = await anext(subscription)
            assert isinstance(event, DurableMessage), event
            found.append(event)
    return found


def texts(messages: list[DurableMessage]) -> list[str]:
    return [message.text for message in messages]


@on_loop
async def test_a_subscription_resumes_where_it_stopped() -> None:
    async with keeping() as hub:
        async with bus_at(hub) as bus, bus.subscribe("t", durable="billing") as subscription:
            for number in range(5):
                await bus.publish("t", str(number))
            got = await take(subscription, 5)
            assert texts(got) == ["0", "1", "2", "3", "4"]
            assert [message.is_redelivered for message in got] == [False] * 5
            await subscription.ack(got[1])
            await subscription.ack_up_to(got[2])
        # Otherwise the hub may send the next message to the connection that is closing.
        await until(lambda: not hub.core.sessions)
        async with bus_at(hub) as bus:
            await bus.publish("t", "5")
            async with bus.subscribe("t", durable="billing") as subscription:
                got = await take(subscription, 3)
                assert texts(got) == ["3", "4", "5"]
                assert [message.is_redelivered for message in got] == [True, True, False]
                await subscription.ack(*got)
            async with bus.subscribe("t", durable="billing") as subscription:
                await bus.publish("t", "6")
                assert texts(await take(subscription, 1)) == ["6"]


@on_loop
async def test_a_subscription_to_a_topic_that_is_not_durable_logs_it_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with keeping() as hub, bus_at(hub) as bus:
        async with bus.subscribe("t", durable="billing"):
            assert not caplog.records
        hub.follow_specs(Specs([TopicSpec(pattern=b"kept.*", durability=Durability(1, 1, 1))]), 2)
        async with bus.subscribe("t", durable="billing") as subscription:
            link = subscription._reads
            await link.ask(b"XADD", b"t", b"*", b"payload", b"added", timeout_s=10)
            assert texts(await take(subscription, 1)) == ["added"]
            link.drop()
            await link.ask(b"XADD", b"t", b"*", b"payload", b"after", timeout_s=10)
            assert "after" in texts(await take(subscription, 1))
        (record,) = [each for each in caplog.records if "not durable" in each.message]
        assert "topic t is not durable" in record.message


@on_loop
async def test_reading_a_log_that_does_not_exist_at_a_lone_hub_creates_none() -> None:
    async with keeping() as hub, bus_at(hub) as bus:
        link, other = bus._routing.make_log_link(), bus._routing.make_log_link()
        assert await link.ask(b"XLEN", b"none", timeout_s=10) == 0
        assert await link.ask(b"EXISTS", b"none", b"neither", timeout_s=10) == 0
        waiting = asyncio.create_task(
            other.ask(b"XREAD", b"BLOCK", b"0", b"STREAMS", b"none", b"$", timeout_s=20)
        )
        await until(lambda: hub.core.logs is not None and hub.core.logs.blocked_clients)
        assert hub.core.logs is not None
        assert not hub.core.logs.by_name
        words = ((b"XLEN", b"none"), (b"XADD", b"none", b"*", b"k", b"v"), (b"XLEN", b"none"))
        before, at, after = await asyncio.gather(*(link.ask(*each, timeout_s=10) for each in words))
        assert (before, after) == (0, 1)
        assert await waiting == {b"none": [[at, [b"k", b"v"]]]}
        link.close()
        other.close()


@on_loop
async def test_start_is_an_id_a_time_or_an_end_of_the_log() -> None:
    async with keeping() as hub, bus_at(hub) as bus:
        await bus.publish("t", "0")
        async with bus.subscribe("t", durable="all", start="beginning") as subscription:
            (first,) = await take(subscription, 1)
        await bus.publish("t", "1")
        async with bus.subscribe("t", durable="by-id", start=first.id) as subscription:
            assert texts(await take(subscription, 2)) == ["0", "1"]
        at = datetime.fromtimestamp(int(first.id.partition("-")[0]) / 1_000, UTC)
        async with bus.subscribe("t", durable="by-time", start=at) as subscription:
            assert texts(await take(subscription, 2)) == ["0", "1"]
        async with bus.subscribe("t", durable="end") as subscription:
            await bus.publish("t", "2")
            assert texts(await take(subscription, 1)) == ["2"]


@on_loop
async def test_it_survives_lost_connections_and_repeats_no_message_in_process() -> None:
    async with keeping() as hub, bus_at(hub) as bus:
        async with bus.subscribe("t", durable="billing") as subscription:
            await bus.publish("t", "0")
            (first,) = await take(subscription, 1)
            link = bus._routing.make_log_link()
            assert await link.ask(b"CLIENT", b"KILL", b"TYPE", b"normal", b"SKIPME", b"yes", timeout_s=10) > 1
            link.close()
            async with bus_at(hub) as other:
                await other.publish("t", "1")
            (second,) = await take(subscription, 1)
            assert (second.text, second.is_redelivered) == ("1", False)
            await subscription.ack(first, second)
        async with bus_at(hub) as other, other.subscribe("t", durable="billing") as subscription:
            await other.publish("t", "2")
            assert texts(await take(subscription, 1)) == ["2"]


@on_loop
async def test_messages_acknowledged_while_the_client_catches_up_are_not_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The hub sends the pending set, then records an ack, whose reply overtakes on the other connection."""
    is_said, is_acked = asyncio.Event(), asyncio.Event()
    async with keeping() as hub, bus_at(hub) as bus, bus.subscribe("t", durable="billing") as subscription:
        await bus.publish("t", "0")
        (first,) = await take(subscription, 1)
        ask = subscription._reads.ask

        async def ask_late(*words: bytes, timeout_s: float) -> Any:
            reply = await ask(*words, timeout_s=timeout_s)
            if words[-1] == b"0-0":
                is_said.set()
                await is_acked.wait()
            return reply

        monkeypatch.setattr(subscription._reads, "ask", ask_late)
        subscription._reads.drop()
        await is_said.wait()
        await subscription.ack(first)
        is_acked.set()
        await bus.publish("t", "1")
        assert texts(await take(subscription, 1)) == ["1"]


@on_loop
async def test_one_client_at_a_time_reads_as_a_subscriber() -> None:
    async with (
        keeping() as hub,
        bus_at(hub) as bus,
        bus_at(hub) as other,
        bus.subscribe("t", durable="billing") as former,
    ):
        await bus.publish("t", "0")
        await take(former, 1)
        async with other.subscribe("t", durable="billing") as present:
            (again,) = await take(present, 1)
            assert again.is_redelivered
            with pytest.raises(DisplacedError, match="another client"):
                await take(former, 1)


@on_loop
async def test_subscribers_of_a_group_share_messages_and_take_over_late_ones() -> None:
    async with keeping() as hub, bus_at(hub) as bus:
        late = bus.subscribe("t", durable="one", group="g", ack_timeout_s=0.2)
        async with late, bus.subscribe("t", durable="two", group="g", ack_timeout_s=0.2) as prompt:
            for number in range(20):
                await bus.publish("t", str(number))
            seen: dict[str, int] = {}
            async with asyncio.timeout(30):
                while len(seen) < 20:
                    event = await anext(prompt)
                    assert isinstance(event, DurableMessage)
                    seen[event.text] = event.deliveries
                    await prompt.ack(event)
            assert sorted(map(int, seen)) == list(range(20))


@on_loop
async def test_a_message_rejected_too_often_goes_to_the_dead_letter_topic_with_the_reason() -> None:
    async with keeping() as hub, bus_at(hub) as bus:
        options = {"deliveries_max": 2, "dead_letter": "dead", "start": "beginning"}
        async with bus.subscribe("t", durable="billing", **options) as subscription:  # type: ignore[call-overload]  # by name
            await bus.publish("t", "poison")
            await bus.publish("t", "fine")
            got = await take(subscription, 2)
            await subscription.ack(got[1])
            await subscription.nack(got[0], delay_s=0.01, reason="no such account")
            (again,) = await take(subscription, 1)
            assert (again.text, again.deliveries) == ("poison", 2)
            await subscription.nack(again, reason="still no such account")
            async with bus.subscribe("dead", durable="letters", start="beginning") as dead:
                (letter,) = await take(dead, 1)
                for word in (b"poison", b"still no such account", b"billing", again.id.encode()):
                    assert word in letter.payload
            assert hub.core.logs is not None
            group = hub.core.logs.of(b"t").log.groups[b"billing"]
            await until(lambda: not len(group.pending))


@on_loop
async def test_trimmed_messages_are_a_gap() -> None:
    async with keeping() as hub, bus_at(hub) as bus:
        async with bus.subscribe("t", durable="billing") as subscription:
            await bus.publish("t", "0")
            (first,) = await take(subscription, 1)
            await subscription.ack(first)
            logs = hub.core.logs
            assert logs is not None
            await until(lambda: logs.blocked_clients)
        # Otherwise the hub may send the next message to the connection that is closing.
        await until(lambda: not logs.blocked_clients)
        for number in range(1, 6):
            await bus.publish("t", str(number))
        async with connect(url_of(hub), settings=QUICK) as other:
            link = other._routing.make_log_link()
            assert await link.ask(b"XTRIM", b"t", b"MAXLEN", b"2", timeout_s=10) == 4
            link.close()
        async with bus.subscribe("t", durable="billing") as subscription, asyncio.timeout(30):
            assert await anext(subscription) == Gap("t", 3, GapReason.TRIMMED)
            assert texts(await take(subscription, 2)) == ["4", "5"]


@on_loop
async def test_a_durable_subscription_needs_its_grant() -> None:
    grant = 'subscribe = ["t"]\ncreate = ["t"]\n'
    users = make_users(plain=grant, durable=grant + 'durable = ["t"]\n')
    async with keeping(users) as hub:
        async with bus_at(hub, "plain:plain@") as bus:
            with pytest.raises(DeniedError, match="durable"):
                await bus.subscribe("t", durable="billing").__aenter__()
        async with bus_at(hub, "durable:durable@") as bus:
            async with bus.subscribe("t", durable="billing"):
                pass
            with pytest.raises(DeniedError, match="publish"):
                subscription = bus.subscribe("t", durable="billing", deliveries_max=1, dead_letter="dead")
                await subscription.__aenter__()


@on_loop
async def test_wrong_use_raises_before_anything_is_sent() -> None:
    async with keeping() as hub, bus_at(hub) as bus:
        with pytest.raises(MisuseError, match="one topic"):
            bus.subscribe("a", "b", durable="billing")
        with pytest.raises(MisuseError, match="must not be empty"):
            bus.subscribe("a", durable="")
        with pytest.raises(MisuseError, match="need each other"):
            bus.subscribe("a", durable="billing", deliveries_max=3)
        with pytest.raises(MisuseError, match="need a durable"):
            bus.subscribe("a", group="g")  # type: ignore[call-overload]  # a type checker reports it
        with pytest.raises(MisuseError, match="start="):
            bus.subscribe("a", durable="billing", start="soon")
    assert spell_start("beginning") == b"0"
    assert spell_start("5-0") == b"4-18446744073709551615"
    assert spell_start(5) == b"#4"
    with pytest.raises(MisuseError, match="start=-1"):
        spell_start(-1)
    assert isinstance(equipoise.DurableMessage("t", b"", "1-1").is_redelivered, bool)
