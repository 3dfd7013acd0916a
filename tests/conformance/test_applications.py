"""Applications on Redis pub/sub, across two hubs and during moves of their topics."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.two_hubs import System
from support.node import require_packages
from support.polling import eventually

FOLDER = Path(__file__).parent / "applications"
PATIENCE_S = 30.0


@pytest.fixture
def system() -> Iterator[System]:
    with System() as made:
        yield made


class Program:
    """A program that gets commands as lines, and prints events as lines of JSON."""

    def __init__(self, *command: str) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        try:
            return json.loads(line)
        except ValueError:
            raise AssertionError(line + self._process.stdout.read()) from None

    def ask(self, line: str) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self.read()


@pytest.mark.needs_node
@pytest.mark.timeout(150)
@pytest.mark.parametrize("library", ["ioredis", "redis"])
def test_socket_io_servers_at_two_hubs_are_one(system: System, library: str) -> None:
    """
    1. A Socket.IO server is at each hub, and a browser at each server.
    2. A broadcast of either server reaches both browsers; each server finds both browsers, for which it counts
       the servers by PUBSUB NUMSUB.
    3. The adapter's topics move from hub to hub; all of it still holds.
    """
    node = require_packages(FOLDER)
    ports = [str(system.members[name].hub.port) for name in ("h1", "h2")]
    with Program(node, str(FOLDER / "socket_io.js"), library, *ports) as program:
        assert program.read() == ["connected"]
        requests = "socket.io-request#/#"
        eventually(lambda: all(counted(system, name, requests) == 2 for name in ("h1", "h2")))
        for home in ("", "h1", "h2"):
            if home:
                for topic in ("socket.io#/#", requests):
                    system.run("move", topic, home, "--wait")
            assert program.ask("now") == ["heard", *[["now of 0", "now of 1"]] * 2]
            assert program.ask("fetch") == ["fetched", 2, 2]


@pytest.mark.needs_node
@pytest.mark.timeout(150)
def test_graphql_subscriptions_of_servers_at_two_hubs_are_one(system: System) -> None:
    """
    1. A GraphQL server is at each hub; a client of each has a subscription by name and one by pattern.
    2. Messages of either server reach the clients of both.
    3. The topics move from hub to hub; it still holds.
    """
    node = require_packages(FOLDER)
    ports = [str(system.members[name].hub.port) for name in ("h1", "h2")]
    with Program(node, str(FOLDER / "graphql.js"), *ports) as program:
        assert program.read() == ["listening"]
        eventually(lambda: all(counted(system, name, "graphql.told") == 2 for name in ("h1", "h2")))
        # Two servers with the same pattern: one pattern in all, known to each hub from its own client.
        eventually(lambda: all(system.client(name).pubsub_numpat() >= 1 for name in ("h1", "h2")))
        eventually(lambda: all(patterns_held(system, name) == 1 for name in ("h1", "h2")))
        for home in ("", "h1", "h2"):
            if home:
                for topic in ("graphql.told", "graphql.room.1"):
                    system.run("move", topic, home, "--wait")
            assert program.ask("now") == ["heard", *[["now of 0", "now of 1"]] * 4]


def patterns_held(system: System, hub: str) -> int:
    """Clients of this hub with a subscription by pattern that the hub has executed."""
    return sum(int(client["psub"]) > 0 for client in system.client(hub).client_list())


def counted(system: System, hub: str, topic: str) -> int:
    (found,) = system.client(hub).pubsub_numsub(topic)
    return int(found[1])


def urls(system: System) -> list[str]:
    return [f"redis://127.0.0.1:{system.members[name].hub.port}" for name in ("h1", "h2")]


@pytest.mark.timeout(150)
def test_django_channels_layers_at_two_hubs_are_one(system: System) -> None:
    """
    1. Two processes of a site have a channel layer each, at different hubs; a consumer at each is in one group.
    2. Messages of either to the group reach both; messages to one channel reach that one.
    3. The group's topic moves; it still does.
    """
    pubsub = pytest.importorskip("channels_redis.pubsub", reason="channels_redis is not installed")

    async def scenario() -> None:
        layers = [pubsub.RedisPubSubChannelLayer(hosts=[url]) for url in urls(system)]
        channels = [await layer.new_channel() for layer in layers]
        for layer, channel in zip(layers, channels, strict=True):
            await layer.group_add("room", channel)
        topic = await asyncio.to_thread(the_topic_once_both_subscribed, system, "*room")
        await asyncio.to_thread(eventually, lambda: counted(system, "h1", channels[1]) == 1)
        for home in ("", "h1", "h2"):
            if home:
                await asyncio.to_thread(system.run, "move", topic, home, "--wait")
            for i, layer in enumerate(layers):
                await layer.group_send("room", {"type": "told", "by": i})
                for other, channel in zip(layers, channels, strict=True):
                    assert await other.receive(channel) == {"type": "told", "by": i}
            await layers[0].send(channels[1], {"type": "one"})
            assert await layers[1].receive(channels[1]) == {"type": "one"}
        for layer in layers:
            await layer.flush()

    asyncio.run(asyncio.wait_for(scenario(), 60))


@pytest.mark.timeout(150)
def test_server_sent_events_of_flask_sites_at_two_hubs_are_one(system: System) -> None:
    """
    1. A Flask site is at each hub, and a page with a stream of events at each site.
    2. Messages of either site reach both pages.
    3. The channel's topic moves from hub to hub; they still are.
    """
    pytest.importorskip("flask_sse", reason="flask-sse is not installed")
    ports = [str(system.members[name].hub.port) for name in ("h1", "h2")]
    with Program(sys.executable, str(FOLDER / "flask_events.py"), *ports) as program:
        assert program.read() == ["serving"]
        eventually(lambda: all(counted(system, name, "flask.room") == 2 for name in ("h1", "h2")))
        for home in ("", "h1", "h2"):
            if home:
                system.run("move", "flask.room", home, "--wait")
            assert program.ask("now") == ["heard", *[["now of 0", "now of 1"]] * 2]


def the_topic_once_both_subscribed(system: System, pattern: str) -> str:
    """A layer sends SUBSCRIBE and does not wait for its reply, so the test waits until both hubs count both layers."""
    eventually(lambda: len(topics_of(system, pattern)) == 1)
    (topic,) = topics_of(system, pattern)
    eventually(lambda: all(counted(system, name, topic) == 2 for name in ("h1", "h2")))
    return topic


def topics_of(system: System, pattern: str) -> list[str]:
    found = system.client("h1").pubsub_channels(pattern)
    return [name if isinstance(name, str) else name.decode() for name in found]
