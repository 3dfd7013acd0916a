"""redis-py and a limited topic of real hubs: it is slowed down or rejected, and no acknowledged message is lost."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from cli.two_hubs import System
from support.polling import eventually

BURST = 5
_serial = itertools.count()


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    with System() as started:
        started.run("topics", "set", "slow.*", "--rate", "50/s", "--burst", str(BURST), "--wait", "30s")
        started.run("topics", "set", "scarce.*", "--rate", "0.1/s", "--burst", "1", "--wait", "60s")
        started.run("topics", "set", "strict.*", "--rate", "1/s", "--burst", "1", "--wait", "10ms")
        yield started


@pytest.fixture(params=["h1", "h2"])
def hub(request: pytest.FixtureRequest) -> str:
    """One of them is the topic's home, the other passes messages on."""
    return str(request.param)


def topic(kind: str) -> str:
    """A topic that no other test uses."""
    return f"{kind}.{next(_serial)}"


class Listener:
    """Gets all of one topic, at the other hub."""

    def __init__(self, system: System, hub: str, name: str) -> None:
        # The types of redis-py are incomplete, so its objects are foreign data here.
        other: Any = system.client("h2" if hub == "h1" else "h1")
        self._pubsub = other.pubsub(ignore_subscribe_messages=False)
        self._pubsub.subscribe(name)
        self.got: list[int] = []
        eventually(lambda: self._next("subscribe") is not None, "the subscription")

    def has(self, count: int) -> bool:
        while (message := self._next("message")) is not None:
            self.got.append(int(message["data"]))
        return len(self.got) >= count

    def _next(self, kind: str) -> Any:
        message = self._pubsub.get_message(timeout=0.01)
        return message if message is not None and message["type"] == kind else None

    def close(self) -> None:
        self._pubsub.close()


def check_all_come(system: System, listener: Listener, count: int) -> None:
    try:
        eventually(lambda: listener.has(count), f"{count} messages")
    except AssertionError as late:
        # A hub whose session ends cuts its clients: redis-py subscribes again and says nothing.
        late.add_note(f"received: {listener.got}; hubs: {system.state()}")
        raise
    assert listener.got == list(range(count))
    listener.close()


def test_a_client_that_waits_for_each_reply_is_slowed_down(system: System, hub: str) -> None:
    name, client = topic("slow"), system.client(hub)
    listener = Listener(system, hub, name)
    assert [type(client.publish(name, n)) for n in range(4 * BURST)] == [int] * 4 * BURST
    check_all_come(system, listener, 4 * BURST)


def test_a_pipeline_gets_all_its_replies(system: System, hub: str) -> None:
    name, client = topic("slow"), system.client(hub)
    listener = Listener(system, hub, name)
    pipeline = client.pipeline(transaction=False)
    for n in range(4 * BURST):
        pipeline.publish(name, n)
    pipeline.ping()
    *replies, pong = pipeline.execute()
    assert [type(reply) for reply in replies] == [int] * 4 * BURST
    assert pong is True
    check_all_come(system, listener, 4 * BURST)


def test_a_transaction_waits_as_a_whole(system: System, hub: str) -> None:
    name, client = topic("slow"), system.client(hub)
    listener = Listener(system, hub, name)
    for first in range(0, 3 * BURST, BURST):
        pipeline = client.pipeline(transaction=True)
        for n in range(first, first + BURST):
            pipeline.publish(name, n)
        assert [type(reply) for reply in pipeline.execute()] == [int] * BURST
    check_all_come(system, listener, 3 * BURST)


def test_without_replies_everything_is_admitted_in_order(system: System, hub: str) -> None:
    name, client = topic("slow"), system.client(hub)
    listener = Listener(system, hub, name)
    connection: Any = client.connection_pool.get_connection()
    connection.send_command("CLIENT", "REPLY", "OFF")
    for n in range(4 * BURST):
        connection.send_command("PUBLISH", name, n)
    connection.send_command("CLIENT", "REPLY", "ON")
    assert connection.read_response() == b"OK"
    client.connection_pool.release(connection)
    check_all_come(system, listener, 4 * BURST)


def test_waiting_messages_of_a_disconnected_client_are_not_published(system: System, hub: str) -> None:
    """
    1. A client publishes three messages at once to a topic that admits one in ten seconds.
    2. It closes its connection while two of them, unanswered, wait.
    3. Nothing waits any more, and they are never admitted.
    """
    name, observer = topic("scarce"), system.client(hub)
    client = redis.Redis(port=system.members[hub].hub.port)
    client.ping()
    connection: Any = client.connection_pool.get_connection()
    for n in range(3):
        connection.send_command("PUBLISH", name, n)
    eventually(lambda: system.envelope(observer, name).get("waiting", 0) >= 1, "a message that waits")
    connection.disconnect()
    client.close()
    eventually(lambda: system.envelope(observer, name)["waiting"] == 0, "the end of waiting")
    assert system.envelope(observer, name)["refused"] == 0


def test_a_message_that_cannot_be_admitted_in_time_is_rejected_and_not_published(
    system: System, hub: str
) -> None:
    name, client = topic("strict"), system.client(hub)
    with pytest.raises(
        redis.ResponseError, match=r"LIMITED strict\.\d+ admits 1/s in bursts of 1: try again"
    ):
        for _ in range(20):
            client.publish(name, "x")
    # The connection is as good as ever.
    assert client.ping()
