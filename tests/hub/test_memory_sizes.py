"""The sizes that limits count agree with used memory within a fifth: topics, subscriptions, patterns, unfinished input.

Measured by Python's own count of what it allocates, so that neither the machine nor its load matters.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from equipoise.hub.access.quotas import Resource
from equipoise.hub.settings import Limits
from hub.world import FakeClient, World

# As the descriptions of subscriptions_hub_max and patterns_hub_max have them.
SUBSCRIPTION_BYTES = 150
PATTERN_BYTES = 1_000


@pytest.fixture(autouse=True)
def _traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def taken(by: Callable[[], object]) -> int:
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    by()
    gc.collect()
    return tracemalloc.get_traced_memory()[0] - before


def send(client: FakeClient, *words: str | bytes) -> None:
    """And let go of what the client is sent, which is no memory of the hub's."""
    client.send(*words)
    client.wire.sent.clear()


def is_near(measured: float, counted: float) -> bool:
    return 0.8 * counted <= measured <= 1.2 * counted


@pytest.mark.parametrize("length", [20, 150, 4_000])
def test_topics_in_use(length: int) -> None:
    world = World(limits=Limits(topics_bytes_max=1 << 30))
    publisher, subscriber = world.client(), world.client()
    names = [f"{i:06}".encode() + b"n" * (length - 6) for i in range(1_000)]

    def use() -> None:
        for name in names:
            send(subscriber, "SUBSCRIBE", name)
            send(publisher, "PUBLISH", name, "x")
            subscriber.wire.sent.clear()

    measured = taken(use) - SUBSCRIPTION_BYTES * len(names)
    assert is_near(measured, world.core.quotas.total(Resource.TOPIC_BYTES))


def test_subscriptions_and_patterns() -> None:
    world = World(limits=Limits(patterns_max=2_000))
    names = [f"topic{i}" for i in range(1_000)]
    first, client, publisher = world.client(), world.client(), world.client()

    def subscribe(subscriber: FakeClient) -> None:
        for name in names:
            send(subscriber, "SUBSCRIBE", name)
            # The audience is compiled again.
            send(publisher, "PUBLISH", name, "x")
            first.wire.sent.clear()
            client.wire.sent.clear()

    subscribe(first)
    measured = taken(lambda: subscribe(client))
    assert world.core.quotas.total(Resource.SUBSCRIPTIONS) == 2 * len(names)
    # Tables grow in steps: less than the limit counts, never much more.
    assert 0 < measured <= 1.2 * SUBSCRIPTION_BYTES * len(names)
    patterns = [f"{name}*x" for name in names]
    assert is_near(taken(lambda: send(client, "PSUBSCRIBE", *patterns)), PATTERN_BYTES * len(patterns))
    assert world.core.quotas.total(Resource.PATTERNS) == len(patterns)


def test_unfinished_requests() -> None:
    world = World()
    clients = [world.client() for _ in range(20)]
    begun = b"*3\r\n$7\r\nPUBLISH\r\n$1\r\nt\r\n$500000\r\n" + b"x" * 300_000

    def begin() -> None:
        for client in clients:
            # Bytes of its own, as from a socket.
            client.send_raw(bytes(bytearray(begun)))

    assert is_near(taken(begin), world.core.unfinished.bytes)


@pytest.mark.parametrize("length", [1, 100, 10_000])
def test_queued_transactions(length: int) -> None:
    world = World()
    clients = [world.client() for _ in range(5)]

    def queue() -> None:
        for client in clients:
            send(client, "MULTI")
            for _ in range(200):
                send(client, "PUBLISH", "t", "x" * length)

    assert is_near(taken(queue), world.core.unfinished.bytes)
