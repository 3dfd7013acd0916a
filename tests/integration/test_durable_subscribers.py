"""Three hub processes, a bookie, and a durable subscriber that goes on after kill -9 of the hub that owns its topic."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio
from redis.exceptions import RedisError

import equipoise
from equipoise import DurableMessage
from equipoise.store import Tree
from equipoise.store.records.topic_logs import TopicLogsStore
from support.bookies import bookie_cluster
from support.processes import ServerProcess, hub

PATIENCE_S = 60.0
NAMES = ("h1", "h2", "h3")


async def append(server: ServerProcess, number: int) -> None:
    """Add an entry, again and again until it is acknowledged; the log has it once."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            client = redis.asyncio.Redis(port=server.port, socket_timeout=PATIENCE_S)
            try:
                words = ("XADD", "t", "IDMP", "publisher", str(number), "*", "payload", str(number))
                await client.execute_command(*words)  # type: ignore[no-untyped-call]  # redis-py has no types here
                return
            except RedisError:
                await asyncio.sleep(0.1)
            finally:
                await client.aclose()


async def get(subscription: Any, expected: set[str]) -> list[DurableMessage]:
    """Messages until all that are expected have come; each is acknowledged."""
    got: list[DurableMessage] = []
    async with asyncio.timeout(PATIENCE_S):
        while not expected <= {message.text for message in got}:
            message = await anext(subscription)
            assert isinstance(message, DurableMessage), message
            got.append(message)
            await subscription.ack(message, timeout_s=PATIENCE_S)
    return got


@pytest.mark.timeout(300)
def test_a_durable_subscriber_goes_on_after_the_owner_of_its_topic_is_killed(tmp_path: Path) -> None:
    asyncio.run(kill_the_owner(tmp_path))


async def kill_the_owner(folder: Path) -> None:
    config = folder / "hub.toml"
    config.write_text("[membership]\nsession_timeout_s = 2.0\n")
    async with bookie_cluster(folder, 1) as cluster:
        with ExitStack() as stack:
            words = ("--config", str(config), "--store", cluster.url)
            hubs = {
                # In a thread: the store is served by this loop.
                name: await asyncio.to_thread(stack.enter_context, hub(*words, name=name))
                for name in NAMES
            }
            addresses = ",".join(f"127.0.0.1:{server.port}" for server in hubs.values())
            async with equipoise.connect(f"equipoise://{addresses}") as bus:
                async with bus.subscribe("t", durable="billing", start="beginning") as subscription:
                    for number in range(20):
                        await append(hubs["h1"], number)
                    got = await get(subscription, set(map(str, range(20))))
                    records = TopicLogsStore(await cluster.store(), Tree())
                    owner = (await records.load(b"t")).node.owner
                    await asyncio.to_thread(hubs[owner].kill)
                    left = next(server for name, server in hubs.items() if name != owner)
                    for number in range(20, 40):
                        await append(left, number)
                    got += await get(subscription, set(map(str, range(20, 40))))
                first = list(dict.fromkeys(message.text for message in got))
                assert first == [str(number) for number in range(40)]
                seen: set[str] = set()
                for message in got:
                    assert message.is_redelivered or message.text not in seen
                    seen.add(message.text)
                # Another process of the subscriber gets nothing of what was acknowledged.
                async with bus.subscribe("t", durable="billing") as subscription:
                    await append(left, 40)
                    assert [message.text for message in await get(subscription, {"40"})] == ["40"]
