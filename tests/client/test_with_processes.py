"""The client and servers in separate processes: killed and restarted hubs, and a stock Redis."""

from __future__ import annotations

import asyncio

import pytest

import equipoise
from equipoise import Gap, GapReason, Message
from equipoise.errors import DeniedError
from support.polling import until
from support.processes import hub, redis_server

from .peer import connect, on_loop

QUICK = equipoise.ClientSettings(reconnect_first_s=0.05, reconnect_max_s=0.2)


@on_loop
async def test_a_client_reconnects_to_a_hub_that_was_killed_and_restarted() -> None:
    with hub() as first:
        bus = connect(f"equipoise://127.0.0.1:{first.port}", settings=QUICK)
        await bus.__aenter__()
        a = await bus.subscribe("a").__aenter__()
        await bus.publish("a", "before")
        assert isinstance(await anext(a), Message)
        first.kill()
        await until(lambda: not bus.is_connected)
        waiting = asyncio.create_task(bus.publish("a", "during", timeout_s=30))
        with hub(port=first.port):
            await waiting
            assert await anext(a) == Gap("a", None, GapReason.RECONNECTED)
            event = await anext(a)
            assert isinstance(event, Message) and event.text == "during", (
                "subscribed again before it was sent"
            )
            await bus.close()


@pytest.mark.needs_redis
@on_loop
async def test_a_plain_redis_works_without_positions() -> None:
    with redis_server() as redis:
        async with (
            connect(f"redis://127.0.0.1:{redis.port}", settings=QUICK) as bus,
            bus.subscribe("a", "b") as topics,
            bus.psubscribe("a*") as pattern,
        ):
            assert (await bus.publish("a", "x")).receivers == 2
            assert await anext(topics) == Message("a", b"x")
            assert await anext(pattern) == Message("a", b"x", None, "a*")
            for i in range(500):
                bus.publish_nowait("b", str(i))
            await bus.flush()
            assert [(await anext(topics)) for _ in range(500)] == [
                Message("b", b"%d" % i) for i in range(500)
            ]


@pytest.mark.needs_redis
@on_loop
async def test_a_restarted_redis_is_a_gap_in_every_subscription() -> None:
    with redis_server() as first:
        bus = connect(f"redis://127.0.0.1:{first.port}", settings=QUICK)
        await bus.__aenter__()
        a = await bus.subscribe("a").__aenter__()
        pattern = await bus.psubscribe("a*").__aenter__()
        first.kill()
        await until(lambda: not bus.is_connected)
        with redis_server(port=first.port):
            assert await anext(a) == Gap("a", None, GapReason.RECONNECTED)
            assert await anext(pattern) == Gap(None, None, GapReason.RECONNECTED, "a*")
            assert (await bus.publish("a", "x")).receivers == 2
            assert await anext(a) == Message("a", b"x")
            await bus.close()


@pytest.mark.needs_redis
@on_loop
async def test_a_redis_with_a_password_requires_it() -> None:
    with redis_server("--requirepass", "hunter2") as redis:
        async with connect(f"redis://:hunter2@127.0.0.1:{redis.port}") as bus:
            await bus.publish("a", "x")
        with pytest.raises(DeniedError, match="put a user and its secret"):
            async with connect(f"redis://127.0.0.1:{redis.port}"):
                pass
        with pytest.raises(DeniedError, match="check the user and the secret"):
            async with connect(f"redis://:wrong@127.0.0.1:{redis.port}"):
                pass
