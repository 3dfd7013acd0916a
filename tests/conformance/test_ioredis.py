"""ioredis, on Node.js, works with a hub as with Redis, in RESP2 and RESP3."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from conformance.conftest import Servers
from equipoise.processes import free_port
from support.node import require_ioredis
from support.processes import ServerProcess, redis_server
from support.processes import hub as hub_process

pytestmark = pytest.mark.needs_node

FOLDER = Path(__file__).parent / "node"
PATIENCE_S = 60.0
PROTOCOLS = pytest.mark.parametrize("protocol", [2, 3], ids=["RESP2", "RESP3"])
SERVERS = ["hub", pytest.param("redis", marks=pytest.mark.needs_redis)]

EXPECTED: dict[str, list[list[Any]]] = {
    "names": [
        ["subscribed", 2],
        ["published", 1],
        ["message", "a", "hello"],
        ["published", 1],
        ["messageBuffer", "b", [0, 255, 13, 10]],
        ["unsubscribed", 1],
        ["published", 0],
        ["unsubscribed", 0],
        ["pinged", "PONG"],
        ["quit", "OK", "OK"],
    ],
    "patterns": [
        ["subscribed", 2],
        ["published", 2],
        ["published", 1],
        ["published", 0],
        ["pmessages", ["game.*,game.a,x", "game.*,game.chat,y", "game.?,game.a,x"]],
        ["unsubscribed", 1],
        ["unsubscribed", 0],
        ["quit", "OK", "OK"],
    ],
    "shards": [
        ["subscribed", 1],
        ["published", 1],
        ["smessage", "s", "hello"],
        ["unsubscribed", 0],
        ["published", 0],
        ["quit", "OK", "OK"],
    ],
    "streams": [
        ["added", "1-1", "1-2"],
        ["length", 2],
        ["range", [["1-1", ["n", "1"]]]],
        ["group", "OK"],
        ["read", [["1-1", ["n", "1"]], ["1-2", ["n", "2"]]]],
        ["pending", []],
        ["acked", 2],
        ["transaction", ["1-3", 3]],
        ["deleted", 1],
        ["quit", "OK", "OK"],
    ],
    "order": [["replies", True], ["ordered", True], ["quit", "OK", "OK"]],
    "errors": [
        ["subscribed", 1],
        ["error", "ERR unknown command 'NOSUCH', with args beginning with: 'x' "],
        ["error", "ERR wrong number of arguments for 'publish' command"],
        ["pinged", "still there"],
        ["named", "OK", "me"],
        ["quit", "OK", "OK"],
    ],
}


@pytest.fixture(scope="session")
def node() -> str:
    return require_ioredis()


@pytest.mark.parametrize("scenario", EXPECTED)
@PROTOCOLS
@pytest.mark.parametrize("kind", SERVERS)
def test_ioredis_gets_the_expected_events(
    node: str, servers: Servers, kind: str, scenario: str, protocol: int
) -> None:
    server = servers.get(kind, "logs" if scenario == "streams" else "open")
    done = subprocess.run(
        command(node, scenario, server, protocol),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.stderr == ""
    assert [json.loads(line) for line in done.stdout.splitlines()] == EXPECTED[scenario]


@PROTOCOLS
def test_ioredis_subscribes_by_filter(node: str, servers: Servers, protocol: int) -> None:
    text = "$filter stocks symbol = 'YHOO' and volume > 150"
    done = subprocess.run(
        command(node, "filters", servers.get("hub"), protocol),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.stderr == ""
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        ["subscribed", 1],
        ["published", 0],
        ["published", 1],
        ["pmessage", text, "stocks", '{"symbol": "YHOO", "volume": 200}'],
        ["unsubscribed", 0],
        ["published", 0],
        ["pinged", "PONG"],
        ["quit", "OK", "OK"],
    ]


@pytest.mark.parametrize("start", [hub_process, pytest.param(redis_server, marks=pytest.mark.needs_redis)])
@PROTOCOLS
def test_ioredis_reconnects_after_a_restart(node: str, start: Callable[..., Any], protocol: int) -> None:
    """
    1. A client subscribes by name and by pattern.
    2. The server is killed and started again on the same port.
    3. The client reconnects and renews its subscriptions; new messages arrive.
    """
    port = free_port()
    with ExitStack() as stack:
        first = stack.enter_context(start(port=port))
        client = stack.enter_context(
            subprocess.Popen(
                command(node, "reconnect", first, protocol),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
        stack.callback(client.kill)
        assert client.stdout is not None
        assert json.loads(client.stdout.readline()) == ["subscribed"]
        first.kill()
        assert json.loads(client.stdout.readline()) == ["closed"]
        stack.enter_context(start(port=port))
        rest, _ = client.communicate(timeout=PATIENCE_S)
        assert [json.loads(line) for line in rest.splitlines()] == [
            ["published", 2],
            ["message", "a", "back"],
            ["pmessage", "a*", "a", "back"],
            ["quit", "OK", "OK"],
        ]


def command(node: str, scenario: str, server: ServerProcess, protocol: int) -> list[str]:
    return [node, str(FOLDER / "scenarios.js"), scenario, server.host, str(server.port), str(protocol)]
