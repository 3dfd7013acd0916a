"""What `equipoise topics show` prints about a latency limit; a real controller is asked over HTTP."""

from __future__ import annotations

import asyncio
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from equipoise.access.signed_requests import signed
from equipoise.cli.support.latency_status import latency_words, topic_latency
from equipoise.errors import SettingsError
from equipoise.store import LeaderFacts, LeaderStore, MemoryStore, Tree
from web.site_world import TOKEN, Site, play
from web.test_map import show_located

REGION = "elsewhere"


def test_the_leader_is_asked_with_the_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    token_file = str(tmp_path / "token")

    async def scenario(site: Site) -> None:
        await show_located(site)
        store = await MemoryStore(site.stores).open()
        assert await topic_latency(store, REGION, b"swarm/2", token_file) is None
        await LeaderStore(store, Tree(REGION)).claim(LeaderFacts(name="one", http=site.address))
        assert await topic_latency(store, REGION, b"swarm/2", "") is None
        found = await topic_latency(store, REGION, b"swarm/2", token_file)
        assert found is not None
        assert (found["latency_s_worst"], found["latency_limit_ms"], found["is_held"]) == (0.061, 40.0, False)
        with pytest.raises(SettingsError, match="token file"):
            await topic_latency(store, REGION, b"swarm/2", str(tmp_path / "none"))

    play(scenario, token=TOKEN)


def test_another_server_at_the_address_gets_no_usable_token(tmp_path: Path) -> None:
    """1. The store names another address. 2. It keeps what it is sent. 3. It shows that to the controller."""
    (tmp_path / "token").write_text(TOKEN)
    heard: list[str] = []

    async def pose(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.close()

    async def scenario(site: Site) -> None:
        store = await MemoryStore(site.stores).open()
        server = await asyncio.start_server(pose, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        await LeaderStore(store, Tree(REGION)).claim(LeaderFacts(name="one", http=f"http://127.0.0.1:{port}"))
        assert await topic_latency(store, REGION, b"swarm/2", str(tmp_path / "token")) is None
        server.close()
        assert len(heard) == 1 and TOKEN not in heard[0]
        (shown,) = [
            line.partition(": ")[2] for line in heard[0].split("\r\n") if line.startswith("Authorization")
        ]
        for path, header, status in (
            ("/api/topics/swarm~2F2", shown, 401),
            (
                "/api/topics/swarm~2F2",
                signed(TOKEN, site.address[7:], "/api/topics/swarm~2F2", time.time()),
                200,
            ),
            # What is signed reads one thing, and changes nothing.
            ("/api/hubs", signed(TOKEN, site.address[7:], "/api/topics/swarm~2F2", time.time()), 401),
        ):
            request = urllib.request.Request(site.address + path, headers={"Authorization": header})
            assert await asyncio.to_thread(status_of, request) == status
        header = signed(TOKEN, site.address[7:], "/api/limits", time.time())
        change = urllib.request.Request(
            f"{site.address}/api/limits", data=b"{}", headers={"Authorization": header}, method="POST"
        )
        assert await asyncio.to_thread(status_of, change) == 401

    play(scenario, token=TOKEN)


def status_of(request: urllib.request.Request) -> int:
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as problem:
        problem.close()
        return problem.code


def test_a_controller_that_does_not_reply_is_ignored() -> None:
    async def scenario(site: Site) -> None:
        store = await MemoryStore(site.stores).open()
        await LeaderStore(store, Tree(REGION)).claim(LeaderFacts(name="one", http="http://127.0.0.1:1"))
        assert await topic_latency(store, REGION, b"t", "") is None

    play(scenario)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            {
                "latency_s_p50": 0.002,
                "latency_s_p99": 0.0031,
                "latency_s_max": 0.004,
                "latency_s_worst": 0.128,
                "latency_quantile": 0.99,
                "is_held": True,
            },
            "latency measured p50 2.0 ms, p99 3.1 ms, max 4.0 ms; estimated by coordinates 128.0 ms worst: "
            "limit at quantile 0.99 met",
        ),
        (
            {"latency_s_worst": 0.0123, "latency_s_expected": 0.02, "latency_quantile": 0.5, "is_held": True},
            "latency estimated by coordinates 12.3 ms worst, 20.0 ms at its home: limit at quantile 0.5 met",
        ),
        ({"latency_s_p50": 0.002}, "latency measured p50 2.0 ms"),
        ({}, "latency unknown: no round trip of a publisher and a subscriber has been measured"),
    ],
)
def test_the_latency_is_one_line_of_text(found: dict[str, Any], words: str) -> None:
    assert latency_words(found) == words


def test_without_a_controller_the_latency_is_unknown() -> None:
    assert "no controller" in latency_words(None)
