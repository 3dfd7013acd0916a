"""redis-benchmark runs against a hub, pipelined and not, and every request is answered."""

from __future__ import annotations

import re
import subprocess

import pytest
import redis

from support.processes import ServerProcess, require

pytestmark = pytest.mark.needs_redis

REQUESTS = 2000
PATIENCE_S = 60.0


def benchmark(server: ServerProcess, *arguments: str) -> str:
    """Run it to the end; return all that it printed, its progress line by line."""
    done = subprocess.run(
        [
            require("redis-benchmark"),
            "-h",
            server.host,
            "-p",
            str(server.port),
            "-n",
            str(REQUESTS),
            "-q",
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr + done.stdout
    assert "Error" not in done.stderr + done.stdout
    return done.stdout.replace("\r", "\n")


@pytest.mark.parametrize("options", [["-c", "50"], ["-c", "5", "-P", "16"]], ids=["alone", "pipelined"])
@pytest.mark.parametrize("protocol", [[], ["-3"]], ids=["RESP2", "RESP3"])
def test_pings_inline_and_as_arrays(hub: ServerProcess, options: list[str], protocol: list[str]) -> None:
    printed = benchmark(hub, *options, *protocol, "-t", "ping")
    finished = re.findall(r"^(PING_\w+): [0-9.]+ requests per second", printed, re.MULTILINE)
    assert finished == ["PING_INLINE", "PING_MBULK"]


@pytest.mark.parametrize("options", [["-c", "10"], ["-c", "5", "-P", "16"]], ids=["alone", "pipelined"])
def test_every_publish_arrives(hub: ServerProcess, options: list[str]) -> None:
    with redis.Redis(host=hub.host, port=hub.port) as client:
        pubsub = client.pubsub(ignore_subscribe_messages=True)
        pubsub.subscribe("bench")
        assert pubsub.get_message(timeout=PATIENCE_S) is None
        printed = benchmark(hub, *options, "PUBLISH", "bench", "hello")
        assert re.search(r"^PUBLISH bench hello: [0-9.]+ requests per second", printed, re.MULTILINE)
        received = [pubsub.get_message(timeout=PATIENCE_S) for _ in range(REQUESTS)]
        assert {message["data"] for message in received} == {b"hello"}
        pubsub.close()
