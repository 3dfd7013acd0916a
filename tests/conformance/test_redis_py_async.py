"""redis-py, the asyncio client, works with a hub as with Redis, in RESP2 and RESP3."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from typing import Any

import pytest
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from conformance.conftest import Servers
from equipoise.processes import free_port
from support.processes import ServerProcess, redis_server
from support.processes import hub as hub_process

PATIENCE_S = 10.0
SERVERS = ["hub", pytest.param("redis", marks=pytest.mark.needs_redis)]
# The types of redis-py are incomplete, so its objects are foreign data here.
Scene = Callable[[Any, str], Coroutine[Any, Any, None]]
Play = Callable[[Scene], None]
_serial = itertools.count()


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest, servers: Servers) -> ServerProcess:
    return servers.get(request.param)


@pytest.fixture(params=[2, 3], ids=["RESP2", "RESP3"])
def play(request: pytest.FixtureRequest, server: ServerProcess) -> Play:
    """Run a coroutine function with a client and a unique prefix."""

    async def run(scene: Scene) -> None:
        client: Any = redis.asyncio.Redis(
            host=server.host, port=server.port, protocol=request.param, decode_responses=True
        )
        async with client, asyncio.timeout(2 * PATIENCE_S):
            await scene(client, f"async{next(_serial)}")

    return lambda scene: asyncio.run(run(scene))


async def receive(pubsub: Any) -> dict[str, Any]:
    """The next message of any kind, without the keys that do not concern it."""
    message = await pubsub.get_message(timeout=PATIENCE_S)
    assert message is not None, "nothing came"
    return {key: value for key, value in message.items() if value is not None}


def test_subscribing_publishing_and_unsubscribing(play: Play) -> None:
    async def scene(client: Any, name: str) -> None:
        async with client.pubsub() as pubsub:
            await pubsub.subscribe(name)
            assert await receive(pubsub) == {"type": "subscribe", "channel": name, "data": 1}
            await pubsub.psubscribe(f"{name}*")
            assert await receive(pubsub) == {"type": "psubscribe", "channel": f"{name}*", "data": 2}
            assert await client.publish(name, "hello") == 2
            assert (await receive(pubsub))["type"] == "message"
            assert await receive(pubsub) == {
                "type": "pmessage",
                "pattern": f"{name}*",
                "channel": name,
                "data": "hello",
            }
            await pubsub.unsubscribe()
            assert await receive(pubsub) == {"type": "unsubscribe", "channel": name, "data": 1}
            await pubsub.punsubscribe()
            assert await receive(pubsub) == {"type": "punsubscribe", "channel": f"{name}*", "data": 0}
            assert await client.publish(name, "unheard") == 0

    play(scene)


def test_shard_channels(play: Play) -> None:
    async def scene(client: Any, name: str) -> None:
        async with client.pubsub() as pubsub:
            await pubsub.execute_command("SSUBSCRIBE", name)
            reply = await pubsub.connection.read_response(push_request=True)
            assert reply == ["ssubscribe", name, 1]
            assert await client.spublish(name, "hello") == 1
            assert await pubsub.connection.read_response(push_request=True) == ["smessage", name, "hello"]

    play(scene)


def test_listening_as_an_async_iterator(play: Play) -> None:
    async def scene(client: Any, name: str) -> None:
        async with client.pubsub(ignore_subscribe_messages=True) as pubsub:
            await pubsub.subscribe(name)
            assert await pubsub.get_message(timeout=PATIENCE_S) is None
            for i in range(100):
                assert await client.publish(name, str(i)) == 1
            heard = []
            async for message in pubsub.listen():
                heard.append(message["data"])
                if len(heard) == 100:
                    break
            assert heard == [str(i) for i in range(100)]

    play(scene)


def test_handlers_run_by_the_client(play: Play) -> None:
    async def scene(client: Any, name: str) -> None:
        heard: asyncio.Queue[str] = asyncio.Queue()
        pubsub = client.pubsub()
        await pubsub.subscribe(**{name: lambda message: heard.put_nowait(message["data"])})
        assert (await receive(pubsub))["type"] == "subscribe"
        runner = asyncio.create_task(pubsub.run(poll_timeout=0.05))
        assert await client.publish(name, "hello") == 1
        assert await asyncio.wait_for(heard.get(), PATIENCE_S) == "hello"
        runner.cancel()
        await asyncio.gather(runner, return_exceptions=True)
        await pubsub.aclose()

    play(scene)


@pytest.mark.parametrize("is_transaction", [True, False])
def test_a_pipeline_of_publishes(play: Play, is_transaction: bool) -> None:
    async def scene(client: Any, name: str) -> None:
        async with client.pubsub(ignore_subscribe_messages=True) as pubsub:
            await pubsub.subscribe(name)
            assert await pubsub.get_message(timeout=PATIENCE_S) is None
            async with client.pipeline(transaction=is_transaction) as pipeline:
                for i in range(300):
                    pipeline.publish(name, str(i))
                assert await pipeline.execute() == [1] * 300
            assert [(await receive(pubsub))["data"] for _ in range(300)] == [str(i) for i in range(300)]

    play(scene)


def test_health_checks_while_subscribed(play: Play) -> None:
    async def scene(client: Any, name: str) -> None:
        async with client.pubsub() as pubsub:
            await pubsub.subscribe(name)
            await receive(pubsub)
            pubsub.connection.health_check_interval = 1000
            pubsub.connection.next_health_check = -1  # as if the interval had passed
            assert (
                await pubsub.get_message(timeout=PATIENCE_S) is None
            )  # the answer to the health check, hidden
            await client.publish(name, "after")
            assert (await receive(pubsub))["data"] == "after"

    play(scene)


@pytest.mark.parametrize("start", [hub_process, pytest.param(redis_server, marks=pytest.mark.needs_redis)])
@pytest.mark.parametrize("protocol", [2, 3])
def test_a_subscriber_reconnects_after_a_restart(start: Callable[..., Any], protocol: int) -> None:
    port = free_port()

    async def scene(stack: ExitStack) -> None:
        first = stack.enter_context(start(port=port))
        client: Any = redis.asyncio.Redis(
            host="127.0.0.1",
            port=port,
            protocol=protocol,
            decode_responses=True,
            retry=Retry(NoBackoff(), 3),
        )
        async with client, asyncio.timeout(4 * PATIENCE_S), client.pubsub() as pubsub:
            await pubsub.subscribe("a")
            await pubsub.psubscribe("a*")
            assert {(await receive(pubsub))["type"] for _ in range(2)} == {"subscribe", "psubscribe"}
            first.kill()
            stack.enter_context(start(port=port))
            assert {(await receive(pubsub))["type"] for _ in range(2)} == {"subscribe", "psubscribe"}
            assert await client.publish("a", "back") == 2
            assert [(await receive(pubsub))["type"] for _ in range(2)] == ["message", "pmessage"]

    with ExitStack() as stack:
        asyncio.run(scene(stack))
