"""Filters of plain Redis clients at a hub that is not the topic's home: redis-py, redis-cli, ioredis."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest
import redis

from cli.two_hubs import TIMEOUT_S, System
from conformance.test_ioredis import FOLDER, PATIENCE_S
from support.node import require_ioredis
from support.processes import require

YHOO = "symbol = 'YHOO' and volume > 150"
QUOTES = [
    '{"symbol": "IBM", "volume": 200}',
    '{"symbol": "YHOO", "volume": 100}',
    '{"symbol": "YHOO", "volume": 200}',
]


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    with System() as made:
        yield made


def elsewhere(system: System, topic: str) -> tuple[redis.Redis, int]:
    """A publisher at the topic's home, and the port of the other hub."""
    home = system.json("topics", "show", topic)["homes"][0]
    (other,) = set(system.members) - {home}
    return system.client(home), system.members[other].hub.port


@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py_receives_matching_messages(system: System, protocol: int) -> None:
    topic = f"py{protocol}"
    publisher, port = elsewhere(system, topic)
    text = f"$filter {topic} {YHOO}"
    with redis.Redis(port=port, protocol=protocol, decode_responses=True) as client, client.pubsub() as inbox:
        inbox.psubscribe(text)
        answer = inbox.get_message(timeout=TIMEOUT_S)
        assert answer is not None and (answer["type"], answer["channel"]) == ("psubscribe", text)
        for quote in QUOTES:
            publisher.publish(topic, quote)
        found = inbox.get_message(timeout=TIMEOUT_S)
        assert found == {"type": "pmessage", "pattern": text, "channel": topic, "data": QUOTES[2]}


@pytest.mark.needs_redis
@pytest.mark.parametrize("protocol", ["-2", "-3"])
def test_redis_cli_shows_matching_messages(system: System, protocol: str) -> None:
    topic = f"cli{protocol}"
    publisher, port = elsewhere(system, topic)
    text = f"$filter {topic} {YHOO}"
    command = [require("redis-cli"), "-p", str(port), protocol, "PSUBSCRIBE", text]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = (line.rstrip("\n") for line in process.stdout)
            assert [next(lines) for _ in range(3)] == ["psubscribe", text, "1"]
            for quote in QUOTES:
                publisher.publish(topic, quote)
            assert [next(lines) for _ in range(4)] == ["pmessage", text, topic, QUOTES[2]]
        finally:
            process.kill()


@pytest.mark.needs_node
@pytest.mark.parametrize("protocol", [2, 3])
def test_ioredis_receives_matching_messages(system: System, protocol: int) -> None:
    topic = f"node{protocol}"
    publisher, port = elsewhere(system, topic)
    text = f"$filter {topic} {YHOO}"
    command = [
        require_ioredis(),
        str(FOLDER / "scenarios.js"),
        "listen",
        "127.0.0.1",
        str(port),
        str(protocol),
        text,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline()) == ["subscribed", 1]
            for quote in QUOTES:
                publisher.publish(topic, quote)
            rest, _ = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert [json.loads(line) for line in rest.splitlines()] == [
        ["pmessage", text, topic, QUOTES[2]],
        ["unsubscribed", 0],
        ["quit", "OK"],
    ]
