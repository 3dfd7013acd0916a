"""redis-cli shows the same with a hub as with Redis."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from conformance.conftest import Servers
from support.processes import ServerProcess, require

pytestmark = pytest.mark.needs_redis

PATIENCE_S = 20.0
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
PROTOCOLS = pytest.mark.parametrize("protocol", ["-2", "-3"])


@pytest.fixture(params=["hub", "redis"])
def server(request: pytest.FixtureRequest, servers: Servers) -> ServerProcess:
    return servers.get(request.param)


def cli(server: ServerProcess, *arguments: str, typed: str = "") -> str:
    done = subprocess.run(
        [require("redis-cli"), "-h", server.host, "-p", str(server.port), *arguments],
        input=typed,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout


@contextmanager
def listening(server: ServerProcess, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [require("redis-cli"), "-h", server.host, "-p", str(server.port), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def lines(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().rstrip("\n") for _ in range(count)]


@PROTOCOLS
def test_subscribing_shows_confirmations_and_messages(server: ServerProcess, protocol: str) -> None:
    with listening(server, protocol, "SUBSCRIBE", "cli.a", "cli.b") as process:
        assert lines(process, 6) == ["subscribe", "cli.a", "1", "subscribe", "cli.b", "2"]
        assert cli(server, protocol, "PUBLISH", "cli.b", "hello world") == "1\n"
        assert lines(process, 3) == ["message", "cli.b", "hello world"]


@PROTOCOLS
def test_subscribing_by_pattern_shows_confirmations_and_messages(
    server: ServerProcess, protocol: str
) -> None:
    with listening(server, protocol, "PSUBSCRIBE", "cli.*") as process:
        assert lines(process, 3) == ["psubscribe", "cli.*", "1"]
        assert cli(server, protocol, "PUBLISH", "cli.x", "hello") == "1\n"
        assert lines(process, 4) == ["pmessage", "cli.*", "cli.x", "hello"]


@PROTOCOLS
def test_subscribing_by_filter_shows_matching_messages(servers: Servers, protocol: str) -> None:
    server = servers.get("hub")
    text = "$filter cli.stocks symbol = 'YHOO' and volume > 150"
    with listening(server, protocol, "PSUBSCRIBE", text) as process:
        assert lines(process, 3) == ["psubscribe", text, "1"]
        assert cli(server, protocol, "PUBLISH", "cli.stocks", '{"symbol": "IBM", "volume": 200}') == "0\n"
        assert cli(server, protocol, "PUBLISH", "cli.stocks", '{"symbol": "YHOO", "volume": 200}') == "1\n"
        assert lines(process, 4) == ["pmessage", text, "cli.stocks", '{"symbol": "YHOO", "volume": 200}']
    answer = cli(server, protocol, "EQ.FILTER", "cli.stocks", "volume>150", '{"volume": 151}', "x")
    assert answer == "volume > 150\n1\n0\n"


@PROTOCOLS
def test_subscribing_to_a_shard_channel_shows_confirmations_and_messages(
    server: ServerProcess, protocol: str
) -> None:
    with listening(server, protocol, "SSUBSCRIBE", "cli.s") as process:
        assert lines(process, 3) == ["ssubscribe", "cli.s", "1"]
        assert cli(server, protocol, "SPUBLISH", "cli.s", "hello") == "1\n"
        assert lines(process, 3) == ["smessage", "cli.s", "hello"]


@PROTOCOLS
def test_single_commands(server: ServerProcess, protocol: str) -> None:
    assert cli(server, protocol, "PING") == "PONG\n"
    assert cli(server, protocol, "ECHO", "two words") == "two words\n"
    assert cli(server, protocol, "PUBSUB", "NUMSUB", "cli.none") == "cli.none\n0\n"
    assert "redis_version:" in cli(server, protocol, "INFO", "server")
    assert cli(server, protocol, "NOSUCH", "a").startswith("ERR unknown command 'NOSUCH'")


@PROTOCOLS
def test_commands_from_standard_input(server: ServerProcess, protocol: str) -> None:
    typed = 'PING\nPUBLISH cli.none "a b"\nCLIENT SETNAME me\nCLIENT GETNAME\nPUBSUB CHANNELS cli.none*\n'
    assert cli(server, protocol, typed=typed) == "PONG\n0\nOK\nme\n\n"


def test_bulk_loading_through_a_pipe(server: ServerProcess) -> None:
    frames = "*3\r\n$7\r\nPUBLISH\r\n$8\r\ncli.none\r\n$1\r\nx\r\n" * 500
    printed = cli(server, "--pipe", typed=frames)
    assert printed.endswith("errors: 0, replies: 500\n")


def test_a_prompt_that_completes_commands(server: ServerProcess) -> None:
    """At a terminal redis-cli first reads the documentation of all commands, and exits if it cannot parse it."""
    with terminal(server) as screen:
        screen.type("PING\r")
        screen.wait_for("PONG")
        screen.type("PUBLISH cli.none x\r")
        screen.wait_for("(integer) 0")
        screen.type("HELP PUBLISH\r")
        screen.wait_for("group: pubsub")
        screen.type("SUBSCRIBE cli.t\r")
        screen.wait_for('1) "subscribe"')
        assert cli(server, "PUBLISH", "cli.t", "hello") == "1\n"
        screen.wait_for('3) "hello"')


@pytest.mark.parametrize("kind", ["hub", "redis"])
def test_logging_in(servers: Servers, kind: str) -> None:
    server = servers.get(kind, "secured")
    assert cli(server, "PING") == "NOAUTH Authentication required.\n\n"
    assert cli(server, "--no-auth-warning", "-a", "secret", "PING") == "PONG\n"
    alice = ["--no-auth-warning", "--user", "alice", "--pass", "wonderland"]
    assert cli(server, *alice, "PUBLISH", "game.a", "x") == "0\n"
    assert cli(server, *alice, "PUBLISH", "news", "x").startswith("NOPERM ")


def test_a_hub_explains_its_error_for_keys(servers: Servers) -> None:
    assert "a hub has none" in cli(servers.get("hub"), "SET", "a", "1")


class Screen:
    """The far end of a pseudo-terminal."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._raw = self._seen = ""

    def type(self, text: str) -> None:
        self._raw = self._seen = ""
        os.write(self._descriptor, text.encode())

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while text not in self._seen:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self._descriptor], [], [], max(0.0, left))
            assert ready, f"{text!r} did not come; the screen shows {self._seen!r}"
            self._raw += os.read(self._descriptor, 65536).decode(errors="replace")
            self._seen = _COLOUR.sub("", self._raw)


@contextmanager
def terminal(server: ServerProcess) -> Iterator[Screen]:
    ours, theirs = pty.openpty()
    command = [require("redis-cli"), "-h", server.host, "-p", str(server.port)]
    environment = {**os.environ, "TERM": "dumb", "HOME": "/nonexistent"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        try:
            yield Screen(ours)
        finally:
            process.kill()
            process.wait()
            os.close(theirs)
            os.close(ours)
